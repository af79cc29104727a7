#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/convolution.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

using PaddingPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Axes spatial_extents(const Shape& shape, int first, int last) { return {shape.begin() + first, shape.end() - last}; }

Axes one_per_dimension(std::string_view op, std::string_view what, const Axes& given, std::size_t spatial) {
  if (given.empty()) return Axes(spatial, 1);
  if (given.size() != spatial || std::any_of(given.begin(), given.end(), [](std::int64_t n) { return n < 1; })) {
    throw ShapeError(fmt::format("{}: {} must be {} numbers of 1 or more, one per dimension, got [{}]", op, what,
                                 spatial, fmt::join(given, ",")));
  }
  return given;
}

/// Zeros between neighbours and at both ends of the dimensions from 1 on; negative padding crops.
Array spread(const Array& x, const PaddingPairs& padding, const Axes& dilation) {
  const auto rank = static_cast<std::size_t>(x.ndim());
  Axes low(rank, 0), high(rank, 0), interior(rank, 0);
  bool any = false;
  for (std::size_t d = 0; d < padding.size(); ++d) {
    low[d + 1] = padding[d].first;
    high[d + 1] = padding[d].second;
    interior[d + 1] = dilation[d] - 1;
    any = any || low[d + 1] != 0 || high[d + 1] != 0 || interior[d + 1] != 0;
  }
  return any ? pad(x, 0, low, high, interior) : x;
}

/// A convolution whose parameters are complete, channels last.
struct Convolution {
  Axes strides, lhs_dilation, rhs_dilation;
  PaddingPairs padding;
  std::int64_t groups = 1;
};

/// Whether dilating x and then convolving is the gradient of a convolution with the strides `lhs_dilation`.
bool is_gradient(const Convolution& c, const Axes& window) {
  bool dilated = false;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const std::int64_t span = (window[d] - 1) * c.rhs_dilation[d];
    if (c.strides[d] != 1 || c.padding[d].first > span || c.padding[d].second > span || c.padding[d].first < 0 ||
        c.padding[d].second < 0) {
      return false;
    }
    dilated = dilated || c.lhs_dilation[d] != 1;
  }
  return dilated;
}

/// The kernel of that convolution: flipped, and per group with its features swapped.
Array flipped_kernel(const Array& kernel, std::int64_t groups) {
  const int rank = kernel.ndim();
  Axes spatial;
  for (int d = 0; d < rank - 2; ++d) spatial.push_back(d);
  Shape split = kernel.shape();
  const std::int64_t in = split[rank - 2];
  const std::int64_t out = split[rank - 1] / groups;
  split = split.with(rank - 1, groups).insert(rank, out);
  const Array swapped = swapaxes(reshape(reverse(kernel, spatial), split.to_vector()), rank - 2, rank);
  return reshape(swapped, kernel.shape().with(rank - 2, out).with(rank - 1, groups * in).to_vector());
}

Array gradient_convolution(const Array& x, const Array& kernel, const Convolution& c) {
  const Axes window = spatial_extents(kernel.shape(), 0, 2);
  Axes spatial;
  std::vector<Axes> padding;
  for (std::size_t d = 0; d < window.size(); ++d) {
    const std::int64_t span = (window[d] - 1) * c.rhs_dilation[d];
    const auto [low, high] = c.padding[d];
    const std::int64_t extent = x.shape()[static_cast<int>(d) + 1];
    spatial.push_back((extent - 1) * c.lhs_dilation[d] + 1 + low + high - span);
    padding.push_back({span - low, span - high});
  }
  return api::bind_one(ops::primitives::conv_input_grad(), {x, flipped_kernel(kernel, c.groups)},
                       {{"strides", c.lhs_dilation},
                        {"padding", padding},
                        {"dilation", c.rhs_dilation},
                        {"groups", c.groups},
                        {"spatial", spatial}});
}

