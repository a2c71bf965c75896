// Copies between global and shared memory by TMA: loads that a barrier counts, and stores in groups.
#pragma once
#include "mbarriers.h"
#include "tensor_maps.h"

namespace simulator {
/* Permutes the chunks of rows as a swizzle does: by the bits of their address. */
SIMULATOR_UNSEEN inline unsigned swizzled(unsigned byte, unsigned swizzle) {
    return byte ^ (byte >> 7 & ((1u << swizzle) - 1)) << 4;
}

/* A box of an array, and its place in shared memory. */
struct Box {
    TensorMap map;
    int at[MAX_DIMENSIONS], offsets[2];
    unsigned chunk;

    SIMULATOR_UNSEEN unsigned row_bytes() const { return map.box[0] * map.element_bytes; }
    SIMULATOR_UNSEEN unsigned rows() const { return map.box[1] * map.box[2] * map.box[3] * map.box[4]; }
    SIMULATOR_UNSEEN unsigned bytes() const { return rows() * row_bytes(); }
    SIMULATOR_UNSEEN size_t alignment() const { return map.swizzle ? size_t(128) << map.swizzle : 128; }

    /* Calls a function with the number of each chunk, a row of the array, or null, and the first element in it. */
    template <class F> SIMULATOR_UNSEEN void each_chunk(F function) const {
        for (unsigned i = 0; i < rows(); i++) {
            char *const row = find_row(i);
            for (unsigned byte = 0; byte < row_bytes(); byte += CHUNK_BYTES) {
                const unsigned to = swizzled(chunk * CHUNK_BYTES + i * row_bytes() + byte, map.swizzle);
                function(to / CHUNK_BYTES, row, byte / map.element_bytes);
            }
        }
    }

    /* Returns the address of an element in a row, or null if it is out of range. */
    SIMULATOR_UNSEEN char *element(char *row, unsigned i) const {
        const int64_t x = int64_t(at[0]) + int64_t(i) * map.steps[0];
        return row && x >= 0 && x < static_cast<int64_t>(map.sizes[0]) ? row + x * map.element_bytes : nullptr;
    }

private:
    /* Finds the pixel that is some after the first one: of its row, the next row, the next image. */
    SIMULATOR_UNSEEN char *find_pixel(int64_t i) const {
        char *row = map.data;
        for (unsigned d = 1; d < 3; d++) {
            const int64_t count = count_pixels(map, d - 1), number = i + (at[d] - map.lower[d - 1]) / map.steps[d];
            const int64_t x = map.lower[d - 1] + number % count * map.steps[d] + offsets[d - 1];
            if (x < 0 || x >= static_cast<int64_t>(map.sizes[d])) {
                row = nullptr;
            }
            row += row ? x * static_cast<int64_t>(map.strides[d]) : 0;
            i = number / count;
        }
        const int64_t image = at[3] + i;
        const bool exists = row && image >= 0 && image < static_cast<int64_t>(map.sizes[3]);
        return exists ? row + image * static_cast<int64_t>(map.strides[3]) : nullptr;
    }

    SIMULATOR_UNSEEN char *find_row(unsigned i) const {
        if (map.of_pixels) {
            return find_pixel(i);
        }
        char *row = map.data;
        for (unsigned d = 1; d < map.dimensions; d++) {
            const int64_t x = int64_t(at[d]) + int64_t(i % map.box[d]) * map.steps[d];
            if (x < 0 || x >= static_cast<int64_t>(map.sizes[d])) {
                return nullptr;
            }
            row += x * static_cast<int64_t>(map.strides[d]);
            i /= map.box[d];
        }
        return row;
    }
};

/* Rounds a number to 11 bits, to nearest, ties to even; infinity and NaN stay. */
SIMULATOR_UNSEEN inline unsigned nearest_tf32(unsigned bits) {
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
}

/* cp.async.bulk(.tensor).shared.global.mbarrier::complete_tx::bytes */
struct Load : Operation {
    Box box;
    Mbarrier *barrier;
    unsigned phase;

