// A program that links the component audio, and catches what it throws.
#include <cstdio>

#include <lockstep/audio.h>
#include <lockstep/error.h>

int main() try { lockstep::data::parse_wav({}, "empty.wav"); } catch (const lockstep::DataError&) {
  std::printf("audio DataError\n");
}
