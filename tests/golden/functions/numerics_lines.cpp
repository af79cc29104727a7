#include <lockstep/convolution.h>
#include <lockstep/einsum.h>
#include <lockstep/elementwise.h>
#include <lockstep/grids.h>
#include <lockstep/linalg.h>
#include <lockstep/products.h>
#include <lockstep/ravel_tree.h>
#include <lockstep/reduce.h>
#include <lockstep/reductions.h>
#include <lockstep/scientific/signal.h>
#include <lockstep/vision/image.h>

#include "tests/golden/functions/table.h"

// Products of groups and with a dtype of their own, grids, reductions with any function, signals, images.
namespace lockstep::tests::functions {
namespace {

const Room numerics_sums{1e-5, 1e-13, "long sums in another order"};
const Options numerics_summed = {.room = numerics_sums};

Lines numerics_products() {
  const Input a = drawn({3, 4}), b = drawn({4, 2}), narrow = drawn({3, 4}).of(bfloat16);
  const Input sizes = whole({2, 0, 3}), many = whole({1, 2, 9});
  return {
      {"dot_general",
       "lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float64)",
       {a.of(float32), b.of(float32)},
       [](A x, A y) {
         return dot_general(x, y, {{1}, {0}}, {}, float64);
       },
       {.dtypes = {float64}}},
      {"matmul",
       "jnp.matmul(x, y, preferred_element_type=jnp.float32)",
       {narrow, drawn({4, 2}).of(bfloat16)},
       [](A x, A y) { return matmul(x, y, float32); },
       {.dtypes = {float32}, .no_derivative = "JAX sums the cotangents in bfloat16"}},
      {"matmul",
       "jnp.matmul(x, y, preferred_element_type=jnp.int32)",
       {drawn({2, 3, 4}, -128, 127).of(int8), drawn({4, 2}, -128, 127).of(int8)},
       [](A x, A y) { return matmul(x, y, int32); },
       {.dtypes = {float32}}},
      {"einsum",
       "jnp.einsum('ij,jk->ki', x, y, preferred_element_type=jnp.float64)",
       {a.of(float32), b.of(float32)},
       [](A x, A y) {
         return einsum("ij,jk->ki", {x, y}, float64);
       },
       {.dtypes = {float64}}},
      {"ragged_dot",
       "ragged_dot(x, y, z)",
       {drawn({7, 4}), drawn({3, 4, 2}), sizes},
       [](A x, A y, A z) { return ragged_dot(x, y, z); },
       numerics_summed},
      {"ragged_dot",
       "ragged_dot(x, y, z)",
       {drawn({40, 3}), drawn({3, 3, 5}), whole({11, 25, 4})},
       [](A x, A y, A z) { return ragged_dot(x, y, z); },
       numerics_summed},
      {"ragged_dot",
       "ragged_dot(x, y, z)",
       {drawn({5, 3}), drawn({3, 3, 1}), many},
       [](A x, A y, A z) { return ragged_dot(x, y, z); },
       numerics_summed},
      {"ragged_dot",
       "ragged_dot(x, y, z)",
       {drawn({0, 3}), drawn({3, 3, 1}), whole({0, 0, 0})},
       [](A x, A y, A z) { return ragged_dot(x, y, z); },
       numerics_summed},
  };
}

Lines grids() {
  const Input flat = whole({0, 5, -1, 23, 24, -30, 7});
  return {
      {"indices",
       "jnp.indices((2, 3), jnp.float32)",
       {},
       [] {
         return indices({2, 3}, float32);
       }},
      {"indices",
       "jnp.indices((2, 0, 1)).astype(jnp.int32)",
       {},
       [] {
         return indices({2, 0, 1});
       }},
      {"sparse_indices",
       "jnp.indices((2, 3), dtype=jnp.int32, sparse=True)",
       {},
       [] {
         return sparse_indices({2, 3});
       }},
      {"mgrid",
       "jnp.mgrid[0:3, 1:2:0.25].astype(jnp.float32)",
       {},
       [] {
         return mgrid({{0, 3}, {1, 2, 0.25}});
       }},
      {"ogrid",
       "[y.astype(jnp.int32) for y in jnp.ogrid[0:3, 4:0:-1]]",
       {},
       [] {
         return ogrid({{0, 3}, {4, 0, -1}});
       }},
      {"ix_",
       "jnp.ix_(x, y)",
       {whole({0, 2}), whole({1, 3, 0})},
       [](A x, A y) {
         return ix_({x, y});
       },
       {.dtypes = {float32}}},
      {"unravel_index",
       "jnp.unravel_index(x, (2, 3, 4))",
       {flat},
       [](A x) {
         return unravel_index(x, {2, 3, 4});
       },
       {.dtypes = {float32}}},
      {"ravel_multi_index",
       "jnp.ravel_multi_index((x, y), (3, 4), mode='clip')",
       {whole({0, 2, 5, -2}), whole({3, 0, 1, 7})},
       [](A x, A y) {
         return ravel_multi_index({x, y}, {3, 4});
       },
       {.dtypes = {float32}}},
      {"ravel_multi_index",
       "jnp.ravel_multi_index((x, y), (3, 4), mode='wrap')",
       {whole({0, 2, 5, -2}), whole({3, 0, 1, 7})},
       [](A x, A y) {
         return ravel_multi_index({x, y}, {3, 4}, IndexMode::wrap);
       },
       {.dtypes = {float32}}},
      {"diag_indices", "[i.astype(jnp.int32) for i in jnp.diag_indices(3, 2)]", {}, [] { return diag_indices(3); }},
      {"fill_diagonal",
       "jnp.fill_diagonal(x, 7, inplace=False)",
       {drawn({3, 2})},
       [](A x) { return fill_diagonal(x, 7); },
       {.dtypes = inexact_numbers + std::vector<DType>{int32}}},
      {"fill_diagonal",
       "jnp.fill_diagonal(x, y, inplace=False)",
       {drawn({3, 3, 3}), drawn({3})},
       [](A x, A y) { return fill_diagonal(x, y); }},
      {"join_blocks",
       "jnp.block([[x, y], [z, w]])",
       {drawn({2, 2}), drawn({2, 1}), drawn({2}), drawn({})},
       [](A x, A y, A z, A w) {
         return join_blocks({{x, y}, {z, w}});
       }},
      {"join_blocks",
       "jnp.block([x, y])",
       {drawn({2, 2}), drawn({2, 1})},
       [](A x, A y) {
         return join_blocks({x, y});
       }},
      {"ravel_tree",
       "jax.flatten_util.ravel_pytree([x, y])[0]",
       {drawn({2, 2}), drawn({})},
       [](A x, A y) {
         return ravel_tree(Arrays{x, y}).flat;
       }},
  };
}

Lines reductions() {
  const Input x = distinct({4, 3, 5});
  const Input holes = given({1, nan, 3, 2, nan, 5, nan, nan, 0.5, 7, 6, nan}, {4, 3});
  const auto joined = [](A a, A b) { return logaddexp(a, b); };
  const auto product = [](A a, A b) { return a * b; };
  return {
      {"reduce",
       "special.logsumexp(x, (0, 2))",
       {x},
       [joined](A a) {
         return reduce(joined, a, -inf, {0, 2});
       },
       {.patched = "jax.lax.reduce has no derivative of any function"}},
      {"reduce",
       "lax.reduce(x, np.asarray(2, x.dtype), lax.mul, (1,))",
       {x},
       [product](A a) { return reduce(product, a, 2, 1); },
       {.dtypes = inexact_numbers, .no_derivative = "JAX's is of products from 1 on"}},
      {"reduce",
       "lax.reduce(x, np.asarray(2, x.dtype), lax.mul, (0, 1))",
       {drawn({0, 3})},
       [product](A a) { return reduce(product, a, 2); },
       {.no_derivative = "there is none"}},
      {"reduce",
       "lax.reduce((x, y), (np.asarray(-1, x.dtype), np.asarray(0, x.dtype)), larger, (0,))",
       {distinct({5, 2}), drawn({5, 2})},
       [](A key, A value) {
         using Pair = std::pair<Array, Array>;
         const auto larger = [](const Pair& a, const Pair& b) {
           const Array first = a.first >= b.first;
           return Pair(where(first, a.first, b.first), where(first, a.second, b.second));
         };
         return reduce(larger, Pair(key, value), Pair(full({}, -1, key.dtype()), full({}, 0, key.dtype())), 0);
       },
       {.no_derivative = "jax.lax.reduce has none"}},
      {"reduce_window",
       "lax.reduce_window(x, np.asarray(1, x.dtype), lax.mul, (2, 2, 3), (1, 2, 1), ((1, 0), (0, 0), (0, 2)), (1, 1, "
       "2), "
       "(2, 1, 1))",
       {x},
       [product](A a) {
         return reduce_window(product, a, 1,
                              {{2, 2, 3},
                               {1, 2, 1},
                               std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 0}, {0, 0}, {0, 2}},
                               {1, 1, 2},
                               {2, 1, 1}});
       },
       {.no_derivative = "jax.lax.reduce_window has none of products"}},
      {"nanquantile", "jnp.nanquantile(x, 0.3, axis=0)", {holes}, [](A a) { return nanquantile(a, 0.3, 0); }},
      {"nanquantile",
       "jnp.nanquantile(x, jnp.array([0.1, 0.9], x.dtype), axis=1)[:, None]",
       {holes},
       [](A a) {
         return nanquantile(a, convert(array<double>({0.1, 0.9}, {2, 1}), a.dtype()), 1);
       }},
      {"nanquantile",
       "jnp.nanquantile(x, 0.6, method='higher')",
       {holes},
       [](A a) { return nanquantile(a, 0.6, std::nullopt, Quantile::higher); }},
      {"nanpercentile",
       "jnp.nanpercentile(x, 75, axis=1, method='midpoint')",
       {holes},
       [](A a) { return nanpercentile(a, 75, 1, Quantile::midpoint); }},
      {"nanpercentile",
       "jnp.nanpercentile(x, 40)",
       {whole({3, 1, 2, 8})},
       [](A a) { return nanpercentile(a, 40); },
       {.dtypes = {float32}}},
      {"conv_general_dilated_patches",
       "patches(x, (2, 3), (1, 2), ((1, 0), (0, 2)), (1, 2), (2, 1))",
       {drawn({2, 5, 4, 3})},
       [](A a) {
         return conv_general_dilated_patches(
             a, {2, 3},
             {.strides = {1, 2},
              .padding = std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 0}, {0, 2}},
              .lhs_dilation = {1, 2},
              .rhs_dilation = {2, 1}});
       }},
      {"conv_general_dilated_patches",
       "lax.conv_general_dilated_patches(x, (2,), (1,), 'SAME', dimension_numbers=('NCH', 'OIH', 'NCH'))",
       {drawn({2, 3, 5})},
       [](A a) {
         return conv_general_dilated_patches(
             a, {2}, {.padding = std::string("SAME"), .dimension_numbers = {"NCH", "OIH", "NCH"}});
       }},
  };
}

