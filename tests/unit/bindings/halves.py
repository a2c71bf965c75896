from array import array

import iris

x = array("f", [i % 5 for i in range(1200)])
y = array("f", [i % 2 for i in range(900)])
losses = array("f", [0, 0])
model = iris.Model(0)
loss = model.grads(150, x[:600], y[:450])
model.update()
model.step_many(150, 2, x, y, losses)
model.save("trained.safetensors")
print(f"{loss:.5f} {losses[0]:.5f} {losses[1]:.5f}")
