/* A network that trains on numbers of a generator, and how long and in how much memory it is measured. */
#ifndef TRAINER_H
#define TRAINER_H

#include <stddef.h>
#include <stdint.h>

/* Fills the parameters and the batch. */
void begin(void);

/* Trains for one step; returns 0, or the code of an error. */
int train(void);

/* Sums the outputs for the batch, weighted by 1, 2, … */
double total(void);

/* Counts the bytes of parameters, and of all other memory of a step. */
size_t parameter_bytes(void);
size_t training_bytes(void);

/* Fills an array with numbers of [-bound, bound), the same in every program. */
static inline void fill(float *array, size_t count, float bound, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        array[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * bound;
    }
}

/* The same for levels of eight bits. */
static inline void fill_bytes(int8_t *array, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        array[i] = (int8_t)((int)(seed >> 24) - 128);
    }
}

#endif
