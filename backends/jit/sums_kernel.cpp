#include "backends/jit/sums_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/backend/pairwise_sums.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/jit/expand.h"
#include "backends/jit/nest.h"

// The loop runs over a matrix: rows are what its shape has before SumAsMatrix::rows, columns what it has from there on.
// Machine code adds to partial sums in memory, which are few enough to stay in the first cache.
namespace lockstep::backend::jit {
namespace {

/// Narrow rows are added several at a time: row r to partial sums number r % `rows_at_once`.
constexpr std::int64_t partial_sum_elements = 256;
/// So many additions to one partial sum, then it goes to its total and starts anew: errors grow with the square root of
/// the number of elements at most.
constexpr std::int64_t block = 256;
/// Rows whose partial sums exist at once.
constexpr std::int64_t most_rows_at_once = 64;

struct Matrix {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  int split = 0;
  std::int64_t rows_at_once = 1;
  bool is_of_rows = false;  // of the shape: its columns are the last dimension

  Matrix(const Shape& shape, int split_at) : split(split_at) {
    for (int d = 0; d < shape.rank(); ++d) (d < split ? rows : columns) *= shape[d];
    is_of_rows = shape.rank() > 0 && columns == shape.dim(-1) && columns > 0;
    if (columns <= narrow_columns && columns > 0) rows_at_once = partial_sum_elements / columns;
  }
};

/// A result that is a sum.
struct Sum {
  std::size_t array;  // its number among operands and results
  bool of_columns;
  std::size_t partial;  // where its partial sums are in scratch, in floats
};

class SumsKernel final : public RowLoop {
 public:
  SumsKernel(const KernelRequest& request, Matrix matrix, Nest nest, std::vector<Access> accesses,
             std::vector<Sum> sums, std::shared_ptr<const MachineCode> code)
      : matrix_(matrix),
        nest_(nest),
        accesses_(std::move(accesses)),
        operands_(request.inputs.size()),
        sums_(std::move(sums)),
        code_(std::move(code)) {
    for (const ArrayType& type : request.outputs) result_types_.push_back(type);
    for (const ArrayType& type : request.inputs) operand_types_.push_back(type);
    width_ = matrix_.columns * matrix_.rows_at_once;
    for (Sum& sum : sums_) {
      has_rows_ = has_rows_ || !sum.of_columns;
      sum.partial = floats_;
      floats_ += sum.of_columns ? 2 * padded(width_) : most_rows_at_once * sum_lanes;
    }
    joins_ = matrix_.rows_at_once > 1 && !has_rows_ && can_join();
    if (has_rows_) matrix_.rows_at_once = 1, width_ = matrix_.columns;
    for (std::size_t k = 0; k < arrays(); ++k) {
      repeated_.push_back(joins_ && !is_sum(k) && !accesses_[k].uniform && nest_.row_stride(k) == 0 ? floats_
                                                                                                    : nowhere);
      if (repeated_.back() != nowhere) floats_ += padded(width_);
    }
  }

  std::size_t scratch_bytes() const override { return floats_ * sizeof(float); }
  bool may_share(int input, int output) const override {
    const auto k = static_cast<std::size_t>(input);
    const auto r = static_cast<std::size_t>(output);
    return k < operands_ && r < result_types_.size() && !is_sum(operands_ + r) &&
           operand_types_[k] == result_types_[r] && code_->may_share(k, r);
  }
  bool accepts_in_place(int input) const override { return may_share(input, 0); }
  std::int64_t summed_apart() const override {
    const auto is_of_all = [](const Sum& sum) { return !sum.of_columns; };
    return matrix_.rows == 1 && std::ranges::all_of(sums_, is_of_all) ? longest : 0;
  }

