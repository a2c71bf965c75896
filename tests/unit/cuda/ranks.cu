// Ranks of an emitted library: communicators, and graphs of what tests enqueue. `memory.cu` includes the library.
#include "memory.cu"

extern "C" {
int new_ranks(ncclComm_t *communicators, int count) { return ncclCommInitAll(communicators, count, nullptr); }

int free_rank(ncclComm_t communicator) { return ncclCommDestroy(communicator); }

int all_reduce_floats(float *array, size_t count, ncclComm_t communicator, cudaStream_t stream) {
    return ncclAllReduce(array, array, count, ncclFloat32, ncclAvg, communicator, stream);
}

int clear_error() { return cudaGetLastError(); }

int group_start() { return ncclGroupStart(); }

int group_end() { return ncclGroupEnd(); }

int begin_capture(cudaStream_t stream) { return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal); }

int end_capture(cudaStream_t stream, cudaGraphExec_t *made) {
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(stream, &graph);
    if (end != cudaSuccess) {
        return end;
    }
    const cudaError_t error = cudaGraphInstantiate(made, graph, 0);
    cudaGraphDestroy(graph);
    return error;
}

int launch(cudaGraphExec_t graph, cudaStream_t stream) { return cudaGraphLaunch(graph, stream); }

int free_graph(cudaGraphExec_t graph) { return cudaGraphExecDestroy(graph); }
}
