// Tensor maps: arrays in global memory, from and to which boxes are copied.
#pragma once
#include "errors.h"
#include <stdint.h>

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };

enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_DATA_TYPE_UINT64, CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B,
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

struct CUtensorMap {
    alignas(64) cuuint64_t opaque[16];
};

namespace simulator {
constexpr unsigned MAX_DIMENSIONS = 5, MAX_BOX = 256, MAX_PIXELS = 1024;
constexpr uint32_t MAP = 0x70616d;  // what an encoded one begins with

/* What a map contains here. */
struct TensorMap {
    uint32_t mark;
    signed char lower[2], upper[2];  // corners of the pixels that windows begin at, from the first and the last one
    char *data;
    uint64_t sizes[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];  // strides in bytes
    uint32_t box[MAX_DIMENSIONS];                             // elements in shared memory
    unsigned char steps[MAX_DIMENSIONS], dimensions, element_bytes, swizzle;
    bool rounds;     // copies to shared memory round to TF32
    bool of_pixels;  // box[1] is a number of pixels
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "a map has 128 bytes");

inline unsigned element_bytes(CUtensorMapDataType type) {
    constexpr unsigned char BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
    return BYTES[type];
}

/* Checks the sizes of a map. */
inline CUresult check_map(const TensorMap &map) {
    const unsigned row = map.box[0] * map.element_bytes, span = map.swizzle ? 16u << map.swizzle : MAX_BOX * 16;
    for (unsigned i = 0; i < map.dimensions; i++) {
        if (map.sizes[i] < 1 || map.sizes[i] > uint64_t(1) << 32 || map.box[i] < 1) {
            report(cudaErrorInvalidValue, "dimension %u of a tensor map must have 1 to 2^32 elements, not %llu, and its box "
                   "1 to 256 of them, in steps of 1 to 8", i, static_cast<unsigned long long>(map.sizes[i]));
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (i && (map.strides[i] % 16 || map.strides[i] >> 40)) {
            report(cudaErrorInvalidValue, "stride %u of a tensor map must be a multiple of 16 bytes below 2^40, not %llu", i,
                   static_cast<unsigned long long>(map.strides[i]));
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (reinterpret_cast<uintptr_t>(map.data) % 16) {
        report(cudaErrorInvalidValue, "the array of a tensor map must begin at a multiple of 16 bytes, not at %p",
               static_cast<void *>(map.data));
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (row % 16 || row > span) {
        report(cudaErrorInvalidValue, "a row of a box must have a multiple of 16 bytes, at most %u, not %u", span, row);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Puts into a map what all kinds have in common. */
inline TensorMap begin_map(CUtensorMapDataType type, cuuint32_t dimensions, void *data, const cuuint64_t *sizes,
                           const cuuint64_t *strides, const cuuint32_t *steps, CUtensorMapSwizzle swizzle) {
    TensorMap map = {};
    map.mark = MAP;
    map.data = static_cast<char *>(data);
    map.dimensions = static_cast<unsigned char>(dimensions);
    map.element_bytes = static_cast<unsigned char>(element_bytes(type));
    map.swizzle = static_cast<unsigned char>(swizzle);
    map.rounds = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    for (unsigned i = 0; i < MAX_DIMENSIONS; i++) {
        const bool exists = i < dimensions;
        map.sizes[i] = exists ? sizes[i] : 1;
        map.strides[i] = !exists ? 0 : i ? strides[i - 1] : map.element_bytes;
        map.steps[i] = static_cast<unsigned char>(!exists ? 1 : steps[i] <= 8 ? steps[i] : 0);
        map.box[i] = 1;
    }
    return map;
}

/* Counts the pixels that windows begin at along an axis; none if its corners are out of range or in the wrong order. */
inline int64_t count_pixels(const TensorMap &map, unsigned axis) {
    const int64_t span = int64_t(map.sizes[axis + 1]) - 1 + map.upper[axis] - map.lower[axis];
    return span < 0 || !map.steps[axis + 1] ? 0 : span / map.steps[axis + 1] + 1;
}
}  // namespace simulator

inline CUresult cuTensorMapEncodeTiled(CUtensorMap *to, CUtensorMapDataType type, cuuint32_t dimensions, void *data,
                                       const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    if (dimensions < 1 || dimensions > simulator::MAX_DIMENSIONS || reinterpret_cast<uintptr_t>(to) % 64) {
        simulator::report(cudaErrorInvalidValue, "a tensor map must be at a multiple of 64 bytes, not at %p, and have 1 to 5 "
                          "dimensions, not %u", static_cast<void *>(to), dimensions);
        return CUDA_ERROR_INVALID_VALUE;
    }
    simulator::TensorMap map = simulator::begin_map(type, dimensions, data, sizes, strides, steps, swizzle);
    for (unsigned i = 0; i < dimensions; i++) {
        map.box[i] = map.steps[i] && box[i] <= simulator::MAX_BOX ? (box[i] + steps[i] - 1) / steps[i] : 0;
    }
    const CUresult result = simulator::check_map(map);
    __builtin_memcpy(to, &map, sizeof map);
    return result;
}

/* Encodes a map of windows of images with two axes, channels last. */
inline CUresult cuTensorMapEncodeIm2col(CUtensorMap *to, CUtensorMapDataType type, cuuint32_t dimensions, void *data,
                                        const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower, const int *upper,
                                        cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps, CUtensorMapInterleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    if (dimensions != 4 || reinterpret_cast<uintptr_t>(to) % 64) {
        simulator::report(cudaErrorInvalidValue, "a tensor map of images must be at a multiple of 64 bytes, not at %p, and have 4 "
                          "dimensions here, not %u", static_cast<void *>(to), dimensions);
        return CUDA_ERROR_INVALID_VALUE;
    }
    simulator::TensorMap map = simulator::begin_map(type, dimensions, data, sizes, strides, steps, swizzle);
    map.of_pixels = true;
    map.box[0] = channels <= simulator::MAX_BOX ? channels : 0;
    map.box[1] = pixels <= simulator::MAX_PIXELS ? pixels : 0;
    for (unsigned i = 0; i < 2; i++) {
        map.lower[i] = static_cast<signed char>(lower[i]);
        map.upper[i] = static_cast<signed char>(upper[i]);
        if (map.lower[i] != lower[i] || map.upper[i] != upper[i] || !simulator::count_pixels(map, i)) {
            simulator::report(cudaErrorInvalidValue, "corners of axis %u of a tensor map must be from -128 to 127 and begin before "
                              "they end, and steps be 1 to 8: from %d to %d in steps of %u", i, lower[i], upper[i], steps[i + 1]);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    const CUresult result = simulator::check_map(map);
    __builtin_memcpy(to, &map, sizeof map);
    return result;
}

enum { cudaEnableDefault = 0 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1 };

/* Returns a function of the driver by its name. */
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult *result = nullptr) {
    *function = !__builtin_strcmp(name, "cuTensorMapEncodeTiled")    ? reinterpret_cast<void *>(cuTensorMapEncodeTiled)
                : !__builtin_strcmp(name, "cuTensorMapEncodeIm2col") ? reinterpret_cast<void *>(cuTensorMapEncodeIm2col)
                                                                     : nullptr;
    if (result) {
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return cudaSuccess;
}
