// The runtime: streams, captures, events, memory, the device.
#include <cuda_runtime.h>
#include <string.h>

__global__ void add_kernel(float *x, float increment) { x[threadIdx.x] += increment; }

#define TRY(call)                       \
    do {                                \
        const cudaError_t e_ = (call);  \
        if (e_ != cudaSuccess) {        \
            return e_;                  \
        }                               \
    } while (0)

static int work(float *x, float *copy, cudaStream_t stream) {
    add_kernel<<<1, 4, 0, stream>>>(x, 1.0f);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(copy, x, 16, cudaMemcpyDeviceToDevice, stream));
    TRY(cudaMemsetAsync(x + 3, 0, 4, stream));
    return cudaSuccess;
}

extern "C" {
// Captures the work, then launches it so many times; before the first, x has changed nothing.
int captured(float *x, float *copy, int times, float *before) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const int done = work(x, copy, stream);
    cudaStreamCaptureStatus status;
    TRY(cudaStreamIsCapturing(stream, &status));
    TRY(cudaStreamEndCapture(stream, &graph));
    if (done != cudaSuccess || status != cudaStreamCaptureStatusActive) {
        return -1;
    }
    memcpy(before, x, 16);
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    TRY(cudaGraphDestroy(graph));
    for (int i = 0; i < times; i++) {
        TRY(cudaGraphLaunch(executable, stream));
    }
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaGraphExecDestroy(executable));
    return cudaStreamDestroy(stream);
}

// Does something during a capture, and returns its error, and that of the end of the capture.
int during_capture(int what, int *end) {
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    float *x = nullptr, on_host[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    TRY(cudaMalloc(&x, 16));
    TRY(cudaStreamCreate(&stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    int error = cudaSuccess;
    float *other = nullptr;
    switch (what) {
        case 0: add_kernel<<<1, 4, 0, stream>>>(x, 1.0f); error = cudaGetLastError(); break;
        case 1: error = cudaMalloc(&other, 16); break;
        case 2: error = cudaStreamSynchronize(stream); break;
        case 3: error = cudaMemcpy(on_host, x, 16, cudaMemcpyDeviceToHost); break;
        case 4: error = cudaDeviceSynchronize(); break;
        case 5: add_kernel<<<1, 4>>>(x, 1.0f); error = cudaGetLastError(); break;
        case 6: error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); break;
        default: error = -1;
    }
    *end = cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) {
        TRY(cudaGraphDestroy(graph));
    }
    cudaGetLastError();
    TRY(cudaStreamDestroy(stream));
    TRY(cudaFree(x));
    return error;
}

int capture_of_legacy() {
    const int error = cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal);
    cudaGetLastError();
    return error;
}

int elapsed(float *milliseconds) {
    cudaEvent_t start, end;
    TRY(cudaEventCreate(&start));
    TRY(cudaEventCreateWithFlags(&end, cudaEventDefault));
    TRY(cudaEventRecord(start, nullptr));
    TRY(cudaEventRecord(end, nullptr));
    TRY(cudaEventSynchronize(end));
    TRY(cudaEventElapsedTime(milliseconds, start, end));
    TRY(cudaEventDestroy(start));
    return cudaEventDestroy(end);
}

// Copies there and back, by all kinds of memory.
int round_trip(const float *from, float *to) {
    float *device, *pinned;
    cudaStream_t stream;
    TRY(cudaStreamCreate(&stream));
    TRY(cudaMallocAsync(reinterpret_cast<void **>(&device), 16, stream));
    TRY(cudaHostAlloc(reinterpret_cast<void **>(&pinned), 16, cudaHostAllocDefault));
    TRY(cudaMemset(device, 0, 16));
    TRY(cudaMemcpyAsync(device, from, 16, cudaMemcpyHostToDevice, stream));
    TRY(cudaMemcpyAsync(pinned, device, 16, cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    memcpy(to, pinned, 16);
    TRY(cudaFreeAsync(device, stream));
    TRY(cudaFreeHost(pinned));
    return cudaStreamDestroy(stream);
}

int freed_twice() {
    void *data;
    TRY(cudaMalloc(&data, 16));
    TRY(cudaFree(nullptr));
    TRY(cudaFree(data));
    const int error = cudaFree(data);
    cudaGetLastError();
    return error;
}

int device(int *numbers) {
    cudaDeviceProp properties;
    TRY(cudaGetDeviceCount(&numbers[0]));
    TRY(cudaGetDevice(&numbers[1]));
    TRY(cudaSetDevice(0));
    TRY(cudaGetDeviceProperties(&properties, 0));
    numbers[2] = properties.major >= 8;
    numbers[3] = properties.warpSize;
    TRY(cudaDeviceGetAttribute(&numbers[4], cudaDevAttrMaxThreadsPerBlock, 0));
    const int error = cudaSetDevice(7);
    cudaGetLastError();
    return error;
}
}
