/* Calls the library line as a user would, and says what does not hold. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "line.h"

static int failures = 0;

#define HOLDS(condition)                                             \
    do {                                                             \
        if (!(condition)) {                                          \
            failures++;                                              \
            printf("%d: " #condition " does not hold\n", __LINE__); \
        }                                                            \
    } while (0)

enum { BATCH = 5, STEPS = 7 };

static _Alignas(64) unsigned char workspace[1 << 16], state_memory[256], buffer_memory[64], memory[128], other[128];
static float x[STEPS * BATCH * 4], y[STEPS * BATCH * 3], y_hat[BATCH * 3], losses[STEPS];

static void check_errors(line_state *state, line_buffers *buffers, line_parameters *parameters)
{
    float loss = 0;
    HOLDS(line_predict(parameters, -1, x, y_hat, workspace) == LINE_BAD_SIZE);
    HOLDS(line_predict(parameters, PTRDIFF_MAX, x, y_hat, workspace) == LINE_BAD_SIZE);
    HOLDS(line_step(state, buffers, parameters, PTRDIFF_MAX / 8, x, y, &loss, workspace) == LINE_BAD_SIZE);
    HOLDS(line_workspace_bytes(-1) == SIZE_MAX && line_workspace_bytes(PTRDIFF_MAX) == SIZE_MAX);
    HOLDS(line_step_many(state, buffers, parameters, PTRDIFF_MAX, 0, x, y, losses, workspace) == LINE_BAD_SIZE);
    HOLDS(line_predict(NULL, BATCH, x, y_hat, workspace) == LINE_NULL);
    HOLDS(line_predict(parameters, BATCH, NULL, y_hat, workspace) == LINE_NULL);
    HOLDS(line_step(state, buffers, parameters, BATCH, x, y, &loss, NULL) == LINE_NULL);
    HOLDS(line_step(state, buffers, parameters, BATCH, x, y, &loss, workspace + 4) == LINE_MISALIGNED);
    HOLDS(line_step_many(state, buffers, parameters, BATCH, -1, x, y, losses, workspace) == LINE_BAD_SIZE);
    line_parameters incomplete = *parameters;
    incomplete.dense_bias = NULL;
    HOLDS(line_predict(&incomplete, BATCH, x, y_hat, workspace) == LINE_NULL);
    HOLDS(strcmp(line_error_string(LINE_OK), "no error") == 0);
    HOLDS(strstr(line_error_string(LINE_BAD_SIZE), "negative") != NULL);
    HOLDS(strstr(line_error_string(99), "no code") != NULL);
}

int main(void)
{
    line_state state;
    line_buffers buffers;
    line_parameters parameters, gradients;
    HOLDS(line_state_bytes() <= sizeof state_memory && line_parameters_bytes() <= sizeof memory);
    HOLDS(line_workspace_bytes(BATCH) <= sizeof workspace);
    line_state_place(&state, state_memory);
    line_buffers_place(&buffers, buffer_memory);
    line_parameters_place(&parameters, memory);
    line_parameters_place(&gradients, other);
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        x[i] = sinf((float)i);
    }
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++) {
        y[i] = cosf((float)i);
    }
    check_errors(&state, &buffers, &parameters);

    /* Seven steps at once are seven steps. */
    HOLDS(line_init(3, &state, &buffers, &parameters, workspace) == LINE_OK);
    HOLDS(line_step_many(&state, &buffers, &parameters, BATCH, STEPS, x, y, losses, workspace) == LINE_OK);
    float weight[12], loss = 0;
    memcpy(weight, parameters.dense_weight, sizeof weight);
    HOLDS(line_init(3, &state, &buffers, &parameters, workspace) == LINE_OK);
    for (int t = 0; t < STEPS; t++) {
        const float *const now_x = x + t * BATCH * 4, *const now_y = y + t * BATCH * 3;
        if (t == 0) {
            /* A step is the gradient, then the update. */
            HOLDS(line_grads(&buffers, &parameters, BATCH, now_x, now_y, &gradients, &loss, workspace) == LINE_OK);
            HOLDS(line_update(&state, &parameters, &gradients, workspace) == LINE_OK);
        } else {
            HOLDS(line_step(&state, &buffers, &parameters, BATCH, now_x, now_y, &loss, workspace) == LINE_OK);
        }
        HOLDS(fabsf(loss - losses[t]) <= 1e-6f);
    }
    for (int i = 0; i < 12; i++) {
        HOLDS(fabsf(weight[i] - parameters.dense_weight[i]) <= 1e-6f);
    }
    HOLDS(*buffers.dense_seen == STEPS);
    HOLDS(line_predict(&parameters, 0, x, y_hat, workspace) == LINE_OK);
    return failures != 0;
}