  void run(const KernelArguments& arguments) const override {
    begin(arguments);
    if (matrix_.rows > 0 && matrix_.columns > 0) {
      run_rows(arguments, 0, matrix_.rows);
    } else {
      const Run run = make_run(arguments, 0);
      for (const Sum& sum : sums_) std::fill_n(run.arrays[sum.array], bytes_of(sum), std::byte{});
    }
    finish(arguments);
  }

  std::int64_t rows() const override { return matrix_.is_of_rows ? matrix_.rows : 0; }

  void begin(const KernelArguments& arguments) const override {
    for (const Sum& sum : sums_) {
      if (sum.of_columns) std::fill_n(static_cast<float*>(arguments.scratch) + sum.partial, 2 * padded(width_), 0.0F);
    }
  }

  void run_rows(const KernelArguments& arguments, std::int64_t first, std::int64_t count) const override {
    Run run = make_run(arguments, first);
    for_each_run_of_rows(nest_, arrays(), run.arrays, first, count,
                         [&](const Bases& at, std::int64_t n) { run_plane(run, at, n); });
  }

  void finish(const KernelArguments& arguments) const override {
    const Run run = make_run(arguments, matrix_.rows);
    for (const Sum& sum : sums_) {
      if (sum.of_columns && matrix_.columns > 0) finish_columns(run, sum);
    }
  }

 private:
  /// Columns that are summed before their sum is joined with others.
  static constexpr std::int64_t longest = block * sum_lanes;
  static constexpr std::size_t nowhere = ~std::size_t{0};
  struct Run {
    float* scratch;
    Bases arrays;
    std::int64_t row;  // of the matrix, that comes next
  };

  static Run make_run(const KernelArguments& arguments, std::int64_t row) {
    return {static_cast<float*>(arguments.scratch), bases_of(arguments), row};
  }

  static std::size_t padded(std::int64_t floats) { return (static_cast<std::size_t>(floats) + 15) / 16 * 16; }
  std::size_t arrays() const { return accesses_.size(); }
  bool is_sum(std::size_t array) const { return accesses_[array].written != Access::Written::once; }
  std::int64_t element_bytes(std::size_t k) const { return size_of(accesses_[k].element); }
  std::size_t bytes_of(const Sum& sum) const {
    return static_cast<std::size_t>(result_types_[sum.array - operands_].nbytes());
  }

  /// Whether rows one behind the other are a longer row to every array.
  bool can_join() const {
    for (std::size_t k = 0; k < arrays(); ++k) {
      const std::int64_t stride = nest_.row_stride(k);
      if (is_sum(k) || stride == 0) continue;
      if (accesses_[k].uniform || stride != matrix_.columns * element_bytes(k)) return false;
    }
    return true;
  }

  void run_plane(Run& run, Bases at, std::int64_t rows) const {
    if (joins_) repeat(run, at, std::min(rows, matrix_.rows_at_once));
    while (rows > 0) {
      const std::int64_t done =
          has_rows_ ? run_with_sums_of_rows(run, at, rows) : run_with_sums_of_columns(run, at, rows);
      for (std::size_t k = 0; k < arrays(); ++k) at[k] += nest_.row_stride(k) * done;
      rows -= done;
      run.row += done;
      if (run.row % (block * matrix_.rows_at_once) == 0) flush_columns(run);
    }
  }

  void repeat(const Run& run, const Bases& at, std::int64_t times) const {
    for (std::size_t k = 0; k < arrays(); ++k) {
      if (repeated_[k] == nowhere) continue;
      const auto bytes = static_cast<std::size_t>(matrix_.columns * element_bytes(k));
      auto* to = reinterpret_cast<std::byte*>(run.scratch + repeated_[k]);
      for (std::int64_t i = 0; i < times; ++i) std::memcpy(to + static_cast<std::size_t>(i) * bytes, at[k], bytes);
    }
  }

