// A program of the core that makes an array and prints the sum of its elements; reading all headers would take longer.
#include <cstdio>

#include <lockstep/array.h>
#include <lockstep/reductions.h>

int main() { std::printf("%g\n", lockstep::sum(lockstep::array({1.0F, 2.0F, 3.0F})).item<double>()); }
