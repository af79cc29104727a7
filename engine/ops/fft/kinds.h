#pragma once

#include <string_view>

// The values of the attribute `kind` of fft. Those of reals have half of the frequencies on the other side.
namespace lockstep::ops::fft_kinds {

inline constexpr std::string_view direct = "fft";
inline constexpr std::string_view inverse = "ifft";
inline constexpr std::string_view from_reals = "rfft";
inline constexpr std::string_view to_reals = "irfft";

}  // namespace lockstep::ops::fft_kinds
