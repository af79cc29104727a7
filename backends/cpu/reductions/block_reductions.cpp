#include "backends/cpu/reductions/block_reductions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/backend/pairwise_sums.h>
#include <lockstep/backend/round_up.h>

#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/vector_variants.h"

// The order of a sum is a function of the shape alone (docs/reproducibility.md): sums of at most `rows_of_block` elements,
// joined in pairs as the digits of a binary counter are carried. Loops run over what is kept, or over `block_lanes` partial
// sums, so that vectors of any width add in this order.
namespace lockstep::backend::cpu {

namespace {

/// A row-major operand as [outer, reduced, inner].
struct ReducedBlocks {
  std::int64_t outer = 1;
  std::int64_t reduced = 1;
  std::int64_t inner = 1;
};

constexpr std::int64_t rows_of_block = 64;
constexpr std::int64_t columns = 256;  // at a time
constexpr std::int64_t block_lanes = 32;
constexpr std::int64_t elements_of_row_block = block_lanes * rows_of_block;

std::optional<ReducedBlocks> blocks_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  ReducedBlocks blocks;
  enum { before, within, behind } place = before;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool drops = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (drops && place == behind) return std::nullopt;
    if (drops) place = within;
    if (!drops && place == within) place = behind;
    (drops ? blocks.reduced : place == before ? blocks.outer : blocks.inner) *= shape[d];
  }
  // One column an element where only dimensions of extent 1 go: those are computed side by side.
  if (blocks.reduced == 1) std::swap(blocks.inner, blocks.outer);
  return blocks;
}

/// A sum over axes with others between them: one group of neighbouring axes after the other, the longest first.
std::vector<ReducedBlocks> stages_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  struct Group {
    std::int64_t extent;
    bool drops;
  };
  std::vector<Group> groups;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool drops = std::ranges::count(axes, d) != 0;
    if (groups.empty() || groups.back().drops != drops) groups.push_back({1, drops});
    groups.back().extent *= shape[d];
  }
  const auto extent_of = [](auto first, auto last) {
    std::int64_t extent = 1;
    for (; first != last; ++first) extent *= first->extent;
    return extent;
  };
  std::vector<ReducedBlocks> stages;
  while (std::ranges::any_of(groups, &Group::drops)) {
    const auto longest =
        std::ranges::max_element(groups, {}, [](const Group& g) { return g.drops ? g.extent : std::int64_t{-1}; });
    stages.push_back(
        {extent_of(groups.begin(), longest), longest->extent, extent_of(std::next(longest), groups.end())});
    groups.erase(longest);
  }
  return stages;
}

/// Sums that wait for their equals: `depth` of them, each of `width` numbers.
template <class W>
class WaitingSums {
 public:
  WaitingSums(W* sums, std::int64_t width) : sums_(sums), width_(width) {}

  /// Where the next block's sum goes.
  W* next() { return sums_ + depth_ * width_; }
  /// It is there: pairs of equal size are joined.
  void carry(std::int64_t n) {
    ++depth_;
    for (std::uint64_t digit = blocks_++; (digit & 1) != 0; digit >>= 1) join(n);
  }
  /// The sum of all.
  const W* finish(std::int64_t n) {
    while (depth_ > 1) join(n);
    return sums_;
  }

 private:
  void join(std::int64_t n) {
    --depth_;
    const W* right = sums_ + depth_ * width_;
    W* left = sums_ + (depth_ - 1) * width_;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) left[i] += right[i];
  }

  W* sums_;
  std::int64_t width_;
  std::int64_t depth_ = 0;
  std::uint64_t blocks_ = 0;
};

/// Of so many blocks.
std::int64_t most_waiting(std::int64_t blocks) { return std::bit_width(static_cast<std::uint64_t>(blocks)) + 1; }

std::int64_t blocks_in(std::int64_t count, std::int64_t block) { return ceil_div(count, block); }

