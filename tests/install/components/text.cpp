// A program that links the component text.
#include <cstdio>

#include <lockstep/text.h>

int main() { std::printf("text %d\n", static_cast<int>(lockstep::data::hash_bin("word", {.bins = 1}))); }
