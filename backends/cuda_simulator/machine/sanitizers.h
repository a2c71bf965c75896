// Annotations for AddressSanitizer and ThreadSanitizer: fibers, and what orders them.
#pragma once
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMULATOR_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define SIMULATOR_RACES 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SIMULATOR_ADDRESS 1
#endif
#ifdef __SANITIZE_THREAD__
#define SIMULATOR_RACES 1
#endif

extern "C" {
#ifdef SIMULATOR_ADDRESS
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *size);
void __asan_poison_memory_region(const volatile void *address, size_t size);
void __asan_unpoison_memory_region(const volatile void *address, size_t size);
#endif
#ifdef SIMULATOR_RACES
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_java_init(unsigned long heap, unsigned long size);
void __tsan_java_alloc(unsigned long address, unsigned long size);
void __tsan_java_free(unsigned long address, unsigned long size);
#endif
}

// The simulator's own accesses are no accesses of the program: neither sanitizer looks at them.
#define SIMULATOR_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("address")))

// Each library is a device of its own, whose state no other library sees.
#define SIMULATOR_STATE inline __attribute__((visibility("hidden")))
// The stacks of fibers are shared, because a process may have some 65,000 maps of memory: the dynamic linker gives
// the variable of all libraries one address (STB_GNU_UNIQUE).
#define SIMULATOR_SHARED inline __attribute__((visibility("default")))

namespace simulator {
/* Orders what a thread did before it released a token before what others do after they acquire it. */
inline void release([[maybe_unused]] void *token) {
#ifdef SIMULATOR_RACES
    __tsan_release(token);
#endif
}

inline void acquire([[maybe_unused]] void *token) {
#ifdef SIMULATOR_RACES
    __tsan_acquire(token);
#endif
}

/* Forgets all accesses to memory, which another block has used before. */
inline void forget_accesses([[maybe_unused]] void *begin, [[maybe_unused]] void *end) {
#ifdef SIMULATOR_RACES
    const unsigned long address = reinterpret_cast<unsigned long>(begin) & ~7ul;
    const unsigned long size = (reinterpret_cast<unsigned long>(end) - address + 7) & ~7ul;
    if (size != 0) {
        __tsan_java_free(address, size);
        __tsan_java_alloc(address, size);
    }
#endif
}

inline void forbid([[maybe_unused]] void *address, [[maybe_unused]] size_t size) {
#ifdef SIMULATOR_ADDRESS
    __asan_poison_memory_region(address, size);
#endif
}

inline void permit([[maybe_unused]] void *address, [[maybe_unused]] size_t size) {
#ifdef SIMULATOR_ADDRESS
    __asan_unpoison_memory_region(address, size);
#endif
}
}  // namespace simulator
