#pragma once

#include <string_view>
#include <vector>

namespace lockstep::tests {

/// A reader of untrusted bytes. It ends with a value or with a lockstep::Error, whatever it is given.
struct Reader {
  std::string_view name;  ///< Of its folder in tests/fuzz/corpus, too.
  void (*read)(std::string_view bytes);
};

/// All readers of engine/data, and those of what stands above it: what is in these lists is fuzzed.
const std::vector<Reader>& data_readers();
const std::vector<Reader>& engine_readers();

}  // namespace lockstep::tests