Lines matrices() {
  const Room room{1e-4, 1e-11, "conditions above 10"};
  const Input diagonal = drawn({2, 4}), b = drawn({2, 4, 3}), m = drawn({2, 3, 3});
  return {
      {"linalg::tridiagonal_solve",
       "tridiagonal_solve(x, y, z, w)",
       {diagonal, diagonal, diagonal, b},
       [](A x, A y, A z, A w) { return linalg::tridiagonal_solve(x, y + 5, z, w); },
       {.dtypes = inexact_numbers, .room = room}},
      {"linalg::tridiagonal_solve",
       "tridiagonal_solve(x, y, z, w[:, None])[:, 0]",
       {drawn({1}), drawn({1}), drawn({1}), drawn({1})},
       [](A x, A y, A z, A w) { return linalg::tridiagonal_solve(x, y + 5, z, w); },
       {.room = room}},
      {"linalg::sqrtm",
       "root(definite(x))",
       {m},
       [](A x) { return linalg::sqrtm(matmul(x, conj(swapaxes(x, -1, -2))) + eye(3, x.dtype())); },
       {.dtypes = inexact_numbers, .patched = "jax.scipy.linalg.sqrtm has no derivative", .room = room}},
      {"linalg::sqrtm",
       "jnp.stack([jsp.linalg.sqrtm(a) for a in x.reshape(-1, 3, 3)]).reshape(x.shape).astype(x.dtype)",
       {given({4, 1, 0.5, -1, 3, 2, 0.25, 1, 5}, {3, 3})},
       [](A x) { return linalg::sqrtm(x); },
       {.dtypes = {float64, complex128, float32},
        .no_derivative = "jax.scipy.linalg.sqrtm has none",
        .no_vmap = "and takes no batch",
        .room = room}},
      {"linalg::eigvals",
       "powers_of(jnp.linalg.eigvals(x))",
       {m},
       [](A x) {
         const Array w = linalg::eigvals(x);
         return Arrays{sum(w * w, -1), sum(w * w * w, -1), sum(exp(w), -1)};
       },
       {.dtypes = inexact_numbers, .room = room}},
      {"linalg::eig",
       "matrix_of(*jnp.linalg.eig(x))",
       {m},
       [](A x) {
         const auto [w, v] = linalg::eig(x);
         return linalg::solve(swapaxes(v, -1, -2), swapaxes(v * expand_dims(exp(w), -2), -1, -2));
       },
       {.dtypes = inexact_numbers, .no_derivative = "JAX has none of eigenvectors", .room = room}},
  };
}

