use iris::Model;

fn main() {
    let (x, y) = ([0.0; 600], [0.0; 450]);
    let mut model = Model::new(0).unwrap();
    let errors = [
        model.step(150, &x[..8], &y).unwrap_err(),
        model.step(usize::MAX, &x, &y).unwrap_err(),
        model.load("missing").unwrap_err(),
        model.load("miss\0ing").unwrap_err(),
    ];
    for error in errors {
        println!("{} {error}", error.code);
    }
}
