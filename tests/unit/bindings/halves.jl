include("Iris.jl")

using Printf

x = reshape(Float32[i % 5 for i in 0:1199], 4, 150, 2)
y = reshape(Float32[i % 2 for i in 0:899], 3, 150, 2)
losses = zeros(Float32, 2)
model = Iris.Model(0)
loss = Iris.grads(model, 150, x[:, :, 1], y[:, :, 1])
Iris.update(model)
Iris.step_many(model, 150, 2, x, y, losses)
Iris.save(model, "trained.safetensors")
@printf("%.5f %.5f %.5f\n", loss, losses...)
