#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/row_kernels.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/convolution_cases.h"

// Convolutions whose rows are read while others are still made.
namespace lockstep::tests {
namespace {

/// Takes what it is told of and writes over it.
class Taker final : public backend::RowReader {
 public:
  Taker(std::byte* result, std::size_t row_bytes) : result_(result), row_bytes_(row_bytes) {}

  void read(std::int64_t first, std::int64_t count) override {
    CHECK(first == rows_);
    CHECK(count > 0);
    rows_ += count;
    ++reads_;
    std::byte* rows = result_ + static_cast<std::size_t>(first) * row_bytes_;
    const std::size_t nbytes = static_cast<std::size_t>(count) * row_bytes_;
    taken_.insert(taken_.end(), rows, rows + nbytes);
    std::memset(rows, 0xFF, nbytes);
  }

  const std::vector<std::byte>& taken() const { return taken_; }
  int reads() const { return reads_; }

 private:
  std::byte* result_;
  std::size_t row_bytes_;
  std::int64_t rows_ = 0;
  int reads_ = 0;
  std::vector<std::byte> taken_;
};

/// How often the reader was told of rows, or 0 where the kernel gives none out.
int check_rows(const ir::Primitive& primitive, const ir::Sample& sample) {
  const BoundOp bound(primitive, sample);
  if (bound.kernel == nullptr) return 0;
  const auto* writer = dynamic_cast<const backend::RowWriter*>(bound.kernel.get());
  if (writer == nullptr) return 0;
  const std::vector<Memory> operands = draw_memory(sample, 12);
  const Memory result(static_cast<std::size_t>(bound.outputs[0].nbytes())), scratch(writer->scratch_bytes());
  std::vector<ArrayView> in;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    in.push_back(contiguous_view(operands[k].data(), bound.inputs[k].dtype, bound.inputs[k].shape));
  }
  const ArrayView out = contiguous_view(result.data(), bound.outputs[0].dtype, bound.outputs[0].shape);
  Taker taker(result.data(), static_cast<std::size_t>(out.shape.dim(-1)) * size_of(out.dtype));
  writer->run_for({in, {&out, 1}, scratch.data()}, &taker);
  CHECK(taker.taken() == bound.run(operands)[0]);
  return taker.reads();
}

}  // namespace

TEST_CASE("a convolution's rows are given out once, in order, with the bits of a run") {
  const Attrs same = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1);
  std::vector<ConvolutionCase> cases = convolution_cases();
  cases.push_back({"tiles", {5, 14, 16, 48}, {3, 3, 48, 32}, {5, 14, 16, 32}, same});
  cases.push_back({"tiles of odd images", {9, 13, 15, 64}, {3, 3, 64, 72}, {9, 13, 15, 72}, same});
  for (const ConvolutionCase& c : cases) {
    CAPTURE(std::string(c.name));
    for (const DType dtype : {float32, bfloat16}) {
      for_each_of_family(c, dtype, [](const ir::Primitive& primitive, const ir::Sample& sample, const char*) {
        CAPTURE(primitive.name);
        check_rows(primitive, sample);
      });
    }
  }
}

TEST_CASE("what does not stay in the cache is given out in several blocks") {
  if (!offers()) return skip(not_offered);
  const Attrs same = conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1),
              five = conv_attrs({1, 1}, {{2, 2}, {2, 2}}, {1, 1}, 1);
  const std::vector<ConvolutionCase> cases = {
      {"images", {23, 28, 28, 1}, {5, 5, 1, 16}, {23, 28, 28, 16}, five},
      {"large images", {3, 96, 96, 3}, {5, 5, 3, 32}, {3, 96, 96, 32}, five},
      {"tiles", {9, 13, 15, 64}, {3, 3, 64, 72}, {9, 13, 15, 72}, same},
      {"small images", {3, 4, 4, 256}, {3, 3, 256, 256}, {3, 4, 4, 256}, same},
      {"small images that do not divide a window's rows",
       {5, 4, 4, 512},
       {2, 2, 512, 256},
       {5, 3, 3, 256},
       conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1)},
  };
  for (const ConvolutionCase& c : cases) {
    CAPTURE(std::string(c.name));
    for_each_of_family(c, float32, [](const ir::Primitive& primitive, const ir::Sample& sample, const char*) {
      CAPTURE(primitive.name);
      const int reads = check_rows(primitive, sample);
      if (primitive.name == "conv" && sample.inputs[0].type.shape[1] > 4) CHECK(reads > 2);
    });
  }
}

}  // namespace lockstep::tests
