#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mm.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"
#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/element_types.h"

namespace lockstep::backend::aten::kernels {

namespace {

/// Queries are taken in blocks, one head at a time, so that only a block of rows of the T x S matrix exists at once.
constexpr std::int64_t block_rows = 64;

/// A block of queries of one head.
struct QueryBlock {
  std::int64_t b, n, first, rows;
};

template <class T>
void divide_by_sum(T* row, std::int64_t count) {
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += static_cast<double>(row[j]);
  const T inverse = static_cast<T>(1 / sum);
  for (std::int64_t j = 0; j < count; ++j) row[j] *= inverse;
}

/// The arrays of a run in the type T that is computed in: 16-bit floats are widened to float32 beforehand.
template <class T>
class AttentionRun {
 public:
  AttentionRun(const cpu::AttentionGeometry& attention, const KernelArguments& arguments)
      : a_(attention), arguments_(arguments) {
    for (const ArrayView& input : arguments.inputs) {
      inputs_.push_back(input.dtype == DType::bool_ ? tensor_of(input) : wide(tensor_of(input)));
    }
    for (const ArrayView& output : arguments.outputs) results_.push_back(wide(tensor_of(output)));
  }

  /// Puts widened results where they belong.
  void finish() const {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].const_data_ptr() != arguments_.outputs[i].data)
        tensor_of(arguments_.outputs[i]).copy_(results_[i]);
    }
  }

  const T* in(std::size_t i) const { return static_cast<const T*>(inputs_[i].const_data_ptr()); }
  T* out(std::size_t i) const { return static_cast<T*>(results_[i].mutable_data_ptr()); }

  /// A block's rows of an array like q.
  at::Tensor queries(const at::Tensor& x, const QueryBlock& block) const {
    return x.select(0, block.b).select(1, block.n).narrow(0, block.first, block.rows);
  }
  at::Tensor queries(std::size_t i, const QueryBlock& block) const { return queries(inputs_[i], block); }
  at::Tensor query_result(std::size_t i, const QueryBlock& block) const { return queries(results_[i], block); }
  /// All keys of a block's head in an array like k.
  at::Tensor keys(const at::Tensor& x, const QueryBlock& block) const {
    return x.select(0, block.b).select(1, block.n / (a_.heads / a_.key_heads));
  }
  at::Tensor keys(std::size_t i, const QueryBlock& block) const { return keys(inputs_[i], block); }
  at::Tensor key_result(std::size_t i, const QueryBlock& block) const { return keys(results_[i], block); }

  /// Matrix number `i` of [rows, S] in scratch.
  at::Tensor matrix(std::size_t i, const QueryBlock& block) const {
    T* data = static_cast<T*>(arguments_.scratch) + static_cast<std::int64_t>(i) * block_rows * a_.keys;
    return tensor_at(data, at::CppTypeToScalarType<T>::value, {block.rows, a_.keys});
  }

  template <class Visit>
  void for_each_block(Visit visit) const {
    for (std::int64_t b = 0; b < a_.batch; ++b) {
      for (std::int64_t n = 0; n < a_.heads; ++n) {
        for (std::int64_t first = 0; first < a_.queries; first += block_rows) {
          visit(QueryBlock{b, n, first, std::min(block_rows, a_.queries - first)});
        }
      }
    }
  }

  /// Calls visit(query, bias of the row, its step, visible) for each row of a block; visible(s) says whether key s is.
  template <class Visit>
  void for_each_row(const QueryBlock& block, Visit visit) const {
    const auto bias = cpu::AttentionGeometry::broadcast_strides(a_.bias);
    const auto mask = cpu::AttentionGeometry::broadcast_strides(a_.mask);
    const bool* mask_data = static_cast<const bool*>(inputs_[4].const_data_ptr());
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const std::int64_t t = block.first + i;
      const bool* mask_row = mask_data + block.b * mask[0] + block.n * mask[1] + t * mask[2];
      const auto visible = [&, t, mask_row](std::int64_t s) {
        return mask_row[s * mask[3]] && (a_.left < 0 || s >= t - a_.left) && (a_.right < 0 || s <= t + a_.right);
      };
      visit(t, block.b * bias[0] + block.n * bias[1] + t * bias[2], bias[3], visible);
    }
  }

  /// The logits of a block, -inf where a key is not seen; a row without a key is all zeros and marked `blind`.
  at::Tensor logits(const QueryBlock& block, std::array<bool, block_rows>& blind) const {
    const at::Tensor s = matrix(0, block);
    at::Tensor product = s;
    at::mm_out(product, queries(0, block), keys(1, block).t());
    T* row = static_cast<T*>(s.mutable_data_ptr());
    const T scale = static_cast<T>(a_.scale);
    const T* bias = in(3);
    for_each_row(block, [&](std::int64_t t, std::int64_t at, std::int64_t step, const auto& visible) {
      bool any = false;
      for (std::int64_t j = 0; j < a_.keys; ++j) {
        const bool seen = visible(j);
        any = any || seen;
        row[j] = seen ? row[j] * scale + bias[at + j * step] : -std::numeric_limits<T>::infinity();
      }
      blind[static_cast<std::size_t>(t - block.first)] = !any;
      if (!any) std::fill_n(row, a_.keys, T(0));
      row += a_.keys;
    });
    return s;
  }

  /// Probabilities, their exponents shifted by the saved log-sum-exp, operand 6. Each row is divided by its sum again:
  /// beside large logits the log-sum-exp has lost it.
  at::Tensor probabilities(const QueryBlock& block, std::array<bool, block_rows>& blind) const {
    at::Tensor p = logits(block, blind);
    T* row = static_cast<T*>(p.mutable_data_ptr());
    for (std::int64_t i = 0; i < block.rows; ++i, row += a_.keys) {
      if (blind[static_cast<std::size_t>(i)]) continue;
      const T lse = in(6)[a_.lse(block.b, block.first + i, block.n)];
      for (std::int64_t j = 0; j < a_.keys; ++j) row[j] -= lse;
    }
    at::exp_out(p, p);
    row = static_cast<T*>(p.mutable_data_ptr());
    for (std::int64_t i = 0; i < block.rows; ++i, row += a_.keys) {
      if (blind[static_cast<std::size_t>(i)]) {
        std::fill_n(row, a_.keys, T(1) / static_cast<T>(a_.keys));
      } else {
        divide_by_sum(row, a_.keys);
      }
    }
    return p;
  }

  const cpu::AttentionGeometry& a_;

 private:
  static at::Tensor wide(const at::Tensor& x) { return x.element_size() < 4 ? x.to(at::kFloat) : x; }

  const KernelArguments& arguments_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> results_;
};

