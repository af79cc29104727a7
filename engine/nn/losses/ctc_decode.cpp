#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/losses_sequence.h>
#include <lockstep/manipulation.h>
#include <lockstep/reductions.h>

namespace lockstep {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

void check_decode_operands(const char* who, const Array& logits, const Array& frames, std::int64_t blank) {
  if (logits.ndim() != 3 || frames.ndim() != 1 || frames.dim(0) != logits.dim(0)) {
    throw ShapeError(fmt::format("[{}] logits are {}, frames {}; give [B, T, C] and [B]", who, to_string(logits.type()),
                                 to_string(frames.type())));
  }
  if (!is_float(logits.dtype()) || !is_integer(frames.dtype())) {
    throw DtypeError(fmt::format("[{}] logits are {}, frames {}; give floats and integers", who,
                                 to_string(logits.type()), to_string(frames.type())));
  }
  if (blank >= 0 && blank < logits.dim(2)) return;
  throw ValueError(
      fmt::format("[{}] blank is {}, there are {} classes; it must be one of them", who, blank, logits.dim(2)));
}

double log_sum_of_two(double a, double b) {
  const double most = std::max(a, b);
  return most == impossible ? impossible : most + std::log1p(std::exp(std::min(a, b) - most));
}

using Labels = std::vector<std::int32_t>;
/// Logarithms of the probability of a label sequence's alignments: those that end in its last label, and in a blank.
struct Ends {
  double in_label = impossible, in_blank = impossible;
  double both() const { return log_sum_of_two(in_label, in_blank); }
};
using Beam = std::map<Labels, Ends>;

/// All that a frame can make of the sequences so far.
Beam extended(const Beam& beam, const double* log_p, std::int64_t classes, std::int64_t blank) {
  Beam next;
  const auto add = [](double& to, double value) { to = log_sum_of_two(to, value); };
  for (const auto& [labels, ends] : beam) {
    Ends& same = next[labels];
    add(same.in_blank, ends.both() + log_p[blank]);
    if (!labels.empty()) add(same.in_label, ends.in_label + log_p[labels.back()]);
    for (std::int64_t c = 0; c < classes; ++c) {
      if (c == blank) continue;
      Labels longer = labels;
      longer.push_back(static_cast<std::int32_t>(c));
      // A label behind itself is a new one behind a blank alone.
      const bool repeats = !labels.empty() && labels.back() == c;
      add(next[longer].in_label, (repeats ? ends.in_blank : ends.both()) + log_p[c]);
    }
  }
  return next;
}

/// The likeliest so many, in order.
std::vector<std::pair<Labels, Ends>> likeliest(const Beam& beam, std::int64_t count) {
  std::vector<std::pair<Labels, Ends>> all(beam.begin(), beam.end());
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.second.both() > b.second.both(); });
  if (std::ssize(all) > count) all.resize(static_cast<std::size_t>(count));
  return all;
}

}  // namespace

CtcPaths ctc_greedy_decode(const ArrayOperand& logits, const ArrayOperand& frames, std::int64_t blank,
                           bool join_repeated) {
  check_decode_operands("ctc_greedy_decode", logits, frames, blank);
  const std::int64_t rows = logits.dim(0), steps = logits.dim(1);
  const Array held = iota({rows, steps}, 1) < expand_dims(convert(frames, int32), 1);
  const Array scores = -sum(where(held, max(logits, Axes{2}), 0), Axes{1});
  const Array classes = where(held, convert(argmax(logits, 2), int32), static_cast<double>(blank));
  Array left_out = classes == static_cast<double>(blank);
  if (join_repeated && steps > 0) {
    const Array before = pad(slice_in_dim(classes, 0, steps - 1, 1), -1, {0, 1}, {0, 0});
    left_out = left_out | (classes == before);
  }
  // Labels to the front, in their order; places that are left out to the end.
  const Array order = argsort(where(left_out, steps, iota({rows, steps}, 1)), 1);
  return {take_along_axis(where(left_out, -1, classes), order, 1, IndexMode::promise_in_bounds), scores};
}

CtcPaths ctc_beam_search(const ArrayOperand& logits, const ArrayOperand& frames, const CtcBeamOptions& options) {
  check_decode_operands("ctc_beam_search", logits, frames, options.blank);
  if (options.beam_width < 1 || options.paths < 1 || options.paths > options.beam_width) {
    throw ValueError(
        fmt::format("[ctc_beam_search] beam_width is {}, paths {}; give at least 1 of either, and no more paths "
                    "than beam_width",
                    options.beam_width, options.paths));
  }
  const std::int64_t rows = logits.dim(0), steps = logits.dim(1), classes = logits.dim(2);
  const std::vector<double> log_p = convert(log_softmax(convert(logits, float64)), float64).to_vector<double>();
  const std::vector<std::int32_t> lengths = convert(frames, int32).to_vector<std::int32_t>();
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows * options.paths * steps), -1);
  std::vector<double> scores(static_cast<std::size_t>(rows * options.paths), impossible);
  for (std::int64_t row = 0; row < rows; ++row) {
    Beam beam = {{Labels{}, Ends{impossible, 0}}};
    const std::int64_t length = std::min<std::int64_t>(steps, lengths[static_cast<std::size_t>(row)]);
    for (std::int64_t t = 0; t < length; ++t) {
      const auto kept = likeliest(extended(beam, log_p.data() + (row * steps + t) * classes, classes, options.blank),
                                  options.beam_width);
      beam = Beam(kept.begin(), kept.end());
    }
    std::int64_t path = row * options.paths;
    for (const auto& [spelled, ends] : likeliest(beam, options.paths)) {
      std::ranges::copy(spelled, labels.begin() + path * steps);
      scores[static_cast<std::size_t>(path++)] = ends.both();
    }
  }
  return {reshape(array(labels), {rows, options.paths, steps}),
          convert(reshape(array(scores), {rows, options.paths}), logits.dtype())};
}

}  // namespace lockstep
