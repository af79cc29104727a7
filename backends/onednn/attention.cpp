#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/one_query.h"
#include "backends/cpu/blocks.h"
#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/matmul.h"

namespace lockstep::backend::onednn {

namespace {

/// The products of a block of queries with a range of keys. "Like q" and "like k" is where the arrays have it.
struct Products {
  std::unique_ptr<BoundPrimitive> scores;     ///< weights = like q times (like k) transposed
  std::unique_ptr<BoundPrimitive> mixed;      ///< like q = weights times like k
  std::unique_ptr<BoundPrimitive> spread;     ///< like k = weights transposed times like q
  std::unique_ptr<BoundPrimitive> spread_on;  ///< like k += weights transposed times like q
};

/// Consecutive queries of a head, and the range of keys outside of which the window lets them see none.
struct QueryBlock {
  std::int64_t first, rows, first_key, keys;
  std::int64_t grain = 0;                      ///< Of keys, where the mask can leave out the last ones.
  std::vector<const Products*> products = {};  ///< Of one grain of keys, of two and so on; the last one of all.

  /// Of the whole range. Null where it is empty.
  const Products* of_all() const { return products.empty() ? nullptr : products.back(); }
};

/// The blocks of a head, those of the last queries first, and what is computed for them.
class AttentionBlocks {
 public:
  /// `gradient`: whether weights are spread. False where oneDNN has nothing fast.
  bool prepare(const cpu::AttentionGeometry& g, bool attention_gradient) {
    const std::int64_t most = most_rows_of(g);
    const std::int64_t blocks = ceil_div(g.queries, most);
    const std::int64_t rows = std::min(g.queries, round_up<std::int64_t>(ceil_div(g.queries, blocks), 8));
    for (std::int64_t first = 0; first < g.queries; first += rows) {
      blocks_.push_back(block_of(g, first, std::min(rows, g.queries - first)));
      stride_ = std::max(stride_, round_up<std::int64_t>(blocks_.back().keys, cpu::row_width));
    }
    rows_ = rows;
    std::reverse(blocks_.begin(), blocks_.end());
    for (QueryBlock& block : blocks_) {
      if (!attention_gradient && g.mask[3] > 1) block.grain = grain_of(g);
      const std::int64_t step = block.grain > 0 ? block.grain : block.keys;
      for (std::int64_t keys = step; keys < block.keys + step && block.keys > 0; keys += step) {
        if (!add_products(g, block, std::min(keys, block.keys), attention_gradient)) return false;
      }
    }
    return true;
  }

  /// Whether the first block has all keys, so that it can be the first to write to arrays like k.
  bool first_has_all_keys(const cpu::AttentionGeometry& g) const { return blocks_[0].keys == g.keys; }