template <class T>
void attention_forward(const cpu::AttentionGeometry& a, const KernelArguments& arguments) {
  const AttentionRun<T> run(a, arguments);
  std::array<bool, block_rows> blind{};
  run.for_each_block([&](const QueryBlock& block) {
    at::Tensor p = run.logits(block, blind);
    std::array<T, block_rows> largest;
    T* row = static_cast<T*>(p.mutable_data_ptr());
    for (std::int64_t i = 0; i < block.rows; ++i, row += a.keys) {
      T most = row[0];
      for (std::int64_t j = 1; j < a.keys; ++j) most = (row[j] > most) | (row[j] != row[j]) ? row[j] : most;
      for (std::int64_t j = 0; j < a.keys; ++j) row[j] -= most;
      largest[static_cast<std::size_t>(i)] = most;
    }
    at::exp_out(p, p);
    row = static_cast<T*>(p.mutable_data_ptr());
    for (std::int64_t i = 0; i < block.rows; ++i, row += a.keys) {
      double sum = 0;
      for (std::int64_t j = 0; j < a.keys; ++j) sum += static_cast<double>(row[j]);
      const T inverse = static_cast<T>(1 / sum);
      for (std::int64_t j = 0; j < a.keys; ++j) row[j] *= inverse;
      const auto at = static_cast<std::size_t>(i);
      // What is masked counts as in JAX where nothing else is there.
      const double most =
          blind[at] ? -0.7 * static_cast<double>(std::numeric_limits<float>::max()) : static_cast<double>(largest[at]);
      run.out(1)[a.lse(block.b, block.first + i, block.n)] = static_cast<T>(most + std::log(sum));
    }
    at::Tensor out = run.query_result(0, block);
    at::mm_out(out, p, run.keys(2, block));
  });
  run.finish();
}

