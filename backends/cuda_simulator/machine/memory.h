// Memory of the device: that of the host, poisoned when it is allocated, with a list of its parts.
#pragma once
#include "graphs.h"
#include <stdint.h>
#include <string.h>

enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };

namespace simulator {
constexpr size_t ALIGNMENT_BYTES = 256;  // of what cudaMalloc returns

struct Allocation {
    void *data;
    Allocation *next;
};

SIMULATOR_STATE Allocation *allocations;

inline cudaError_t allocate(void **data, size_t size) {
    *data = nullptr;
    if (size == 0) {
        return cudaSuccess;
    }
    if (posix_memalign(data, ALIGNMENT_BYTES, size) != 0) {
        *data = nullptr;
        return report(cudaErrorMemoryAllocation, "there are no %zu bytes of memory", size);
    }
    memset(*data, 0xff, size);  // NaN
    const Exclusive exclusive;
    allocations = new Allocation{*data, allocations};
    return cudaSuccess;
}

inline cudaError_t deallocate(void *data) {
    if (!data) {
        return cudaSuccess;
    }
    const Exclusive exclusive;
    for (Allocation **link = &allocations; *link; link = &(*link)->next) {
        if ((*link)->data == data) {
            Allocation *const found = *link;
            *link = found->next;
            delete found;
            free(data);
            return cudaSuccess;
        }
    }
    return report(cudaErrorInvalidValue, "%p is not allocated, or was freed before", data);
}

inline void deallocate_all() {
    while (allocations) {
        deallocate(allocations->data);
    }
}
}  // namespace simulator

inline cudaError_t cudaMalloc(void **data, size_t size) {
    const cudaError_t error = simulator::check_no_capture("cudaMalloc");
    return error == cudaSuccess ? simulator::allocate(data, size) : error;
}

inline cudaError_t cudaMallocAsync(void **data, size_t size, cudaStream_t) {
    const cudaError_t error = simulator::check_no_capture("cudaMallocAsync");
    return error == cudaSuccess ? simulator::allocate(data, size) : error;
}

inline cudaError_t cudaHostAlloc(void **data, size_t size, unsigned) {
    const cudaError_t error = simulator::check_no_capture("cudaHostAlloc");
    return error == cudaSuccess ? simulator::allocate(data, size) : error;
}

inline cudaError_t cudaMallocHost(void **data, size_t size) { return cudaHostAlloc(data, size, cudaHostAllocDefault); }

template <class T> cudaError_t cudaMalloc(T **data, size_t size) {
    return cudaMalloc(reinterpret_cast<void **>(data), size);
}
template <class T> cudaError_t cudaMallocAsync(T **data, size_t size, cudaStream_t stream) {
    return cudaMallocAsync(reinterpret_cast<void **>(data), size, stream);
}
template <class T> cudaError_t cudaHostAlloc(T **data, size_t size, unsigned flags) {
    return cudaHostAlloc(reinterpret_cast<void **>(data), size, flags);
}
template <class T> cudaError_t cudaMallocHost(T **data, size_t size) {
    return cudaMallocHost(reinterpret_cast<void **>(data), size);
}

inline cudaError_t cudaFree(void *data) {
    const cudaError_t error = simulator::check_no_capture("cudaFree");
    return error == cudaSuccess ? simulator::deallocate(data) : error;
}

inline cudaError_t cudaFreeAsync(void *data, cudaStream_t) {
    const cudaError_t error = simulator::check_no_capture("cudaFreeAsync");
    return error == cudaSuccess ? simulator::deallocate(data) : error;
}

inline cudaError_t cudaFreeHost(void *data) { return cudaFree(data); }

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind,
                                   cudaStream_t stream = nullptr) {
    return simulator::submit(stream, [=] {
        memmove(to, from, size);
        return cudaSuccess;
    }, "cudaMemcpyAsync");
}

inline cudaError_t cudaMemsetAsync(void *data, int byte, size_t size, cudaStream_t stream = nullptr) {
    return simulator::submit(stream, [=] {
        memset(data, byte, size);
        return cudaSuccess;
    }, "cudaMemsetAsync");
}

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind) {
    const cudaError_t error = simulator::check_no_capture("cudaMemcpy");
    return error == cudaSuccess ? cudaMemcpyAsync(to, from, size, kind) : error;
}

inline cudaError_t cudaMemset(void *data, int byte, size_t size) {
    const cudaError_t error = simulator::check_no_capture("cudaMemset");
    return error == cudaSuccess ? cudaMemsetAsync(data, byte, size) : error;
}
