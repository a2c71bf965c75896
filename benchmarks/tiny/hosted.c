/* Prints bytes, the outputs after one step, and the least processor time of a step in seconds. */
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **arguments)
{
    const int steps = count > 1 ? atoi(arguments[1]) : 1, rounds = 20;
    begin();
    if (train() != 0) {
        return 1;
    }
    printf("%zu %zu %.9g ", parameter_bytes(), training_bytes(), total());
    double least = 1e9;
    for (int round = 0; round < rounds; round++) {
        const clock_t start = clock();
        for (int step = 0; step < steps; step++) {
            train();
        }
        const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC / steps;
        least = seconds < least ? seconds : least;
    }
    printf("%.9g\n", least);
    return 0;
}
