#include <stdio.h>
#include <stdlib.h>

#include "iris.h"
#include "iris_files.h"

int main(void)
{
    static float x[2 * 600], y[2 * 450], loss, losses[2];
    for (int i = 0; i < 1200; i++) {
        x[i] = (float)(i % 5);
    }
    for (int i = 0; i < 900; i++) {
        y[i] = (float)(i % 2);
    }
    iris_parameters parameters, gradients;
    iris_parameters_place(&parameters, aligned_alloc(64, iris_parameters_bytes()));
    iris_parameters_place(&gradients, aligned_alloc(64, iris_parameters_bytes()));
    void *workspace = aligned_alloc(64, iris_workspace_bytes(150) + 64);
    int code = iris_init(0, &parameters, workspace);
    code = code ? code : iris_grads(&parameters, 150, x, y, &gradients, &loss, workspace);
    code = code ? code : iris_update(&parameters, &gradients, workspace);
    code = code ? code : iris_step_many(&parameters, 150, 2, x, y, losses, workspace);
    code = code ? code : iris_save("trained.safetensors", &parameters);
    printf("%.5f %.5f %.5f\n", loss, losses[0], losses[1]);
    return code;
}