  /// What the machine code takes: `count` rows of `length` elements; `joined` rows of the matrix are one of them.
  struct RowCounts {
    std::int64_t count;
    std::int64_t length;
    std::int64_t joined;
  };
  template <class SumAt>
  void run_rows(const Run& run, const Bases& at, RowCounts rows, std::int64_t first_column, SumAt sum_at) const {
    std::array<std::int64_t, 2 + 2 * most_arrays> numbers;
    numbers[0] = rows.length;
    numbers[1] = rows.count;
    for (std::size_t k = 0; k < arrays(); ++k) {
      const std::byte* base = at[k];
      if (repeated_[k] != nowhere) {
        base = reinterpret_cast<const std::byte*>(run.scratch + repeated_[k]);
      } else if (!accesses_[k].uniform) {
        base += first_column * element_bytes(k);
      }
      numbers[2 + k] = reinterpret_cast<std::int64_t>(base);
      numbers[2 + arrays() + k] = nest_.row_stride(k) * rows.joined;
    }
    for (const Sum& sum : sums_) {
      const auto [offset, stride] = sum_at(sum);
      numbers[2 + sum.array] = reinterpret_cast<std::int64_t>(run.scratch + sum.partial + offset);
      numbers[2 + arrays() + sum.array] = stride * static_cast<std::int64_t>(sizeof(float));
    }
    code_->run(numbers.data());
  }

  struct Place {
    std::int64_t offset;  // of floats, where the first row is added
    std::int64_t stride;  // from row to row
  };

  /// The rows taken, as many as go on in one call.
  std::int64_t run_with_sums_of_columns(const Run& run, const Bases& at, std::int64_t rows) const {
    const std::int64_t at_once = matrix_.rows_at_once;
    const std::int64_t phase = run.row % at_once;
    const Place place{phase * matrix_.columns, 0};
    if (at_once > 1 && !joins_) {
      const std::int64_t n = std::min(rows, at_once - phase);
      run_rows(run, at, {n, matrix_.columns, 1}, 0, [&](const Sum&) { return Place{place.offset, matrix_.columns}; });
      return n;
    }
    if (phase != 0 || rows < at_once) {
      const std::int64_t n = std::min(rows, at_once - phase);
      run_rows(run, at, {1, n * matrix_.columns, 1}, 0, [&](const Sum&) { return place; });
      return n;
    }
    const std::int64_t left = block - run.row / at_once % block;
    const std::int64_t n = std::min(rows / at_once, left);
    run_rows(run, at, {n, width_, at_once}, 0, [&](const Sum&) { return place; });
    return n * at_once;
  }

  std::int64_t run_with_sums_of_rows(const Run& run, const Bases& at, std::int64_t rows) const {
    if (matrix_.columns > longest) return run_long_row(run, at);
    const std::int64_t n = std::min({rows, most_rows_at_once, block - run.row % block});
    run_block(run, at, {n, matrix_.columns, 1}, 0);
    for (const Sum& sum : sums_) {
      if (sum.of_columns) continue;
      for (std::int64_t i = 0; i < n; ++i) row_sums(run, sum)[i] = folded(run.scratch + sum.partial + i * sum_lanes);
    }
    return n;
  }

  std::int64_t run_long_row(const Run& run, const Bases& at) const {
    std::array<PairwiseSums<float>, most_arrays> totals;
    for (std::int64_t first = 0; first < matrix_.columns; first += longest) {
      run_block(run, at, {1, std::min(longest, matrix_.columns - first), 1}, first);
      for (std::size_t s = 0; s < sums_.size(); ++s) {
        if (!sums_[s].of_columns) totals[s].add(folded(run.scratch + sums_[s].partial));
      }
    }
    for (std::size_t s = 0; s < sums_.size(); ++s) {
      if (!sums_[s].of_columns) *row_sums(run, sums_[s]) = totals[s].total();
    }
    return 1;
  }

