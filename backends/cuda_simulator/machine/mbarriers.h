// Barriers in shared memory (mbarrier): phases that complete when all arrivals and all announced bytes have come.
#pragma once
#include "asynchronous.h"
#include "waiting.h"

namespace simulator {
struct Mbarrier {
    const uint64_t *place;
    unsigned count, pending;  // arrivals of a phase, and those that are missing
    int bytes;                // that are missing
    unsigned phase;           // the one that has not completed
    bool is_visible;          // to copies
    char token[8];
};

constexpr unsigned MAX_MBARRIERS = 256;
constexpr int MAX_MBARRIER_BYTES = (1 << 20) - 1;
constexpr unsigned MAX_MBARRIER_ARRIVALS = (1 << 20) - 1;
constexpr uint64_t INITIALISED = 0x72656972726162;  // what such a place contains

SIMULATOR_STATE Mbarrier mbarriers[MAX_MBARRIERS];
SIMULATOR_STATE unsigned mbarrier_count;

SIMULATOR_UNSEEN inline void begin_mbarriers() { mbarrier_count = 0; }

SIMULATOR_UNSEEN inline Mbarrier *find_mbarrier(const uint64_t *place) {
    for (unsigned i = 0; i < mbarrier_count; i++) {
        if (mbarriers[i].place == place) {
            return &mbarriers[i];
        }
    }
    return nullptr;
}

/* Names a barrier by its place in dynamic shared memory. */
SIMULATOR_UNSEEN inline long long mbarrier_name(const Mbarrier *barrier) {
    return reinterpret_cast<const char *>(barrier->place) - dynamic_shared;
}

SIMULATOR_UNSEEN inline Mbarrier *initialised(const uint64_t *place) {
    Mbarrier *const barrier = find_mbarrier(place);
    if (!barrier) {
        fail(cudaErrorLaunchFailure, "there is no barrier at %p: it must be initialised, and threads must meet, before "
             "its use", static_cast<const void *>(place));
    }
    if (*place != INITIALISED) {
        fail(cudaErrorLaunchFailure, "the barrier at byte %lld of shared memory was overwritten", mbarrier_name(barrier));
    }
    return barrier;
}

/* mbarrier.init */
SIMULATOR_UNSEEN inline void mbarrier_init(uint64_t *place, unsigned count) {
    if (reinterpret_cast<uintptr_t>(place) % 8) {
        fail(cudaErrorMisalignedAddress, "a barrier must begin at a multiple of 8 bytes, not at %p",
             static_cast<void *>(place));
    }
    if (count < 1 || count > MAX_MBARRIER_ARRIVALS) {
        fail(cudaErrorLaunchFailure, "a barrier must have 1 to %u arrivals, not %u", MAX_MBARRIER_ARRIVALS, count);
    }
    if (find_mbarrier(place) || mbarrier_count == MAX_MBARRIERS) {
        fail(cudaErrorLaunchFailure, find_mbarrier(place) ? "the barrier at %p is initialised twice"
             : "the simulator has no room for the barrier at %p", static_cast<void *>(place));
    }
    mbarriers[mbarrier_count++] = {place, count, count, 0, 0, false, {}};
    *place = INITIALISED;
}

/* fence.mbarrier_init: shows copies the barriers. */
SIMULATOR_UNSEEN inline void fence_mbarrier_init() {
    for (unsigned i = 0; i < mbarrier_count; i++) {
        mbarriers[i].is_visible = true;
    }
}

SIMULATOR_UNSEEN inline void complete_phase(Mbarrier *barrier) {
    if (barrier->pending == 0 && barrier->bytes == 0) {
        barrier->phase++;
        barrier->pending = barrier->count;
    }
}

/* mbarrier.arrive */
SIMULATOR_UNSEEN inline void mbarrier_arrive(uint64_t *place) {
    Mbarrier *const barrier = initialised(place);
    if (barrier->pending == 0) {
        fail(cudaErrorLaunchFailure, "the barrier at byte %lld of shared memory expects %u arrivals in phase %u, and gets "
             "more", mbarrier_name(barrier), barrier->count, barrier->phase);
    }
    release(barrier->token);
    barrier->pending--;
    complete_phase(barrier);
}

/* mbarrier.arrive.expect_tx */
SIMULATOR_UNSEEN inline void mbarrier_arrive_expect_tx(uint64_t *place, unsigned bytes) {
    Mbarrier *const barrier = initialised(place);
    if (bytes > MAX_MBARRIER_BYTES || barrier->bytes + static_cast<int>(bytes) > MAX_MBARRIER_BYTES) {
        fail(cudaErrorLaunchFailure, "the barrier at byte %lld of shared memory cannot expect %u bytes: there may be %d",
             mbarrier_name(barrier), bytes, MAX_MBARRIER_BYTES);
    }
    barrier->bytes += static_cast<int>(bytes);
    mbarrier_arrive(place);
}

/* Counts bytes that a copy has brought, which began in some phase. */
SIMULATOR_UNSEEN inline void complete_bytes(Mbarrier *barrier, int bytes, unsigned phase) {
    if (barrier->phase != phase) {
        fail(cudaErrorLaunchFailure, "phase %u of the barrier at byte %lld of shared memory completed before its copies: "
             "fewer bytes were announced than they bring", phase, mbarrier_name(barrier));
    }
    barrier->bytes -= bytes;
    complete_phase(barrier);
}

SIMULATOR_UNSEEN inline bool has_completed(const Thread *thread) {
    return (static_cast<const Mbarrier *>(thread->object)->phase & 1) != thread->value;
}

SIMULATOR_UNSEEN inline void describe_phase(const Thread *thread, char *text, size_t size) {
    const Mbarrier *const barrier = static_cast<const Mbarrier *>(thread->object);
    snprintf(text, size, "for parity %d of the barrier at byte %lld of shared memory (phase %u lacks %u arrivals and %d "
             "bytes)", static_cast<int>(thread->value), mbarrier_name(barrier), barrier->phase, barrier->pending,
             barrier->bytes);
}

/* mbarrier.try_wait.parity, until it succeeds. */
SIMULATOR_UNSEEN inline void mbarrier_wait(uint64_t *place, unsigned parity) {
    Mbarrier *const barrier = initialised(place);
    if (parity > 1) {
        fail(cudaErrorLaunchFailure, "a parity must be 0 or 1, not %u", parity);
    }
    wait_until(has_completed, describe_phase, barrier, parity);
    acquire(barrier->token);
}
}  // namespace simulator