Lines signals() {
  using namespace signal;
  const Room room{3e-5, 1e-12, "sums in another order"};
  const Options plain = {.room = room}, all = {.dtypes = inexact_numbers, .room = room};
  const Input x = drawn({2, 13}), spectra = drawn({2, 5, 4}), window = drawn({6}, 0.5, 1);
  const auto parts = [](const Stft& s) { return Arrays{s.frequencies, s.times, s.values}; };
  return {
      {"signal::stft",
       "jsp.signal.stft(x, nperseg=8)",
       {x},
       [parts](A a) { return parts(stft(a, {.segment = 8})); },
       plain},
      {"signal::stft",
       "jsp.signal.stft(x, 10.0, y, 6, 4, 9, boundary=None, padded=False)",
       {x, window},
       [parts](A a, A w) {
         return parts(stft(
             a, {.fs = 10, .segment = 6, .overlap = 4, .length = 9, .window = w, .boundary = false, .padded = false}));
       },
       plain},
      {"signal::stft",
       "jsp.signal.stft(x, nperseg=5, return_onesided=False)",
       {x},
       [parts](A a) { return parts(stft(a, {.segment = 5})); },
       {.dtypes = complexes, .room = room}},
      {"signal::istft",
       "jsp.signal.istft(x)[1]",
       {spectra},
       [](A a) { return istft(a); },
       {.dtypes = complexes, .room = room}},
      {"signal::istft",
       "jsp.signal.istft(x, 1.0, y, 6, 4, 8, boundary=False)[1]",
       {spectra, window.of(float64)},
       [](A a, A w) { return istft(a, {.segment = 6, .overlap = 4, .length = 8, .window = w, .boundary = false}); },
       {.dtypes = {complex128}, .room = room}},
      {"signal::fftconvolve",
       "jsp.signal.fftconvolve(x, y)",
       {drawn({5, 4}), drawn({3, 6})},
       [](A a, A b) { return fftconvolve(a, b); },
       all},
      {"signal::fftconvolve",
       "jsp.signal.fftconvolve(x, y, 'same')",
       {drawn({7}), drawn({4})},
       [](A a, A b) { return fftconvolve(a, b, "same"); },
       all},
      {"signal::fftconvolve",
       "jsp.signal.fftconvolve(x, y, 'valid')",
       {drawn({3}), drawn({7})},
       [](A a, A b) { return fftconvolve(a, b, "valid"); },
       plain},
      {"signal::convolve2d",
       "jsp.signal.convolve2d(x, y)",
       {drawn({5, 4}), drawn({3, 2})},
       [](A a, A b) { return convolve2d(a, b); },
       plain},
      {"signal::convolve2d",
       "jsp.signal.convolve2d(x, y, 'same')",
       {drawn({5, 4}), drawn({3, 3})},
       [](A a, A b) { return convolve2d(a, b, "same"); },
       plain},
      {"signal::convolve2d",
       "jsp.signal.convolve2d(x, y, 'valid')",
       {drawn({2, 3}), drawn({5, 4})},
       [](A a, A b) { return convolve2d(a, b, "valid"); },
       plain},
      {"signal::correlate2d",
       "jsp.signal.correlate2d(x, y, 'valid')",
       {drawn({5, 4}), drawn({3, 2})},
       [](A a, A b) { return correlate2d(a, b, "valid"); },
       plain},
      {"signal::detrend", "jsp.signal.detrend(x)", {x}, [](A a) { return detrend(a); }, plain},
      {"signal::detrend", "jsp.signal.detrend(x, 0, 'constant')", {x}, [](A a) { return detrend(a, false, 0); }, plain},
      {"signal::dct", "jsp.fft.dct(x)", {x}, [](A a) { return dct(a); }, all},
      {"signal::dct",
       "jsp.fft.dct(x, axis=0, norm='ortho')",
       {drawn({4, 2})},
       [](A a) { return dct(a, 0, true); },
       plain},
      {"signal::idct", "jsp.fft.idct(x)", {x}, [](A a) { return idct(a); }, all},
      {"signal::idct", "jsp.fft.idct(x, norm='ortho')", {drawn({2, 1})}, [](A a) { return idct(a, -1, true); }, plain},
      {"signal::dctn", "jsp.fft.dctn(x)", {drawn({3, 4})}, [](A a) { return dctn(a); }, plain},
      {"signal::idctn",
       "jsp.fft.idctn(x, norm='ortho')",
       {drawn({3, 4})},
       [](A a) { return idctn(a, {}, true); },
       plain},
  };
}

