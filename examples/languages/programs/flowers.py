"""Train on Fisher's irises in Python without NumPy."""

from array import array
from pathlib import Path

import iris

rows = [[float(word) for word in line.split()] for line in Path("flowers.txt").read_text().splitlines()]
x = array("f", [number for row in rows for number in row[:4]])
y = array("f", [number for row in rows for number in row[4:]])
model = iris.Model(seed=0)
for _ in range(300):
    loss = model.step(150, x, y)
print(f"loss {loss:.4f}")
model.save("trained.safetensors")
