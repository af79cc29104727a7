#include "backends/jit/loop_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/jit/expand.h"
#include "backends/jit/nest.h"
#include "backends/jit/spread_operands.h"
#include "backends/jit/sums_kernel.h"

namespace lockstep::backend::jit {
namespace {

/// Elements of a row that are moved together where they do not lie one behind the other.
constexpr std::int64_t packed_elements = 256;
/// Short rows, up to that many elements in all, are computed as one: so many of a dozen arrays the first cache holds.
constexpr std::int64_t joined_elements = 256;
constexpr std::int64_t short_row = 128;

class LoopKernel final : public RowLoop {
 public:
  LoopKernel(const ElementLoop& loop, const KernelRequest& request, const Nest& nest, std::vector<SpreadOperand> spread,
             std::vector<Access> accesses, std::shared_ptr<const MachineCode> code)
      : shape_(request.outputs[0].shape),
        operands_(loop.operands()),
        nest_(nest),
        spread_(std::move(spread)),
        accesses_(std::move(accesses)),
        code_(std::move(code)) {
    for (const ArrayType& input : request.inputs) {
      plain_.push_back(row_major_strides(input.shape));
      is_full_.push_back(input.shape == shape_);
    }
    for (const ArrayType& output : request.outputs) {
      result_types_.push_back(output.dtype);
      result_strides_.push_back(row_major(output.shape, output.dtype));
    }
  }

  std::size_t scratch_bytes() const override {
    std::size_t bytes = 0;
    for (const SpreadOperand& operand : spread_) bytes += whole_lines(operand);
    return bytes;
  }
  bool accepts_strided() const override { return true; }
  bool accepts_in_place(int input) const override { return may_share(input, 0); }
  bool may_share(int input, int output) const override {
    const auto k = static_cast<std::size_t>(input);
    const auto r = static_cast<std::size_t>(output);
    return k < operands_.size() && r < result_types_.size() && is_full_[k] && operands_[k].dtype == result_types_[r] &&
           code_->may_share(k, r);
  }

  void run(const KernelArguments& arguments) const override {
    if (shape_.size() == 0) return;
    begin(arguments);
    const Bases bases = bases_with_spread(arguments);
    if (lie_in_rows(arguments)) {
      run_planes(nest_, bases, 0, nest_.all_rows());
    } else {
      run_nest(nest_of(arguments.inputs), bases);
    }
  }

  std::int64_t rows() const override {
    return shape_.rank() == 0 || shape_.size() == 0 ? 0 : shape_.size() / shape_.dim(-1);
  }

  bool lie_in_rows(const KernelArguments& arguments) const override {
    for (std::size_t k = 0; k < arguments.inputs.size(); ++k) {
      if (!is_plain(arguments.inputs[k], k)) return false;
    }
    return true;
  }

  void begin(const KernelArguments& arguments) const override {
    if (spread_.empty()) return;
    const Bases bases = bases_with_spread(arguments);
    for (const SpreadOperand& operand : spread_) {
      spread(operand, arguments.inputs[operand.operand], bases[operand.operand]);
    }
  }

  void run_rows(const KernelArguments& arguments, std::int64_t first, std::int64_t count) const override {
    // Those of the nest may be several of the shape, or all.
    const Bases bases = bases_with_spread(arguments);
    const std::int64_t length = nest_.extents[nest_.inner()];
    const std::int64_t end = (first + count) * shape_.dim(-1);
    for (std::int64_t n = 0, at = first * shape_.dim(-1); at < end; at += n) {
      const std::int64_t row = at / length, column = at % length;
      if (column == 0 && end - at >= length) {
        n = (end - at) / length * length;
        run_planes(nest_, bases, row, n / length);
      } else {
        n = std::min(end - at, length - column);
        run_part_of_row(bases, row, column, n);
      }
    }
  }

 private:
  static std::size_t whole_lines(const SpreadOperand& operand) {
    return round_up<std::size_t>(static_cast<std::size_t>(operand.nbytes), 64);
  }

  Bases bases_with_spread(const KernelArguments& arguments) const {
    Bases bases = bases_of(arguments);
    auto* at = static_cast<std::byte*>(arguments.scratch);
    for (const SpreadOperand& operand : spread_) {
      bases[operand.operand] = at;
      at += whole_lines(operand);
    }
    return bases;
  }

