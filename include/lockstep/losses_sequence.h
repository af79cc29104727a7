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

}  // namespace lockstep
