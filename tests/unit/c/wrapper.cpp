// Uses the class of the library line: trains, saves, loads, and is refused.
#include <cstdio>
#include <utility>
#include <vector>

#include "line.hpp"

int main(int, char *arguments[])
{
    const std::vector<float> x(20, 0.5f), y(15, 1.0f);
    line::model model(1);
    const float before = model.loss(5, x.data(), y.data());
    if (model.step(5, x.data(), y.data()) != before) {
        return 1;
    }
    std::vector<float> losses(2);
    model.step_many(1, 2, x.data(), y.data(), losses.data());
    line::parameter_arrays gradients;
    model.grads(5, x.data(), y.data(), gradients);
    model.update(gradients);
    if (!(model.loss(5, x.data(), y.data()) < before) || *model.buffers()->dense_seen != 4) {
        return 2;
    }
    model.save(arguments[1]);
    line::model other = std::move(model);
    line::model again(2);
    again.load(arguments[1]);
    if (again.loss(5, x.data(), y.data()) != other.loss(5, x.data(), y.data())) {
        return 3;
    }
    try {
        again.loss(PTRDIFF_MAX, x.data(), y.data());
        return 6;
    } catch (const line::error &e) {
        if (e.code() != LINE_BAD_SIZE) {
            return 7;
        }
    }
    try {
        again.load("no such file");
    } catch (const line::error &e) {
        std::puts(e.what());
        return e.code() == LINE_NO_FILE ? 0 : 4;
    }
    return 5;
}
