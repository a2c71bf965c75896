"""Faults planted into the product for sm_90a: a text, what replaces it, and what the simulator says."""

from __future__ import annotations

FULL = "wait_for_phase(full + slot, t / stages % 2);"
EMPTY = "wait_for_phase(empty + slot, t / stages % 2 ^ 1);"
EXPECTED = "expect_bytes(full + slot, STAGE_BYTES);"
AWAITED = "                wait_for_products<IN_FLIGHT>();\n"
RELEASED = """                if (is_first && block >= IN_FLIGHT) {
                    arrive_at_barrier(empty + (t - IN_FLIGHT) % stages);
                }
"""
LAST = "            wait_for_products<0>();\n            if (IN_FLIGHT"
READ = "        if (thread == 0) {\n            wait_for_stores<0>();\n        }\n"
WRITTEN = "        publish_stores();\n        threadIdx.x < 256 ? meet_at<1, 128>() : meet_at<2, 128>();\n"
END = "        if (is_first) {\n            wait_for_stores<0>();\n        }\n"
FULL_COUNT, EMPTY_COUNT = "init_barrier(full + i, 1);", "init_barrier(empty + i, CONSUMERS);"
LOOP = "block < blocks; block++, t++) {\n                    const"

FAULTS = {
    "the other parity": (FULL, FULL.replace("% 2", "% 2 ^ 1"), "a copy in flight brings|nobody has written"),
    "always the first parity": (
        FULL,
        "wait_for_phase(full + slot, 0);",
        "slot was released|a copy in flight brings|copies to its shared memory are in flight",
    ),
    "no wait for data": (FULL, "", "a copy in flight brings|nobody has written"),
    "no wait for a slot": (EMPTY, "", "slot was released|two copies|1 arrivals in phase 0, and gets more"),
    "the parity of data for a slot": (
        EMPTY,
        EMPTY.replace(" ^ 1", ""),
        "deadlock: .* for parity 0 of the barrier",
    ),
    "slots free twice": (
        EMPTY_COUNT,
        EMPTY_COUNT + " arrive_at_barrier(empty + i); arrive_at_barrier(empty + i);",
        "deadlock|slot was released before|in flight",
    ),
    "fewer bytes": (
        EXPECTED,
        EXPECTED.replace("STAGE", "A"),
        "fewer bytes were announced|a copy in flight brings|and -16384 bytes",
    ),
    "more bytes": (EXPECTED, EXPECTED.replace(");", " + 1024);"), "lacks 0 arrivals and 1024 bytes"),
    "barriers that copies do not see": (
        "        publish_barriers();\n",
        "",
        "fence.mbarrier_init must follow",
    ),
    "slots of one consumer": (
        EMPTY_COUNT,
        EMPTY_COUNT.replace("CONSUMERS", "1"),
        "slot was released|gets more|in flight",
    ),
    "slots of three consumers": (
        EMPTY_COUNT,
        EMPTY_COUNT.replace("CONSUMERS", "3"),
        "lacks 1 arrivals and 0 bytes",
    ),
    "barriers of two producers": (FULL_COUNT, FULL_COUNT.replace("1", "2"), "lacks 1 arrivals and 0 bytes"),
    "no wgmma.fence": ("                fence_products();\n", "", "without a wgmma.fence"),
    "a slot released early": (
        AWAITED + RELEASED,
        RELEASED.replace("block >= IN_FLIGHT", "true").replace("t - IN_FLIGHT", "t") + AWAITED,
        "slot was released before",
    ),
    "sums that are not awaited": (
        LAST,
        LAST.replace("wait_for_products<0>();", ""),
        "slot was released before|the thread ends while products",
    ),
    "sums changed in flight": (
        "                commit_products();\n",
        "                commit_products(); sums[0] = 0;\n",
        "changed its sums while products in flight",
    ),
    "products that are not committed": (
        "                commit_products();\n",
        "",
        "ends while products in flight|slot was released|nobody|in flight",
    ),
    "products of three warps": (
        "                    multiply<T",
        "                    if (threadIdx.x % 128 < 96) multiply<T",
        "must commit the same products",
    ),
    "products of half the lanes": (
        "                    multiply<T",
        "                    if (threadIdx.x % 2 == 0) multiply<T",
        "must commit the same products",
    ),
    "no fence.proxy.async": (
        "        publish_stores();\n",
        "",
        "reads byte .* a thread stored: a fence.proxy.async",
    ),
    "a store before all have written": (
        WRITTEN,
        WRITTEN.splitlines()[0] + "\n",
        "was stored while products or stores|a thread stored|barrier 1 is for",
    ),
    "a tile written while it is stored": (READ, "", "stored while products or stores in flight read it"),
    "stores that are not committed": (
        "            commit_stores();\n",
        "",
        "stores in flight read it|ends while its stores read",
    ),
    "stores that are not awaited": (END, "", "ends while its stores read shared memory"),
    "an unaligned tile": (
        "*const a = shared + slot * STAGE_BYTES, *const b",
        "*const a = shared + slot * STAGE_BYTES + 512, *const b",
        "it must be at a multiple of 1024",
    ),
    "an unaligned operand": (
        "describe_tile(tile_a,",
        "describe_tile(tile_a + 512,",
        "its first row must be at a multiple of 1024",
    ),
    "a tile that is not swizzled": (
        "strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,\n        CU_TENSOR_MAP_SWIZZLE_128B",
        "strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,\n        CU_TENSOR_MAP_SWIZZLE_NONE",
        "with a swizzle of 128 bytes, while a copy wrote it with one of 0",
    ),
    "a descriptor without a swizzle": (
        "(uint64_t)1 << 62 | ",
        "",
        "a swizzle of 0 bytes, while a copy wrote",
    ),
    "more registers than there are": (
        "raise_registers<232>",
        "raise_registers<240>",
        "more registers, of which",
    ),
    "registers that are no multiple of 8": (
        "raise_registers<232>",
        "raise_registers<228>",
        "a multiple of 8 registers",
    ),
    "registers that no thread has": (
        "lower_registers<40>",
        "lower_registers<176>",
        "and dec at most as many",
    ),
    "a barrier of more threads": (
        WRITTEN,
        WRITTEN.replace("2, 128", "2, 256"),
        "barrier 2 is for|at barrier 2 for 256 threads",
    ),
    "a block too much": (LOOP, LOOP.replace("<", "<="), "deadlock|in flight"),
    "a map of other dimensions": (
        "encode_map(map, type, 2,",
        "encode_map(map, type, 1,",
        "2 coordinates needs a tensor map of as many",
    ),
}

REPEATED = {
    "always the first parity", "slots of one consumer", "slots of three consumers", "slots free twice",
    "products of half the lanes", "sums that are not awaited", "stores that are not committed", "fewer bytes",
    "a descriptor without a swizzle", "registers that are no multiple of 8", "an unaligned operand",
    "a block too much",
}  # fmt: skip
"""Faults that the simulator finds by the same rules as others."""
