#include <iostream>

#include <lockstep/lockstep.h>

int main() { std::cout << lockstep::version() << "\n"; }
