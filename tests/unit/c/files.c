/* Reads a file into arrays full of a pattern, says the code, and writes the arrays to another file if that is 0. */
#include <stdio.h>
#include <string.h>

#include "line_files.h"

static _Alignas(64) unsigned char state_memory[256], buffer_memory[64], memory[128];

static bool is_untouched(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0x5a) {
            return false;
        }
    }
    return true;
}

int main(int count, char *arguments[])
{
    line_state state;
    line_buffers buffers;
    line_parameters parameters;
    line_state_place(&state, memset(state_memory, 0x5a, sizeof state_memory));
    line_buffers_place(&buffers, memset(buffer_memory, 0x5a, sizeof buffer_memory));
    line_parameters_place(&parameters, memset(memory, 0x5a, sizeof memory));
    const bool only = count > 3;
    int code = line_load(arguments[1], only ? NULL : &state, only ? NULL : &buffers, &parameters);
    if (code != LINE_OK) {
        const bool kept = is_untouched(state_memory, sizeof state_memory) &&
                          is_untouched(buffer_memory, sizeof buffer_memory) && is_untouched(memory, sizeof memory);
        puts(kept ? line_error_string(code) : "changed");
        return code;
    }
    if (count > 2) {
        code = line_save(arguments[2], only ? NULL : &state, only ? NULL : &buffers, &parameters);
        puts(line_error_string(code));
    }
    return code;
}
