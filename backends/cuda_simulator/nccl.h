// NCCL: ranks of one process on the simulated device, which one thread of the host drives.
//
// A rank's all-reduce waits, with all that follows on its stream, until every rank has called it. Results are formed
// in the order of ranks, in double precision, and rounded once.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

enum ncclResult_t {
    ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage,
    ncclRemoteError, ncclInProgress
};
enum ncclRedOp_t { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
enum ncclDataType_t {
    ncclInt32 = 2, ncclInt = 2, ncclUint32 = 3, ncclInt64 = 4, ncclUint64 = 5, ncclFloat16 = 6, ncclHalf = 6,
    ncclFloat32 = 7, ncclFloat = 7, ncclFloat64 = 8, ncclDouble = 8, ncclBfloat16 = 9
};

namespace simulator {
constexpr int MAX_RANKS = 64;

/* The arguments of a rank's all-reduce. */
struct Reduction {
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t operation;
};

/* One all-reduce of all ranks, from the arrival of the first to the departure of the last. */
struct Meeting {
    Reduction of[MAX_RANKS];
    bool has_arrived[MAX_RANKS];
    int arrived, departed;
    cudaError_t error;
    Meeting *next;
};

/* The ranks that were created together. */
struct Clique {
    int ranks, communicators;
    Meeting *meetings;  // in their order
};
}  // namespace simulator

struct ncclComm {
    simulator::Clique *clique;
    int rank;
};
typedef ncclComm *ncclComm_t;

namespace simulator {
inline double wide(double x) { return x; }
inline double wide(float x) { return x; }
inline double wide(__half x) { return __half2float(x); }
inline double wide(__nv_bfloat16 x) { return __bfloat162float(x); }
inline int64_t wide(int64_t x) { return x; }
inline int64_t wide(int32_t x) { return x; }
inline int64_t wide(uint32_t x) { return x; }

template <class T, class W> T narrow(W x, T *) { return static_cast<T>(x); }
inline __half narrow(double x, __half *) { return __float2half_rn(static_cast<float>(x)); }
inline __nv_bfloat16 narrow(double x, __nv_bfloat16 *) { return __float2bfloat16_rn(static_cast<float>(x)); }

/* Reduces the elements of all ranks, one after another, so that results may replace them. */
template <class T> void reduce(const Reduction *of, int ranks) {
    const ncclRedOp_t operation = of[0].operation;
    for (size_t i = 0; i < of[0].count; i++) {
        auto value = wide(static_cast<const T *>(of[0].from)[i]);
        for (int rank = 1; rank < ranks; rank++) {
            const auto x = wide(static_cast<const T *>(of[rank].from)[i]);
            value = operation == ncclMax ? (x > value || x != x ? x : value) : value + x;
        }
        value = operation == ncclAvg ? value / ranks : value;
        for (int rank = 0; rank < ranks; rank++) {
            static_cast<T *>(of[rank].to)[i] = narrow(value, static_cast<T *>(nullptr));
        }
    }
}

inline cudaError_t reduce_all(const Reduction *of, int ranks) {
    for (int rank = 1; rank < ranks; rank++) {
        if (of[rank].count != of[0].count || of[rank].type != of[0].type || of[rank].operation != of[0].operation) {
            return report(cudaErrorInvalidValue,
                          "ncclAllReduce: all ranks must pass arrays alike, but rank 0 passes %zu elements of type %d "
                          "for operation %d, and rank %d passes %zu of type %d for %d", of[0].count, of[0].type,
                          of[0].operation, rank, of[rank].count, of[rank].type, of[rank].operation);
        }
    }
    switch (of[0].type) {
        case ncclInt32: reduce<int32_t>(of, ranks); break;
        case ncclUint32: reduce<uint32_t>(of, ranks); break;
        case ncclInt64: reduce<int64_t>(of, ranks); break;
        case ncclFloat16: reduce<__half>(of, ranks); break;
        case ncclBfloat16: reduce<__nv_bfloat16>(of, ranks); break;
        case ncclFloat32: reduce<float>(of, ranks); break;
        case ncclFloat64: reduce<double>(of, ranks); break;
        default: return report(cudaErrorNotSupported, "ncclAllReduce: no elements of type %d", of[0].type);
    }
    return cudaSuccess;
}

/* The work of a rank: it arrives at the next meeting, and departs once all have arrived. */
struct AllReduce {
    ncclComm_t communicator;
    Reduction arguments;
    Meeting *meeting;

