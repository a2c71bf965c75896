"""Python catgrad 0.2.2: build, differentiate and emit a chain of dense layers; prints the seconds."""

import sys
import time

from catgrad import Dtype, NdArrayType, compile_model, layers

count = int(sys.argv[1])
batch, width = NdArrayType((32,), Dtype.float32), NdArrayType((16,), Dtype.float32)
start = time.perf_counter()
model = layers.dense(batch, width, width)
for _ in range(count - 1):
    model = model >> layers.dense(batch, width, width)
compile_model(model, layers.sgd(0.1), layers.mse)
print(time.perf_counter() - start)
