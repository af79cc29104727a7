#include <algorithm>
#include <charconv>
#include <string>

#include <lockstep/convolution.h>
#include <lockstep/manipulation.h>
#include <lockstep/products.h>

#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

/// "[1] x [0]" of the pretty form, or two attributes of the generic one.
Lists both(const OpCall& call, const char* pretty, const char* left, const char* right) {
  if (const mlir::Attribute* found = call.find({pretty})) {
    if (found->chained.size() != 1) call.refuse(std::string(pretty) + " must be [...] x [...]");
    mlir::Attribute first = *found;
    first.chained.clear();
    return {integers_of(first, call.op.line), integers_of(found->chained[0], call.op.line)};
  }
  return {call.integers({left}, {}), call.integers({right}, {})};
}

std::vector<Array> product(const OpCall& call, const Lists& contract, const Lists& batch) {
  const Array &a = call.operand(0), &b = call.operand(1);
  const DType result = call.result().dtype;
  if (a.dtype() == DType::bool_ && b.dtype() == DType::bool_) {  // or of ands
    return {dot_general(convert(a, int32), convert(b, int32), {contract[0], contract[1]}, {batch[0], batch[1]}) != 0};
  }
  if (a.dtype() != result || b.dtype() != result) {
    return {dot_general(a, b, {contract[0], contract[1]}, {batch[0], batch[1]}, result)};
  }
  return lax::dot_general({a, b}, {{"contract", contract}, {"batch", batch}});
}

std::vector<Array> general_product(const OpCall& call) {
  return product(call, both(call, "contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions"),
                 both(call, "batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions"));
}

/// The product of vectors and matrices: it contracts the last dimension of one with the first of the other.
std::vector<Array> plain_product(const OpCall& call) {
  const int rank = call.operand(0).ndim();
  for (const std::size_t i : {0U, 1U}) {
    if (call.operand(i).ndim() < 1 || call.operand(i).ndim() > 2) {
      call.refuse("dot of " + to_string(call.operand(i).type()) + "; expected vectors and matrices");
    }
  }
  return product(call, {{rank - 1}, {0}}, {{}, {}});
}

/// Where the batch (or output) and feature dimensions of "[b, 0, 1, f]" are, and the spatial ones in order.
struct DimensionNumbers {
  std::int64_t first = -1, second = -1;
  Axes spatial;

  DimensionNumbers(const OpCall& call, const mlir::Attribute& list, const char* a, const char* b) {
    spatial.assign(list.items.size() < 2 ? 0 : list.items.size() - 2, -1);
    std::int64_t place = 0;
    for (const mlir::Attribute& item : list.items) {
      if (item.text == a) {
        first = place;
      } else if (item.text == b) {
        second = place;
      } else {
        const auto d = static_cast<std::size_t>(integers_of(item, call.op.line)[0]);
        if (d >= spatial.size()) call.refuse("its dim_numbers name a dimension that there is not");
        spatial[d] = place;
      }
      ++place;
    }
    if (first < 0 || second < 0 || std::ranges::find(spatial, -1) != spatial.end()) {
      call.refuse(std::string("its dim_numbers must name ") + a + ", " + b + " and each spatial dimension");
    }
  }
  Axes order(std::int64_t begin, std::int64_t end) const {
    Axes dims;
    if (begin >= 0) dims.push_back(begin);
    dims.insert(dims.end(), spatial.begin(), spatial.end());
    if (begin < 0) dims.push_back(first == end ? second : first);
    dims.push_back(end);
    return dims;
  }
};

/// "[b, 0, 1, f]" of the three lists that #stablehlo.conv<raw ...> writes out.
mlir::Attribute raw_dimensions(const OpCall& call, const std::string& of, const char* first, const char* second,
                               const char* marks) {
  const std::int64_t a = call.integer({(of + first).c_str()}, -1), b = call.integer({(of + second).c_str()}, -1);
  const Axes spatial = call.integers({(of + "_spatial_dimensions").c_str()}, {});
  mlir::Attribute list{.kind = mlir::Attribute::Kind::list};
  list.items.resize(spatial.size() + 2, {.text = "-1"});
  const auto put = [&](std::int64_t place, const std::string& text) {
    if (place < 0 || place >= static_cast<std::int64_t>(list.items.size())) {
      call.refuse("its dimension_numbers name dimension " + std::to_string(place) + " of its " + of +
                  "; expected one of " + std::to_string(list.items.size()));
    }
    mlir::Attribute& item = list.items[static_cast<std::size_t>(place)];
    if (item.text != "-1") call.refuse("its dimension_numbers name a dimension of its " + of + " twice");
    item.text = text;
  };
  put(a, std::string(1, marks[0]));
  put(b, std::string(1, marks[1]));
  for (std::size_t d = 0; d < spatial.size(); ++d) put(spatial[d], std::to_string(d));
  return list;
}

