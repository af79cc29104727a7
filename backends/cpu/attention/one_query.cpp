#include "backends/cpu/attention/one_query.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <lockstep/backend/round_up.h>

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/blocks.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

namespace {

constexpr std::int64_t query_lanes = 16, keys_at_once = 4;

/// Heads of one example, and the arrays where these begin; steps from key to key and from head to head.
struct Heads {
  const float* queries;
  const float* keys;
  const float* values;
  float* results;
  float* weights;  ///< A row for each head.
  std::int64_t count, features, key_step, group;
  std::int64_t seen, stride;  ///< Keys, and from row to row.
  const float* of_key(const float* array, std::int64_t key, std::int64_t head) const {
    return array + key * key_step + head / group * features;
  }
};

/// Sums of four rows of lanes by pairs.
inline void add_lanes(const float (&rows)[keys_at_once * query_lanes], float* sums, std::int64_t stride) {
  float a[keys_at_once * 8], b[keys_at_once * 4], c[keys_at_once * 2];
  for (std::int64_t k = 0; k < keys_at_once * 8; ++k) a[k] = rows[2 * k] + rows[2 * k + 1];
  for (std::int64_t k = 0; k < keys_at_once * 4; ++k) b[k] = a[2 * k] + a[2 * k + 1];
  for (std::int64_t k = 0; k < keys_at_once * 2; ++k) c[k] = b[2 * k] + b[2 * k + 1];
  for (std::int64_t k = 0; k < keys_at_once; ++k) sums[k * stride] = c[2 * k] + c[2 * k + 1];
}

/// Rows of products of queries with keys.
void multiply_queries(const Heads& heads) {
  const std::int64_t whole = heads.features / query_lanes * query_lanes;
  for (std::int64_t key = 0; key < heads.seen; key += keys_at_once) {
    const std::int64_t count = std::min(keys_at_once, heads.seen - key);
    for (std::int64_t head = 0; head < heads.count; ++head) {
      const float* query = heads.queries + head * heads.features;
      float rows[keys_at_once * query_lanes] = {};
      for (std::int64_t i = 0; i < count; ++i) {
        const float* from = heads.of_key(heads.keys, key + i, head);
        float* sums = rows + i * query_lanes;
        for (std::int64_t f = 0; f < whole; f += query_lanes) {
          for (std::int64_t k = 0; k < query_lanes; ++k) sums[k] = std::fma(query[f + k], from[f + k], sums[k]);
        }
        for (std::int64_t k = 0; k < heads.features - whole; ++k) {
          sums[k] = std::fma(query[whole + k], from[whole + k], sums[k]);
        }
      }
      add_lanes(rows, heads.weights + head * heads.stride + key, 1);  // rows are wide enough for whole groups
    }
  }
}

/// results = sums of weights times values.
void mix_values(const Heads& heads) {
  std::fill(heads.results, heads.results + heads.count * heads.features, 0.0F);
  for (std::int64_t key = 0; key < heads.seen; key += keys_at_once) {
    const std::int64_t count = std::min(keys_at_once, heads.seen - key);
    for (std::int64_t head = 0; head < heads.count; ++head) {
      const float* weights = heads.weights + head * heads.stride + key;
      float* to = heads.results + head * heads.features;
      if (count == keys_at_once) {
        const float *a = heads.of_key(heads.values, key, head), *b = a + heads.key_step, *c = b + heads.key_step,
                    *d = c + heads.key_step;
        for (std::int64_t f = 0; f < heads.features; ++f) {
          const float sum = std::fma(weights[1], b[f], std::fma(weights[0], a[f], to[f]));
          to[f] = std::fma(weights[3], d[f], std::fma(weights[2], c[f], sum));
        }
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const float* from = heads.of_key(heads.values, key + i, head);
        for (std::int64_t f = 0; f < heads.features; ++f) to[f] = std::fma(weights[i], from[f], to[f]);
      }
    }
  }
}

/// Examples and, of each, heads of keys.
struct HeadRange {
  std::int64_t first_example, examples, first_head, heads;
};

class AttentionOfOneQuery final : public Kernel {
 public:
  AttentionOfOneQuery(const AttentionGeometry& geometry, const HeadRange& range)
      : g_(geometry),
        range_(range),
        stride_(round_up<std::int64_t>(geometry.keys, row_width)),
        bias_(AttentionGeometry::broadcast_strides(geometry.bias)),
        mask_(AttentionGeometry::broadcast_strides(geometry.mask)) {}

  std::size_t scratch_bytes() const override {
    return whole_lines(static_cast<std::size_t>(heads() * (stride_ + 1)) * sizeof(float));
  }

  void run(const KernelArguments& arguments) const override {
    for (std::int64_t b = 0; b < range_.examples; ++b) run_example(arguments, range_.first_example + b);
  }

 private:
  std::int64_t group() const { return g_.heads / g_.key_heads; }
  std::int64_t heads() const { return range_.heads * group(); }

