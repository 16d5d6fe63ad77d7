/* A library by the name of CUDA's driver library. Whoever has it loaded looks like a CUDA program; it does nothing. */
int cuInit(unsigned flags) {
    return flags == 0 ? 0 : 1;
}
