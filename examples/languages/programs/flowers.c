#include <stdio.h>
#include <stdlib.h>

#include "iris.h"
#include "iris_files.h"

int main(void)
{
    static float x[150][4], y[150][3], loss;
    FILE *file = fopen("flowers.txt", "r");
    for (int i = 0; i < 150; i++) {
        float *a = x[i], *b = y[i];
        if (fscanf(file, "%f %f %f %f %f %f %f", a, a + 1, a + 2, a + 3, b, b + 1, b + 2) != 7) {
            return 1;
        }
    }
    fclose(file);
    iris_parameters parameters;
    iris_parameters_place(&parameters, aligned_alloc(64, iris_parameters_bytes()));
    void *workspace = aligned_alloc(64, iris_workspace_bytes(150) + 64);
    int code = iris_init(0, &parameters, workspace);
    for (int step = 0; step < 300 && code == IRIS_OK; step++) {
        code = iris_step(&parameters, 150, x[0], y[0], &loss, workspace);
    }
    code = code ? code : iris_save("trained.safetensors", &parameters);
    printf("loss %.4f, %s\n", loss, iris_error_string(code));
    return code;
}
