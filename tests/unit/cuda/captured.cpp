// Calls each function of the library line directly, then as a captured graph, which must do the same to the same arrays.
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include <cuda_runtime.h>

#include "line.h"

enum { BATCH = 5, BYTES = 1 << 16 };

// All memory that functions take, in one piece, so that it can be compared and set back.
struct arena {
    alignas(64) line_state state_table;
    line_buffers buffer_table;
    line_parameters parameter_table, gradient_table;
    float *x, *y, *d_y_hat, *y_hat, *d_x, *losses;
    unsigned char *memory, *workspace;
    size_t used = 0, bytes;

    void *take(size_t size)
    {
        void *const place = memory + used;
        used += (size + 63) / 64 * 64;
        return place;
    }

    explicit arena(size_t workspace_bytes) : bytes(BYTES)
    {
        cudaMalloc(&memory, bytes);
        for (size_t i = 0; i < bytes / sizeof(float); i++) {
            reinterpret_cast<float *>(memory)[i] = 0.01f * static_cast<float>(i % 83);
        }
        line_state_place(&state_table, take(line_state_bytes()));
        line_buffers_place(&buffer_table, take(line_buffers_bytes()));
        line_parameters_place(&parameter_table, take(line_parameters_bytes()));
        line_parameters_place(&gradient_table, take(line_parameters_bytes()));
        for (float **array : {&x, &y, &d_y_hat, &y_hat, &d_x, &losses}) {
            *array = static_cast<float *>(take(2 * BATCH * 4 * sizeof(float)));
        }
        workspace = static_cast<unsigned char *>(take(workspace_bytes));
    }
    ~arena() { cudaFree(memory); }
};

template <class Work> static bool is_captured(const char *name, Work work)
{
    arena a(line_workspace_bytes(BATCH));
    static unsigned char before[BYTES], direct[BYTES];
    memcpy(before, a.memory, BYTES);
    if (a.used > BYTES || work(a, cudaStream_t(nullptr)) != LINE_OK) {
        return std::printf("%s fails\n", name), false;
    }
    memcpy(direct, a.memory, BYTES);
    memcpy(a.memory, before, BYTES);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t launched;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    const int code = work(a, stream);
    if (code != LINE_OK || cudaStreamEndCapture(stream, &graph) != cudaSuccess) {
        return std::printf("%s cannot be captured: %s\n", name, line_error_string(code)), false;
    }
    if (memcmp(a.memory, before, BYTES) != 0) {
        return std::printf("%s runs while it is captured\n", name), false;
    }
    cudaGraphInstantiate(&launched, graph, 0);
    cudaGraphDestroy(graph);
    for (int again = 0; again < 2; again++) {
        memcpy(a.memory, before, BYTES);
        cudaGraphLaunch(launched, stream);
        cudaStreamSynchronize(stream);
        if (memcmp(a.memory, direct, BYTES) != 0) {
            return std::printf("%s differs as a graph\n", name), false;
        }
    }
    cudaGraphExecDestroy(launched);
    cudaStreamDestroy(stream);
    return true;
}

#define CAPTURED(name, ...) \
    is_captured(name, [](arena &a, cudaStream_t s) { \
        line_state *const state = &a.state_table; \
        line_buffers *const buffers = &a.buffer_table; \
        line_parameters *const parameters = &a.parameter_table, *const gradients = &a.gradient_table; \
        void *const w = a.workspace; \
        (void)state, (void)buffers, (void)parameters, (void)gradients, (void)w; \
        return __VA_ARGS__; \
    })

// A step that fails while it is captured ends the capture.
static bool ends_failed_captures()
{
    arena a(line_workspace_bytes(BATCH));
    cudaStream_t stream;
    line_graph graph;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const float *const inputs[] = {nullptr, a.x};
    const int expected[] = {LINE_NULL, LINE_OK};
    for (int i = 0; i < 2; i++) {
        cudaStreamCaptureStatus status;
        const int code = line_graph_create(&graph, &a.state_table, &a.buffer_table, &a.parameter_table, BATCH, inputs[i], a.y, a.losses, a.workspace, stream);
        cudaStreamIsCapturing(stream, &status);
        if (code != expected[i] || status != cudaStreamCaptureStatusNone) {
            return std::printf("graph_create returns %d, and the stream is %d\n", code, status), false;
        }
    }
    const bool is_done = line_graph_launch(graph, stream) == LINE_OK && line_graph_destroy(graph) == LINE_OK;
    cudaStreamDestroy(stream);
    return is_done;
}

// An error of CUDA is returned by the call that fails, and not by the next one, which succeeds.
static bool returns_errors_once()
{
    arena a(line_workspace_bytes(BATCH));
    line_graph graph;
    // The default stream cannot be captured.
    const int code = line_graph_create(&graph, &a.state_table, &a.buffer_table, &a.parameter_table, BATCH, a.x, a.y, a.losses, a.workspace, nullptr);
    const int next = line_predict(&a.parameter_table, BATCH, a.x, a.y_hat, a.workspace, nullptr);
    if (code <= LINE_CUDA || next != LINE_OK) {
        return std::printf("graph_create returns %d, and predict %d\n", code, next), false;
    }
    return true;
}

// Arrays must begin at multiples of 16 bytes, if all those in a sequence of batches do.
static bool checks_alignment()
{
    arena a(line_workspace_bytes(BATCH));
    line_parameters moved = a.parameter_table;
    moved.dense_bias++;
    return line_predict(&a.parameter_table, 4, a.x + 1, a.y_hat, a.workspace, nullptr) == LINE_MISALIGNED &&
           line_predict(&a.parameter_table, 4, a.x, a.y_hat + 1, a.workspace, nullptr) == LINE_OK &&
           line_predict(&a.parameter_table, 4, a.x, a.y_hat, a.workspace + 16, nullptr) == LINE_MISALIGNED &&
           line_predict(&moved, 4, a.x, a.y_hat, a.workspace, nullptr) == LINE_MISALIGNED;
}

int main()
{
    bool good = CAPTURED("init", line_init(3, state, buffers, parameters, w, s));
    good &= CAPTURED("predict", line_predict(parameters, BATCH, a.x, a.y_hat, w, s));
    good &= CAPTURED("loss", line_loss(parameters, BATCH, a.x, a.y, a.losses, w, s));
    good &= CAPTURED("rev", line_rev(parameters, BATCH, a.x, a.d_y_hat, gradients, a.d_x, w, s));
    good &= CAPTURED("rev_p", line_rev_p(parameters, BATCH, a.x, a.d_y_hat, gradients, w, s));
    good &= CAPTURED("grads", line_grads(buffers, parameters, BATCH, a.x, a.y, gradients, a.losses, w, s));
    good &= CAPTURED("update", line_update(state, parameters, gradients, w, s));
    good &= CAPTURED("step", line_step(state, buffers, parameters, BATCH, a.x, a.y, a.losses, w, s));
    good &= CAPTURED("step_many", line_step_many(state, buffers, parameters, BATCH, 2, a.x, a.y, a.losses, w, s));
    return good && ends_failed_captures() && returns_errors_once() && checks_alignment() ? 0 : 1;
}
