#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

// Writes functions for tests/python/module_test.py, with what they give here: <name>.function, and the bytes of the
// leaves of its arguments and results, <name>.in.<i> and <name>.out.<i>.
namespace {

namespace fs = std::filesystem;
using namespace lockstep;

void write(const fs::path& file, const Array& x) {
  const std::vector<std::byte> bytes = x.to_bytes();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

template <class F, class... Args>
void write_example(const fs::path& folder, const std::string& name, const F& function, const Args&... arguments) {
  const fs::path file = folder / (name + ".function");
  exchange::export_function(file, function, arguments...);
  const Tree result = exchange::load_function(file).call({to_tree(arguments)...});
  const auto write_leaves = [&](const std::string& what, const Tree& tree) {
    int i = 0;
    for (const Array& leaf : tree.leaves()) write(folder / (name + what + std::to_string(i++)), leaf);
  };
  write_leaves(".in.", Tree::list({to_tree(arguments)...}));
  write_leaves(".out.", result);
}

void write_all(const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Model model([](const Scope& s, const Array& x) {
    return dense(s["head"], relu(dense(s["hidden"], x, {.units = 8})), {.units = 3});
  });
  const Array x = random::normal(random::key(3), {4, 5});
  const auto [trainable, state] = model.init(random::key(1), x);
  write_example(
      folder, "mlp",
      [&, w = trainable, s = state](const Array& rows) {
        return softmax(model.stateless_call(w, s, rows, false).first);
      },
      x);
  const auto narrow = with_precision(model, PrecisionPolicy(PrecisionDTypes{float32, bfloat16, bfloat16}));
  write_example(
      folder, "narrow",
      [&, w = trainable, s = state](const Array& rows) { return narrow.stateless_call(w, s, rows, false).first; },
      convert(x, bfloat16));
  // A tree in, a tree out, of every dtype that NumPy has.
  using Named = std::map<std::string, Array>;
  Named all;
  for (const DType dtype : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64,
                            complex64, complex128}) {
    all.emplace(std::string(name(dtype)), convert(remainder(arange(6), 2), dtype));
  }
  write_example(
      folder, "tree",
      [](const Named& named, const std::vector<Array>& list) {
        Named turned;
        for (const auto& [key, value] : named) turned.emplace(key, flip(value, 0));
        return std::pair(turned, std::vector<Array>{list[0] + list[1], list[1] * 2.0F});
      },
      all, std::vector<Array>{array(1.5F), array({1.0F, 2.0F})});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::invalid_argument("usage: write_python_examples FOLDER");
    write_all(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_python_examples: %s\n", error.what());
    return 1;
  }
}
