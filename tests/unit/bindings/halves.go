package main

import (
	"example/iris"
	"fmt"
	"log"
)

func main() {
	x, y, losses := make([]float32, 1200), make([]float32, 900), make([]float32, 2)
	for i := range x {
		x[i] = float32(i % 5)
	}
	for i := range y {
		y[i] = float32(i % 2)
	}
	model, err := iris.New(0)
	if err != nil {
		log.Fatal(err)
	}
	loss, err := model.Grads(150, x[:600], y[:450])
	for _, err := range []error{err, model.Update(), model.StepMany(150, 2, x, y, losses), model.Save("trained.safetensors")} {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%.5f %.5f %.5f\n", loss, losses[0], losses[1])
}
