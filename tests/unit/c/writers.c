/* Threads that write one file again and again, each full of a number of its own, from the one given on. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "line_files.h"

enum { THREADS = 3, WRITES = 40 };

static const char *path;
static int first;

static void *write_often(void *argument)
{
    static _Thread_local unsigned char memory[512];
    line_parameters parameters;
    line_parameters_place(&parameters, memory);
    for (int i = 0; i < 12; i++) {
        parameters.dense_weight[i] = (float)*(int *)argument;
    }
    int code = LINE_OK;
    for (int i = 0; code == LINE_OK && i < WRITES; i++) {
        code = line_save(path, NULL, NULL, &parameters);
    }
    *(int *)argument = code;
    return NULL;
}

int main(int count, char *arguments[])
{
    pthread_t threads[THREADS];
    int given[THREADS];
    path = arguments[count - 2];
    first = atoi(arguments[count - 1]);
    for (int i = 0; i < THREADS; i++) {
        given[i] = first + i;
        pthread_create(&threads[i], NULL, write_often, &given[i]);
    }
    int code = LINE_OK;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        code = given[i] != LINE_OK ? given[i] : code;
    }
    puts(line_error_string(code));
    return code;
}
