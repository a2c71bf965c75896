// Uses the class of the library line: trains, captures, saves, loads, and is refused.
#include <cstdio>
#include <utility>
#include <vector>

#include "line.hpp"

using line::allocate;
using line::device_memory;

static device_memory on_device(const std::vector<float> &values)
{
    device_memory memory = allocate<device_memory>(values.size() * sizeof(float));
    line::check_cuda(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "");
    return memory;
}

int main(int, char *arguments[])
{
    const device_memory x_memory = on_device(std::vector<float>(20, 0.5f)), y_memory = on_device(std::vector<float>(15, 1.0f));
    const float *const x = static_cast<const float *>(x_memory.get()), *const y = static_cast<const float *>(y_memory.get());
    const line::owned_stream stream = line::new_stream();
    line::model model(5, 1, stream.get());
    model.loss(5, x, y);
    const float before = model.read_loss();
    model.step(5, x, y);
    if (model.read_loss() != before) {
        return 1;
    }
    const device_memory losses = on_device({0, 0});
    model.step_many(1, 2, x, y, static_cast<float *>(losses.get()));
    line::parameter_arrays gradients;
    model.grads(5, x, y, gradients);
    model.update(gradients);
    model.capture_step(5, x, y);
    line::host_tables tables;
    model.download(tables);
    if (*tables.buffers->dense_seen != 4) {
        return 2;
    }
    model.launch();
    model.launch();
    model.download(tables);
    if (*tables.buffers->dense_seen != 6 || !(model.read_loss() < before)) {
        return 3;
    }
    *tables.state->learning_rate = 0;
    model.upload(tables);
    model.launch();
    const float stopped = model.read_loss();
    line::model moved = std::move(model);
    moved.save(arguments[1]);
    line::model again(5, 2);
    again.load(arguments[1]);
    again.loss(5, x, y);
    if (again.read_loss() != stopped) {
        return 4;
    }
    try {
        again.loss(500, x, y);
        return 5;
    } catch (const std::length_error &) {
    }
    try {
        again.launch();
        return 6;
    } catch (const std::logic_error &) {
    }
    try {
        again.loss(PTRDIFF_MAX, x, y);
        return 7;
    } catch (const line::error &e) {
        if (e.code() != LINE_BAD_SIZE) {
            return 8;
        }
    }
    try {
        allocate<device_memory>(SIZE_MAX / 2);
        return 9;
    } catch (const line::error &e) {
        if (e.code() != LINE_NO_MEMORY || cudaPeekAtLastError() != cudaSuccess) {
            return 10;
        }
    }
    try {
        again.capture_step(5, nullptr, y);
        return 11;
    } catch (const line::error &e) {
        if (e.code() != LINE_NULL) {
            return 12;
        }
    }
    again.step(5, x, y);
    try {
        again.load("no such file");
    } catch (const line::error &e) {
        std::puts(e.what());
        return e.code() == LINE_NO_FILE ? 0 : 13;
    }
    return 14;
}
