// Streams, which run work at once, and their captures, which record it in graphs to be launched later.
#pragma once
#include "errors.h"

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed,
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated,
};
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };

namespace simulator {
/* A node of a graph. */
struct Work {
    Work *next = nullptr;
    virtual cudaError_t run() = 0;
    virtual ~Work() {}
};

template <class F> struct WorkOf final : Work {
    F function;
    explicit WorkOf(const F &function) : function(function) {}
    cudaError_t run() override { return function(); }
};
}  // namespace simulator

/* Work in the order of its capture, owned by the graph and by what was instantiated from it. */
struct CUgraph_st {
    simulator::Work *first = nullptr, **end = &first;
    int owners = 1;
};

struct CUgraphExec_st {
    CUgraph_st *graph;
};

struct CUstream_st {
    bool blocking;  // the legacy stream waits for it
    CUgraph_st *graph = nullptr;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    bool invalidated = false;
    CUstream_st *next_capturing = nullptr;
};

typedef CUstream_st *cudaStream_t;
typedef CUgraph_st *cudaGraph_t;
typedef CUgraphExec_st *cudaGraphExec_t;

namespace simulator {
using Graph = CUgraph_st;
using Stream = CUstream_st;

SIMULATOR_STATE Stream *capturing;  // the first of the streams that capture

inline void disown(Graph *graph) {
    if (--graph->owners == 0) {
        for (Work *work = graph->first; work;) {
            Work *const next = work->next;
            delete work;
            work = next;
        }
        delete graph;
    }
}

/* Refuses what must not happen during a capture, as cudaMalloc, and invalidates the capture. */
inline cudaError_t check_no_capture(const char *call) {
    const Exclusive exclusive;
    cudaError_t error = sticky_error;
    for (Stream *stream = capturing; stream; stream = stream->next_capturing) {
        if (stream->mode != cudaStreamCaptureModeRelaxed) {
            stream->invalidated = true;
            error = report(cudaErrorStreamCaptureUnsupported, "%s must not be called while a stream is captured", call);
        }
    }
    return error;
}

/* Refuses the legacy stream, for which blocking streams wait, while one of those is captured. */
inline cudaError_t check_legacy(const char *call) {
    cudaError_t error = cudaSuccess;
    for (Stream *stream = capturing; stream; stream = stream->next_capturing) {
        if (stream->blocking) {
            stream->invalidated = true;
            error = report(cudaErrorStreamCaptureImplicit,
                           "%s must not use the legacy stream while a stream is captured", call);
        }
    }
    return error;
}

/* Runs work now, or records it if the stream is captured. */
template <class F> cudaError_t submit(cudaStream_t stream, F function, const char *call = "a launch") {
    const Exclusive exclusive;
    if (sticky_error != cudaSuccess) {
        return sticky_error;
    }
    if (stream && stream->graph) {
        if (stream->invalidated) {
            return report(cudaErrorStreamCaptureInvalidated, "%s: the capture of its stream has failed before", call);
        }
        Work *const work = new WorkOf<F>(function);
        *stream->graph->end = work;
        stream->graph->end = &work->next;
        return cudaSuccess;
    }
    const cudaError_t error = stream ? cudaSuccess : check_legacy(call);
    return error == cudaSuccess ? function() : error;
}
}  // namespace simulator

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    *stream = new simulator::Stream{flags != cudaStreamNonBlocking};
    return simulator::sticky_error;
}

inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (!stream || stream->graph) {
        return simulator::report(cudaErrorInvalidResourceHandle,
                                 "a stream must be destroyed before or after its capture");
    }
    delete stream;
    return simulator::sticky_error;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream && stream->graph) {
        stream->invalidated = true;
        return simulator::report(cudaErrorStreamCaptureUnsupported,
                                 "cudaStreamSynchronize must not wait for a captured stream");
    }
    return simulator::check_no_capture("cudaStreamSynchronize");
}

inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

inline cudaError_t cudaDeviceSynchronize() { return simulator::check_no_capture("cudaDeviceSynchronize"); }

inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = !stream || !stream->graph ? cudaStreamCaptureStatusNone
              : stream->invalidated     ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return simulator::sticky_error;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    const simulator::Exclusive exclusive;
    if (!stream) {
        return simulator::report(cudaErrorStreamCaptureUnsupported,
                                 "the legacy stream cannot be captured; create a stream");
    }
    if (stream->graph) {
        return simulator::report(cudaErrorIllegalState, "this stream is captured already");
    }
    stream->graph = new simulator::Graph;
    stream->mode = mode;
    stream->invalidated = false;
    stream->next_capturing = simulator::capturing;
    simulator::capturing = stream;
    return simulator::sticky_error;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const simulator::Exclusive exclusive;
    *graph = nullptr;
    if (!stream || !stream->graph) {
        return simulator::report(cudaErrorIllegalState, "this stream is not captured");
    }
    simulator::Stream **link = &simulator::capturing;
    while (*link != stream) {
        link = &(*link)->next_capturing;
    }
    *link = stream->next_capturing;
    *graph = stream->graph;
    stream->graph = nullptr;
    if (stream->invalidated) {
        simulator::disown(*graph);
        *graph = nullptr;
        simulator::last_error = cudaErrorStreamCaptureInvalidated;  // the message says why
        return cudaErrorStreamCaptureInvalidated;
    }
    return simulator::sticky_error;
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long = 0) {
    if (!graph) {
        return simulator::report(cudaErrorInvalidValue, "cudaGraphInstantiate must receive a graph, not null");
    }
    graph->owners++;
    *executable = new CUgraphExec_st{graph};
    return simulator::sticky_error;
}

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    if (!executable) {
        return simulator::report(cudaErrorInvalidValue, "cudaGraphLaunch must receive a graph, not null");
    }
    return simulator::submit(stream, [executable] {
        cudaError_t error = cudaSuccess;
        for (simulator::Work *work = executable->graph->first; work && error == cudaSuccess; work = work->next) {
            error = work->run();
        }
        return error;
    }, "cudaGraphLaunch");
}

inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    simulator::disown(graph);
    return simulator::sticky_error;
}

inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    simulator::disown(executable->graph);
    delete executable;
    return simulator::sticky_error;
}
