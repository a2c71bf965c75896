// Errors of the runtime, and the message of the last one.
#pragma once
#include "sanitizers.h"
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define SIMULATOR_ERRORS(error)                                                                         \
    error(cudaSuccess, 0, "no error")                                                                   \
    error(cudaErrorInvalidValue, 1, "invalid argument")                                                 \
    error(cudaErrorMemoryAllocation, 2, "out of memory")                                                \
    error(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                           \
    error(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                     \
    error(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                        \
    error(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                               \
    error(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")         \
    error(cudaErrorNotReady, 600, "device not ready")                                                   \
    error(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                     \
    error(cudaErrorMisalignedAddress, 716, "misaligned address")                                        \
    error(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                    \
    error(cudaErrorNotSupported, 801, "operation not supported")                                        \
    error(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")   \
    error(cudaErrorStreamCaptureInvalidated, 901,                                                       \
          "operation failed due to a previous error during capture")                                \
    error(cudaErrorStreamCaptureImplicit, 906,                                                          \
          "operation would make the legacy stream depend on a capturing blocking stream")               \
    error(cudaErrorUnknown, 999, "unknown error")

#define SIMULATOR_ERROR(name, number, text) name = number,
enum cudaError_t { SIMULATOR_ERRORS(SIMULATOR_ERROR) };
#undef SIMULATOR_ERROR

inline const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define SIMULATOR_ERROR(name, number, text) case name: return text;
        SIMULATOR_ERRORS(SIMULATOR_ERROR)
#undef SIMULATOR_ERROR
    }
    return "unrecognized error code";
}

namespace simulator {
SIMULATOR_STATE cudaError_t last_error = cudaSuccess;
SIMULATOR_STATE cudaError_t sticky_error = cudaSuccess;  // of a kernel that failed: all later calls return it
SIMULATOR_STATE char message[1024];
SIMULATOR_STATE bool busy;

/* Lets one thread of the host at a time use the device. */
struct Exclusive {
    Exclusive() {
        while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {
            const timespec moment = {0, 20000};
            nanosleep(&moment, nullptr);
        }
    }
    ~Exclusive() { __atomic_clear(&busy, __ATOMIC_RELEASE); }
};

/* Records an error with its message, for cudaGetLastError and cuda_simulator_message. */
SIMULATOR_UNSEEN inline cudaError_t report(cudaError_t error, const char *format, va_list arguments) {
    vsnprintf(message, sizeof message, format, arguments);
    return last_error = error;
}

__attribute__((format(printf, 2, 3)))
SIMULATOR_UNSEEN inline cudaError_t report(cudaError_t error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    report(error, format, arguments);
    va_end(arguments);
    return error;
}
}  // namespace simulator

inline cudaError_t cudaPeekAtLastError() { return simulator::last_error; }

inline cudaError_t cudaGetLastError() {
    const cudaError_t error = simulator::last_error;
    simulator::last_error = simulator::sticky_error;
    return error;
}

/* Returns the last failed check in words; empty if none failed. */
extern "C" __attribute__((weak, visibility("default"))) const char *cuda_simulator_message() {
    return simulator::message;
}
