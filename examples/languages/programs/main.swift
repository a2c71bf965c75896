import Foundation

let text = try String(contentsOfFile: "flowers.txt", encoding: .utf8)
let rows = text.split(separator: "\n").map { $0.split(separator: " ").map { Float($0)! } }
let x = rows.flatMap { $0[..<4] }
let y = rows.flatMap { $0[4...] }
let model = try Iris(seed: 0)
var loss: Float = 0
for _ in 0..<300 {
    loss = try model.step(150, x, y)
}
print(String(format: "loss %.4f", loss))
try model.save("trained.safetensors")
