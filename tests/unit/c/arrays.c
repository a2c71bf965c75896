/* Says of each array of a file that is named its dtype, its shape and its bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "line_files.h"

int main(int count, char *arguments[])
{
    line_file file;
    int code = line_file_open(&file, arguments[1]);
    for (int i = 2; code == LINE_OK && i < count; i++) {
        line_array array;
        code = line_file_find(&file, arguments[i], &array);
        if (code == LINE_OK) {
            const size_t bytes = (size_t)(array.end - array.begin);
            unsigned char *const memory = malloc(bytes + 1);
            code = line_file_fetch(&file, &array, memory);
            printf("%s", array.dtype);
            for (size_t k = 0; k < array.axes; k++) {
                printf(" %lld", (long long)array.shape[k]);
            }
            printf(":");
            for (size_t k = 0; k < bytes; k++) {
                printf("%02x", memory[k]);
            }
            puts("");
            free(memory);
        }
    }
    if (code != LINE_OK) {
        puts(line_error_string(code));
    }
    line_file_close(&file);
    return code;
}