  void run_example(const KernelArguments& arguments, std::int64_t example) const {
    static const auto multiply = VectorVariants<multiply_queries>::chosen();
    static const auto mix = VectorVariants<mix_values>::chosen();
    const auto in = [&](std::size_t i) { return static_cast<const float*>(arguments.inputs[i].data); };
    const std::int64_t head = range_.first_head * group(), row = example * g_.heads + head;
    const std::int64_t key = (example * g_.keys * g_.key_heads + range_.first_head) * g_.features;
    const bool* mask = static_cast<const bool*>(arguments.inputs[4].data) + example * mask_[0] + head * mask_[1];
    const Heads of{.queries = in(0) + row * g_.features,
                   .keys = in(1) + key,
                   .values = in(2) + key,
                   .results = static_cast<float*>(arguments.outputs[0].data) + row * g_.features,
                   .weights = static_cast<float*>(arguments.scratch),
                   .count = heads(),
                   .features = g_.features,
                   .key_step = g_.key_heads * g_.features,
                   .group = group(),
                   .seen = seen_of(mask),
                   .stride = stride_};
    float* inverse = of.weights + of.count * stride_;
    float* saved = static_cast<float*>(arguments.outputs[1].data) + row;
    multiply(of);
    soften({.rows = of.count,
            .first_query = 0,
            .keys = of.seen,
            .first_key = 0,
            .stride = stride_,
            .left = -1,
            .right = -1,
            .scale = static_cast<float>(g_.scale),
            .bias = in(3) + example * bias_[0] + head * bias_[1],
            .bias_row = bias_[1],
            .bias_key = bias_[3],
            .mask = mask,
            .mask_row = mask_[1],
            .mask_key = mask_[3],
            .saved_row = 1,
            .weights = of.weights},
           inverse, saved);
    mix(of);
    for (std::int64_t h = 0; h < of.count; ++h) {
      if (inverse[h] == 0) {
        take_mean(of, h, saved[h]);
      } else {
        scale_rows(of.results + h * of.features, 1, 0, of.features, inverse + h);
      }
    }
  }

  /// Keys up to the last one that mask and window show any head.
  std::int64_t seen_of(const bool* mask) const {
    const std::int64_t most = g_.right < 0 ? g_.keys : std::min(g_.keys, g_.right + 1);
    std::int64_t seen = 0;
    for (std::int64_t h = 0; h < (mask_[1] == 0 ? 1 : heads()); ++h, mask += mask_[1]) {
      std::int64_t last = most;
      while (last > seen && !mask[(last - 1) * mask_[3]]) --last;
      seen = last;
    }
    return seen;
  }

  /// Of a head that sees no key: all count alike, each as JAX's masked logit.
  void take_mean(const Heads& of, std::int64_t head, float& saved) const {
    float* to = of.results + head * of.features;
    const float part = 1 / static_cast<float>(g_.keys);
    add_up_rows(of.of_key(of.values, 0, head), g_.keys, of.key_step, of.features, to);
    scale_rows(to, 1, 0, of.features, &part);
    saved = static_cast<float>(-0.7 * static_cast<double>(std::numeric_limits<float>::max()) +
                               std::log(static_cast<double>(g_.keys)));
  }

  AttentionGeometry g_;
  HeadRange range_;
  std::int64_t stride_;
  std::array<std::int64_t, 4> bias_, mask_;
};

}  // namespace

bool has_one_query(const KernelRequest& request) {
  return request.op == "attention" && request.inputs[0].dtype == DType::float32 && request.inputs[0].shape[1] == 1;
}

std::unique_ptr<Kernel> make_attention_of_one_query(const KernelRequest& request) {
  const AttentionGeometry g(request);
  return std::make_unique<AttentionOfOneQuery>(g, HeadRange{0, g.batch, 0, g.key_heads});
}

std::vector<std::unique_ptr<Kernel>> make_attention_of_one_query_parts(const KernelRequest& request) {
  constexpr std::int64_t least_elements = std::int64_t{1} << 16, examples_enough = 8;
  const AttentionGeometry g(request);
  if (request.inputs[1].size() < 2 * least_elements) return {};
  const std::int64_t examples = ceil_div(g.batch, most_parts);
  const std::int64_t cuts = g.batch >= examples_enough ? 1 : ceil_div(examples_enough / 2, g.batch);
  const std::int64_t heads = ceil_div(g.key_heads, std::min(cuts, g.key_heads));
  std::vector<std::unique_ptr<Kernel>> parts;
  for (std::int64_t b = 0; b < g.batch; b += examples) {
    for (std::int64_t h = 0; h < g.key_heads; h += heads) {
      parts.push_back(std::make_unique<AttentionOfOneQuery>(
          g, HeadRange{b, std::min(examples, g.batch - b), h, std::min(heads, g.key_heads - h)}));
    }
  }
  if (parts.size() < 2) parts.clear();
  return parts;
}

}  // namespace lockstep::backend::cpu