template <class T>
void tangent(const cpu::AttentionGeometry& a, const KernelArguments& arguments) {
  const AttentionRun<T> run(a, arguments);
  std::array<bool, block_rows> blind{};
  run.for_each_block([&](const QueryBlock& block) {
    const at::Tensor p = run.probabilities(block, blind);
    at::Tensor ds = run.matrix(1, block);
    at::mm_out(ds, run.queries(7, block), run.keys(1, block).t());
    at::addmm_out(ds, ds, run.queries(0, block), run.keys(8, block).t());
    T* row = static_cast<T*>(ds.mutable_data_ptr());
    const T* weight = static_cast<const T*>(p.const_data_ptr());
    std::array<T, block_rows> dlse{};
    const T scale = static_cast<T>(a.scale);
    const T* dbias = run.in(10);
    run.for_each_row(block, [&](std::int64_t t, std::int64_t at, std::int64_t step, const auto& visible) {
      double sum = 0;
      for (std::int64_t j = 0; j < a.keys; ++j) {
        row[j] = visible(j) ? weight[j] * (row[j] * scale + dbias[at + j * step]) : T(0);
        sum += static_cast<double>(row[j]);
      }
      dlse[static_cast<std::size_t>(t - block.first)] = static_cast<T>(sum);
      row += a.keys;
      weight += a.keys;
    });
    at::Tensor out = run.query_result(0, block);
    at::mm_out(out, ds, run.keys(2, block));
    at::addmm_out(out, out, p, run.keys(9, block));
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const std::int64_t at = a.lse(block.b, block.first + i, block.n);
      const T sum = dlse[static_cast<std::size_t>(i)];
      run.out(1)[at] = sum;
      for (std::int64_t h = 0; h < a.features; ++h) {
        run.out(0)[at * a.features + h] -= sum * run.in(5)[at * a.features + h];
      }
    }
  });
  run.finish();
}

template <class T>
void attention_gradient(const cpu::AttentionGeometry& a, const KernelArguments& arguments) {
  const AttentionRun<T> run(a, arguments);
  for (std::size_t i = 1; i < 4; ++i) std::fill_n(run.out(i), arguments.outputs[i].shape.size(), T(0));
  std::array<bool, block_rows> blind{};
  run.for_each_block([&](const QueryBlock& block) {
    const at::Tensor p = run.probabilities(block, blind);
    at::Tensor ct_v = run.key_result(2, block);
    at::addmm_out(ct_v, ct_v, p.t(), run.queries(7, block));
    at::Tensor ds = run.matrix(1, block);
    at::mm_out(ds, run.queries(7, block), run.keys(2, block).t());
    T* row = static_cast<T*>(ds.mutable_data_ptr());
    const T* weight = static_cast<const T*>(p.const_data_ptr());
    T* ct_bias = run.out(3);
    run.for_each_row(block, [&](std::int64_t t, std::int64_t at, std::int64_t step, const auto& visible) {
      const std::int64_t place = a.lse(block.b, t, block.n);
      T constant = run.in(8)[place];
      for (std::int64_t h = 0; h < a.features; ++h) {
        constant -= run.in(7)[place * a.features + h] * run.in(5)[place * a.features + h];
      }
      for (std::int64_t j = 0; j < a.keys; ++j) {
        row[j] = visible(j) ? weight[j] * (row[j] + constant) : T(0);
        ct_bias[at + j * step] += row[j];
      }
      row += a.keys;
      weight += a.keys;
    });
    at::Tensor ct_q = run.query_result(0, block);
    at::addmm_out(ct_q, ct_q, ds, run.keys(1, block), 0, a.scale);
    at::Tensor ct_k = run.key_result(1, block);
    at::addmm_out(ct_k, ct_k, ds.t(), run.queries(0, block), 1, a.scale);
  });
  run.finish();
}

using RunKernel = void (*)(const cpu::AttentionGeometry&, const KernelArguments&);

/// `matrices` blocks of rows of the T x S matrix are scratch.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request, RunKernel wide, RunKernel narrow,
                                       std::size_t matrices) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_float(dtype)) return nullptr;
  const cpu::AttentionGeometry attention(request);
  const bool doubled = dtype == DType::float64;
  const std::size_t elements = matrices * static_cast<std::size_t>(block_rows * attention.keys);
  return make_tensor_kernel(
      request,
      [run = doubled ? wide : narrow, attention](const KernelArguments& arguments) { run(attention, arguments); },
      {.scratch_bytes = elements * (doubled ? sizeof(double) : sizeof(float))});
}

}  // namespace

std::unique_ptr<Kernel> attention(const KernelRequest& request) {
  return make_attention(request, attention_forward<double>, attention_forward<float>, 1);
}
std::unique_ptr<Kernel> attention_tangent(const KernelRequest& request) {
  return make_attention(request, tangent<double>, tangent<float>, 2);
}
std::unique_ptr<Kernel> attention_grad(const KernelRequest& request) {
  return make_attention(request, attention_gradient<double>, attention_gradient<float>, 2);
}

}  // namespace lockstep::backend::aten::kernels