Array convolved(const Array& x, const Array& kernel, const Convolution& c) {
  if (x.size() > 0 && is_gradient(c, spatial_extents(kernel.shape(), 0, 2))) return gradient_convolution(x, kernel, c);
  // What conv itself takes stays with it; the rest is padding beforehand.
  const bool plain =
      std::all_of(c.padding.begin(), c.padding.end(), [](const auto& p) { return p.first >= 0 && p.second >= 0; }) &&
      std::all_of(c.lhs_dilation.begin(), c.lhs_dilation.end(), [](std::int64_t n) { return n == 1; });
  const Array input = plain ? x : spread(x, c.padding, c.lhs_dilation);
  return conv(input, kernel,
              {.strides = c.strides,
               .padding = plain ? c.padding : PaddingPairs{},
               .dilation = c.rhs_dilation,
               .groups = c.groups});
}

/// Group g of the rows put beside group g of the features.
Array batch_groups_as_features(const Array& x, std::int64_t groups) {
  const Shape split = x.shape().with(0, x.dim(0) / groups).insert(0, groups);
  const Array moved = moveaxis(reshape(x, split.to_vector()), 0, -2);
  return reshape(moved, x.shape().with(0, x.dim(0) / groups).with(x.ndim() - 1, groups * x.dim(-1)).to_vector());
}

/// Where the dimensions of the layout `order` stand in the layout `given`, which must have the same letters.
Axes positions(const std::string& given, const std::string& order, std::string_view what, const Array& x) {
  Axes result;
  for (const char name : order) {
    const std::size_t at = given.find(name);
    if (given.size() != order.size() || static_cast<int>(given.size()) != x.ndim() || at == std::string::npos) {
      throw ShapeError(
          fmt::format("conv_general_dilated: the layout of the {} must be \"{}\" in some order, got \"{}\" "
                      "for shape {}",
                      what, order, given, to_string(x.shape())));
    }
    result.push_back(static_cast<std::int64_t>(at));
  }
  return result;
}

/// The convolution of arrays in other layouts than channels last.
Array conv_in_layouts(const Array& x, const Array& kernel, ConvGeneralOptions options) {
  const auto [x_layout, kernel_layout, result_layout] = std::exchange(options.dimension_numbers, {});
  std::string spatial;
  for (const char name : x_layout) {
    if (name != 'N' && name != 'C') spatial += name;
  }
  const std::string image = "N" + spatial + "C";
  const Array result =
      conv_general_dilated(transpose(x, positions(x_layout, image, "input", x)),
                           transpose(kernel, positions(kernel_layout, spatial + "IO", "kernel", kernel)), options);
  const Axes places = positions(result_layout, image, "result", result);
  Axes back(places.size());
  for (std::size_t d = 0; d < places.size(); ++d) nth(back, places[d]) = static_cast<std::int64_t>(d);
  return transpose(result, back);
}

}  // namespace

ConvPadding::ConvPadding() = default;
ConvPadding::ConvPadding(const ConvPadding& other) = default;
ConvPadding::ConvPadding(ConvPadding&& other) noexcept = default;
ConvPadding& ConvPadding::operator=(const ConvPadding& other) = default;
ConvPadding& ConvPadding::operator=(ConvPadding&& other) noexcept = default;
ConvPadding::~ConvPadding() = default;
ConvPadding::ConvPadding(std::string name) : name_(std::move(name)) {}
ConvPadding::ConvPadding(const char* name) : name_(name) {}
ConvPadding::ConvPadding(std::vector<std::pair<std::int64_t, std::int64_t>> pairs)
    : pairs_(std::move(pairs)), is_name_(false) {}

