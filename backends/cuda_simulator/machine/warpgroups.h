// Products of warp groups (wgmma): 128 threads begin them together, and await them in groups.
#pragma once
#include "operands.h"
#include "tensor_cores.h"

namespace simulator {
constexpr unsigned WARPGROUP = 128, WARPGROUPS = MAX_THREADS / WARPGROUP, ROWS = 64;
constexpr unsigned MAX_COLUMNS = 256, MAX_TERMS = 16, MAX_IN_FLIGHT = 64, MAX_SUMS = 8;

/* Accumulators that products in flight add to, with their places in the threads, where they are NaN meanwhile. */
struct Sums {
    unsigned count, threads;  // of a thread; threads that have them in flight
    float *places[WARPGROUP];
    unsigned last[WARPGROUP];  // the number of the last product of a thread
    float values[WARPGROUP][MAX_COLUMNS / 2];
};

struct Product {
    Operand a, b;
    bool has_fragments, adds;  // A is in registers; the sums count
    float (*number)(unsigned word, int i);
    unsigned fragments[WARPGROUP][4];
    Sums *sums;
};

struct Warpgroup {
    Product products[MAX_IN_FLIGHT];
    unsigned ends[MAX_IN_FLIGHT];  // the number of products before the end of a group
    unsigned begun, groups;        // products and groups that some thread has begun
    unsigned completed;            // groups
    unsigned issued[WARPGROUP], committed[WARPGROUP];
    bool is_fenced[WARPGROUP], is_used;
    Sums sums[MAX_SUMS];
};

SIMULATOR_STATE Warpgroup warpgroups[WARPGROUPS];

SIMULATOR_UNSEEN inline void begin_warpgroups() {
    for (Warpgroup &group : warpgroups) {
        if (!group.is_used) {
            continue;
        }
        group.is_used = false;
        group.begun = group.groups = group.completed = 0;
        for (unsigned t = 0; t < WARPGROUP; t++) {
            group.issued[t] = group.committed[t] = 0;
            group.is_fenced[t] = false;
        }
        for (Sums &sums : group.sums) {
            sums.threads = 0;
            for (float *&place : sums.places) {
                place = nullptr;
            }
        }
    }
}

/* Returns the warp group of the thread that runs. */
SIMULATOR_UNSEEN inline Warpgroup *own_warpgroup() {
    const unsigned number = current->number / WARPGROUP;
    if ((number + 1) * WARPGROUP > block.size) {
        fail(cudaErrorLaunchFailure, "products need warp groups of 128 threads");
    }
    warpgroups[number].is_used = true;
    return &warpgroups[number];
}

/* Returns the sums in flight at a place of a thread, or with no place those that no thread has; null without any. */
SIMULATOR_UNSEEN inline Sums *find_sums(Warpgroup *group, unsigned t, const float *place) {
    for (Sums &sums : group->sums) {
        if (place ? sums.places[t] == place : sums.threads == 0) {
            return &sums;
        }
    }
    return nullptr;
}

/* Takes the numbers at a place of the thread, which are NaN until they are delivered. */
SIMULATOR_UNSEEN inline void take_sums(Sums *sums, unsigned t, float *place, unsigned count) {
    sums->count = count;
    sums->threads++;
    sums->places[t] = place;
    for (unsigned i = 0; i < count; i++) {
        sums->values[t][i] = place[i];
        place[i] = bits_of<float>(~0u);
    }
    forbid(place, count * sizeof *place);
}

/* Returns the sums of a product, which other threads of the warp group may have begun. */
SIMULATOR_UNSEEN inline Sums *sums_of(Warpgroup *group, Sums *others, float *place, unsigned count) {
    const unsigned t = current->number % WARPGROUP;
    Sums *sums = find_sums(group, t, place);
    if (!sums) {
        sums = others ? others : find_sums(group, t, nullptr);
        if (!sums) {
            fail(cudaErrorLaunchFailure, "the simulator has no room for %u arrays of sums in flight", MAX_SUMS + 1);
        }
        if (!sums->places[t]) {
            take_sums(sums, t, place, count);
        }
    }
    if ((others && sums != others) || sums->places[t] != place || sums->count != count) {
        fail(cudaErrorLaunchFailure, "the threads of a warp group must use the same sums in a product");
    }
    return sums;
}

/* Begins a product: the first thread of the warp group begins to read its operands. */
SIMULATOR_UNSEEN inline void begin_product(const Product &like, float *sums, unsigned count, const unsigned *fragments) {
    Warpgroup *const group = own_warpgroup();
    const unsigned t = current->number % WARPGROUP, number = group->issued[t]++;
    if (!group->is_fenced[t]) {
        fail(cudaErrorLaunchFailure, "a product begins without a wgmma.fence since the thread began, or last waited");
    }
    const unsigned complete = group->completed ? group->ends[(group->completed - 1) % MAX_IN_FLIGHT] : 0;
    if (number - complete >= MAX_IN_FLIGHT) {
        fail(cudaErrorLaunchFailure, "the simulator has no room for %u products in flight", MAX_IN_FLIGHT + 1);
    }
    Product &product = group->products[number % MAX_IN_FLIGHT];
    if (number == group->begun) {
        group->begun++;
        product = like;
        product.sums = nullptr;
        product.b.begin_reads();
        if (!like.has_fragments) {
            product.a.begin_reads();
        }
    } else if (product.a.descriptor != like.a.descriptor || product.b.descriptor != like.b.descriptor ||
               product.adds != like.adds || product.number != like.number) {
        fail(cudaErrorLaunchFailure, "the threads of a warp group must begin the same products");
    }
    for (unsigned i = 0; i < 4; i++) {
        product.fragments[t][i] = fragments ? fragments[i] : 0;
    }
    product.sums = sums_of(group, product.sums, sums, count);
    product.sums->last[t] = number;
}

/* Computes the sums of a product, and rounds each once. */
SIMULATOR_UNSEEN inline void compute(Product *product) {
    typedef double Lanes __attribute__((vector_size(64)));
    constexpr unsigned LANES = sizeof(Lanes) / sizeof(double);
    alignas(64) static double a[ROWS][MAX_TERMS], b[MAX_TERMS][MAX_COLUMNS], sums[MAX_COLUMNS];
    const unsigned terms = product->b.terms, columns = product->b.rows, packed = 4 / product->b.element_bytes;
    product->b.end_reads(product->number, b[0], 1, MAX_COLUMNS);
    if (!product->has_fragments) {
        product->a.end_reads(product->number, a[0], MAX_TERMS, 1);
    }
    for (unsigned t = 0; product->has_fragments && t < WARPGROUP; t++) {
        for (unsigned i = 0; i < 4 * packed; i++) {
            const unsigned r = i / packed, row = t / 32 * 16 + t % 32 / 4 + r % 2 * 8;
            a[row][r / 2 * (terms / 2) + t % 4 * packed + i % packed] =
                product->number(product->fragments[t][r], static_cast<int>(i % packed));
        }
    }
    for (unsigned row = 0; row < ROWS; row++) {
        const auto value = [=](unsigned column) SIMULATOR_UNSEEN -> float & {
            const unsigned t = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
            return product->sums->values[t][column / 8 * 4 + row % 16 / 8 * 2 + column % 2];
        };
        for (unsigned column = 0; column < columns; column++) {
            sums[column] = product->adds ? value(column) : 0;
        }
        for (unsigned k = 0; k < terms; k++) {
            for (unsigned column = 0; column < columns; column += LANES) {
                *reinterpret_cast<Lanes *>(sums + column) += a[row][k] * *reinterpret_cast<Lanes *>(b[k] + column);
            }
        }
        for (unsigned column = 0; column < columns; column++) {
            value(column) = static_cast<float>(sums[column]);
        }
    }
}

/* A group of products in flight, which all threads have committed before it may complete. */
struct ProductGroup : Operation {
    Warpgroup *warpgroup;
    unsigned number, begin, end;

