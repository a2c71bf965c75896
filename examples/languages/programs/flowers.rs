use iris::Model;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for line in std::fs::read_to_string("flowers.txt")?.lines() {
        let row = line.split(' ').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
        x.extend(&row[..4]);
        y.extend(&row[4..]);
    }
    let mut model = Model::new(0)?;
    let mut loss = 0.0;
    for _ in 0..300 {
        loss = model.step(150, &x, &y)?;
    }
    println!("loss {loss:.4}");
    model.save("trained.safetensors")?;
    Ok(())
}