PaddingPairs resolve_padding(const ConvPadding& padding, const Axes& extents, const Axes& window, const Axes& strides,
                             const Axes& dilation) {
  if (const PaddingPairs* pairs = padding.pairs()) {
    if (pairs->size() == extents.size()) return *pairs;
    if (!pairs->empty()) {
      throw ShapeError(
          fmt::format("padding: {} pairs for {} dimensions; give (low, high) for each", pairs->size(), extents.size()));
    }
    return PaddingPairs(extents.size(), {0, 0});
  }
  const std::string& name = padding.name();
  if (name != "VALID" && name != "SAME" && name != "SAME_LOWER") {
    throw ValueError(fmt::format("padding: \"{}\" is none; write \"VALID\", \"SAME\", \"SAME_LOWER\" or pairs", name));
  }
  PaddingPairs pairs(extents.size(), {0, 0});
  if (name == "VALID") return pairs;
  const auto fits = [&](const Axes& given) {
    return given.size() == extents.size() && std::ranges::all_of(given, [](std::int64_t n) { return n >= 1; });
  };
  if (!fits(strides) || (!dilation.empty() && !fits(dilation)) || window.size() != extents.size()) {
    throw ShapeError(fmt::format(
        "padding \"{}\": windows [{}], strides [{}] and dilations [{}] for extents [{}]; give "
        "one number of each a dimension, strides and dilations of 1 or more",
        name, fmt::join(window, ","), fmt::join(strides, ","), fmt::join(dilation, ","), fmt::join(extents, ",")));
  }
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t span = (window[d] - 1) * (dilation.empty() ? 1 : dilation[d]) + 1;
    const std::int64_t out = backend::ceil_div(extents[d], strides[d]);
    const std::int64_t total = std::max<std::int64_t>((out - 1) * strides[d] + span - extents[d], 0);
    const std::int64_t smaller = total / 2;
    pairs[d] = name == "SAME" ? std::pair(smaller, total - smaller) : std::pair(total - smaller, smaller);
  }
  return pairs;
}

Array conv_general_dilated(const ArrayOperand& x, const ArrayOperand& kernel, const ConvGeneralOptions& options) {
  const std::string op = "conv_general_dilated";
  if (!options.dimension_numbers[0].empty()) return conv_in_layouts(x, kernel, options);
  if (x.ndim() < 3 || kernel.ndim() != x.ndim()) {
    throw ShapeError(fmt::format("{}: needs x [N, spatial..., C] and kernel [window..., C/groups, O], got {} and {}",
                                 op, to_string(x.shape()), to_string(kernel.shape())));
  }
  const auto spatial = static_cast<std::size_t>(x.ndim() - 2);
  Convolution c{one_per_dimension(op, "strides", options.strides, spatial),
                one_per_dimension(op, "lhs_dilation", options.lhs_dilation, spatial),
                one_per_dimension(op, "rhs_dilation", options.rhs_dilation, spatial),
                {},
                options.feature_group_count};
  Axes extents = spatial_extents(x.shape(), 1, 1);
  for (std::size_t d = 0; d < spatial; ++d)
    extents[d] = std::max<std::int64_t>((extents[d] - 1) * c.lhs_dilation[d] + 1, 0);
  c.padding =
      resolve_padding(options.padding, extents, spatial_extents(kernel.shape(), 0, 2), c.strides, c.rhs_dilation);
  const std::int64_t batch_groups = options.batch_group_count;
  if (batch_groups < 1 || x.dim(0) % batch_groups != 0 || kernel.dim(-1) % batch_groups != 0 ||
      (batch_groups > 1 && c.groups > 1)) {
    throw ShapeError(
        fmt::format("{}: batch_group_count {} must divide the {} rows of x and the {} outputs of the kernel, "
                    "and is for feature_group_count 1 alone",
                    op, batch_groups, x.dim(0), kernel.dim(-1)));
  }
  const Operand left = x, right = kernel;
  const DType dtype = api::numeric(api::common_dtype({&left, &right}));
  const Array input = convert(x, dtype), weights = convert(kernel, dtype);
  if (batch_groups == 1) return convolved(input, weights, c);
  c.groups = batch_groups;
  return convolved(batch_groups_as_features(input, batch_groups), weights, c);
}

namespace {

/// The element at `offset` of every window, [N, out..., C].
Array window_element(const Array& x, const Axes& offset, const Axes& out, const Axes& strides) {
  const auto rank = static_cast<std::size_t>(x.ndim());
  Axes start(rank, 0), limit = x.shape().to_vector(), steps(rank, 1);
  for (std::size_t d = 0; d < offset.size(); ++d) {
    start[d + 1] = offset[d];
    limit[d + 1] = out[d] == 0 ? offset[d] : offset[d] + (out[d] - 1) * strides[d] + 1;
    steps[d + 1] = strides[d];
  }
  return slice(x, start, limit, steps);
}

Array patches_in_layouts(const Array& x, const Axes& window, ConvGeneralOptions options) {
  const std::array<std::string, 3> layouts = std::exchange(options.dimension_numbers, {});
  std::string spatial;
  for (const char name : layouts[0]) {
    if (name != 'N' && name != 'C') spatial += name;
  }
  const std::string image = "N" + spatial + "C";
  const Array result =
      conv_general_dilated_patches(transpose(x, positions(layouts[0], image, "input", x)), window, options);
  const Axes places = positions(layouts[2], image, "result", result);
  Axes back(places.size());
  for (std::size_t d = 0; d < places.size(); ++d) nth(back, places[d]) = static_cast<std::int64_t>(d);
  return transpose(result, back);
}

}  // namespace

