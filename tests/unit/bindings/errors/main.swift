func report(_ run: () throws -> Void) {
    do {
        try run()
    } catch let error as IrisError {
        print(error.code, error)
    } catch {}
}

let x = [Float](repeating: 0, count: 600)
let y = [Float](repeating: 0, count: 450)
let model = try Iris(seed: 0)
report { _ = try model.step(150, Array(x[..<8]), y) }
report { _ = try model.step(-1, x, y) }
report { try model.load("missing") }