/// scale * (x - mean) / sqrt(variance + epsilon) + offset, a number of each for each feature.
std::vector<Array> normalized(const OpCall& call) {
  const Array& x = call.operand(0);
  const std::int64_t feature = call.integer({"feature_index"}, -1);
  if (feature < 0 || feature >= x.ndim()) call.refuse("its feature_index is no dimension of its operand");
  const mlir::Attribute* written = call.find({"epsilon"});
  double epsilon = 0;
  const std::string text = written == nullptr ? "" : written->text;
  if (std::from_chars(text.data(), text.data() + text.size(), epsilon).ptr != text.data() + text.size() ||
      text.empty()) {
    call.refuse("its epsilon '" + text + "' is no number");
  }
  std::vector<Array> parts;
  for (const std::size_t i : {1U, 2U, 3U, 4U}) {
    const Array& part = call.operand(i);
    if (part.ndim() != 1 || part.dtype() != x.dtype() || part.dim(0) != x.dim(static_cast<int>(feature))) {
      call.refuse("its operand " + std::to_string(i) + " is " + to_string(part.type()) +
                  "; expected a number for each feature, of its operand's dtype");
    }
    parts.push_back(lax::broadcast_in_dim({part}, {{"shape", x.shape().to_vector()}, {"dims", Axes{feature}}})[0]);
  }
  const Array deviation = lax::sqrt({parts[3] + convert(array(epsilon), x.dtype())}, {})[0];
  return {parts[0] * ((x - parts[2]) / deviation) + parts[1]};
}

Axes inverse(const Axes& order) {
  Axes places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return places;
}

/// Operands of a convolution into a wider dtype: their sums are kept in that.
Array in_result_dtype(const OpCall& call, const Array& x) {
  const DType dtype = call.result().dtype;
  return size_of(dtype) > size_of(x.dtype()) ? convert(x, dtype) : x;
}

std::vector<Array> convolve_all(const OpCall& call) {
  const mlir::Attribute* numbers = call.find({"dim_numbers", "dimension_numbers"});
  if (numbers != nullptr && !numbers->items.empty() && numbers->items[0].kind == mlir::Attribute::Kind::list) {
    numbers = &numbers->items[0];  // #stablehlo.conv<[...]x[...]->[...]>
  }
  mlir::Attribute raw;
  if (numbers != nullptr && numbers->entries.contains("input_batch_dimension")) {
    raw = raw_dimensions(call, "input", "_batch_dimension", "_feature_dimension", "bf");
    raw.chained = {raw_dimensions(call, "kernel", "_input_feature_dimension", "_output_feature_dimension", "io"),
                   raw_dimensions(call, "output", "_batch_dimension", "_feature_dimension", "bf")};
    numbers = &raw;
  }
  if (numbers == nullptr || numbers->chained.size() != 2) call.refuse("its dim_numbers are missing");
  const DimensionNumbers x(call, *numbers, "b", "f"), kernel(call, numbers->chained[0], "i", "o"),
      result(call, numbers->chained[1], "b", "f");
  const auto count = static_cast<int>(x.spatial.size());
  const ArrayType& type = call.result();
  if (type.shape.size() == 0) return {zeros(type.shape, type.dtype)};
  Array images = transpose(in_result_dtype(call, call.operand(0)), x.order(x.first, x.second));
  Array window = transpose(in_result_dtype(call, call.operand(1)), kernel.order(-1, kernel.second));
  Axes flipped = call.integers({"reverse", "window_reversal"}, {}), reversed;
  for (std::size_t d = 0; d < flipped.size(); ++d) {
    if (flipped[d] != 0) reversed.push_back(static_cast<std::int64_t>(d));
  }
  if (!reversed.empty()) window = reverse(window, reversed);
  ConvGeneralOptions options{.strides = call.integers({"stride", "window_strides"}, {}),
                             .padding = call.pairs({"pad", "padding"}, count),
                             .lhs_dilation = call.integers({"lhs_dilate", "lhs_dilation"}, {}),
                             .rhs_dilation = call.integers({"rhs_dilate", "rhs_dilation"}, {}),
                             .feature_group_count = call.integer({"feature_group_count"}, 1),
                             .batch_group_count = call.integer({"batch_group_count"}, 1)};
  if (count == 0) {  // ours have one spatial dimension at least
    images = expand_dims(images, 1);
    window = expand_dims(window, 0);
    options.padding = "VALID";
  }
  Array y = conv_general_dilated(images, window, options);
  if (count == 0) y = reshape(y, {y.dim(0), y.dim(2)});
  return {convert(transpose(y, inverse(result.order(result.first, result.second))), type.dtype)};
}

}  // namespace

std::vector<Array> apply_product(const OpCall& call) {
  if (call.op.name == "stablehlo.dot_general") return general_product(call);
  if (call.op.name == "stablehlo.dot") return plain_product(call);
  if (call.op.name == "stablehlo.batch_norm_inference") return normalized(call);
  if (call.op.name == "stablehlo.convolution") return convolve_all(call);
  return {};
}

}  // namespace lockstep::exchange