  /// Row-major, one element, or written out anew.
  bool is_plain(const ArrayView& view, std::size_t k) const {
    if (operands_[k].dims.empty() || std::ranges::count(spread_, k, &SpreadOperand::operand) != 0) return true;
    for (int d = 0; d < view.shape.rank(); ++d) {
      const auto at = static_cast<std::size_t>(d);
      if (view.shape[d] != 1 && view.strides[at] != plain_[k][at]) return false;
    }
    return true;
  }

  Nest nest_of(std::span<const ArrayView> inputs) const {
    std::array<Strides, most_arrays> strides;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      strides[k] = loop_strides(operands_[k], inputs[k].shape, inputs[k].strides);
    }
    for (const SpreadOperand& operand : spread_) strides[operand.operand] = operand.strides;
    std::ranges::copy(result_strides_, strides.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    return Nest(shape_, std::span(strides).first(accesses_.size()));
  }

  void run_nest(const Nest& nest, const Bases& bases) const {
    if (!needs_packing(nest)) return run_planes(nest, bases, 0, nest.all_rows());
    for_each_run_of_rows(nest, accesses_.size(), bases, 0, nest.all_rows(), [&](Bases at, std::int64_t rows) {
      for (; rows > 0; --rows) {
        run_packed(nest, at);
        for (std::size_t k = 0; k < accesses_.size(); ++k) at[k] += nest.row_stride(k);
      }
    });
  }

  void run_planes(const Nest& nest, const Bases& bases, std::int64_t first, std::int64_t count) const {
    for_each_run_of_rows(nest, accesses_.size(), bases, first, count,
                         [&](const Bases& at, std::int64_t rows) { run_plane(nest, at, rows); });
  }

  void run_part_of_row(const Bases& bases, std::int64_t row, std::int64_t column, std::int64_t count) const {
    for_each_run_of_rows(nest_, accesses_.size(), bases, row, 1, [&](Bases at, std::int64_t) {
      for (std::size_t k = 0; k < accesses_.size(); ++k) at[k] += column * nest_.strides[k][nest_.inner()];
      run_rows(nest_, at, {1, count, 1});
    });
  }

  void run_plane(const Nest& nest, const Bases& at, std::int64_t rows) const {
    if (joins_rows(nest, rows)) return run_joined(nest, at, rows);
    run_rows(nest, at, {rows, nest.extents[nest.inner()], 1});
  }

  /// `joined` rows count as one.
  struct RowCounts {
    std::int64_t count;
    std::int64_t length;
    std::int64_t joined;
  };
  void run_rows(const Nest& nest, const Bases& at, RowCounts rows) const {
    std::array<std::int64_t, 2 + 2 * most_arrays> numbers;
    numbers[0] = rows.length;
    numbers[1] = rows.count;
    for (std::size_t k = 0; k < accesses_.size(); ++k) {
      numbers[2 + k] = reinterpret_cast<std::int64_t>(at[k]);
      numbers[2 + accesses_.size() + k] = nest.row_stride(k) * rows.joined;
    }
    code_->run(numbers.data());
  }

  // ---- short rows, such as the channels of an image: a row's start costs more than its elements

  /// Where every array either goes on from row to row or is the same for each.
  bool joins_rows(const Nest& nest, std::int64_t rows) const {
    const std::int64_t length = nest.extents[nest.inner()];
    if (rows < 4 || length > short_row) return false;
    for (std::size_t k = 0; k < accesses_.size(); ++k) {
      const std::int64_t row = nest.row_stride(k);
      if (row != 0 && (accesses_[k].uniform || row != length * element_bytes(k))) return false;
    }
    return true;
  }