  auto begin() const { return blocks_.begin(); }
  auto end() const { return blocks_.end(); }
  std::int64_t stride() const { return stride_; }
  /// Floats in a matrix of weights.
  std::int64_t matrix() const { return rows_ * stride_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  /// Measured: more rows make faster products, fewer leave out more of what a window hides.
  static std::int64_t most_rows_of(const cpu::AttentionGeometry& g) {
    constexpr std::int64_t most_weights = std::int64_t{1} << 20;
    const std::int64_t most = g.left < 0 && g.right < 0 ? cpu::most_rows : cpu::most_rows / 2;
    return std::clamp<std::int64_t>(most_weights / g.keys / 8 * 8, 16, most);
  }

  /// Ranges end on multiples of it, so that there are few sizes of products.
  static std::int64_t grain_of(const cpu::AttentionGeometry& g) {
    constexpr std::int64_t most_grains = 16;
    return std::max<std::int64_t>(64, round_up<std::int64_t>(ceil_div(g.keys, most_grains), 64));
  }

  static QueryBlock block_of(const cpu::AttentionGeometry& g, std::int64_t first, std::int64_t rows) {
    const std::int64_t grain = grain_of(g);
    const std::int64_t from = g.left < 0 ? 0 : std::max<std::int64_t>(first - g.left, 0) / grain * grain;
    const std::int64_t to =
        g.right < 0 ? g.keys
                    : std::min(g.keys, round_up<std::int64_t>(std::min(g.keys, first + rows + g.right), grain));
    return {first, rows, from, std::max<std::int64_t>(to - from, 0)};
  }

  bool add_products(const cpu::AttentionGeometry& g, QueryBlock& block, std::int64_t keys, bool attention_gradient) {
    Products& products = products_[{block.rows, keys}];
    QueryBlock some = block;
    some.keys = keys;
    if (products.scores == nullptr && !make(g, some, attention_gradient, products)) return false;
    block.products.push_back(&products);
    return true;
  }

  bool make(const cpu::AttentionGeometry& g, const QueryBlock& block, bool attention_gradient, Products& products) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
      return matrices(dnnl::memory::data_type::f32, {rows, columns}, {row, column});
    };
    const std::int64_t query = g.heads * g.features, key = g.key_heads * g.features;
    const Desc q = matrix(block.rows, g.features, query, 1), k = matrix(block.keys, g.features, key, 1);
    const Desc weights = matrix(block.rows, block.keys, stride_, 1);
    products.scores = make_matmul(q, matrix(g.features, block.keys, 1, key), weights);
    products.mixed = make_matmul(weights, k, q);
    if (attention_gradient) {
      const Desc transposed = matrix(block.keys, block.rows, 1, stride_);
      products.spread = make_matmul(transposed, q, k);
      products.spread_on = make_matmul(transposed, q, k, true);
    }
    for (const auto* product : {&products.scores, &products.mixed, &products.spread, &products.spread_on}) {
      const bool needed = attention_gradient || product == &products.scores || product == &products.mixed;
      if (needed && *product == nullptr) return false;
      if (*product != nullptr) scratch_bytes_ = std::max(scratch_bytes_, (*product)->scratch_bytes());
    }
    return true;
  }

  std::vector<QueryBlock> blocks_;
  std::map<std::pair<std::int64_t, std::int64_t>, Products> products_;  ///< By rows and keys.
  std::int64_t rows_ = 0, stride_ = 0;
  std::size_t scratch_bytes_ = 0;
};

/// The arrays of a run, seen from one block.
class View {
 public:
  View(const cpu::AttentionGeometry& g, const AttentionBlocks& blocks, const KernelArguments& arguments)
      : g_(g),
        blocks_(blocks),
        arguments_(arguments),
        bias_(cpu::AttentionGeometry::broadcast_strides(g.bias)),
        mask_(cpu::AttentionGeometry::broadcast_strides(g.mask)) {}

  /// Calls visit() for every block of these heads, those of all examples one after the other; in between the functions
  /// below speak of that block.
  template <class Visit>
  void for_each_block(const cpu::Range& heads, Visit visit) {
    for (std::int64_t i = heads.first; i < heads.last; ++i) {
      batch_ = i / g_.heads;
      head_ = i % g_.heads;
      for (const QueryBlock& block : blocks_) {
        block_ = &block;
        visit();
      }
    }
  }

  const QueryBlock& block() const { return *block_; }
  /// Whether it is the first block of its head of the keys.
  bool is_first() const { return block_ == &*blocks_.begin() && head_ % (g_.heads / g_.key_heads) == 0; }
  std::int64_t query_stride() const { return g_.heads * g_.features; }
  std::int64_t key_stride() const { return g_.key_heads * g_.features; }

  /// Of the block's first query in arrays like q, like the log-sum-exps and like the bias.
  std::int64_t query() const { return lse() * g_.features; }
  std::int64_t lse() const { return g_.lse(batch_, block_->first, head_); }
  std::int64_t bias() const { return place(bias_); }
  /// Of a key of the block's head in arrays like k.
  std::int64_t key(std::int64_t s) const {
    return ((batch_ * g_.keys + s) * g_.key_heads + head_ / (g_.heads / g_.key_heads)) * g_.features;
  }

  const float* in(std::size_t i) const { return static_cast<const float*>(arguments_.inputs[i].data); }
  float* out(std::size_t i) const { return static_cast<float*>(arguments_.outputs[i].data); }
  float* matrix(std::int64_t i) const { return static_cast<float*>(arguments_.scratch) + i * blocks_.matrix(); }
  /// What products may use, behind so many matrices.
  void* temporary(std::int64_t matrices) const { return matrix(matrices); }

