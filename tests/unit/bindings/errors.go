package main

import (
	"example/iris"
	"fmt"
)

func main() {
	x, y := make([]float32, 600), make([]float32, 450)
	model, _ := iris.New(0)
	_, size := model.Step(150, x[:8], y)
	_, negative := model.Step(-1, x, y)
	for _, err := range []error{size, negative, model.Load("missing")} {
		fmt.Println(err.(*iris.Error).Code, err)
	}
	model.Close()
	_, closed := model.Step(150, x, y)
	fmt.Println(closed)
}
