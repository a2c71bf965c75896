use iris::{Error, Model};

fn main() -> Result<(), Error> {
    let x: Vec<f32> = (0..1200).map(|i| (i % 5) as f32).collect();
    let y: Vec<f32> = (0..900).map(|i| (i % 2) as f32).collect();
    let mut losses = [0.0; 2];
    let mut model = Model::new(0)?;
    let loss = model.grads(150, &x[..600], &y[..450])?;
    model.update()?;
    model.step_many(150, 2, &x, &y, &mut losses)?;
    model.save("trained.safetensors")?;
    println!("{loss:.5} {:.5} {:.5}", losses[0], losses[1]);
    Ok(())
}