/// to[c] = x[0][c] + x[1][c] + ..., one by one.
template <class T, class W>
void add_block_rows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n, W* to) {
  std::fill_n(to, n, W(0));
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < n; ++c) {
      to[c] = (((to[c] + W(x[c])) + W(x[c + stride])) + W(x[c + 2 * stride])) + W(x[c + 3 * stride]);
    }
  }
  for (; r < rows; ++r, x += stride) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < n; ++c) to[c] += W(x[c]);
  }
}

template <class T>
void sum_block_columns(const T* x, T* out, const ReducedBlocks& blocks, Wide<T>* scratch) {
  for (std::int64_t first = 0; first < blocks.inner; first += columns) {
    const std::int64_t n = std::min(columns, blocks.inner - first);
    WaitingSums<Wide<T>> waiting(scratch, columns);
    for (std::int64_t r = 0; r < blocks.reduced; r += rows_of_block) {
      const std::int64_t rows = std::min(rows_of_block, blocks.reduced - r);
      add_block_rows(x + r * blocks.inner + first, rows, blocks.inner, n, waiting.next());
      waiting.carry(n);
    }
    const Wide<T>* sums = waiting.finish(n);
    for (std::int64_t c = 0; c < n; ++c) out[first + c] = static_cast<T>(sums[c]);
  }
}

/// Element i is added to partial sum i modulo `block_lanes`; halves of those are added to one another.
template <class T>
Wide<T> sum_row(const T* x, std::int64_t count) {
  using W = Wide<T>;
  PairwiseSums<W> blocks;
  for (std::int64_t first = 0; first < count; first += elements_of_row_block) {
    const std::int64_t n = std::min(elements_of_row_block, count - first);
    std::array<W, block_lanes> sums{};
    std::int64_t i = first;
    for (; i + block_lanes <= first + n; i += block_lanes) {
#pragma GCC ivdep
      for (std::int64_t l = 0; l < block_lanes; ++l) sums[static_cast<std::size_t>(l)] += W(x[i + l]);
    }
    for (std::int64_t l = 0; i + l < first + n; ++l) sums[static_cast<std::size_t>(l)] += W(x[i + l]);
    for (std::size_t half = block_lanes / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    }
    blocks.add(sums[0]);
  }
  return blocks.total();
}

using RunBlocks = void (*)(const ReducedBlocks& blocks, const KernelArguments& arguments);

template <class T>
void sum_blocks(const ReducedBlocks& blocks, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  if (blocks.reduced == 0) {
    std::fill_n(out, blocks.outer * blocks.inner, T(0));
    return;
  }
  for (std::int64_t o = 0; o < blocks.outer; ++o) {
    const T* from = x + o * blocks.reduced * blocks.inner;
    if (blocks.inner == 1) {
      out[o] = static_cast<T>(sum_row(from, blocks.reduced));
    } else {
      sum_block_columns(from, out + o * blocks.inner, blocks, static_cast<Wide<T>*>(arguments.scratch));
    }
  }
}

struct Larger {
  static constexpr float first = -std::numeric_limits<float>::infinity();
  template <class T>
  static T of(T best, T x) {
    return Wide<T>(x) > Wide<T>(best) || x != x ? x : best;
  }
};

struct Smaller {
  static constexpr float first = std::numeric_limits<float>::infinity();
  template <class T>
  static T of(T best, T x) {
    return Wide<T>(x) < Wide<T>(best) || x != x ? x : best;
  }
};

template <class T, class F>
T extremum_of_row(const T* x, std::int64_t count) {
  std::array<T, block_lanes> best;
  best.fill(static_cast<T>(F::first));
  std::int64_t i = 0;
  for (; i + block_lanes <= count; i += block_lanes) {
#pragma GCC ivdep
    for (std::int64_t l = 0; l < block_lanes; ++l) {
      best[static_cast<std::size_t>(l)] = F::of(best[static_cast<std::size_t>(l)], x[i + l]);
    }
  }
  for (std::int64_t l = 0; i + l < count; ++l) {
    best[static_cast<std::size_t>(l)] = F::of(best[static_cast<std::size_t>(l)], x[i + l]);
  }
  for (std::size_t l = 1; l < block_lanes; ++l) best[0] = F::of(best[0], best[l]);
  return best[0];
}

