#include <lockstep/convolution.h>
#include <lockstep/fft.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Fourier transforms, convolutions, windows and pools.
namespace lockstep::tests::functions {
namespace {

const std::vector<DType> any_number = floats + complexes + std::vector<DType>{int32, bool_};
const Room signal_sums{1e-5, 0, "long sums in another order"};

Lines signal_transforms() {
  using fft::Norm;
  const Input x = drawn({3, 8}), odd = drawn({3, 7}), cube = drawn({2, 4, 6});
  const Options all = {.dtypes = any_number, .room = signal_sums},
                real = {.dtypes = {float32, float64, int32}, .room = signal_sums};
  return {
      {"fft::fft", "jnp.fft.fft(x)", {x}, [](A x) { return fft::fft(x); }, all},
      {"fft::fft", "jnp.fft.fft(x, 5, 0, 'ortho')", {odd}, [](A x) { return fft::fft(x, 5, 0, Norm::ortho); }, all},
      {"fft::fft",
       "jnp.fft.fft(x, 4, norm='forward')",
       {odd},
       [](A x) { return fft::fft(x, 4, -1, Norm::forward); },
       all},
      {"fft::ifft", "jnp.fft.ifft(x)", {odd}, [](A x) { return fft::ifft(x); }, all},
      {"fft::ifft",
       "jnp.fft.ifft(x, 9, norm='forward')",
       {odd},
       [](A x) { return fft::ifft(x, 9, -1, Norm::forward); },
       all},
      {"fft::rfft", "jnp.fft.rfft(x)", {odd}, [](A x) { return fft::rfft(x); }, real},
      {"fft::rfft", "jnp.fft.rfft(x, 6, 0)", {x}, [](A x) { return fft::rfft(x, 6, 0); }, real},
      {"fft::irfft", "jnp.fft.irfft(x)", {odd}, [](A x) { return fft::irfft(x); }, all},
      {"fft::irfft",
       "jnp.fft.irfft(x, 7, norm='ortho')",
       {x},
       [](A x) { return fft::irfft(x, 7, -1, Norm::ortho); },
       all},
      {"fft::hfft", "jnp.fft.hfft(x)", {odd}, [](A x) { return fft::hfft(x); }, all},
      {"fft::hfft",
       "jnp.fft.hfft(x, 5, 0, 'forward')",
       {x},
       [](A x) { return fft::hfft(x, 5, 0, Norm::forward); },
       all},
      {"fft::ihfft", "jnp.fft.ihfft(x)", {odd}, [](A x) { return fft::ihfft(x); }, real},
      {"fft::ihfft",
       "jnp.fft.ihfft(x, 4, 0, 'ortho')",
       {x},
       [](A x) { return fft::ihfft(x, 4, 0, Norm::ortho); },
       real},
      {"fft::fftn", "jnp.fft.fftn(x)", {cube}, [](A x) { return fft::fftn(x); }, all},
      {"fft::fftn",
       "jnp.fft.fftn(x, (3, 5), (2, 0), 'ortho')",
       {cube},
       [](A x) {
         return fft::fftn(x, Axes{3, 5}, Axes{2, 0}, Norm::ortho);
       },
       all},
      {"fft::ifftn",
       "jnp.fft.ifftn(x, axes=(0, -1))",
       {cube},
       [](A x) {
         return fft::ifftn(x, {}, Axes{0, -1});
       },
       all},
      {"fft::rfftn", "jnp.fft.rfftn(x)", {cube}, [](A x) { return fft::rfftn(x); }, real},
      {"fft::rfftn",
       "jnp.fft.rfftn(x, (3, 5), (1, 2))",
       {cube},
       [](A x) {
         return fft::rfftn(x, Axes{3, 5}, Axes{1, 2});
       },
       real},
      {"fft::irfftn", "jnp.fft.irfftn(x)", {cube}, [](A x) { return fft::irfftn(x); }, all},
      {"fft::irfftn",
       "jnp.fft.irfftn(x, (3, 7), norm='forward')",
       {cube},
       [](A x) {
         return fft::irfftn(x, Axes{3, 7}, {}, Norm::forward);
       },
       all},
      {"fft::fft2", "jnp.fft.fft2(x)", {cube}, [](A x) { return fft::fft2(x); }, all},
      {"fft::ifft2",
       "jnp.fft.ifft2(x, (3, 3), (0, 1))",
       {cube},
       [](A x) {
         return fft::ifft2(x, Axes{3, 3}, {0, 1});
       },
       all},
      {"fft::rfft2", "jnp.fft.rfft2(x)", {cube}, [](A x) { return fft::rfft2(x); }, real},
      {"fft::irfft2", "jnp.fft.irfft2(x)", {cube}, [](A x) { return fft::irfft2(x); }, all},
      {"fft::fftfreq", "jnp.fft.fftfreq(7, 0.1, dtype='float32')", {}, [] { return fft::fftfreq(7, 0.1); }},
      {"fft::fftfreq", "jnp.fft.fftfreq(8, dtype='float64')", {}, [] { return fft::fftfreq(8, 1, float64); }},
      {"fft::rfftfreq", "jnp.fft.rfftfreq(7, 0.1, dtype='float64')", {}, [] { return fft::rfftfreq(7, 0.1, float64); }},
      {"fft::rfftfreq", "jnp.fft.rfftfreq(8, dtype='float32')", {}, [] { return fft::rfftfreq(8); }},
      {"fft::fftshift", "jnp.fft.fftshift(x)", {odd}, [](A x) { return fft::fftshift(x); }, all},
      {"fft::fftshift", "jnp.fft.fftshift(x, (1,))", {odd}, [](A x) { return fft::fftshift(x, Axes{1}); }, all},
      {"fft::ifftshift", "jnp.fft.ifftshift(x)", {odd}, [](A x) { return fft::ifftshift(x); }, all},
  };
}

Lines signal_convolutions() {
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const Options o = {.room = signal_sums};
  const Input x = drawn({2, 6, 5, 4}), kernel = drawn({3, 2, 4, 6}), line = drawn({2, 9, 4}), narrow = drawn({3, 4, 2});
  const Input channels_first = drawn({2, 4, 6, 5}), outputs_first = drawn({6, 2, 3, 2});
  const std::string_view f = "conv_general_dilated";
  return {
      {"conv",
       "conv(x, y, (2, 1), [(1, 2), (0, 1)], rhs=(1, 2))",
       {x, kernel},
       [](A x, A y) {
         return conv(x, y, {.strides = {2, 1}, .padding = {{1, 2}, {0, 1}}, .dilation = {1, 2}});
       },
       o},
      {"conv",
       "conv(x, y, (1, 1), 'VALID', groups=2)",
       {x, drawn({3, 2, 2, 6})},
       [](A x, A y) { return conv(x, y, {.groups = 2}); },
       o},
      {f,
       "conv(x, y, (1, 2), 'SAME')",
       {x, kernel},
       [](A x, A y) {
         return conv_general_dilated(x, y, {.strides = {1, 2}, .padding = "SAME"});
       },
       o},
      {f,
       "conv(x, y, (2, 2), 'SAME_LOWER')",
       {x, kernel},
       [](A x, A y) {
         return conv_general_dilated(x, y, {.strides = {2, 2}, .padding = "SAME_LOWER"});
       },
       o},
      {f,
       "conv(x, y, (1,), [(-1, 3)], lhs=(2,), rhs=(2,))",
       {line, narrow},
       [](A x, A y) {
         return conv_general_dilated(x, y, {.padding = Pairs{{-1, 3}}, .lhs_dilation = {2}, .rhs_dilation = {2}});
       },
       o},
      {f,
       "conv(x, y, (1,), 'VALID', batch_groups=2)",
       {line, narrow},
       [](A x, A y) { return conv_general_dilated(x, y, {.batch_group_count = 2}); },
       o},
      {f,
       "lax.conv_general_dilated(x, y, (1, 1), 'SAME', feature_group_count=2)",
       {channels_first, outputs_first},
       [](A x, A y) {
         return conv_general_dilated(
             x, y, {.padding = "SAME", .feature_group_count = 2, .dimension_numbers = {"NCHW", "OIHW", "NCHW"}});
       },
       o},
      {"conv_transpose",
       "lax.conv_transpose(x, y, (2, 3), 'SAME')",
       {x, kernel},
       [](A x, A y) {
         return conv_transpose(x, y, {.strides = {2, 3}});
       },
       o},
      {"conv_transpose",
       "lax.conv_transpose(x, y, (2,), 'VALID', rhs_dilation=(2,))",
       {line, drawn({3, 4, 2})},
       [](A x, A y) { return conv_transpose(x, y, {.strides = {2}, .padding = "VALID", .rhs_dilation = {2}}); },
       o},
      {"conv_transpose",
       "lax.conv_transpose(x, y, (2,), 'SAME', transpose_kernel=True)",
       {line, drawn({3, 2, 4})},
       [](A x, A y) { return conv_transpose(x, y, {.strides = {2}, .transpose_kernel = true}); },
       o},
      {"conv_transpose",
       "conv_transpose(x, y, (2, 3), (1, 0), (1, 2))",
       {x, drawn({3, 2, 3, 4})},
       [](A x, A y) {
         return conv_transpose(
             x, y,
             {.strides = {2, 3}, .padding = Pairs{{1, 1}, {1, 1}}, .transpose_kernel = true, .output_padding = {1, 2}});
       },
       o},
      {"conv_transpose",
       "conv_transpose(x, y, (2,), (2,), (1,), (2,), groups=2)",
       {line, drawn({3, 3, 4})},
       [](A x, A y) {
         return conv_transpose(x, y,
                               {.strides = {2},
                                .padding = Pairs{{2, 2}},
                                .rhs_dilation = {2},
                                .transpose_kernel = true,
                                .groups = 2,
                                .output_padding = {1}});
       },
       o},
      {"conv_transpose",
       "jnp.concatenate([lax.conv_transpose(a, b, (2,), 'VALID') for a, b in zip(jnp.split(x, 2, -1), jnp.split(y, 2, "
       "-1))], -1)",
       {line, drawn({3, 2, 6})},
       [](A x, A y) { return conv_transpose(x, y, {.strides = {2}, .padding = "VALID", .groups = 2}); },
       o},
      {"conv_transpose",
       "lax.conv_transpose(x, y, (3,), ((2, 3),))",
       {line, drawn({3, 4, 2})},
       [](A x, A y) { return conv_transpose(x, y, {.strides = {3}, .padding = "VALID", .output_padding = {1}}); },
       o},
      {"depthwise_conv",
       "conv(x, y, (1,), 'SAME', groups=4)",
       {line, drawn({3, 1, 8})},
       [](A x, A y) { return depthwise_conv(x, y, {.padding = "SAME"}); },
       o},
      {"convolve",
       "jnp.convolve(x, y).astype(x.dtype)",
       {drawn({7}), drawn({3})},
       [](A x, A y) { return convolve(x, y); },
       {.dtypes = {float32, float64, int32}, .room = signal_sums}},
      {"convolve",
       "jnp.convolve(x, y, 'same')",
       {drawn({3}), drawn({6})},
       [](A x, A y) { return convolve(x, y, "same"); },
       o},
      {"convolve",
       "jnp.convolve(x, y, 'valid')",
       {drawn({7}), drawn({4})},
       [](A x, A y) { return convolve(x, y, "valid"); },
       o},
      {"correlate", "jnp.correlate(x, y)", {drawn({7}), drawn({3})}, [](A x, A y) { return correlate(x, y); }, o},
      {"correlate",
       "jnp.correlate(x, y, 'full')",
       {drawn({3}), drawn({6})},
       [](A x, A y) { return correlate(x, y, "full"); },
       o},
      {"correlate",
       "jnp.correlate(x, y, 'same')",
       {drawn({8}), drawn({3})},
       [](A x, A y) { return correlate(x, y, "same"); },
       o},
  };
}

Lines windows() {
  const Input x = distinct({2, 6, 5, 3}), m = distinct({6, 7});
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const Options o = {.room = signal_sums}, no_derivative = {.no_derivative = "JAX has none of a dilated maximum"};
  return {
      {"window_max",
       "window(x, 'max', (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
       {x},
       [](A x) {
         return window_max(x, {.window = {2, 2}});
       }},
      {"window_max",
       "window(x, 'max', (1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0)))",
       {x},
       [](A x) {
         return window_max(x, {.window = {3, 2}, .strides = {2, 1}, .padding = {{1, 1}, {0, 1}}});
       }},
      {"window_mean",
       "mean_of_windows(x, (1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 1), (0, 1), (0, 0)))",
       {x},
       [](A x) {
         return window_mean(x, {.window = {3, 2}, .strides = {2, 1}, .padding = {{1, 1}, {0, 1}}});
       },
       o},
      {"reduce_window_sum",
       "window(x, 'add', (3, 2), (2, 1), 'SAME')",
       {m},
       [](A x) {
         return reduce_window_sum(x, {.window = {3, 2}, .strides = {2, 1}, .padding = "SAME"});
       },
       {.dtypes = {float32, float64, int32}, .room = signal_sums}},
      {"reduce_window_sum",
       "window(x, 'add', (3, 2), (1, 1), ((1, 0), (2, 1)), (2, 1), (1, 2))",
       {m},
       [](A x) {
         return reduce_window_sum(
             x,
             {.window = {3, 2}, .padding = Pairs{{1, 0}, {2, 1}}, .base_dilation = {2, 1}, .window_dilation = {1, 2}});
       },
       o},
      {"reduce_window_max",
       "window(x, 'max', (3, 2), (2, 1), 'SAME')",
       {m},
       [](A x) {
         return reduce_window_max(x, {.window = {3, 2}, .strides = {2, 1}, .padding = "SAME"});
       },
       {.dtypes = {float32, float64, int32}}},
      {"reduce_window_max",
       "window(x, 'max', (2, 2), (1, 1), 'VALID', (1, 1), (2, 3))",
       {m},
       [](A x) {
         return reduce_window_max(x, {.window = {2, 2}, .window_dilation = {2, 3}});
       },
       no_derivative},
      {"reduce_window_min",
       "window(x, 'min', (3, 2), (2, 1), 'SAME_LOWER')",
       {m},
       [](A x) {
         return reduce_window_min(x, {.window = {3, 2}, .strides = {2, 1}, .padding = "SAME_LOWER"});
       },
       {.dtypes = {float32, float64, int32}}},
      {"max_pool",
       "window(x, 'max', (1, 3, 2, 1), (1, 2, 2, 1), 'SAME')",
       {x},
       [](A x) {
         return max_pool(x, {.window = {3, 2}, .strides = {2, 2}, .padding = "SAME"});
       }},
      {"min_pool",
       "window(x, 'min', (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
       {x},
       [](A x) {
         return min_pool(x, {.window = {2, 2}});
       }},
      {"sum_pool",
       "window(x, 'add', (1, 2, 2, 1), (1, 1, 1, 1), 'VALID', (1, 1, 1, 1), (1, 2, 1, 1))",
       {x},
       [](A x) {
         return sum_pool(x, {.window = {2, 2}, .strides = {1, 1}, .dilation = {2, 1}});
       },
       o},
      {"avg_pool",
       "window(x, 'add', (1, 3, 2, 1), (1, 2, 2, 1), 'SAME') / 6",
       {x},
       [](A x) {
         return avg_pool(x, {.window = {3, 2}, .strides = {2, 2}, .padding = "SAME"});
       },
       o},
      {"avg_pool",
       "mean_of_windows(x, (1, 3, 2, 1), (1, 2, 2, 1), 'SAME')",
       {x},
       [](A x) {
         return avg_pool(x, {.window = {3, 2}, .strides = {2, 2}, .padding = "SAME"}, false);
       },
       o},
  };
}

}  // namespace

Lines signal_lines() {
  Lines lines = signal_transforms();
  for (const Lines& part : {signal_convolutions(), windows()}) lines.insert(lines.end(), part.begin(), part.end());
  return lines;
}

}  // namespace lockstep::tests::functions
