/// 09_kernels: lists the ladders of kernels, and runs a rung in the emulator or on a GPU.

int main() { return 0; }
