#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <lockstep/error.h>

#include "tests/fuzz/readers.h"

// What libFuzzer calls with one input after the other; LOCKSTEP_FUZZED names the reader, LOCKSTEP_READERS the list it is in.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const lockstep::tests::Reader reader = [] {
    for (const lockstep::tests::Reader& known : lockstep::tests::LOCKSTEP_READERS()) {
      if (known.name == LOCKSTEP_FUZZED) return known;
    }
    std::abort();
  }();
  try {
    reader.read({reinterpret_cast<const char*>(bytes), size});
  } catch (const lockstep::Error&) {
    return 0;
  }
  return 0;
}
