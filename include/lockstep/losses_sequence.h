#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Losses of sequences of several lengths.
namespace lockstep {

/// Options of ctc.
struct CtcOptions {
  std::int64_t blank = 0;  ///< The class that stands for no label.
  /// Rows whose labels do not fit into their frames, which no alignment makes, have an infinite value with gradient 0.
  /// true: the value 0.
  bool zero_impossible = false;
};
/// -log of the probability that frames spell the labels, over all alignments: logits [B, T, C], of which row b has
/// `frames[b]` frames, integer labels [B, N], of which it has `lengths[b]`; what lies behind is not read. In logarithms
/// throughout; float16 and bfloat16 are computed in float32. Throws ShapeError or DtypeError for operands that do not
/// fit, ValueError for a blank that is no class. A label that is no class, or the blank, makes its row NaN. Graves et
/// al. 2006.
LOCKSTEP_API Weighted ctc(const ArrayOperand& logits, const ArrayOperand& frames, const ArrayOperand& labels,
                          const ArrayOperand& lengths, const Array& weight = {}, const CtcOptions& options = {});

/// What decoding of frames gives: label sequences, -1 behind their ends.
struct CtcPaths {
  Array labels;  ///< int32 [B, T]; of a beam search [B, paths, T].
  Array scores;  ///< [B]; of a beam search [B, paths].
};
/// The likeliest class of each frame, repetitions joined (unless `join_repeated` is false) and blanks left out: logits
/// [B, T, C], of which row b has `frames[b]` frames. Scores are minus the sum of the largest logits. Throws as ctc does.
/// (Keras' ctc_decode with strategy greedy)
LOCKSTEP_API CtcPaths ctc_greedy_decode(const ArrayOperand& logits, const ArrayOperand& frames, std::int64_t blank = 0,
                                        bool join_repeated = true);
/// Options of ctc_beam_search.
struct CtcBeamOptions {
  std::int64_t blank = 0;         ///< The class that stands for no label.
  std::int64_t beam_width = 100;  ///< Label sequences that are kept from one frame to the next.
  std::int64_t paths = 1;         ///< How many are given, the likeliest first; at most beam_width.
};
/// The likeliest label sequences, each with all of its alignments that are kept; scores are logarithms of their
/// probabilities, -inf where there are fewer. It reads the logits, so it is called on values and not inside of a
/// transform. Throws as ctc does, and ValueError for a width or a number of paths below 1, or more paths than the width.
/// Graves et al. 2006, Hannun et al. 2014. (Keras' ctc_decode with strategy beam_search)
LOCKSTEP_API CtcPaths ctc_beam_search(const ArrayOperand& logits, const ArrayOperand& frames,
                                      const CtcBeamOptions& options = {});

}  // namespace lockstep
