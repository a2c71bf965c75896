// Events: moments on a stream.
#pragma once
#include "graphs.h"
#include <time.h>

enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };

struct CUevent_st {
    double milliseconds = -1;  // since some moment; negative before it is recorded
};

typedef CUevent_st *cudaEvent_t;

namespace simulator {
inline double now_milliseconds() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}
}  // namespace simulator

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = new CUevent_st;
    return simulator::sticky_error;
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return simulator::sticky_error;
}

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
    return simulator::submit(stream, [event] {
        event->milliseconds = simulator::now_milliseconds();
        return cudaSuccess;
    }, "cudaEventRecord");
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return simulator::check_no_capture("cudaEventSynchronize"); }

inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (start->milliseconds < 0 || end->milliseconds < 0) {
        return simulator::report(cudaErrorInvalidResourceHandle, "both events must have been recorded");
    }
    *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
    return simulator::sticky_error;
}
