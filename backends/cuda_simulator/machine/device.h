// The device as programs ask for it: one, with the limits of an H100.
#pragma once
#include "graphs.h"
#include "launch.h"
#include "memory.h"

namespace simulator {
/* Tells whether the device runs the code of a kernel for sm_90a, or else that for sm_80, by the environment. */
inline bool is_sm90a() {
    const char *const text = getenv("CUDA_SIMULATOR_ARCHITECTURE");
    return !text || strcmp(text, "sm_80");
}

/* Counts the multiprocessors, as many as an H100 has, or those of the environment. */
inline int multiprocessors() {
    const char *const text = getenv("CUDA_SIMULATOR_MULTIPROCESSORS");
    return text ? atoi(text) : 132;
}
}  // namespace simulator

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    int major, minor, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, multiProcessorCount, l2CacheSize;
};

inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return simulator::sticky_error;
}

inline cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return simulator::sticky_error;
}

inline cudaError_t cudaSetDevice(int device) {
    return device == 0 ? simulator::sticky_error
                       : simulator::report(cudaErrorInvalidDevice, "there is one device, 0, and not %d", device);
}

/* Frees all memory, and forgets the error of a kernel that failed. */
inline cudaError_t cudaDeviceReset() {
    simulator::last_error = simulator::sticky_error = cudaSuccess;
    simulator::message[0] = 0;
    simulator::deallocate_all();
    return cudaSuccess;
}

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    *properties = {"CUDA simulator", size_t(80) << 30, simulator::SHARED_BYTES, simulator::MAX_SHARED_BYTES, 228 * 1024,
                   simulator::is_sm90a() ? 9 : 8, 0, warpSize, simulator::MAX_THREADS, 2048, simulator::multiprocessors(), 50 << 20};
    return cudaSetDevice(device);
}

inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; return error;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(properties.sharedMemPerBlock); return error;
        case cudaDevAttrWarpSize: *value = properties.warpSize; return error;
        case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; return error;
        case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; return error;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = properties.maxThreadsPerMultiProcessor; return error;
        case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return error;
        case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return error;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
            return error;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(properties.sharedMemPerBlockOptin);
            return error;
    }
    return simulator::report(cudaErrorInvalidValue, "the simulator does not know the attribute %d of a device",
                             attribute);
}
