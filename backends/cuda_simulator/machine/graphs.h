// Streams, which run work at once unless it waits for another stream, and captures, which record it in graphs.
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
/* A node of a graph, or work that waits on a stream; cudaErrorNotReady says that it must run again. */
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

struct Queue {
    Work *first = nullptr, **end = &first;

    void add(Work *work) {
        *end = work;
        end = &work->next;
    }

    void remove_first() {
        Work *const work = first;
        first = work->next;
        end = first ? end : &first;
        delete work;
    }
};
}  // namespace simulator

/* Work in the order of its capture, owned by the graph and by what was instantiated from it. */
struct CUgraph_st {
    simulator::Queue work;
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
    simulator::Queue waiting = {};  // work that waits for that of other streams, and what follows it
    CUstream_st *next_waiting = nullptr;
};

typedef CUstream_st *cudaStream_t;
typedef CUgraph_st *cudaGraph_t;
typedef CUgraphExec_st *cudaGraphExec_t;

namespace simulator {
using Graph = CUgraph_st;
using Stream = CUstream_st;

SIMULATOR_STATE Stream *capturing;  // the first of the streams that capture
SIMULATOR_STATE Stream *waiting;    // the first of those with work that waits

inline void disown(Graph *graph) {
    if (--graph->owners == 0) {
        while (graph->work.first) {
            graph->work.remove_first();
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

/* Lets a stream wait. */
inline cudaError_t wait(Stream *stream, Work *work) {
    if (!stream) {
        delete work;
        return report(cudaErrorNotSupported, "work that waits for another stream must not be on the legacy stream");
    }
    stream->waiting.add(work);
    stream->next_waiting = waiting;
    waiting = stream;
    return cudaSuccess;
}

/* Refuses to wait for streams that wait for work which nobody has enqueued. */
inline cudaError_t check_no_waiting(const Stream *stream, const char *call) {
    return !stream || !stream->waiting.first
               ? cudaSuccess
               : report(cudaErrorNotReady, "%s would never end: the stream waits for work of other ranks", call);
}

/* Continues streams, as long as one does not wait any more. */
inline void resume() {
    for (bool moved = true; moved;) {
        moved = false;
        for (Stream **link = &waiting; *link;) {
            Queue &queue = (*link)->waiting;
            while (queue.first && queue.first->run() != cudaErrorNotReady) {
                queue.remove_first();
                moved = true;
            }
            if (queue.first) {
                link = &(*link)->next_waiting;
            } else {
                *link = (*link)->next_waiting;
            }
        }
    }
}

/* Runs work now or, if the stream waits, later; or records it if the stream is captured. */
template <class F> cudaError_t submit(cudaStream_t stream, F function, const char *call = "a launch") {
    const Exclusive exclusive;
    if (sticky_error != cudaSuccess) {
        return sticky_error;
    }
    if (stream && stream->graph) {
        if (stream->invalidated) {
            return report(cudaErrorStreamCaptureInvalidated, "%s: the capture of its stream has failed before", call);
        }
        stream->graph->work.add(new WorkOf<F>(function));
        return cudaSuccess;
    }
    if (stream && stream->waiting.first) {
        stream->waiting.add(new WorkOf<F>(function));
        return cudaSuccess;
    }
    cudaError_t error = stream ? cudaSuccess : check_legacy(call);
    error = error == cudaSuccess ? function() : error;
    if (error == cudaErrorNotReady) {
        return wait(stream, new WorkOf<F>(function));
    }
    resume();
    return error;
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
    const cudaError_t error = simulator::check_no_waiting(stream, "cudaStreamDestroy");
    if (error == cudaSuccess) {
        delete stream;
    }
    return error == cudaSuccess ? simulator::sticky_error : error;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (stream && stream->graph) {
        stream->invalidated = true;
        return simulator::report(cudaErrorStreamCaptureUnsupported,
                                 "cudaStreamSynchronize must not wait for a captured stream");
    }
    const cudaError_t error = simulator::check_no_capture("cudaStreamSynchronize");
    return error == cudaSuccess ? simulator::check_no_waiting(stream, "cudaStreamSynchronize") : error;
}

inline cudaError_t cudaDeviceSynchronize() {
    const cudaError_t error = simulator::check_no_capture("cudaDeviceSynchronize");
    return error == cudaSuccess ? simulator::check_no_waiting(simulator::waiting, "cudaDeviceSynchronize") : error;
}

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
    simulator::Work *begin = nullptr;  // a launch that had to wait begins there again
    return simulator::submit(stream, [executable, begin]() mutable {
        cudaError_t error = cudaSuccess;
        simulator::Work *work = begin ? begin : executable->graph->work.first;
        while (work && (error = work->run()) == cudaSuccess) {
            work = work->next;
        }
        begin = error == cudaErrorNotReady ? work : nullptr;
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
