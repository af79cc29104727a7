// A program that links the component exchange.
#include <cstdio>

#include <lockstep/exchange.h>

int main() { std::printf("exchange %zu\n", lockstep::exchange::joined({}).size()); }
