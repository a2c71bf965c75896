include("Iris.jl")

rows = [parse(Float32, word) for line in eachline("flowers.txt") for word in split(line)]
rows = reshape(rows, 7, 150)
x, y = rows[1:4, :], rows[5:7, :]
model = Iris.Model(0)
losses = [Iris.step(model, 150, x, y) for _ in 1:300]
println("loss ", round(losses[end]; digits = 4))
Iris.save(model, "trained.safetensors")
