// Operands of products in shared memory: descriptors, and where elements of a tile are.
#pragma once
#include "bulk_copies.h"

namespace simulator {
/* A matrix of 64, or some columns, by the terms of one instruction, which a descriptor places in shared memory.
 *
 * K-major, a row has the terms side by side, and 8 rows are a stride apart from the next 8. MN-major, as many rows or
 * columns as a swizzle spans are side by side, a leading offset from the next, and 8 terms are a stride from the next 8.
 */
struct Operand {
    uint64_t descriptor;
    bool is_mn_major;
    unsigned rows, terms, element_bytes;  // rows of A, columns of B

    SIMULATOR_UNSEEN unsigned start() const { return field(0); }
    SIMULATOR_UNSEEN unsigned swizzle() const {  // as tensor maps number them: 0 for none, 3 for 128 bytes
        const unsigned mode = static_cast<unsigned>(descriptor >> 62);
        return mode ? 4 - mode : 0;
    }

    /* Calls a function with the number of each chunk, and the row and the term of its first element. */
    template <class F> SIMULATOR_UNSEEN void each_chunk(F function) const {
        const unsigned packed = CHUNK_BYTES / element_bytes;
        for (unsigned row = 0; row < rows; row += is_mn_major ? packed : 1) {
            for (unsigned term = 0; term < terms; term += is_mn_major ? 1 : packed) {
                function(swizzled(start() + offset(row, term), swizzle()) / CHUNK_BYTES, row, term);
            }
        }
    }

    SIMULATOR_UNSEEN void begin_reads() const {
        use_proxy();
        const unsigned rows_before = start() & ((128u << swizzle()) - 128);
        if (descriptor >> 49 & 7 || (swizzle() && rows_before)) {
            fail(cudaErrorMisalignedAddress, "a product reads a swizzled tile at byte %u of shared memory: its first row "
                 "must be at a multiple of %u", start(), 128u << swizzle());
        }
        const unsigned end = static_cast<unsigned>(dynamic_bytes / CHUNK_BYTES);
        each_chunk([this, end](unsigned chunk, unsigned, unsigned) SIMULATOR_UNSEEN {
            if (chunk >= end) {
                fail(cudaErrorIllegalAddress, "a product reads byte %u of shared memory, which has %zu",
                     chunk * CHUNK_BYTES, dynamic_bytes);
            }
            begin_read("a product", chunk);
            if (proxy.swizzles[chunk] != UNKNOWN && proxy.swizzles[chunk] != swizzle()) {
                fail(cudaErrorLaunchFailure, "a product reads byte %u of shared memory with a swizzle of %u bytes, while a "
                     "copy wrote it with one of %u", chunk * CHUNK_BYTES, span(swizzle()), span(proxy.swizzles[chunk]));
            }
            if (proxy.view[chunk] == UNWRITTEN) {
                fail(cudaErrorLaunchFailure, "a product reads byte %u of shared memory, which nobody has written",
                     chunk * CHUNK_BYTES);
            }
        });
    }

    /* Reads all elements, with these distances between rows and terms. */
    template <class T> SIMULATOR_UNSEEN void end_reads(float (*number)(unsigned, int), T *to, int row_step, int term_step) const {
        each_chunk([=](unsigned chunk, unsigned row, unsigned term) SIMULATOR_UNSEEN {
            const Chunk value = end_read("a product", chunk);
            unsigned words[4];
            __builtin_memcpy(words, &value, sizeof words);
            T *const first = to + static_cast<int>(row) * row_step + static_cast<int>(term) * term_step;
            for (unsigned i = 0; i < CHUNK_BYTES / element_bytes; i++) {
                const unsigned in_word = 4 / element_bytes;
                first[static_cast<int>(i) * (is_mn_major ? row_step : term_step)] =
                    number(words[i / in_word], static_cast<int>(i % in_word));
            }
        });
    }

private:
    SIMULATOR_UNSEEN static unsigned span(unsigned swizzle) { return swizzle ? 16u << swizzle : 0; }
    SIMULATOR_UNSEEN unsigned field(unsigned bit) const { return static_cast<unsigned>(descriptor >> bit & 0x3fff) << 4; }

    SIMULATOR_UNSEEN unsigned offset(unsigned row, unsigned term) const {
        const unsigned leading = field(16), stride = field(32), wide = 16u << swizzle();
        if (!is_mn_major) {
            const unsigned byte = term * element_bytes;
            return row / 8 * stride + row % 8 * wide + (swizzle() ? byte : byte / 16 * leading);
        }
        const unsigned byte = row * element_bytes, major = swizzle() ? leading : stride;
        return byte % wide + byte / wide * major + term % 8 * wide + term / 8 * (swizzle() ? stride : leading);
    }
};
}  // namespace simulator