  cpu::AttentionRows rows() const {
    return {.rows = block_->rows,
            .first_query = block_->first,
            .keys = block_->keys,
            .first_key = block_->first_key,
            .stride = blocks_.stride(),
            .left = g_.left,
            .right = g_.right,
            .scale = static_cast<float>(g_.scale),
            .bias = in(3) + place(bias_),
            .bias_row = bias_[2],
            .bias_key = bias_[3],
            .mask = static_cast<const bool*>(arguments_.inputs[4].data) + place(mask_),
            .mask_row = mask_[2],
            .mask_key = mask_[3],
            .saved_row = g_.heads,
            .weights = matrix(0)};
  }

 private:
  std::int64_t place(const std::array<std::int64_t, 4>& strides) const {
    return batch_ * strides[0] + head_ * strides[1] + block_->first * strides[2];
  }

  const cpu::AttentionGeometry& g_;
  const AttentionBlocks& blocks_;
  const KernelArguments& arguments_;
  std::array<std::int64_t, 4> bias_, mask_;
  std::int64_t batch_ = 0, head_ = 0;
  const QueryBlock* block_ = nullptr;
};

/// Cuts the rows behind the last grain of keys that the mask shows any of them. Null where it shows none.
const Products* cut_at_mask(const QueryBlock& block, cpu::AttentionRows& rows) {
  if (block.grain == 0) return block.of_all();
  const std::int64_t grains = ceil_div(cpu::keys_up_to_last_seen(rows), block.grain);
  rows.keys = std::min(grains * block.grain, block.keys);
  return grains == 0 ? nullptr : block.products[static_cast<std::size_t>(grains - 1)];
}

void attention_forward(const cpu::AttentionGeometry& g, const AttentionBlocks& blocks, const cpu::Range& heads,
                       const KernelArguments& arguments) {
  View view(g, blocks, arguments);
  std::array<float, cpu::most_rows> inverse{};
  view.for_each_block(heads, [&] {
    const QueryBlock& block = view.block();
    cpu::AttentionRows rows = view.rows();
    float* out = view.out(0) + view.query();
    float* lse = view.out(1) + view.lse();
    inverse.fill(0);
    if (const Products* products = cut_at_mask(block, rows)) {
      products->scores->run({view.in(0) + view.query(), view.in(1) + view.key(block.first_key), rows.weights},
                            view.temporary(1));
      cpu::soften(rows, inverse.data(), lse);
      products->mixed->run({rows.weights, view.in(2) + view.key(block.first_key), out}, view.temporary(1));
      cpu::scale_rows(out, block.rows, view.query_stride(), g.features, inverse.data());
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
      if (inverse[static_cast<std::size_t>(i)] != 0) continue;
      // All keys count alike, each as JAX's masked logit.
      float* row = out + i * view.query_stride();
      const float part = 1 / static_cast<float>(g.keys);
      cpu::add_up_rows(view.in(2) + view.key(0), g.keys, view.key_stride(), g.features, row);
      cpu::scale_rows(row, 1, 0, g.features, &part);
      lse[i * g.heads] = static_cast<float>(-0.7 * static_cast<double>(std::numeric_limits<float>::max()) +
                                            std::log(static_cast<double>(g.keys)));
    }
  });
}

void attention_gradient(const cpu::AttentionGeometry& g, const AttentionBlocks& blocks, const cpu::Range& heads,
                        const KernelArguments& arguments) {
  View view(g, blocks, arguments);
  const bool stores = blocks.first_has_all_keys(g);
  for (std::size_t i = stores ? 3 : 1; i < 4; ++i) std::fill_n(view.out(i), arguments.outputs[i].shape.size(), 0.0F);
  std::array<float, cpu::most_rows> constants{};
  std::array<bool, cpu::most_rows> seen{};
  view.for_each_block(heads, [&] {
    const QueryBlock& block = view.block();
    const cpu::AttentionRows rows = view.rows();
    const float* q = view.in(0) + view.query();
    const float* ct = view.in(7) + view.query();
    const std::int64_t key = view.key(block.first_key);
    float* ct_logits = view.matrix(1);
    void* temporary = view.temporary(2);
    seen.fill(false);
    if (const Products* products = block.of_all()) {
      products->scores->run({q, view.in(1) + key, rows.weights}, temporary);
      cpu::weigh(rows, view.in(6) + view.lse(), seen.data());
      const auto& spread = stores && view.is_first() ? products->spread : products->spread_on;
      spread->run({rows.weights, ct, view.out(2) + key}, temporary);
      products->scores->run({ct, view.in(2) + key, ct_logits}, temporary);
      cpu::multiply_rows(ct, view.in(5) + view.query(), block.rows, view.query_stride(), g.features, constants.data());
      for (std::int64_t i = 0; i < block.rows; ++i) {
        float& constant = constants[static_cast<std::size_t>(i)];
        constant = view.in(8)[view.lse() + i * g.heads] - constant;
      }
      cpu::differentiate(rows, ct_logits, constants.data(), view.out(3) + view.bias());
      products->mixed->run({ct_logits, view.in(1) + key, view.out(0) + view.query()}, temporary);
      spread->run({ct_logits, q, view.out(1) + key}, temporary);
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
      if (seen[static_cast<std::size_t>(i)]) continue;
      if (block.products.empty()) {
        std::fill_n(view.out(0) + view.query() + i * view.query_stride(), g.features, 0.0F);
      }
      cpu::add_to_rows(view.out(2) + view.key(0), g.keys, view.key_stride(), g.features, ct + i * view.query_stride(),
                       1 / static_cast<float>(g.keys));
    }
  });
}

class Attention final : public Kernel {
 public:
  using Run = void (*)(const cpu::AttentionGeometry&, const AttentionBlocks&, const cpu::Range&,
                       const KernelArguments&);