Array conv_general_dilated_patches(const ArrayOperand& x, const Axes& window, const ConvGeneralOptions& options) {
  const std::string op = "conv_general_dilated_patches";
  const auto spatial = static_cast<std::size_t>(std::max(x.ndim() - 2, 0));
  if (spatial == 0 || window.size() != spatial || std::ranges::any_of(window, [](std::int64_t n) { return n < 1; }) ||
      options.feature_group_count != 1 || options.batch_group_count != 1) {
    throw ShapeError(
        fmt::format("{}: needs x [N, spatial..., C], a window of 1 or more for each spatial dimension and "
                    "group counts of 1, got x {} and window [{}]",
                    op, to_string(x.shape()), fmt::join(window, ",")));
  }
  if (!options.dimension_numbers[0].empty()) return patches_in_layouts(x, window, options);
  const Axes strides = one_per_dimension(op, "strides", options.strides, spatial);
  const Axes dilation = one_per_dimension(op, "rhs_dilation", options.rhs_dilation, spatial);
  const Axes base = one_per_dimension(op, "lhs_dilation", options.lhs_dilation, spatial);
  Axes extents = spatial_extents(x.shape(), 1, 1);
  for (std::size_t d = 0; d < spatial; ++d) extents[d] = std::max<std::int64_t>((extents[d] - 1) * base[d] + 1, 0);
  const Array spaced = spread(x, resolve_padding(options.padding, extents, window, strides, dilation), base);
  Axes out;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t span = (window[d] - 1) * dilation[d] + 1;
    const std::int64_t room = spaced.dim(static_cast<int>(d) + 1) - span;
    out.push_back(room < 0 ? 0 : room / strides[d] + 1);
    elements *= window[d];
  }
  const std::vector<std::int64_t> places = row_major_strides(Shape(window));
  Arrays all;
  for (std::int64_t w = 0; w < elements; ++w) {
    Axes offset;
    for (std::size_t d = 0; d < spatial; ++d) offset.push_back(w / places[d] % window[d] * dilation[d]);
    all.push_back(window_element(spaced, offset, out, strides));
  }
  const Array windows = stack(all, -1);
  return reshape(windows,
                 windows.shape().erase(windows.ndim() - 1).with(x.ndim() - 1, x.dim(-1) * elements).to_vector());
}

namespace {

PaddingPairs transposed_padding(std::string_view name, const Axes& reach, const Axes& strides, const Axes& more) {
  if (name != "SAME" && name != "VALID") {
    throw ValueError(fmt::format("conv_transpose: padding must be \"SAME\", \"VALID\" or pairs, got \"{}\"", name));
  }
  PaddingPairs pairs;
  for (std::size_t d = 0; d < reach.size(); ++d) {
    const std::int64_t k = reach[d], s = strides[d];
    if (name == "VALID") {
      pairs.emplace_back(k - 1, k - 1 + (more.empty() ? std::max<std::int64_t>(s - k, 0) : more[d]));
      continue;
    }
    const std::int64_t total = more.empty() ? k + s - 2 : k + k % 2 - 2 + more[d];
    const std::int64_t low = std::min((total + 1) / 2, k - 1);
    pairs.emplace_back(low, total - low);
  }
  return pairs;
}

void check_output_padding(const Axes& more, const Axes& strides, const Axes& dilation) {
  for (std::size_t d = 0; d < more.size(); ++d) {
    if (more.size() == strides.size() && more[d] >= 0 && more[d] < std::max(strides[d], dilation[d])) continue;
    throw ValueError(
        fmt::format("conv_transpose: output_padding is [{}] with strides [{}] and dilations [{}]; expected "
                    "a number for each dimension, of 0 or more and below one of these",
                    fmt::join(more, ","), fmt::join(strides, ","), fmt::join(dilation, ",")));
  }
}

}  // namespace