template <class T, class F>
void extremum_of_blocks(const ReducedBlocks& blocks, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  for (std::int64_t o = 0; o < blocks.outer; ++o, out += blocks.inner, x += blocks.reduced * blocks.inner) {
    if (blocks.inner == 1) {
      *out = extremum_of_row<T, F>(x, blocks.reduced);
      continue;
    }
    std::fill_n(out, blocks.inner, static_cast<T>(F::first));
    for (std::int64_t r = 0; r < blocks.reduced; ++r) {
      const T* row = x + r * blocks.inner;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < blocks.inner; ++c) out[c] = F::of(out[c], row[c]);
    }
  }
}

std::unique_ptr<Kernel> make_kernel(const ReducedBlocks& blocks, RunBlocks run, Promises promises) {
  return make_function_kernel([run, blocks](const KernelArguments& arguments) { run(blocks, arguments); }, promises);
}

std::size_t scratch_floats(const ReducedBlocks& blocks) {
  if (blocks.inner == 1) return 0;
  return static_cast<std::size_t>(columns * most_waiting(blocks_in(blocks.reduced, rows_of_block)));
}

/// What a stage leaves is added up by the next one; two such arrays exist at once.
template <class T>
std::unique_ptr<Kernel> make_staged_sum(std::vector<ReducedBlocks> stages) {
  std::size_t waiting = 0;
  for (const ReducedBlocks& stage : stages) waiting = std::max(waiting, scratch_floats(stage));
  const auto left = static_cast<std::size_t>(stages[0].outer * stages[0].inner);
  const Promises promises{.scratch_bytes = (waiting + 2 * left) * sizeof(T)};
  const RunBlocks run = VectorVariants<sum_blocks<T>>::chosen();
  return make_function_kernel(
      [run, stages = std::move(stages), waiting, left](const KernelArguments& arguments) {
        T* const scratch = static_cast<T*>(arguments.scratch);
        ArrayView from = arguments.inputs[0];
        for (std::size_t i = 0; i < stages.size(); ++i) {
          ArrayView to = arguments.outputs[0];
          if (i + 1 < stages.size()) to.data = scratch + waiting + i % 2 * left;
          run(stages[i], {{&from, 1}, {&to, 1}, scratch});
          from = to;
        }
      },
      promises);
}

template <class F>
std::unique_ptr<Kernel> make_block_extremum(const KernelRequest& request) {
  const auto blocks = blocks_of(request.inputs[0].shape, request.attrs.get<std::vector<std::int64_t>>("axes"));
  if (!blocks) return nullptr;
  return make_kernel(
      *blocks,
      with_float(request.inputs[0].dtype,
                 []<class T>() -> RunBlocks { return VectorVariants<extremum_of_blocks<T, F>>::chosen(); }),
      {});
}

}  // namespace

std::unique_ptr<Kernel> make_block_sum(const KernelRequest& request) {
  const auto& axes = request.attrs.get<std::vector<std::int64_t>>("axes");
  const auto blocks = blocks_of(request.inputs[0].shape, axes);
  return with_float(request.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    constexpr bool is_wide = std::is_same_v<T, Wide<T>>;
    if (!blocks) {
      // A stage would round what it leaves.
      if constexpr (is_wide) return make_staged_sum<T>(stages_of(request.inputs[0].shape, axes));
      return nullptr;
    }
    Promises promises{.scratch_bytes = scratch_floats(*blocks) * sizeof(Wide<T>)};
    if (blocks->outer == 1 && blocks->inner == 1 && is_wide) promises.summed_apart = elements_of_row_block;
    return make_kernel(*blocks, VectorVariants<sum_blocks<T>>::chosen(), promises);
  });
}

std::unique_ptr<Kernel> make_block_max(const KernelRequest& request) { return make_block_extremum<Larger>(request); }
std::unique_ptr<Kernel> make_block_min(const KernelRequest& request) { return make_block_extremum<Smaller>(request); }

}  // namespace lockstep::backend::cpu