  Attention(std::shared_ptr<const cpu::AttentionGeometry> geometry, std::shared_ptr<const AttentionBlocks> blocks,
            Run run, std::int64_t matrices)
      : geometry_(std::move(geometry)),
        blocks_(std::move(blocks)),
        run_(run),
        matrices_(matrices),
        heads_{0, geometry_->batch * geometry_->heads} {}

  void run(const KernelArguments& arguments) const override { run_(*geometry_, *blocks_, heads_, arguments); }

  std::size_t scratch_bytes() const override {
    return cpu::whole_lines(static_cast<std::size_t>(matrices_ * blocks_->matrix()) * sizeof(float)) +
           blocks_->scratch_bytes();
  }

  /// Some heads each. Empty where there is little to do, and for gradients, which heads add up.
  std::vector<std::unique_ptr<Kernel>> parts() const {
    const cpu::AttentionGeometry& g = *geometry_;
    const std::int64_t size = 2 * heads_.size() * g.queries * g.keys * g.features;
    const std::int64_t parts = std::min({cpu::most_parts, size / cpu::least_part, heads_.size()});
    std::vector<std::unique_ptr<Kernel>> result;
    if (run_ != attention_forward || parts < 2) return result;
    const std::int64_t most = ceil_div(heads_.size(), parts);
    for (std::int64_t first = 0; first < heads_.size(); first += most) {
      auto part = std::make_unique<Attention>(*this);
      part->heads_ = {first, std::min(first + most, heads_.last)};
      result.push_back(std::move(part));
    }
    return result;
  }

 private:
  std::shared_ptr<const cpu::AttentionGeometry> geometry_;
  std::shared_ptr<const AttentionBlocks> blocks_;
  Run run_;
  std::int64_t matrices_;
  cpu::Range heads_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  if (request.inputs[0].dtype != DType::float32) return nullptr;
  if (request.inputs[0].size() == 0 || request.inputs[1].size() == 0) return nullptr;
  if (cpu::has_one_query(request)) return cpu::make_attention_of_one_query(request);
  const bool is_gradient = request.op == "attention_grad";
  const auto geometry = std::make_shared<const cpu::AttentionGeometry>(request);
  const auto blocks = std::make_shared<AttentionBlocks>();
  if (!blocks->prepare(*geometry, is_gradient)) return nullptr;
  return std::make_unique<Attention>(geometry, blocks, is_gradient ? attention_gradient : attention_forward,
                                     is_gradient ? 2 : 1);
}

std::vector<std::unique_ptr<Kernel>> make_attention_parts(const KernelRequest& request, const Kernel& whole) {
  if (cpu::has_one_query(request)) return cpu::make_attention_of_one_query_parts(request);
  const auto* attention = dynamic_cast<const Attention*>(&whole);
  return attention == nullptr ? std::vector<std::unique_ptr<Kernel>>() : attention->parts();
}

}  // namespace lockstep::backend::onednn
