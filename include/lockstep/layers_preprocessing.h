#pragma once

#include <cstdint>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/types.h>

// What is made of an input before a model sees it, and has no variables.
namespace lockstep {

/// Options of `mel_spectrogram`; frequencies are in hertz.
struct MelSpectrogramOptions {
  std::int64_t fft_length = 2048;      ///< Samples of a transform.
  std::int64_t step = 512;             ///< Samples from one to the next.
  std::int64_t window = 0;             ///< Samples of the Hann window in the middle of a transform; 0: all.
  std::int64_t sampling_rate = 16000;  ///< Samples a second.
  std::int64_t bins = 128;
  double lowest = 20;          ///< Frequency of the first filter's lower end.
  double highest = 0;          ///< Of the last one's upper end; 0: half the sampling rate.
  double exponent = 2;         ///< Of magnitudes: 2 is power.
  bool to_decibels = true;     ///< false: powers as they are.
  double range = 80;           ///< Decibels below the largest of a signal that are kept apart.
  double least_power = 1e-10;  ///< Smaller ones count as it.
  double reference_power = 1;  ///< That has 0 decibels.
};
/// Signals [..., samples] -> [..., bins, times]: spectra of windows around every `step`th sample, the signal reflected
/// at its ends, summed by `mel_filters`, in decibels. Decibels are cut below the largest of each signal by itself.
/// Computed in at least float32. Throws ValueError for options that do not fit, ShapeError for signals of fft_length / 2
/// samples or fewer. (Keras' MelSpectrogram)
LOCKSTEP_API Array mel_spectrogram(const ArrayOperand& x, const MelSpectrogramOptions& options = {});
/// [frequencies, bins]: triangles of height 1 that are linear, and evenly spaced, on the mel scale, 1127 ln(1 + f / 700),
/// from `lowest` to `highest`; rows are frequencies from 0 to half the sampling rate, of which 0 counts in none. Throws
/// ValueError for numbers below 1 or an empty range.
LOCKSTEP_API Array mel_filters(std::int64_t bins, std::int64_t frequencies, double sampling_rate, double lowest,
                               double highest, DType dtype = float32);

}  // namespace lockstep