    cudaError_t operator()() {
        Clique *const clique = communicator->clique;
        if (!meeting) {
            arrive(clique, communicator->rank);
        }
        if (meeting->arrived < clique->ranks) {
            return cudaErrorNotReady;
        }
        const cudaError_t error = meeting->error;
        if (++meeting->departed == clique->ranks) {
            clique->meetings = meeting->next;
            delete meeting;
        }
        meeting = nullptr;  // a graph does it again
        return error;
    }

    void arrive(Clique *clique, int rank) {
        Meeting **link = &clique->meetings;
        while (*link && (*link)->has_arrived[rank]) {
            link = &(*link)->next;
        }
        meeting = *link = *link ? *link : new Meeting();
        meeting->of[rank] = arguments;
        meeting->has_arrived[rank] = true;
        if (++meeting->arrived == clique->ranks) {
            meeting->error = reduce_all(meeting->of, clique->ranks);
        }
    }
};

/* A call within a group, which is enqueued at its end. */
struct Grouped {
    AllReduce call;
    cudaStream_t stream;
    Grouped *next;
};

SIMULATOR_STATE Grouped *grouped;  // the last of them
SIMULATOR_STATE int group_depth;

inline ncclResult_t enqueue(const AllReduce &call, cudaStream_t stream) {
    return submit(stream, call, "ncclAllReduce") == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Enqueues the calls of a group, the last of which is given. */
inline ncclResult_t enqueue_all(Grouped *last) {
    if (!last) {
        return ncclSuccess;
    }
    const ncclResult_t before = enqueue_all(last->next);
    const ncclResult_t result = before == ncclSuccess ? enqueue(last->call, last->stream) : before;
    delete last;
    return result;
}
}  // namespace simulator

inline ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int *rank) {
    *rank = communicator->rank;
    return ncclSuccess;
}

inline const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error";
        case ncclSystemError: return "unhandled system error";
        case ncclInternalError: return "internal error";
        case ncclInvalidArgument: return "invalid argument";
        case ncclInvalidUsage: return "invalid usage";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
    }
    return "unknown result code";
}

/* Creates a communicator for each rank, all of them on the one device. */
inline ncclResult_t ncclCommInitAll(ncclComm_t *communicators, int ranks, const int *) {
    if (!communicators || ranks < 1 || ranks > simulator::MAX_RANKS) {
        return ncclInvalidArgument;
    }
    simulator::Clique *const clique = new simulator::Clique{ranks, ranks, nullptr};
    for (int rank = 0; rank < ranks; rank++) {
        communicators[rank] = new ncclComm{clique, rank};
    }
    return ncclSuccess;
}

inline ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
    if (!communicator) {
        return ncclInvalidArgument;
    }
    if (--communicator->clique->communicators == 0) {
        delete communicator->clique;
    }
    delete communicator;
    return ncclSuccess;
}

inline ncclResult_t ncclGroupStart() {
    simulator::group_depth++;
    return ncclSuccess;
}

inline ncclResult_t ncclGroupEnd() {
    if (simulator::group_depth == 0) {
        return ncclInvalidUsage;
    }
    if (--simulator::group_depth > 0) {
        return ncclSuccess;
    }
    simulator::Grouped *const last = simulator::grouped;
    simulator::grouped = nullptr;
    return simulator::enqueue_all(last);
}

inline ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                                  ncclComm_t communicator, cudaStream_t stream) {
    const bool is_known = operation == ncclSum || operation == ncclMax || operation == ncclAvg;
    if (!communicator || !is_known || (count > 0 && (!from || !to))) {
        return ncclInvalidArgument;
    }
    const simulator::AllReduce call = {communicator, {from, to, count, type, operation}, nullptr};
    if (simulator::group_depth == 0) {
        return simulator::enqueue(call, stream);
    }
    simulator::grouped = new simulator::Grouped{call, stream, simulator::grouped};
    return ncclSuccess;
}