    SIMULATOR_UNSEEN void complete() override {
        permit(&stored_chunk(box.chunk), box.bytes());
        box.each_chunk([this](unsigned chunk, char *row, unsigned first) SIMULATOR_UNSEEN {
            Chunk value = {};
            char *const to = reinterpret_cast<char *>(&value);
            for (unsigned byte = 0; byte < CHUNK_BYTES; byte++) {
                const char *const from = box.element(row, first + byte / box.map.element_bytes);
                to[byte] = from ? from[byte % box.map.element_bytes] : 0;
            }
            for (unsigned word = 0; box.map.rounds && word < CHUNK_BYTES / 4; word++) {
                unsigned bits;
                __builtin_memcpy(&bits, to + 4 * word, 4);
                bits = nearest_tf32(bits);
                __builtin_memcpy(to + 4 * word, &bits, 4);
            }
            end_write(chunk, value, box.map.swizzle);
        });
        complete_bytes(barrier, static_cast<int>(box.bytes()), phase);
    }
};

SIMULATOR_UNSEEN inline void begin_load(Box box, void *to, uint64_t *place, size_t alignment) {
    Mbarrier *const barrier = initialised(place);
    if (!barrier->is_visible) {
        fail(cudaErrorLaunchFailure, "a copy arrives at the barrier at byte %lld of shared memory: a fence.mbarrier_init "
             "must follow its initialisation", mbarrier_name(barrier));
    }
    box.chunk = first_chunk("a copy", to, box.bytes(), alignment);
    box.each_chunk([](unsigned chunk, char *, unsigned) SIMULATOR_UNSEEN { begin_write(chunk); });
    forbid(&stored_chunk(box.chunk), box.bytes());
    Load *const load = new Load();
    load->box = box;
    load->barrier = barrier;
    load->phase = barrier->phase;
    enqueue(load);
}

/* Checks that memory contains a map. */
SIMULATOR_UNSEEN inline TensorMap encoded(const CUtensorMap *from) {
    TensorMap map;
    __builtin_memcpy(&map, from, sizeof map);
    if (map.mark != MAP) {
        fail(cudaErrorLaunchFailure, "there is no encoded tensor map at %p", static_cast<const void *>(from));
    }
    return map;
}

/* Makes a box of a map at these coordinates. */
template <class... Coordinates> SIMULATOR_UNSEEN Box box_of(const CUtensorMap *map, Coordinates... coordinates) {
    const Box box = {encoded(map), {coordinates...}, {}, 0};
    if (box.map.of_pixels) {
        fail(cudaErrorLaunchFailure, "a copy without offsets needs a tensor map of boxes, not of windows");
    }
    if (box.map.dimensions != sizeof...(coordinates)) {
        fail(cudaErrorLaunchFailure, "a copy with %u coordinates needs a tensor map of as many dimensions, not %u",
             static_cast<unsigned>(sizeof...(coordinates)), box.map.dimensions);
    }
    return box;
}

template <class... Coordinates>
SIMULATOR_UNSEEN void load_tile(void *to, const CUtensorMap *map, uint64_t *barrier, Coordinates... coordinates) {
    const Box box = box_of(map, coordinates...);
    begin_load(box, to, barrier, box.alignment());
}

/* cp.async.bulk.tensor.4d.im2col: pixels from one on, each at an offset in its window. */
SIMULATOR_UNSEEN inline void load_window(void *to, const CUtensorMap *map, uint64_t *barrier, int channel, int x, int y, int image,
                                         int offset_x, int offset_y) {
    const Box box = {encoded(map), {channel, x, y, image}, {offset_x, offset_y}, 0};
    if (!box.map.of_pixels) {
        fail(cudaErrorLaunchFailure, "a copy with offsets needs a tensor map of windows, not of boxes");
    }
    for (unsigned d = 1; d < 3; d++) {
        const int first = box.at[d] - box.map.lower[d - 1], offset = box.offsets[d - 1];
        if (first < 0 || first % box.map.steps[d] || first / box.map.steps[d] >= count_pixels(box.map, d - 1)) {
            fail(cudaErrorLaunchFailure, "a copy must begin at a pixel that a window begins at: %d is not one, of axis %u, whose "
                 "windows begin at %lld in steps of %u", box.at[d], d, static_cast<long long>(box.map.lower[d - 1]),
                 static_cast<unsigned>(box.map.steps[d]));
        }
        if (offset < 0 || offset > 255) {
            fail(cudaErrorLaunchFailure, "an offset in a window must be from 0 to 255, not %d", offset);
        }
    }
    begin_load(box, to, barrier, box.alignment());
}

/* Loads bytes that lie side by side. */
SIMULATOR_UNSEEN inline void load_bytes(void *to, const void *from, unsigned bytes, uint64_t *barrier) {
    if (reinterpret_cast<uintptr_t>(from) % 16 || bytes % 16 || bytes == 0) {
        fail(cudaErrorMisalignedAddress, "a copy must have a multiple of 16 bytes from a multiple of 16, not %u from %p",
             bytes, from);
    }
    TensorMap map = {MAP, {}, {}, static_cast<char *>(const_cast<void *>(from)), {bytes, 1, 1, 1, 1}, {1},
                     {bytes, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, 1, 1, 0, false, false};
    begin_load({map, {}, {}, 0}, to, barrier, CHUNK_BYTES);
}

SIMULATOR_STATE unsigned store_groups[MAX_THREADS];  // that a thread has committed

/* cp.async.bulk.tensor.global.shared.bulk_group */
struct Store : Operation {
    Box box;

    SIMULATOR_UNSEEN bool may_complete() const override { return group < store_groups[thread]; }

    SIMULATOR_UNSEEN void complete() override {
        box.each_chunk([this](unsigned chunk, char *row, unsigned first) SIMULATOR_UNSEEN {
            const Chunk value = end_read("a store", chunk);
            const char *const from = reinterpret_cast<const char *>(&value);
            for (unsigned byte = 0; byte < CHUNK_BYTES; byte++) {
                char *const to = box.element(row, first + byte / box.map.element_bytes);
                if (to) {
                    to[byte % box.map.element_bytes] = from[byte];
                }
            }
        });
    }
};

template <class... Coordinates>
SIMULATOR_UNSEEN void store_tile(const CUtensorMap *map, const void *from, Coordinates... coordinates) {
    Store *const store = new Store();
    store->box = box_of(map, coordinates...);
    store->box.chunk = first_chunk("a store", from, store->box.bytes(), store->box.alignment());
    store->thread = current->number;
    store->group = store_groups[store->thread];
    store->box.each_chunk([](unsigned chunk, char *, unsigned) SIMULATOR_UNSEEN { begin_read("a store", chunk); });
    enqueue(store);
}

SIMULATOR_UNSEEN inline void begin_stores() {
    for (unsigned &groups : store_groups) {
        groups = 0;
    }
}

/* cp.async.bulk.commit_group */
SIMULATOR_UNSEEN inline void commit_stores() { store_groups[current->number]++; }

/* Tests whether all groups of a thread before one have been read. */
SIMULATOR_UNSEEN inline bool have_been_read(const Thread *thread) {
    for (const Operation *each = proxy.first; each; each = each->next) {
        if (each->thread == thread->number && each->group < thread->value) {
            return false;
        }
    }
    return true;
}

/* cp.async.bulk.wait_group.read */
SIMULATOR_UNSEEN inline void wait_for_stores(unsigned in_flight) {
    const auto describe = [](const Thread *, char *text, size_t size) { snprintf(text, size, "for its stores"); };
    wait_until(have_been_read, describe, nullptr, int64_t(store_groups[current->number]) - in_flight);
}

/* Fails if a thread ends while its stores read shared memory. */
SIMULATOR_UNSEEN inline void check_stores_were_read(Thread *thread) {
    thread->value = INT64_MAX;
    if (proxy.first && !have_been_read(thread)) {
        fail(cudaErrorLaunchFailure, "the thread ends while its stores read shared memory: it must commit and await them");
    }
}

/* Fails if a block ends while copies write its shared memory. */
SIMULATOR_UNSEEN inline void check_loads_have_completed() {
    if (proxy.first && !failed) {
        fail(cudaErrorLaunchFailure, "the block ends while copies to its shared memory are in flight: a thread must wait "
             "for the phases of their barriers");
    }
}
}  // namespace simulator