  void run_joined(const Nest& nest, Bases at, std::int64_t rows) const {
    std::array<std::byte, most_arrays * joined_elements * 4> memory;
    const std::int64_t length = nest.extents[nest.inner()];
    const std::int64_t joined = std::min(joined_elements / length, rows);
    for (std::size_t k = 0; k < accesses_.size(); ++k) {
      if (accesses_[k].uniform || nest.row_stride(k) != 0) continue;
      std::byte* repeated = memory.data() + static_cast<std::int64_t>(k) * joined_elements * 4;
      const auto bytes = static_cast<std::size_t>(length * element_bytes(k));
      for (std::int64_t i = 0; i < joined; ++i) {
        std::memcpy(repeated + static_cast<std::size_t>(i) * bytes, at[k], bytes);
      }
      at[k] = repeated;
    }
    const std::int64_t whole = rows / joined;
    run_rows(nest, at, {whole, joined * length, joined});
    const std::int64_t rest = rows - whole * joined;
    if (rest == 0) return;
    for (std::size_t k = 0; k < accesses_.size(); ++k) at[k] += nest.row_stride(k) * joined * whole;
    run_rows(nest, at, {1, rest * length, joined});
  }

  // ---- rows whose elements do not lie one behind the other

  std::int64_t element_bytes(std::size_t k) const { return size_of(accesses_[k].element); }
  bool is_packed(const Nest& nest, std::size_t k) const {
    return !accesses_[k].uniform && nest.strides[k][nest.inner()] != element_bytes(k) &&
           nest.extents[nest.inner()] != 1;
  }
  bool needs_packing(const Nest& nest) const {
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      if (is_packed(nest, k)) return true;
    }
    return false;
  }

  void run_packed(const Nest& nest, const Bases& row) const {
    std::array<std::byte, most_arrays * packed_elements * 4> memory;
    const std::int64_t length = nest.extents[nest.inner()];
    for (std::int64_t first = 0; first < length; first += packed_elements) {
      const std::int64_t n = std::min(packed_elements, length - first);
      Bases at{};
      for (std::size_t k = 0; k < accesses_.size(); ++k) {
        at[k] = row[k] + first * nest.strides[k][nest.inner()];
        if (k >= operands_.size() || !is_packed(nest, k)) continue;
        std::byte* packed = memory.data() + static_cast<std::int64_t>(k) * packed_elements * 4;
        pack(at[k], nest.strides[k][nest.inner()], element_bytes(k), n, packed);
        at[k] = packed;
      }
      run_rows(nest, at, {1, n, 1});
    }
  }

  static void pack(const std::byte* from, std::int64_t stride, std::int64_t bytes, std::int64_t n, std::byte* to) {
    const auto pack_as = [&]<std::size_t size>(std::integral_constant<std::size_t, size>) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * static_cast<std::int64_t>(size), from + i * stride, size);
      }
    };
    if (bytes == 1) return pack_as(std::integral_constant<std::size_t, 1>());
    if (bytes == 2) return pack_as(std::integral_constant<std::size_t, 2>());
    pack_as(std::integral_constant<std::size_t, 4>());
  }

  Shape shape_;
  std::vector<ElementLoop::Operand> operands_;
  Nest nest_;  // of row-major operands
  std::vector<SpreadOperand> spread_;
  std::vector<Access> accesses_;  // operands, then results
  std::shared_ptr<const MachineCode> code_;
  std::vector<std::vector<std::int64_t>> plain_;
  std::vector<bool> is_full_;
  std::vector<DType> result_types_;
  std::vector<Strides> result_strides_;
};

}  // namespace

std::unique_ptr<Kernel> make_loop_kernel(const ElementLoop& loop, const KernelRequest& request, CodeCache& codes) {
  const std::size_t arrays = request.inputs.size() + request.outputs.size();
  if (request.outputs.empty() || arrays > most_arrays || loop.operands().size() != request.inputs.size())
    return nullptr;
  if (loop.has_sums()) return make_sums_kernel(loop, request, codes);
  std::optional<Loop> steps = expand(loop);
  if (!steps) return nullptr;
  const Shape& shape = request.outputs[0].shape;
  std::vector<Strides> strides = row_major_arrays(loop, request);
  std::vector<SpreadOperand> spread = operands_to_spread(loop, request, shape, strides);
  for (const SpreadOperand& operand : spread) strides[operand.operand] = operand.strides;
  const Nest nest(shape, strides);
  std::vector<Access> accesses = mark_uniform(*steps, nest);
  std::shared_ptr<const MachineCode> code = codes.get(*steps, loop.label());
  if (code == nullptr) return nullptr;
  return std::make_unique<LoopKernel>(loop, request, nest, std::move(spread), std::move(accesses), std::move(code));
}

}  // namespace lockstep::backend::jit
