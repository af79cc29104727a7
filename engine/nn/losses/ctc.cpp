#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/losses_sequence.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/class_labels.h"
#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

/// The logarithm of no probability: finite, so that no difference of two is NaN; sums over frames keep it apart.
constexpr double log_of_nothing = -1e30;

void check_ctc(const Array& logits, const Array& frames, const Array& labels, const Array& lengths,
               const CtcOptions& options) {
  const bool fits = logits.ndim() == 3 && labels.ndim() == 2 && frames.ndim() == 1 && lengths.ndim() == 1 &&
                    labels.dim(0) == logits.dim(0) && frames.dim(0) == logits.dim(0) && lengths.dim(0) == logits.dim(0);
  if (!fits) {
    throw ShapeError("[ctc] logits are " + to_string(logits.type()) + ", frames " + to_string(frames.type()) +
                     ", labels " + to_string(labels.type()) + ", lengths " + to_string(lengths.type()) +
                     "; give [B, T, C], [B], [B, N] and [B]");
  }
  if (!is_float(logits.dtype()) || !is_integer(frames.dtype()) || !is_integer(lengths.dtype())) {
    throw DtypeError("[ctc] logits are " + to_string(logits.type()) + ", frames " + to_string(frames.type()) +
                     ", lengths " + to_string(lengths.type()) + "; give floats, integers and integers");
  }
  if (options.blank >= 0 && options.blank < logits.dim(2)) return;
  throw ValueError("[ctc] blank is " + std::to_string(options.blank) + ", there are " + std::to_string(logits.dim(2)) +
                   " classes; it must be one of them");
}

/// x moved by `places` along the last dimension, `log_of_nothing` in front.
Array shifted(const Array& x, std::int64_t places) {
  return pad(slice_in_dim(x, 0, x.dim(1) - places, 1), log_of_nothing, {0, places}, {0, 0});
}

Array log_sum_of_arrays(const std::vector<Array>& parts) { return logsumexp(stack(parts, 0), Axes{0}); }

/// Labels with a blank in front of each and behind the last, [B, 2 N + 1].
Array with_blanks(const Array& classes, std::int64_t blank) {
  const Array blanks = full_like(classes, blank);
  const Array pairs = reshape(stack({blanks, classes}, 2), {classes.dim(0), 2 * classes.dim(1)});
  return pad(pairs, blank, {0, 0}, {0, 1});
}

/// Whether a place may follow the last but one before it: a label that is not the one before.
Array skips_blank(const Array& classes) {
  const Array differs = classes != pad(slice_in_dim(classes, 0, classes.dim(1) - 1, 1), -1, {0, 1}, {0, 0});
  const Array no = zeros_like(differs);
  return pad(reshape(stack({no, differs}, 2), {classes.dim(0), 2 * classes.dim(1)}), false, {0, 0}, {0, 1});
}

/// log of the probability of the labels, [B]: a sum over alignments, frame by frame.
Array log_likelihood(const Array& log_p, const Array& frames, const Array& classes, const Array& lengths,
                     std::int64_t blank) {
  const Array places = with_blanks(classes, blank);
  const std::int64_t rows = log_p.dim(0), steps = log_p.dim(1), width = places.dim(1);
  const Array spelled = take_along_axis(log_p, broadcast_to(expand_dims(places, 1), {rows, steps, width}), 2,
                                        IndexMode::promise_in_bounds);
  const Array seen = maximum(swapaxes(spelled, 0, 1), log_of_nothing);
  const Array skips = classes.dim(1) == 0 ? full({rows, 1}, false, bool_) : skips_blank(classes);
  const auto step = [&](const Array& alpha, const std::pair<Array, Array>& frame) {
    const auto& [t, emitted] = frame;
    std::vector<Array> ways = {alpha};
    if (width > 1) ways.push_back(shifted(alpha, 1));
    if (width > 2) ways.push_back(where(skips, shifted(alpha, 2), log_of_nothing));
    const Array next = where(expand_dims(t < frames, 1), log_sum_of_arrays(ways) + emitted, alpha);
    return std::pair(next, Tree());
  };
  // Behind no frame, all stands in front of the first label.
  const Array start = where(iota({rows, width}, 1) == 0, zeros({}, log_p.dtype()), log_of_nothing);
  const DType counts = size_of(frames.dtype()) < 4 ? int32 : frames.dtype();  // a narrow one need not hold all steps
  const Array alpha = scan(step, start, std::pair(arange(steps, counts), seen)).first;
  const auto at = [&](const Array& place) {
    return squeeze(take_along_axis(alpha, expand_dims(clip(place, 0, width - 1), 1), 1), 1);
  };
  const Array last = 2 * lengths;
  return log_sum_of_arrays({at(last), where(lengths > 0, at(last - 1), log_of_nothing)});
}

}  // namespace

Weighted ctc(const ArrayOperand& logits, const ArrayOperand& frames, const ArrayOperand& labels,
             const ArrayOperand& lengths, const Array& weight, const CtcOptions& options) {
  check_ctc(logits, frames, labels, lengths, options);
  const Array scores = nn::wide(nn::counted(logits, weight));
  const Array in_row = convert(nn::counted(lengths, weight), int32),
              ticks = convert(nn::counted(frames, weight), int32);
  const nn::ClassLabels found = nn::class_labels("ctc", nn::counted(labels, weight), logits.dim(2), {});
  const Array behind = iota(labels.shape(), 1) >= expand_dims(in_row, 1);
  const Array spelled = found.known & (found.classes != options.blank);
  const Array fits = (in_row >= 0) & (in_row <= labels.dim(1)) & (ticks >= 0) & (ticks <= logits.dim(1));
  const Array known = all(spelled | behind, Axes{1}) & fits;
  const Array classes = where(behind, 0, found.classes);
  // What lies behind the frames is not read, by the derivative neither.
  const Array in_frames = iota({logits.dim(0), logits.dim(1), 1}, 1) < reshape(ticks, {-1, 1, 1});
  const Array total = log_likelihood(log_softmax(where(in_frames, scores, 0)), ticks, classes, in_row, options.blank);
  const double otherwise = options.zero_impossible ? 0 : std::numeric_limits<double>::infinity();
  const Array losses = where(total > log_of_nothing / 2, -total, otherwise);
  return weighted(nn::with_unknown_as_nan(losses, {.classes = classes, .known = known, .counted = {}}), weight);
}

}  // namespace lockstep
