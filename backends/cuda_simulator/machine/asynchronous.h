// The asynchronous proxy: operations in flight, and shared memory as they see it.
//
// They see what copies in flight brought, and what threads stored before a fence.proxy.async. An operation reads and
// writes when it completes, as late as possible, and what it reads must not change from its beginning on.
#pragma once
#include "order.h"
#include "shared_memory.h"

namespace simulator {
constexpr unsigned CHUNK_BYTES = 16, CHUNKS = MAX_SHARED_BYTES / CHUNK_BYTES, RUN = 64;

struct alignas(CHUNK_BYTES) Chunk {
    uint64_t words[2];
};

SIMULATOR_UNSEEN inline bool operator==(const Chunk &a, const Chunk &b) {
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

constexpr Chunk UNWRITTEN = {{~uint64_t(0), ~uint64_t(0)}};

constexpr unsigned ANY_THREAD = MAX_THREADS;

struct Operation {
    Operation *next = nullptr;
    unsigned thread = ANY_THREAD, group = 0;  // of a store: who may wait for it

    virtual ~Operation() = default;
    virtual bool may_complete() const { return true; }
    virtual void complete() = 0;
};

struct Proxy {
    alignas(64) Chunk view[CHUNKS];
    unsigned short readers[CHUNKS];   // operations in flight that read a chunk
    bool is_written[CHUNKS];          // by a copy in flight
    unsigned char swizzles[CHUNKS];   // of the copy that brought a chunk, or UNKNOWN
    bool is_used;                     // by this block
    Operation *first, **last;
};

SIMULATOR_STATE Proxy proxy;
constexpr unsigned char UNKNOWN = 255;

/* Returns an address within dynamic shared memory, as descriptors have it. */
SIMULATOR_UNSEEN inline unsigned shared_address(const void *address) {
    return static_cast<unsigned>(static_cast<const char *>(address) - dynamic_shared);
}

SIMULATOR_UNSEEN inline Chunk &stored_chunk(unsigned number) { return reinterpret_cast<Chunk *>(dynamic_shared)[number]; }

SIMULATOR_UNSEEN inline void begin_asynchronous() {
    proxy.is_used = false;
    proxy.first = nullptr;
    proxy.last = &proxy.first;
}

/* Lets a block use the proxy, to which nothing that threads have stored is visible yet. */
SIMULATOR_UNSEEN inline void use_proxy() {
    for (unsigned i = 0; !proxy.is_used && i < (dynamic_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES; i++) {
        proxy.view[i] = UNWRITTEN;
        proxy.readers[i] = 0;
        proxy.is_written[i] = false;
        proxy.swizzles[i] = UNKNOWN;
    }
    proxy.is_used = true;
}

/* Returns the number of the first chunk of a tile, which must be an aligned part of dynamic shared memory. */
SIMULATOR_UNSEEN inline unsigned first_chunk(const char *what, const void *tile, size_t bytes, size_t alignment) {
    use_proxy();
    const size_t offset = static_cast<size_t>(static_cast<const char *>(tile) - dynamic_shared);
    if (offset > dynamic_bytes || bytes > dynamic_bytes - offset) {
        fail(cudaErrorIllegalAddress, "%s of %zu bytes at %p is not within dynamic shared memory", what, bytes, tile);
    }
    if (offset % alignment) {
        fail(cudaErrorMisalignedAddress, "%s begins at byte %zu of shared memory: it must be at a multiple of %zu", what,
             offset, alignment);
    }
    return static_cast<unsigned>(offset / CHUNK_BYTES);
}

/* Begins to read a chunk. */
SIMULATOR_UNSEEN inline void begin_read(const char *what, unsigned chunk) {
    if (proxy.is_written[chunk]) {
        fail(cudaErrorLaunchFailure, "%s reads byte %u of shared memory, which a copy in flight brings: wait for the "
             "phase of its barrier first", what, chunk * CHUNK_BYTES);
    }
    if (!(proxy.view[chunk] == stored_chunk(chunk))) {
        fail(cudaErrorLaunchFailure, "%s reads byte %u of shared memory, which a thread stored: a fence.proxy.async of "
             "that thread, and a barrier, must come between", what, chunk * CHUNK_BYTES);
    }
    proxy.readers[chunk]++;
}

/* Ends to read a chunk, and returns it. */
SIMULATOR_UNSEEN inline Chunk end_read(const char *what, unsigned chunk) {
    if (!(proxy.view[chunk] == stored_chunk(chunk))) {
        fail(cudaErrorLaunchFailure, "a thread stored to byte %u of shared memory while %s in flight read it: wait for "
             "it first", chunk * CHUNK_BYTES, what);
    }
    proxy.readers[chunk]--;
    return proxy.view[chunk];
}

/* Begins to write a chunk, whose contents are undefined from now on. */
SIMULATOR_UNSEEN inline void begin_write(unsigned chunk) {
    if (proxy.readers[chunk]) {
        fail(cudaErrorLaunchFailure, "a copy writes byte %u of shared memory, which products or stores in flight read: "
             "its slot was released before they were waited for", chunk * CHUNK_BYTES);
    }
    if (proxy.is_written[chunk]) {
        fail(cudaErrorLaunchFailure, "two copies in flight write byte %u of shared memory", chunk * CHUNK_BYTES);
    }
    if (!(proxy.view[chunk] == stored_chunk(chunk))) {
        fail(cudaErrorLaunchFailure, "a copy writes byte %u of shared memory, which a thread stored: a fence.proxy.async "
             "of that thread, and a barrier, must come between", chunk * CHUNK_BYTES);
    }
    proxy.is_written[chunk] = true;
    proxy.view[chunk] = stored_chunk(chunk) = UNWRITTEN;
}

SIMULATOR_UNSEEN inline void end_write(unsigned chunk, Chunk value, unsigned char swizzle) {
    proxy.is_written[chunk] = false;
    proxy.swizzles[chunk] = swizzle;
    proxy.view[chunk] = stored_chunk(chunk) = value;
}

/* Returns whether the proxy sees a run of chunks as threads stored it. */
SIMULATOR_UNSEEN inline bool sees_run(unsigned first) {
    typedef uint64_t Lanes __attribute__((vector_size(64)));
    Lanes differences = {};
    for (unsigned i = first; i < first + RUN; i += sizeof(Lanes) / CHUNK_BYTES) {
        differences |= *reinterpret_cast<Lanes *>(&proxy.view[i]) ^ *reinterpret_cast<Lanes *>(&stored_chunk(i));
    }
    uint64_t difference = 0;
    for (unsigned lane = 0; lane < sizeof(Lanes) / sizeof difference; lane++) {
        difference |= differences[lane];
    }
    return difference == 0;
}

/* fence.proxy.async: shows the proxy all that was stored before. */
SIMULATOR_UNSEEN inline void fence_proxy_async() {
    use_proxy();
    for (unsigned i = 0; i < (dynamic_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES; i++) {
        if (i % RUN == 0 && sees_run(i)) {
            i += RUN - 1;
            continue;
        }
        if (proxy.view[i] == stored_chunk(i)) {
            continue;
        }
        if (proxy.readers[i] || proxy.is_written[i]) {
            fail(cudaErrorLaunchFailure, "byte %u of shared memory was stored while %s: wait for it first",
                 i * CHUNK_BYTES, proxy.readers[i] ? "products or stores in flight read it" : "a copy in flight wrote it");
        }
        proxy.view[i] = stored_chunk(i);
        proxy.swizzles[i] = UNKNOWN;
    }
}

SIMULATOR_UNSEEN inline void enqueue(Operation *operation) {
    *proxy.last = operation;
    proxy.last = &operation->next;
}

/* Completes one of the operations in flight that may; returns whether there was one. */
SIMULATOR_UNSEEN inline bool complete_operation() {
    acquire(to_host);  // of those who began them
    unsigned count = 0;
    for (const Operation *each = proxy.first; each; each = each->next) {
        count += each->may_complete();
    }
    if (count == 0) {
        return false;
    }
    Operation **link = &proxy.first;
    for (unsigned skipped = chosen(count); skipped || !(*link)->may_complete(); link = &(*link)->next) {
        skipped -= (*link)->may_complete();
    }
    Operation *const operation = *link;
    *link = operation->next;
    proxy.last = operation->next ? proxy.last : link;
    operation->complete();
    delete operation;
    return true;
}

SIMULATOR_UNSEEN inline void discard_operations() {
    while (proxy.first) {
        Operation *const operation = proxy.first;
        proxy.first = operation->next;
        delete operation;
    }
}
}  // namespace simulator