Array conv_transpose(const ArrayOperand& x, const ArrayOperand& kernel, const ConvTransposeOptions& options) {
  if (x.ndim() < 3 || kernel.ndim() != x.ndim()) {
    throw ShapeError(
        fmt::format("conv_transpose: needs x [N, spatial..., C] and kernel [window..., C, O], got {} and {}",
                    to_string(x.shape()), to_string(kernel.shape())));
  }
  const auto spatial = static_cast<std::size_t>(x.ndim() - 2);
  const Axes strides = one_per_dimension("conv_transpose", "strides", options.strides, spatial);
  const Axes dilation = one_per_dimension("conv_transpose", "rhs_dilation", options.rhs_dilation, spatial);
  check_output_padding(options.output_padding, strides, dilation);
  const std::int64_t groups = options.groups, features = kernel.dim(-1);
  if (groups < 1 || x.dim(-1) % groups != 0 || features % groups != 0) {
    throw ShapeError(fmt::format("conv_transpose: {} groups of x {} and kernel {}; groups divide the features of both",
                                 groups, to_string(x.shape()), to_string(kernel.shape())));
  }
  PaddingPairs padding;
  if (options.padding.pairs() == nullptr) {
    Axes reach;
    for (std::size_t d = 0; d < spatial; ++d) reach.push_back((kernel.dim(static_cast<int>(d)) - 1) * dilation[d] + 1);
    padding = transposed_padding(options.padding.name(), reach, strides, options.output_padding);
  } else {
    padding = *options.padding.pairs();
    for (std::size_t d = 0; d < std::min(padding.size(), options.output_padding.size()); ++d) {
      padding[d].second += options.output_padding[d];
    }
  }
  const Array weights = options.transpose_kernel ? flipped_kernel(kernel, groups) : Array(kernel);
  return conv_general_dilated(
      x, weights,
      {.padding = padding, .lhs_dilation = strides, .rhs_dilation = dilation, .feature_group_count = groups});
}

Array depthwise_conv(const ArrayOperand& x, const ArrayOperand& kernel, ConvGeneralOptions options) {
  if (x.ndim() < 3 || kernel.ndim() != x.ndim() || kernel.dim(-2) != 1) {
    throw ShapeError(
        fmt::format("depthwise_conv: needs x [N, spatial..., C] and kernel [window..., 1, C * m], got {} and "
                    "{}",
                    to_string(x.shape()), to_string(kernel.shape())));
  }
  options.feature_group_count = x.dim(-1);
  return conv_general_dilated(x, kernel, options);
}

namespace {

/// The sums of products of two vectors laid over each other, the second one sliding.
Array slid(std::string_view op, const Array& a, const Array& kernel, std::string_view mode) {
  if (a.ndim() != 1 || kernel.ndim() != 1 || a.size() == 0 || kernel.size() == 0) {
    throw ShapeError(fmt::format("{}: needs two vectors of 1 element or more, got {} and {}", op, to_string(a.shape()),
                                 to_string(kernel.shape())));
  }
  const std::int64_t taps = kernel.size();
  PaddingPairs padding = {{0, 0}};
  if (mode == "full") {
    padding = {{taps - 1, taps - 1}};
  } else if (mode == "same") {
    padding = {{taps / 2, taps - taps / 2 - 1}};
  } else if (mode != "valid") {
    throw ValueError(fmt::format("{}: mode must be \"full\", \"same\" or \"valid\", got \"{}\"", op, mode));
  }
  return reshape(conv(reshape(a, {1, a.size(), 1}), reshape(kernel, {taps, 1, 1}), {.padding = padding}), {-1});
}

}  // namespace

Array convolve(const ArrayOperand& a, const ArrayOperand& v, std::string_view mode) {
  const bool swapped = a.size() < v.size();
  return slid("convolve", swapped ? v : a, flip(swapped ? a : v), mode);
}

Array correlate(const ArrayOperand& a, const ArrayOperand& v, std::string_view mode) {
  return a.size() < v.size() ? flip(slid("correlate", v, a, mode)) : slid("correlate", a, v, mode);
}

}  // namespace lockstep
