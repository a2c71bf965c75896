// Products of small matrices by a warp: the meaning of PTX's mma.sync and ldmatrix, in their layouts of fragments.
#pragma once
#include "arithmetic.h"
#include "copies.h"
#include "warp.h"

namespace simulator {
// A format says how many columns the left matrix has, and reads one number of a register.
struct BFloat16 {
    static constexpr int COLUMNS = 16;
    static float number(unsigned bits, int i) { return bits_of<float>(i ? bits & 0xffff0000u : bits << 16); }
};

struct Float16 {
    static constexpr int COLUMNS = 16;
    static float number(unsigned bits, int i) { return half_to_float(static_cast<uint16_t>(bits >> 16 * i)); }
};

struct TensorFloat32 {
    static constexpr int COLUMNS = 8;
    static float number(unsigned bits, int) { return bits_of<float>(bits & ~0x1fffu); }  // a device reads 19 bits
};

/* Fails unless all lanes take part, even if it is one that has finished by which the others are complete. */
SIMULATOR_UNSEEN inline void need_all_lanes(const char *what, const Thread *lanes, unsigned participants) {
    if (participants != 0xffffffffu) {
        fail(cudaErrorLaunchFailure, "%s in line %u needs all 32 lanes of the warp; those in 0x%08x take part", what,
             lanes[__builtin_ctz(participants)].site.line, participants);
    }
}

/* Adds a matrix of 16 x COLUMNS times one of COLUMNS x 8 to one of 16 x 8; rounds once. */
template <class Format> SIMULATOR_UNSEEN void resolve_product(Thread *lanes, unsigned participants) {
    constexpr int COLUMNS = Format::COLUMNS, PACKED = COLUMNS / 8;  // numbers in a register
    need_all_lanes("mma", lanes, participants);
    float a[16][COLUMNS], b[COLUMNS][8];
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < PACKED; i++) {
            const int column = lane % 4 * PACKED + i;
            for (int r = 0; r < 4; r++) {
                a[lane / 4 + r % 2 * 8][column + r / 2 * COLUMNS / 2] = Format::number(lanes[lane].given[r], i);
            }
            for (int r = 0; r < 2; r++) {
                b[column + r * COLUMNS / 2][lane / 4] = Format::number(lanes[lane].given[4 + r], i);
            }
        }
    }
    for (int lane = 0; lane < 32; lane++) {
        for (int r = 0; r < 4; r++) {
            double sum = bits_of<float>(lanes[lane].given[6 + r]);
            for (int k = 0; k < COLUMNS; k++) {
                sum += static_cast<double>(a[lane / 4 + r / 2 * 8][k]) * b[k][lane % 4 * 2 + r % 2];
            }
            lanes[lane].received[r] = bits_of<unsigned>(static_cast<float>(sum));
        }
    }
}

template <class Format>
SIMULATOR_UNSEEN void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], unsigned line) {
    Thread *const thread = current;
    for (int i = 0; i < 4; i++) {
        thread->given[i] = a[i];
        thread->given[6 + i] = bits_of<unsigned>(d[i]);
    }
    thread->given[4] = b[0];
    thread->given[5] = b[1];
    exchange(0xffffffffu, resolve_product<Format>, Site{line, Format::COLUMNS});
    for (int i = 0; i < 4; i++) {
        d[i] = bits_of<float>(thread->received[i]);
    }
}

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 with d as accumulator. */
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              unsigned line = __builtin_LINE()) {
    multiply_add<BFloat16>(d, a, b, line);
}

/* mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 with d as accumulator. */
inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             unsigned line = __builtin_LINE()) {
    multiply_add<Float16>(d, a, b, line);
}

/* mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 with d as accumulator. */
inline void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             unsigned line = __builtin_LINE()) {
    multiply_add<TensorFloat32>(d, a, b, line);
}

/* Distributes rows of 16 bytes: of matrix m, which lanes 8m to 8m + 7 give, row r to lanes 4r to 4r + 3. */
SIMULATOR_UNSEEN inline void resolve_matrices(Thread *lanes, unsigned participants) {
    need_all_lanes("ldmatrix", lanes, participants);
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned m = 0; m < 4; m++) {
            lanes[lane].received[m] = lanes[8 * m + lane / 4].given[lane % 4];
        }
    }
}

/* The same with matrices of 8 x 8 elements of 16 bits transposed. */
SIMULATOR_UNSEEN inline void resolve_transposed_matrices(Thread *lanes, unsigned participants) {
    resolve_matrices(lanes, participants);
    for (unsigned lane = 0; lane < 32; lane++) {
        for (unsigned m = 0; m < 4; m++) {
            const unsigned column = lane / 4, row = 8 * m + lane % 4 * 2, shift = column % 2 * 16;
            const unsigned low = lanes[row].given[column / 2] >> shift & 0xffffu;
            lanes[lane].received[m] = low | lanes[row + 1].given[column / 2] >> shift << 16;
        }
    }
}

SIMULATOR_UNSEEN inline void exchange_row(unsigned (&d)[4], const unsigned (&words)[4], Resolve resolve, Site site) {
    Thread *const thread = current;
    for (int i = 0; i < 4; i++) {
        thread->given[i] = words[i];
    }
    exchange(0xffffffffu, resolve, site);
    for (int i = 0; i < 4; i++) {
        d[i] = thread->received[i];
    }
}

/* ldmatrix.sync.aligned.m8n8.x4.shared.b16, or with .trans: each lane has the address of a row. */
inline void load_matrices(unsigned (&d)[4], const void *row, bool transposed, unsigned line = __builtin_LINE()) {
    check_shared(row, 16, "ldmatrix", line);
    unsigned words[4];
    for (int i = 0; i < 4; i++) {
        __builtin_memcpy(&words[i], static_cast<const char *>(row) + 4 * i, 4);
    }
    exchange_row(d, words, transposed ? resolve_transposed_matrices : resolve_matrices, Site{line, transposed});
}

/* cvt.rna.tf32.f32: rounds to nearest, ties away from zero. */
inline unsigned tf32(float x) {
    const unsigned bits = bits_of<unsigned>(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}
}  // namespace simulator
