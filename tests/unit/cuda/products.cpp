// Uses the class and the functions of the library net, whose products cuBLASLt computes: steps, captures, and errors.
#include <cstdio>
#include <cstring>
#include <vector>

#include "net.hpp"

enum { BATCH = 5, INPUTS = 9, OUTPUTS = 10 };

static net::device_memory on_device(const std::vector<float> &values)
{
    net::device_memory memory = net::allocate<net::device_memory>(values.size() * sizeof(float));
    net::check_cuda(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "");
    return memory;
}

// Steps and captured steps must give the same bits.
static bool are_captured(const float *x, const float *y)
{
    const net::owned_stream stream = net::new_stream();
    net::model direct(BATCH, 1, stream.get()), captured(BATCH, 1, stream.get());
    captured.capture_step(BATCH, x, y);
    float last = 0;
    for (int i = 0; i < 3; i++) {
        direct.step(BATCH, x, y);
        captured.launch();
        const float loss = direct.read_loss();
        if (captured.read_loss() != loss || (i > 0 && !(loss < last))) {
            return false;
        }
        last = loss;
    }
    net::host_tables one, other;
    direct.download(one);
    captured.download(other);
    return memcmp(one.parameters.data(), other.parameters.data(), net_parameters_bytes()) == 0;
}

// Codes of prediction with other libraries and workspaces.
static bool are_refused(const float *x, net_libraries *libraries)
{
    net::parameters_in<net::device_memory> parameters;
    const net::device_memory workspace = net::allocate<net::device_memory>(net_workspace_bytes(BATCH));
    const net::device_memory result = on_device(std::vector<float>(BATCH * OUTPUTS));
    const auto predict = [&](const net_libraries *given) {
        return net_predict(parameters.get(), BATCH, x, static_cast<float *>(result.get()), workspace.get(), given, nullptr);
    };
    const net_libraries none = {nullptr, libraries->workspace, nullptr};
    const net_libraries moved = {libraries->handle, static_cast<char *>(libraries->workspace) + 8, nullptr};
    return predict(nullptr) == NET_NULL && predict(&none) == NET_CUBLAS + 7 && predict(&moved) == NET_CUBLAS + 7 &&
           predict(libraries) == NET_OK;
}

int main()
{
    const net::device_memory x_memory = on_device(std::vector<float>(BATCH * INPUTS, 0.5f));
    const net::device_memory y_memory = on_device(std::vector<float>(BATCH * OUTPUTS, 1.0f));
    const float *const x = static_cast<const float *>(x_memory.get()), *const y = static_cast<const float *>(y_memory.get());
    if (!are_captured(x, y)) {
        return 1;
    }
    const net::device_memory mine = net::allocate<net::device_memory>(NET_LIBRARIES_BYTES);
    net_libraries libraries;
    if (net_libraries_create(&libraries, mine.get()) != NET_OK || libraries.owned || !are_refused(x, &libraries)) {
        return 2;
    }
    if (net_libraries_destroy(&libraries) != NET_OK || net_libraries_destroy(&libraries) != NET_OK) {
        return 3;
    }
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    const int code = net_libraries_create(&libraries, nullptr); // allocates, which a capture must not
    cudaStreamEndCapture(stream, &graph);
    std::puts(net_error_string(NET_CUBLAS + 7));
    return code >= NET_CUDA && net_libraries_destroy(&libraries) == NET_OK ? 0 : 4;
}