  /// Some columns of some rows: those of each row are added to lanes that begin at zero.
  void run_block(const Run& run, const Bases& at, RowCounts rows, std::int64_t first) const {
    for (const Sum& sum : sums_) {
      if (!sum.of_columns) std::fill_n(run.scratch + sum.partial, rows.count * sum_lanes, 0.0F);
    }
    run_rows(run, at, rows, first, [&](const Sum& sum) {
      return sum.of_columns ? Place{first, 0} : Place{0, sum_lanes};
    });
  }

  /// Where the sums of the rows that come next are written.
  static float* row_sums(const Run& run, const Sum& sum) {
    return reinterpret_cast<float*>(run.arrays[sum.array]) + run.row;
  }

  /// Halves are added to each other until one is left.
  static float folded(float* lanes) {
    for (std::int64_t half = sum_lanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }

  void flush_columns(const Run& run) const {
    for (const Sum& sum : sums_) {
      if (!sum.of_columns) continue;
      float* partial = run.scratch + sum.partial;
      float* total = partial + padded(width_);
      for (std::int64_t i = 0; i < width_; ++i) total[i] += partial[i];
      std::fill_n(partial, width_, 0.0F);
    }
  }

  void finish_columns(const Run& run, const Sum& sum) const {
    float* to = reinterpret_cast<float*>(run.arrays[sum.array]);
    const float* partial = run.scratch + sum.partial;
    const float* total = partial + padded(width_);
    for (std::int64_t c = 0; c < matrix_.columns; ++c) {
      float all = 0;
      for (std::int64_t i = c; i < width_; i += matrix_.columns) all += total[i] + partial[i];
      to[c] = all;
    }
  }

  Matrix matrix_;
  Nest nest_;
  std::vector<Access> accesses_;  // operands, then results
  std::size_t operands_;
  std::vector<Sum> sums_;
  std::shared_ptr<const MachineCode> code_;
  std::vector<ArrayType> operand_types_;
  std::vector<ArrayType> result_types_;
  std::int64_t width_ = 0;  // of the partial sums of columns
  bool has_rows_ = false;
  bool joins_ = false;
  std::vector<std::size_t> repeated_;  // by array: where in scratch its row stands several times
  std::size_t floats_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_sums_kernel(const ElementLoop& loop, const KernelRequest& request, CodeCache& codes) {
  std::optional<Loop> steps = expand(loop);
  if (!steps) return nullptr;
  const Shape shape = loop.shape(request.inputs, request.outputs);
  std::optional<int> split;
  std::vector<Sum> sums;
  for (std::size_t r = 0; r < request.outputs.size(); ++r) {
    const ElementLoop::Result& result = loop.results()[r];
    if (result.sum_over.empty()) continue;
    const std::optional<SumAsMatrix> layout = sum_as_matrix(shape, result.sum_over);
    if (!layout || split.value_or(layout->rows) != layout->rows) return nullptr;
    split = layout->rows;
    const bool of_columns = layout->kind == SumAsMatrix::Kind::columns;
    steps->results[r].written = of_columns ? Access::Written::added : Access::Written::added_to_lanes;
    sums.push_back({request.inputs.size() + r, of_columns, 0});
  }
  const Matrix matrix(shape, *split);
  const auto is_of_columns = [](const Sum& sum) { return sum.of_columns; };
  const bool has_both = !std::ranges::all_of(sums, is_of_columns) && std::ranges::any_of(sums, is_of_columns);
  if (has_both && matrix.rows_at_once > 1) return nullptr;
  const Nest nest(shape, row_major_arrays(loop, request), *split);
  if (shape.size() != 0 && nest.extents[nest.inner()] != matrix.columns) return nullptr;
  std::vector<Access> accesses = mark_uniform(*steps, nest);
  std::shared_ptr<const MachineCode> code = codes.get(*steps, loop.label());
  if (code == nullptr) return nullptr;
  return std::make_unique<SumsKernel>(request, matrix, nest, std::move(accesses), std::move(sums), std::move(code));
}

}  // namespace lockstep::backend::jit
