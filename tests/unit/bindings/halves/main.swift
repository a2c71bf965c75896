import Foundation

let x = (0..<1200).map { Float($0 % 5) }
let y = (0..<900).map { Float($0 % 2) }
var losses: [Float] = [0, 0]
let model = try Iris(seed: 0)
let loss = try model.grads(150, Array(x[..<600]), Array(y[..<450]))
try model.update()
try model.stepMany(150, 2, x, y, &losses)
try model.save("trained.safetensors")
print(String(format: "%.5f %.5f %.5f", loss, losses[0], losses[1]))
