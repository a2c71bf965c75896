// A warp: 32 lanes that exchange values. The last lane to arrive computes the results of all.
#pragma once
#include "block.h"

namespace simulator {
/* Completes the exchange of a mask if all its lanes have arrived that have not finished. */
SIMULATOR_UNSEEN inline bool complete_exchange(unsigned warp, unsigned mask) {
    Thread *const lanes = &block.threads[warp * 32];
    const unsigned participants = mask & ~block.exited[warp];
    if (participants & ~block.waiting[warp]) {
        return false;
    }
    const Thread &first = lanes[__builtin_ctz(participants)];
    for (unsigned lane = 0; lane < 32; lane++) {
        const Thread &thread = lanes[lane];
        if (participants >> lane & 1 && thread.mask != mask) {
            return false;
        }
        if (participants >> lane & 1 && thread.site != first.site) {
            fail(cudaErrorLaunchFailure,
                 "lane %u of the warp is in line %u, lane %u in line %u: all lanes of a mask must execute the same "
                 "exchange", first.lane, first.site.line, lane, thread.site.line);
        }
    }
    first.resolve(lanes, participants);
    for (unsigned lane = 0; lane < 32; lane++) {
        if (participants >> lane & 1) {
            lanes[lane].state = State::ready;
        }
    }
    block.waiting[warp] &= ~participants;
    return true;
}

/* Completes those exchanges that waited for a lane that has finished. */
SIMULATOR_UNSEEN inline void complete_exchanges_without(unsigned warp, unsigned lane) {
    for (unsigned i = 0; i < 32 && warp * 32 + i < block.size; i++) {
        const Thread &other = block.threads[warp * 32 + i];
        if (other.state == State::in_exchange && other.mask >> lane & 1) {
            complete_exchange(warp, other.mask);
        }
    }
}

/* Waits for the lanes of the mask, after which `received` has the result. */
SIMULATOR_UNSEEN inline void exchange(unsigned mask, Resolve resolve, Site site) {
    Thread *const thread = current;
    if (!(mask >> thread->lane & 1)) {
        fail(cudaErrorLaunchFailure,
             "lane %u executes an exchange in line %u whose mask is 0x%08x: a lane must be in its own mask",
             thread->lane, site.line, mask);
    }
    thread->mask = mask;
    thread->resolve = resolve;
    thread->site = site;
    thread->state = State::in_exchange;
    block.waiting[thread->number / 32] |= 1u << thread->lane;
    if (!complete_exchange(thread->number / 32, mask)) {
        suspend(thread->fiber, false);
    }
}

SIMULATOR_UNSEEN inline void resolve_shuffle(Thread *lanes, unsigned participants) {
    for (unsigned lane = 0; lane < 32; lane++) {
        Thread &to = lanes[lane];
        if (!(participants >> lane & 1)) {
            continue;
        }
        if (!(participants >> to.source & 1)) {
            fail(cudaErrorLaunchFailure, "lane %u reads lane %u by the shuffle in line %u, which %s", lane, to.source,
                 to.site.line, to.mask >> to.source & 1 ? "has finished or does not exist" : "is not in the mask");
        }
        const Thread &from = lanes[to.source];
        for (int i = 0; i < 4; i++) {
            to.received[i] = from.given[i];
        }
    }
}

SIMULATOR_UNSEEN inline void resolve_ballot(Thread *lanes, unsigned participants) {
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        votes |= (participants >> lane & 1) && lanes[lane].given[0] ? 1u << lane : 0;
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (participants >> lane & 1) {
            lanes[lane].received[0] = votes;
            lanes[lane].received[1] = participants;
        }
    }
}

/* Orders accesses to memory: the last lane learns what all did, and all learn it from there. */
SIMULATOR_UNSEEN inline void resolve_barrier(Thread *lanes, unsigned participants) {
    const unsigned token = block.warp_barriers++ % (sizeof tokens.warp_barriers / sizeof *tokens.warp_barriers);
    for (unsigned lane = 0; lane < 32; lane++) {
        if (participants >> lane & 1) {
            acquire(tokens.lanes[lanes[lane].number]);
            lanes[lane].received[0] = token;
        }
    }
    release(tokens.warp_barriers[token]);
}

enum class Shuffle { index, up, down, exclusive_or };

/* Computes the lane that a shuffle reads, among the `width` that its segment has: its own if there is none. */
inline unsigned shuffled(Shuffle shuffle, unsigned lane, int argument, int width) {
    const int first = static_cast<int>(lane) & ~(width - 1), at = static_cast<int>(lane) - first;
    const int source = shuffle == Shuffle::index  ? argument & (width - 1)
                       : shuffle == Shuffle::up   ? at - argument
                       : shuffle == Shuffle::down ? at + argument
                                                  : at ^ argument;
    return static_cast<unsigned>(first + (source >= 0 && source < width ? source : at));
}

template <class T>
SIMULATOR_UNSEEN T shuffle(Shuffle kind, Site site, unsigned mask, T value, int argument, int width = 32) {
    static_assert(sizeof(T) <= 16, "a shuffle exchanges at most 16 bytes");
    Thread *const thread = current;
    __builtin_memcpy(thread->given, &value, sizeof value);
    thread->source = shuffled(kind, thread->lane, argument, width);
    exchange(mask, resolve_shuffle, site);
    T result;
    __builtin_memcpy(&result, thread->received, sizeof result);
    return result;
}

/* Returns the lanes of the mask whose predicate holds, and those that took part. */
SIMULATOR_UNSEEN inline uint64_t ballot(Site site, unsigned mask, bool predicate) {
    Thread *const thread = current;
    thread->given[0] = predicate;
    exchange(mask, resolve_ballot, site);
    return thread->received[0] | static_cast<uint64_t>(thread->received[1]) << 32;
}

/* Waits for the lanes of the mask; unlike other exchanges, it also orders their accesses to memory. */
struct WarpBarrier {
    Site site;

    SIMULATOR_UNSEEN void operator()(unsigned mask = 0xffffffffu) const {
        Thread *const thread = current;
        release(tokens.lanes[thread->number]);
        exchange(mask, resolve_barrier, site);
        acquire(tokens.warp_barriers[thread->received[0]]);
    }
};
}  // namespace simulator

#define SIMULATOR_SHUFFLE(kind, ...) ::simulator::shuffle(::simulator::Shuffle::kind, SIMULATOR_SITE, __VA_ARGS__)
#define __shfl_sync(...) SIMULATOR_SHUFFLE(index, __VA_ARGS__)
#define __shfl_up_sync(...) SIMULATOR_SHUFFLE(up, __VA_ARGS__)
#define __shfl_down_sync(...) SIMULATOR_SHUFFLE(down, __VA_ARGS__)
#define __shfl_xor_sync(...) SIMULATOR_SHUFFLE(exclusive_or, __VA_ARGS__)
#define SIMULATOR_BALLOT(mask, predicate) ::simulator::ballot(SIMULATOR_SITE, mask, (predicate) != 0)
#define __ballot_sync(mask, predicate) (static_cast<unsigned>(SIMULATOR_BALLOT(mask, predicate)))
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, (predicate) == 0) == 0)
#define __syncwarp(...) (::simulator::WarpBarrier{SIMULATOR_SITE}(__VA_ARGS__))
