/* Threads that write what lies side by side: whether a compiler's checks of threads work, and understand OpenMP. */
int main(void)
{
    int numbers[4] = {0};
#pragma omp parallel for
    for (int i = 0; i < 4; i++) {
        numbers[i] = i;
    }
    return numbers[0] + numbers[3] == 3 ? 0 : 1;
}
