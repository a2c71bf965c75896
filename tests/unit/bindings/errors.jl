include("Iris.jl")

function report(f)
    try
        f()
    catch e
        println(e.code, " ", sprint(showerror, e))
    end
end

x, y = zeros(Float32, 4, 150), zeros(Float32, 3, 150)
model = Iris.Model(0)
report(() -> Iris.step(model, 150, x[:, 1:2], y))
report(() -> Iris.step(model, -1, x, y))
report(() -> Iris.load(model, "missing"))
