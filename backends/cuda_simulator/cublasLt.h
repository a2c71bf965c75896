// cuBLASLt: descriptors store what they are given, and products are formed in double precision and rounded once.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8
};
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_EPILOGUE_RELU_BIAS = 6
};
enum cublasLtMatrixLayoutAttribute_t {
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum cublasLtReductionScheme_t { CUBLASLT_REDUCTION_SCHEME_NONE = 0, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };

struct cublasLtContext {};
typedef cublasLtContext *cublasLtHandle_t;
struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
};
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t distance, batch_offset;
    int32_t batch;
};
struct cublasLtMatmulPreferenceOpaque_t {
    size_t workspace_bytes;
    uint32_t schemes, alignments[4];
};
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;

/* An algorithm: the sizes that it is for, and the alignments that it relies on. */
struct cublasLtMatmulAlgo_t {
    uint64_t rows, columns, terms;
    uint32_t alignments[4];
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
};

inline const char *cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS: return "the operation completed successfully";
        case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
        case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value was passed";
        case CUBLAS_STATUS_EXECUTION_FAILED: return "the program failed to execute";
        case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality is not supported";
    }
    return "unknown status";
}

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    if (simulator::check_no_capture("cublasLtCreate") != cudaSuccess) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

namespace simulator {
/* Refuses a call; its error is none of CUDA. */
inline cublasStatus_t refuse(const char *must) {
    snprintf(message, sizeof message, "cuBLASLt: %s", must);
    return CUBLAS_STATUS_INVALID_VALUE;
}

template <class T> cublasStatus_t set(T *field, const void *value, size_t size) {
    if (size != sizeof *field) {
        return refuse("an attribute must have its own size");
    }
    memcpy(field, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
}  // namespace simulator

inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t product, cublasComputeType_t compute,
                                             cudaDataType_t scale) {
    if ((compute == CUBLAS_COMPUTE_64F) != (scale == CUDA_R_64F)) {
        return simulator::refuse("numbers that scale a product must have its precision");
    }
    *product = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr};
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                                     cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                     size_t size) {
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA: return simulator::set(&product->a, value, size);
        case CUBLASLT_MATMUL_DESC_TRANSB: return simulator::set(&product->b, value, size);
        case CUBLASLT_MATMUL_DESC_EPILOGUE: return simulator::set(&product->epilogue, value, size);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return simulator::set(&product->bias, value, size);
    }
    return simulator::refuse("the simulator has only attributes for transposes and epilogues");
}

inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type, uint64_t rows,
                                               uint64_t columns, int64_t distance) {
    if (rows == 0 || columns == 0 || distance < static_cast<int64_t>(rows)) {
        return simulator::refuse("a matrix must have elements, and its columns must not overlap");
    }
    *layout = {type, rows, columns, distance, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                       size_t size) {
    return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? simulator::set(&layout->batch, value, size)
                                                           : simulator::set(&layout->batch_offset, value, size);
}

/* By default, arrays are promised to begin at multiples of 256 bytes. */
inline cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
    *preference = {0, 7, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t attribute,
                                                           const void *value, size_t size) {
    switch (attribute) {
        case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return simulator::set(&preference->workspace_bytes, value, size);
        case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return simulator::set(&preference->schemes, value, size);
        default: return simulator::set(&preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                                       value, size);
    }
}

namespace simulator {
/* A matrix of each product of a batch, or its transpose. */
struct Matrix {
    const void *data;
    cublasLtMatrixLayoutOpaque_t layout;
    bool transposed;

    uint64_t rows() const { return transposed ? layout.columns : layout.rows; }
    uint64_t columns() const { return transposed ? layout.rows : layout.columns; }

    int64_t place(int32_t matrix, uint64_t row, uint64_t column) const {
        const uint64_t near = transposed ? column : row, far = transposed ? row : column;
        return matrix * layout.batch_offset + static_cast<int64_t>(near) + static_cast<int64_t>(far) * layout.distance;
    }
};

inline double load(const void *data, cudaDataType_t type, int64_t place) {
    switch (type) {
        case CUDA_R_32F: return static_cast<const float *>(data)[place];
        case CUDA_R_64F: return static_cast<const double *>(data)[place];
        case CUDA_R_16F: return __half2float(static_cast<const __half *>(data)[place]);
        case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[place]);
    }
    return NAN;
}

inline void store(void *data, cudaDataType_t type, int64_t place, double x) {
    switch (type) {
        case CUDA_R_32F: static_cast<float *>(data)[place] = static_cast<float>(x); break;
        case CUDA_R_64F: static_cast<double *>(data)[place] = x; break;
        case CUDA_R_16F: static_cast<__half *>(data)[place] = __float2half_rn(static_cast<float>(x)); break;
        case CUDA_R_16BF:
            static_cast<__nv_bfloat16 *>(data)[place] = __float2bfloat16_rn(static_cast<float>(x));
            break;
    }
}

/* Rounds as the precision of a product asks: to 11 bits for TF32. */
inline double rounded_factor(double x, cublasComputeType_t compute) {
    if (compute != CUBLAS_COMPUTE_32F_FAST_TF32) {
        return x;
    }
    return __uint_as_float((__float_as_uint(static_cast<float>(x)) + 0x1000u) & 0xffffe000u);
}

/* d = epilogue(a . b + beta . c); d may be c. */
struct MatrixProduct {
    Matrix a, b, c;
    void *results;
    cublasLtMatrixLayoutOpaque_t layout;
    cublasLtMatmulDescOpaque_t product;
    double beta;

    double element(int32_t matrix, uint64_t row, uint64_t column) const {
        double sum = beta == 0 ? 0 : beta * load(c.data, c.layout.type, c.place(matrix, row, column));
        for (uint64_t term = 0; term < a.columns(); term++) {
            sum += rounded_factor(load(a.data, a.layout.type, a.place(matrix, row, term)), product.compute) *
                   rounded_factor(load(b.data, b.layout.type, b.place(matrix, term, column)), product.compute);
        }
        if ((product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
            sum += load(product.bias, layout.type, static_cast<int64_t>(row));
        }
        return (product.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && sum < 0 ? 0 : sum;
    }

    void compute() const {
        const Matrix d = {results, layout, false};
        for (int32_t matrix = 0; matrix < layout.batch; matrix++) {
            for (uint64_t column = 0; column < layout.columns; column++) {
                for (uint64_t row = 0; row < layout.rows; row++) {
                    store(results, layout.type, d.place(matrix, row, column), element(matrix, row, column));
                }
            }
        }
    }
};
}  // namespace simulator

inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t preference, int wanted,
                                                     cublasLtMatmulHeuristicResult_t *found, int *count) {
    const simulator::Matrix left = {nullptr, *a, product->a == CUBLAS_OP_T};
    const simulator::Matrix right = {nullptr, *b, product->b == CUBLAS_OP_T};
    *count = 0;
    if (!handle || wanted < 1 || left.rows() != d->rows || right.columns() != d->columns ||
        left.columns() != right.rows() || c->rows != d->rows || c->columns != d->columns) {
        return simulator::refuse("the sizes of factors and results must fit");
    }
    const cublasLtMatrixLayout_t others[] = {a, b, c};
    for (const cublasLtMatrixLayout_t each : others) {
        if (each->batch != d->batch || each->type != d->type) {
            return simulator::refuse("factors and results must be as many, and of one type");
        }
    }
    if ((d->type == CUDA_R_64F) != (product->compute == CUBLAS_COMPUTE_64F)) {
        return simulator::refuse("a product must have the precision of its results");
    }
    if ((product->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 && product->bias == nullptr) {
        return simulator::refuse("an epilogue with a bias must have one");
    }
    if ((preference->schemes & ~2u) != 0) {
        return simulator::refuse("algorithms that add atomically, or in 16 bits, must be excluded");
    }
    *found = {{d->rows, d->columns, left.columns(), {}}, 0};
    memcpy(found->algo.alignments, preference->alignments, sizeof preference->alignments);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                                     cudaStream_t stream) {
    const double one = simulator::load(alpha, product->scale, 0), scale = simulator::load(beta, product->scale, 0);
    if (!handle || one != 1 || !workspace || !workspace_bytes) {
        return simulator::refuse("a product must have a workspace, and the simulator has none that is scaled");
    }
    if (c == d && (c_layout->distance != d_layout->distance || c_layout->batch_offset != d_layout->batch_offset)) {
        return simulator::refuse("a product that is added to an array must have its layout");
    }
    const simulator::Matrix left = {a, *a_layout, product->a == CUBLAS_OP_T};
    const simulator::Matrix right = {b, *b_layout, product->b == CUBLAS_OP_T};
    if (algorithm->rows != d_layout->rows || algorithm->columns != d_layout->columns ||
        algorithm->terms != left.columns()) {
        return simulator::refuse("an algorithm must be one for these sizes");
    }
    const void *const bias = (product->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 ? product->bias : d;
    const void *const arrays[] = {a, b, c, d, bias};
    for (int i = 0; i < 5; i++) {
        if (!arrays[i] || reinterpret_cast<uintptr_t>(arrays[i]) % algorithm->alignments[i < 3 ? i : 3] != 0) {
            return simulator::refuse("arrays must be aligned as the algorithm relies on");
        }
    }
    if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
        return simulator::refuse("the workspace must begin at a multiple of 16 bytes");
    }
    const simulator::MatrixProduct whole = {left, right, {c, *c_layout, false}, d, *d_layout, *product, scale};
    const cudaError_t error = simulator::submit(stream, [whole] {
        whole.compute();
        return cudaSuccess;
    }, "cublasLtMatmul");
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