Lines images() {
  using namespace image;
  const Room room{1e-4, 3e-6, "JAX's weights have float32's digits"};
  const Options plain = {.room = room};
  const Input x = drawn({2, 5, 4});
  const Input rows = drawn({6}, -3, 7), columns = drawn({6}, -3, 6);
  Lines lines = {
      {"image::resize",
       "jax.image.resize(x, (2, 3, 9), 'nearest')",
       {x},
       [](A a) {
         return resize(a, {2, 3, 9}, ResizeMethod::nearest);
       },
       {.dtypes = floats + std::vector<DType>{int32, bool_}}},
      {"image::resize",
       "jax.image.resize(x, (2, 3, 9), 'linear', antialias=False)",
       {x},
       [](A a) {
         return resize(a, {2, 3, 9}, ResizeMethod::linear, false);
       },
       {.dtypes = inexact_numbers, .room = room}},
      {"image::scale_and_translate",
       "jax.image.scale_and_translate(x, (2, 6, 3), (1, 2), y, z, 'cubic')",
       {x, given({1.5, 0.6}), given({0.3, -0.7})},
       [](A a, A s, A t) {
         return scale_and_translate(a, {2, 6, 3}, {1, 2}, s, t, ResizeMethod::cubic);
       },
       {.room = {1e-3, 1e-11, "weights that nearly cancel"}}},
      {"image::map_coordinates",
       "jsp.ndimage.map_coordinates(x, [y, z], 0, mode='nearest')",
       {drawn({5, 4}), rows, columns},
       [](A a, A i, A j) {
         return map_coordinates(a, {i, j}, {.order = 0, .outside = Outside::nearest});
       },
       {.dtypes = floats, .underived = {1, 2}}},
      {"image::map_coordinates",
       "jsp.ndimage.map_coordinates(x, [y, z], 1, cval=3.0)",
       {whole({5, 4, 7, 1, 0, 9}, {2, 3}), rows, columns},
       [](A a, A i, A j) {
         return map_coordinates(a, {i, j}, {.cval = 3});
       },
       {.dtypes = {float32}}},
  };
  const auto add_resize = [&](std::string_view jax, ResizeMethod method) {
    lines.push_back({"image::resize", jax, {x}, [method](A a) { return resize(a, {2, 3, 9}, method); }, plain});
  };
  add_resize("jax.image.resize(x, (2, 3, 9), 'linear')", ResizeMethod::linear);
  add_resize("jax.image.resize(x, (2, 3, 9), 'cubic')", ResizeMethod::cubic);
  add_resize("jax.image.resize(x, (2, 3, 9), 'lanczos3')", ResizeMethod::lanczos3);
  add_resize("jax.image.resize(x, (2, 3, 9), 'lanczos5')", ResizeMethod::lanczos5);
  const auto add_map = [&](std::string_view jax, Outside outside) {
    lines.push_back({"image::map_coordinates",
                     jax,
                     {drawn({5, 4}), rows, columns},
                     [outside](A a, A i, A j) {
                       return map_coordinates(a, {i, j}, {.outside = outside});
                     },
                     {.room = numerics_sums}});
  };
  add_map("jsp.ndimage.map_coordinates(x, [y, z], 1, 'constant')", Outside::constant);
  add_map("jsp.ndimage.map_coordinates(x, [y, z], 1, 'nearest')", Outside::nearest);
  add_map("jsp.ndimage.map_coordinates(x, [y, z], 1, 'wrap')", Outside::wrap);
  add_map("jsp.ndimage.map_coordinates(x, [y, z], 1, 'mirror')", Outside::mirror);
  add_map("jsp.ndimage.map_coordinates(x, [y, z], 1, 'reflect')", Outside::reflect);
  return lines;
}

}  // namespace

Lines numerics_lines() {
  Lines lines;
  for (const Lines& part : {numerics_products(), grids(), reductions(), matrices(), signals(), images()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
