// Launches: their limits, and the order of blocks and threads.
#pragma once
#include "graphs.h"
#include "scheduler.h"
#include "shared_memory.h"

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

namespace simulator {
/* A kernel that may use more shared memory than others. */
struct Allowance {
    const void *kernel;
    size_t bytes;
    Allowance *next;
};

SIMULATOR_STATE Allowance *allowances;

inline size_t allowed_shared(const void *kernel) {
    for (const Allowance *each = allowances; each; each = each->next) {
        if (each->kernel == kernel) {
            return each->bytes;
        }
    }
    return SHARED_BYTES;
}

/* Reads the order of threads and blocks from the environment. */
inline Order chosen_order() {
    const char *const text = getenv("CUDA_SIMULATOR_ORDER");
    if (!text || !*text || !strcmp(text, "forward")) {
        return Order::forward;
    }
    if (!strcmp(text, "backward")) {
        return Order::backward;
    }
    if (!strncmp(text, "random:", 7) && text[7] >= '0' && text[7] <= '9') {
        random_state = (strtoull(text + 7, nullptr, 10) + 1) * 0x9e3779b97f4a7c15u;
        return Order::random;
    }
    return Order::invalid;
}

struct Configuration {
    dim3 grid, block;
    size_t shared;
};

SIMULATOR_UNSEEN inline void run_blocks(const Configuration &configuration) {
    const dim3 grid = gridDim = configuration.grid;
    blockDim = configuration.block;
    begin_grid();
    const unsigned threads = block.size;
    unsigned short thread_order[MAX_THREADS];
    for (unsigned i = 0; i < threads; i++) {
        thread_order[i] = static_cast<unsigned short>(order == Order::backward ? threads - 1 - i : i);
    }
    const uint64_t blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    const uint64_t first = order == Order::random ? random_below(blocks) : 0;
    for (uint64_t i = 0; i < blocks && !failed; i++) {
        for (unsigned j = threads; order == Order::random && j > 1; j--) {
            const uint64_t k = random_below(j);
            const unsigned short swapped = thread_order[k];
            thread_order[k] = thread_order[j - 1];
            thread_order[j - 1] = swapped;
        }
        const uint64_t b = order == Order::backward ? blocks - 1 - i : (first + i) % blocks;
        blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                    static_cast<unsigned>(b / grid.x / grid.y)};
        poison_shared();
        run_block(thread_order);
    }
}

/* Runs a kernel on all threads of a grid. */
SIMULATOR_UNSEEN inline cudaError_t run_kernel(const char *name, const Configuration &configuration,
                                               void (*body)(void *), void *arguments) {
    order = chosen_order();
    if (order == Order::invalid) {
        return report(cudaErrorInvalidValue, "CUDA_SIMULATOR_ORDER must be forward, backward or random:SEED, not %s",
                      getenv("CUDA_SIMULATOR_ORDER"));
    }
    dynamic_bytes = configuration.shared;
    kernel_name = name;
    kernel_body = body;
    kernel_arguments = arguments;
    failed = false;
    forbid(dynamic_shared + configuration.shared, MAX_SHARED_BYTES - configuration.shared);
    begin_fibers();
    run_blocks(configuration);
    end_fibers();
    permit(dynamic_shared, MAX_SHARED_BYTES);
    return failed ? sticky_error : cudaSuccess;
}

constexpr size_t MAX_ARGUMENT_BYTES = 32764;

/* Checks the limits of a device of compute capability 7.5 and newer. */
inline cudaError_t check_limits(const char *name, const Configuration &configuration, const void *kernel,
                                size_t argument_bytes) {
    const dim3 grid = configuration.grid, block = configuration.block;
    const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
    if (threads == 0 || threads > MAX_THREADS || block.x > 1024 || block.y > 1024 || block.z > 64) {
        return report(cudaErrorInvalidConfiguration,
                      "kernel %s: a block must have 1 to 1024 threads, at most 64 of them along z, not %u x %u x %u",
                      name, block.x, block.y, block.z);
    }
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        return report(cudaErrorInvalidConfiguration,
                      "kernel %s: a grid must have 1 to 2^31 - 1 blocks along x, and 1 to 65535 along y and z, "
                      "not %u x %u x %u", name, grid.x, grid.y, grid.z);
    }
    if (configuration.shared > allowed_shared(kernel)) {
        return report(cudaErrorInvalidValue,
                      "kernel %s: %zu bytes of dynamic shared memory are more than the %zu it may use; "
                      "cudaFuncSetAttribute allows up to %zu", name, configuration.shared, allowed_shared(kernel),
                      MAX_SHARED_BYTES);
    }
    if (argument_bytes > MAX_ARGUMENT_BYTES) {
        return report(cudaErrorInvalidValue, "kernel %s: %zu bytes of arguments are more than %zu", name,
                      argument_bytes, MAX_ARGUMENT_BYTES);
    }
    return cudaSuccess;
}

/* A kernel with the configuration of its launch; a call with its arguments launches it. */
template <class... Parameters> struct Launch {
    void (*kernel)(Parameters...);
    const char *name;
    Configuration configuration;
    cudaStream_t stream;

    void operator()(Parameters... arguments) const {
        const size_t bytes = (sizeof(Parameters) + ... + 0);
        if (check_limits(name, configuration, reinterpret_cast<const void *>(kernel), bytes) != cudaSuccess) {
            return;
        }
        auto *const self = kernel;
        auto call = [self, arguments...] { self(arguments...); };
        submit(stream, [call, name = name, configuration = configuration]() mutable {
            return run_kernel(name, configuration, [](void *p) { (*static_cast<decltype(call) *>(p))(); }, &call);
        });
    }
};

template <class... Parameters>
Launch<Parameters...> launch(const char *name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared = 0,
                             cudaStream_t stream = nullptr) {
    return {kernel, name, {grid, block, shared}, stream};
}
}  // namespace simulator

#define SIMULATOR_LAUNCH(kernel, ...) ::simulator::launch(#kernel, kernel, __VA_ARGS__)

template <class F> cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
        return cudaSuccess;
    }
    if (value < 0 || static_cast<size_t>(value) > simulator::MAX_SHARED_BYTES) {
        return simulator::report(cudaErrorInvalidValue,
                                 "a kernel may use 0 to %zu bytes of dynamic shared memory, not %d",
                                 simulator::MAX_SHARED_BYTES, value);
    }
    simulator::allowances = new simulator::Allowance{
        reinterpret_cast<const void *>(kernel), static_cast<size_t>(value), simulator::allowances};
    return cudaSuccess;
}
