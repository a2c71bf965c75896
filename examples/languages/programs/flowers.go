package main

import (
	"example/iris"
	"fmt"
	"log"
	"os"
)

func main() {
	file, err := os.Open("flowers.txt")
	var x, y []float32
	for i := 0; i < 150 && err == nil; i++ {
		row := make([]float32, 7)
		_, err = fmt.Fscan(file, &row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6])
		x, y = append(x, row[:4]...), append(y, row[4:]...)
	}
	model, failure := iris.New(0)
	if err != nil || failure != nil {
		log.Fatal(err, failure)
	}
	var loss float32
	for step := 0; step < 300 && err == nil; step++ {
		loss, err = model.Step(150, x, y)
	}
	if err == nil {
		err = model.Save("trained.safetensors")
	}
	fmt.Printf("loss %.4f, error %v\n", loss, err)
}
