// A program that needs no more of Lockstep than its core.
#include <iostream>

#include <lockstep/version.h>

int main() { std::cout << lockstep::version() << "\n"; }