    SIMULATOR_UNSEEN bool may_complete() const override {
        for (const unsigned committed : warpgroup->committed) {
            if (committed <= number) {
                return false;
            }
        }
        return warpgroup->completed == number;
    }

    SIMULATOR_UNSEEN void complete() override {
        for (unsigned i = begin; i < end && !failed; i++) {
            compute(&warpgroup->products[i % MAX_IN_FLIGHT]);
        }
        warpgroup->completed++;
    }
};

/* wgmma.fence */
SIMULATOR_UNSEEN inline void fence_products() { own_warpgroup()->is_fenced[current->number % WARPGROUP] = true; }

/* wgmma.commit_group */
SIMULATOR_UNSEEN inline void commit_products() {
    Warpgroup *const warpgroup = own_warpgroup();
    const unsigned t = current->number % WARPGROUP, number = warpgroup->committed[t]++;
    if (number - warpgroup->completed >= MAX_IN_FLIGHT) {
        fail(cudaErrorLaunchFailure, "the simulator has no room for %u groups of products in flight", MAX_IN_FLIGHT + 1);
    }
    unsigned &end = warpgroup->ends[number % MAX_IN_FLIGHT];
    if (number == warpgroup->groups) {
        ProductGroup *const group = new ProductGroup();
        group->warpgroup = warpgroup;
        group->number = warpgroup->groups++;
        group->begin = number ? warpgroup->ends[(number - 1) % MAX_IN_FLIGHT] : 0;
        group->end = end = warpgroup->issued[t];
        enqueue(group);
    } else if (end != warpgroup->issued[t]) {
        fail(cudaErrorLaunchFailure, "the threads of a warp group must commit the same products");
    }
}

/* Gives a thread the sums of products before one. */
SIMULATOR_UNSEEN inline void deliver_sums(Warpgroup *group, unsigned end) {
    const unsigned t = current->number % WARPGROUP;
    for (Sums &sums : group->sums) {
        float *const place = sums.places[t];
        if (!place || sums.last[t] >= end) {
            continue;
        }
        permit(place, sums.count * sizeof *place);
        for (unsigned i = 0; i < sums.count; i++) {
            if (bits_of<unsigned>(place[i]) != ~0u) {
                fail(cudaErrorLaunchFailure, "a thread changed its sums while products in flight added to them: it must "
                     "wait for them first");
            }
            place[i] = sums.values[t][i];
        }
        sums.places[t] = nullptr;
        sums.threads--;
    }
}

SIMULATOR_UNSEEN inline void describe_products(const Thread *thread, char *text, size_t size) {
    const Warpgroup *const group = static_cast<const Warpgroup *>(thread->object);
    unsigned t = 0;
    while (t < WARPGROUP - 1 && group->committed[t] >= thread->value) {
        t++;
    }
    snprintf(text, size, "for group %d of products of its warp group, of which its thread %u has committed %u",
             static_cast<int>(thread->value), t, group->committed[t]);
}

/* wgmma.wait_group */
SIMULATOR_UNSEEN inline void wait_for_products(unsigned in_flight) {
    Warpgroup *const group = own_warpgroup();
    const unsigned t = current->number % WARPGROUP, committed = group->committed[t];
    const unsigned target = committed > in_flight ? committed - in_flight : 0;
    const auto have_completed = [](const Thread *thread) {
        return static_cast<const Warpgroup *>(thread->object)->completed >= thread->value;
    };
    wait_until(have_completed, describe_products, group, target);
    group->is_fenced[t] = false;
    if (target) {
        deliver_sums(group, group->ends[(target - 1) % MAX_IN_FLIGHT]);
    }
}

/* Fails if a thread ends while products add to its sums. */
SIMULATOR_UNSEEN inline void check_products_were_awaited(const Thread *thread) {
    for (const Sums &sums : warpgroups[thread->number / WARPGROUP].sums) {
        if (sums.places[thread->number % WARPGROUP]) {
            fail(cudaErrorLaunchFailure, "the thread ends while products in flight add to its sums: it must commit and await "
                 "them");
        }
    }
}

/* wgmma.mma_async with both operands in shared memory: sums (+)= a . b. */
template <class Format, unsigned COUNT>
void multiply(float (&sums)[COUNT], uint64_t a, uint64_t b, bool adds, bool a_is_mn, bool b_is_mn) {
    constexpr unsigned TERMS = Format::COLUMNS, BYTES = 32 / TERMS;
    begin_product({{a, a_is_mn, ROWS, TERMS, BYTES}, {b, b_is_mn, 2 * COUNT, TERMS, BYTES}, false, adds, Format::number, {},
                   nullptr}, sums, COUNT, nullptr);
}

/* The same with the left operand in registers. */
template <class Format, unsigned COUNT>
void multiply(float (&sums)[COUNT], const unsigned (&a)[4], uint64_t b, bool adds, bool b_is_mn) {
    constexpr unsigned TERMS = Format::COLUMNS, BYTES = 32 / TERMS;
    begin_product({{}, {b, b_is_mn, 2 * COUNT, TERMS, BYTES}, true, adds, Format::number, {}, nullptr}, sums, COUNT, a);
}
}  // namespace simulator
