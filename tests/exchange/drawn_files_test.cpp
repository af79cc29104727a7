// Drawn tensors, written to each format of weights and read back: what is written is readable.
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {
namespace {

constexpr DType drawn_dtypes[] = {bool_,  int8,    int16,    int32,   int64,   uint8,     uint16,    uint32,
                                  uint64, float16, bfloat16, float32, float64, complex64, complex128};

using Tensors = std::map<std::string, Array>;

class DrawnTensors {
 public:
  explicit DrawnTensors(std::uint64_t seed) : draw_(seed) {}

  Tensors some() {
    Tensors tensors;
    for (std::uint64_t n = below(4); n > 0; --n) tensors.insert_or_assign(name(), tensor());
    return tensors;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return draw_() % n; }

  std::string name() {
    static const std::string parts[] = {"w",    "a.b",
                                        ".",    "..",
                                        "/",    "\\",
                                        "\"",   " ",
                                        "\n",   "é",
                                        "层",   "0",
                                        ":",    "__metadata__",
                                        ".npy", "\x7f",
                                        "%",    std::string(1, '\0'),
                                        "\xFF"};
    std::string text;
    for (std::uint64_t n = below(4); n > 0; --n) {
      text += parts[below(std::size(parts) - (below(8) == 0 ? 0 : 2))];
    }
    return text;
  }

  Array tensor() {
    std::vector<std::int64_t> shape;
    for (std::uint64_t d = below(5); d > 0; --d) shape.push_back(static_cast<std::int64_t>(below(4)));
    if (below(16) == 0) shape = {0, 1LL << (40 + below(11))};
    const DType dtype = drawn_dtypes[below(std::size(drawn_dtypes))];
    const Array values =
        Shape(shape).size() == 0 ? zeros(Shape(shape)) : 40 * random::normal(random::key(++drawn_), Shape(shape));
    if (!is_complex(dtype)) return convert(values, dtype);
    const DType part = dtype == complex128 ? float64 : float32;
    return complex(convert(values, part), convert(-values, part));
  }

  std::mt19937_64 draw_;
  std::uint32_t drawn_ = 0;
};

void check_same(const Tensors& found, const Tensors& written) {
  REQUIRE(found.size() == written.size());
  for (const auto& [name, tensor] : written) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name).type() == tensor.type());
    CHECK(found.at(name).to_bytes() == tensor.to_bytes());
  }
}

}  // namespace

TEST_CASE("whatever tensors are written are read back, or refused with nothing written") {
  for (const char* ending : {".safetensors", ".npz", ".pt"}) {
    int refused = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      CAPTURE(ending);
      CAPTURE(seed);
      const Tensors tensors = DrawnTensors(seed).some();
      const TemporaryFolder folder;
      const std::filesystem::path file = folder.path() / (std::string("w") + ending);
      try {
        exchange::save_weights(file, Named<Array>(tensors));
      } catch (const Error& error) {
        CHECK(!std::string(error.what()).empty());
        CHECK(std::filesystem::is_empty(folder.path()));
        ++refused;
        continue;
      }
      check_same(exchange::load_weights(file), tensors);
    }
    CHECK(refused > 0);
    CHECK(refused < 300);
  }
}

TEST_CASE("a tree's leaves are saved under their keys with dots, and none is lost") {
  const Tree one(array(1.0F)), two(array(2.0F));
  for (const char* ending : {".safetensors", ".npz", ".pt"}) {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / (std::string("w") + ending);
    exchange::save_weights(file,
                           Tree::dict({{"a/b", one}, {"layers", Tree::list({Tree::dict({{"kernel", two}}), one})}}));
    check_same(exchange::load_weights(file),
               {{"a/b", one.array()}, {"layers.0.kernel", two.array()}, {"layers.1", one.array()}});
    exchange::save_weights(file, {{"x", one.array()}});
    check_same(exchange::load_weights(file), {{"x", one.array()}});
    const Tree clashing = Tree::dict({{"a.b", one}, {"a", Tree::dict({{"b", two}})}});
    expect_error<ValueError>([&] { exchange::save_weights(file, clashing); },
                             "[save_weights] two leaves of the tree are called 'a.b'");
    expect_error<ValueError>([&] { exchange::save_weights(file, one); }, "the tree is one leaf");
    check_same(exchange::load_weights(file), {{"x", one.array()}});  // as it was
  }
}

TEST_CASE("an exported function has arrays without elements among its weights, arguments and results") {
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 5}}) {
    for (const DType dtype : {float32, int32, bool_, complex64}) {
      const TemporaryFolder folder;
      const Array weights = convert(zeros(shape), dtype);
      const auto file = folder.path() / "f.function";
      exchange::export_function(
          file,
          [&](const Array& x) {
            return concatenate({x, weights}, 0);
          },
          weights);
      const Array found = exchange::load_function(file)(weights);
      CHECK(found.type() == concatenate({weights, weights}, 0).type());
    }
  }
}

}  // namespace lockstep::tests
