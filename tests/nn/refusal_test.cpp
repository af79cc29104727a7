#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// What convolutional recurrences, attention by sums, spectrograms, quantization and decoding refuse.

using namespace lockstep;
using tests::expect_error;

namespace {

using Call = std::function<void(const Scope&, const Array&)>;

template <class E>
void call_refuses(const Array& x, const Call& call, const std::string& text) {
  const Model<Array, Array> model([&](Scope& s, const Array& v) {
    call(s["layer"], v);
    return v;
  });
  expect_error<E>([&] { static_cast<void>(model.variables(x)); }, text);
}

}  // namespace

TEST_CASE("conv_lstm, mgu and conv_local say what does not fit") {
  const Array images = zeros({2, 3, 4, 4, 2}), rows = zeros({2, 3, 4});
  call_refuses<ShapeError>(
      rows, [](const Scope& s, const Array& x) { conv_lstm(s, x, {.filters = 2}); },
      "[conv_lstm 'layer'] the input is f32[2,3,4]; give float sequences [N, T, spatial..., C]");
  call_refuses<ValueError>(
      images, [](const Scope& s, const Array& x) { conv_lstm(s, x, {}); }, "filters is 0; it must be at least 1");
  call_refuses<ValueError>(
      images,
      [](const Scope& s, const Array& x) {
        conv_lstm(s, x, {.filters = 1, .kernel = {3, 3, 3}});
      },
      "kernel are [3,3,3]; give one number of at least 1, or 2");
  call_refuses<ShapeError>(
      images,
      [](const Scope& s, const Array& x) {
        conv_lstm(s, x, {.filters = 1}, {.initial = LstmState{zeros({2, 1}), zeros({2, 1})}});
      },
      "the initial state is f32[2,1]; give [2,4,4,1]");
  call_refuses<ShapeError>(
      images, [](const Scope& s, const Array& x) { mgu(s, x, {.units = 2}); }, "[mgu 'layer'] the input is");
  call_refuses<ValueError>(
      rows, [](const Scope& s, const Array& x) { conv_local(s, x, {.filters = 2, .groups = 2}); },
      "there are 2 groups, which this layer does not read; conv has groups");
}

TEST_CASE("additive_attention and mel_spectrogram say what does not fit") {
  const Array rows = zeros({2, 3, 4});
  call_refuses<ShapeError>(
      rows,
      [](const Scope& s, const Array& x) {
        additive_attention(s, x, zeros({2, 5, 3}));
      },
      "queries are f32[2,3,4], keys f32[2,5,3], values f32[2,5,3]; give floats");
  call_refuses<ShapeError>(
      rows, [](const Scope& s, const Array& x) { additive_attention(s, x, x, {}, {.lengths = zeros({2})}); },
      "lengths are f32[2]; give an integer for each row");
  call_refuses<ValueError>(
      rows, [](const Scope& s, const Array& x) { additive_attention(s, x, x, {.dropout = 1}); }, "dropout");
  expect_error<ShapeError>(
      [] {
        mel_spectrogram(zeros({2, 8}), {.fft_length = 16});
      },
      "the input is f32[2,8]; give signals of more than 8 samples");
  expect_error<ShapeError>([] { mel_spectrogram(zeros({2}, int32)); }, "the input is i32[2]; give float signals");
  expect_error<ValueError>([] { mel_spectrogram(zeros({9}), {.fft_length = 4, .window = 5}); },
                           "fft_length 4, step 512, window 5");
  expect_error<ValueError>([] { mel_filters(3, 4, 800, 50, 50); },
                           "3 bins, 4 frequencies, rate 800, from 50 to 50 hertz");
}

TEST_CASE("quantization says what does not fit") {
  const Array x = zeros({4, 3}), whole = zeros({4, 3}, int32);
  expect_error<DtypeError>([&] { abs_max_quantize(whole); }, "[abs_max_quantize] the operand is i32[4,3]; give floats");
  expect_error<DtypeError>([&] { abs_max_quantize(x, {0}, {.dtype = float32}); },
                           "dtype is float32; give an integer one");
  expect_error<ValueError>([&] { abs_max_quantize(x, {0}, {.lowest = -129}); },
                           "the range is [-129, 127]; give one that is not empty, in [-128, 127] of int8");
  expect_error<ShapeError>([&] { abs_max_quantize_grouped(zeros({3}), 2); }, "the operand is f32[3]; give a matrix");
  expect_error<ValueError>([&] { abs_max_quantize_grouped(x, 0); }, "block is 0; give at least 1");
  expect_error<ValueError>([&] { fake_quantize(x, zeros({}), ones({}), {.bits = 1}); }, "bits is 1; give 2 to 16");
  expect_error<ShapeError>([&] { fake_quantize(x, zeros({3}), ones({3})); }, "the bounds are f32[3]; give scalars");
  expect_error<ShapeError>([&] { fake_quantize(x, zeros({3}), ones({3}), {.axis = 0}); },
                           "the operand is f32[4,3], the bounds f32[3], the axis 0; give vectors along an axis");
  expect_error<DtypeError>([&] { pack_int4(whole); }, "[pack_int4] the operand is i32[4,3]; give int8 or uint8");
  expect_error<ShapeError>([&] { unpack_int4(zeros({4}, int8), 9); }, "extent 9; that many take 5 bytes along axis 0");
  expect_error<ShapeError>([&] { float8_amax_history(x, x); }, "the history is f32[4,3]; give a vector");
}

TEST_CASE("bytes of uint8 come back from their halves") {
  const Array x = convert(remainder(arange(15) * 7, 16), uint8);
  CHECK(unpack_int4(pack_int4(x), 15).to_bytes() == x.to_bytes());
}

TEST_CASE("decoding of ctc says what does not fit") {
  const Array logits = zeros({2, 3, 4}), frames = array(std::vector<std::int32_t>{3, 2});
  expect_error<ShapeError>([&] { ctc_greedy_decode(logits, zeros({3}, int32)); },
                           "[ctc_greedy_decode] logits are f32[2,3,4], frames i32[3]; give [B, T, C] and [B]");
  expect_error<DtypeError>([&] { ctc_beam_search(logits, zeros({2})); }, "frames f32[2]; give floats and integers");
  expect_error<ValueError>([&] { ctc_beam_search(logits, frames, {.blank = 4}); },
                           "blank is 4, there are 4 classes; it must be one of them");
  expect_error<ValueError>([&] { ctc_beam_search(logits, frames, {.beam_width = 2, .paths = 3}); },
                           "beam_width is 2, paths 3; give at least 1 of either");
  const CtcPaths none = ctc_beam_search(logits, array(std::vector<std::int32_t>{0, 1}), {.beam_width = 9, .paths = 9});
  CHECK(none.scores.to_vector<float>()[0] == 0);  // of no frame the empty sequence alone
  CHECK(none.scores.to_vector<float>()[1] == -std::numeric_limits<float>::infinity());
}
