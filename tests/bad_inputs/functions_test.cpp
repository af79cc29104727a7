// Functions on arrays that do not fit.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/extremes.h"
#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

Array ones_of(const Shape& shape, DType dtype = float32) { return ones(shape, dtype); }

}  // namespace

TEST_CASE("bad inputs 124: the largest of nothing") {
  const Array none = ones_of({0}), rows = ones_of({0, 3}), columns = ones_of({3, 0});
  all_refused(124, {[&] { max(none); },
                    [&] { min(none); },
                    [&] { max(rows); },
                    [&] { max(rows, 0); },
                    [&] { min(rows, Axes{0}, true); },
                    [&] { max(columns, -1); },
                    [&] { max(convert(none, int8)); },
                    [&] { min(convert(none, bool_)); },
                    [&] { nanmax(none); },
                    [&] { nanmin(rows, 0); },
                    [&] { ptp(none); },
                    [&] { argmax(none, 0); },
                    [&] { argmin(columns, 1); },
                    [&] { nanargmax(none, 0); },
                    [&] { median(none); },
                    [&] { quantile(none, 0.5); },
                    [&] { percentile(none, 50.0); },
                    [&] { nanmedian(none); },
                    [&] { unique(none, 1); },
                    [&] { top_k(none, 1); },
                    [&] { searchsorted(rows, none); },
                    [&] {
                      linalg::cond(ones_of({0, 0}));
                    },
                    [&] { linalg::norm(none, {.order = -std::numeric_limits<double>::infinity(), .axes = Axes{0}}); },
                    [&] { max(random::split(random::key(0), 2)); }});
  row(124, [&] {
    CHECK(max(rows, 1).shape() == Shape{0});
    CHECK(max(ones_of({0, 0}), 0).shape() == Shape{0});
    CHECK(max(none, Where(zeros({0}, bool_)), 7.0).item<float>() == 7);
    CHECK(std::isinf(logsumexp(none).item<float>()));
    CHECK(softmax(none).shape() == Shape{0});
    CHECK(log_softmax(none).shape() == Shape{0});
  });
}

TEST_CASE("bad inputs 125: convolutions and products") {
  const Array x = ones_of({1, 5, 2}), k = ones_of({3, 2, 4});
  all_refused(125, {[&] {
                      conv(x, ones_of({3, 3, 4}));
                    },
                    [&] {
                      conv(ones_of({1, 5}), k);
                    },
                    [&] { conv(x, k, {.strides = {0}}); },
                    [&] {
                      conv(x, k, {.strides = {1, 1}});
                    },
                    [&] { conv(x, k, {.dilation = {0}}); },
                    [&] { conv(x, k, {.groups = 3}); },
                    [&] { conv(x, k, {.groups = 0}); },
                    [&] {
                      conv(x, k, {.padding = {{-1, 0}}});
                    },
                    [&] {
                      conv(x, k, {.padding = {{huge_count, huge_count}}});
                    },
                    [&] { conv(random::key(0), k); },
                    [&] { matmul(x, x); },
                    [&] { matmul(ones_of({}), x); },
                    [&] { matmul(ones_of({3}), ones_of({4})); },
                    [&] { linalg::dot(ones_of({3}), ones_of({4})); },
                    [&] { linalg::vdot(ones_of({3}), ones_of({4})); },
                    [&] { linalg::inner(ones_of({3}), ones_of({4})); },
                    [&] { linalg::tensordot(x, x, 4); },
                    [&] { linalg::tensordot(x, x, -1); },
                    [&] { linalg::cross(ones_of({4}), ones_of({4})); },
                    [&] { einsum("ij,jk->ik", {x}); },
                    [&] {
                      einsum("ij,jk->ik", {ones_of({2, 3}), ones_of({4, 5})});
                    },
                    [&] {
                      einsum("ij->k", {ones_of({2, 3})});
                    },
                    [&] {
                      einsum("i1->i", {ones_of({2, 3})});
                    },
                    [&] {
                      einsum("ii->", {ones_of({2, 3})});
                    },
                    [&] {
                      einsum("", {ones_of({2, 3})});
                    },
                    [&] {
                      einsum("ij->ii", {ones_of({2, 3})});
                    },
                    [&] {
                      dot_general(x, x, {{0}, {5}});
                    },
                    [&] {
                      max_pool2d(x, {2, 2});
                    },
                    [&] {
                      avg_pool2d(ones_of({1, 4, 4, 1}), {0, 2});
                    },
                    [&] {
                      max_pool2d(ones_of({1, 4, 4, 1}), {5, 5});
                    }});
  row(125, [&] {
    CHECK(conv(convert(x, int32), convert(k, int32)).to_vector<int>() == std::vector<int>(12, 6));
    CHECK(linalg::cholesky(full({1, 1}, 4, int32)).item<float>() == 2);
  });
}

TEST_CASE("bad inputs 126: linear algebra") {
  const Array m = eye(3), wide = ones_of({2, 3}), v = ones_of({3});
  const linalg::LuFactor lu = linalg::lu_factor(m);
  const auto with = [&](std::vector<std::int32_t> permutation) {
    return linalg::LuFactor{lu.lu, lu.pivots, array(permutation)};
  };
  all_refused(126, {[&] {
                      linalg::lu_solve(with({0, 1, 7}), v);
                    },
                    [&] {
                      linalg::lu_solve(with({0, 1, -1}), v);
                    },
                    [&] {
                      linalg::lu_solve(with({0, 1, 1}), v);
                    },
                    [&] {
                      linalg::lu_solve(with({0, 1}), v);
                    },
                    [&] {
                      linalg::lu_solve({lu.lu, lu.pivots, convert(lu.permutation, float32)}, v);
                    },
                    [&] { linalg::cholesky(wide); },
                    [&] { linalg::cholesky(v); },
                    [&] { linalg::cholesky(random::key(0)); },
                    [&] { linalg::solve(wide, v); },
                    [&] { linalg::solve(m, ones_of({4})); },
                    [&] { linalg::inv(wide); },
                    [&] { linalg::det(wide); },
                    [&] { linalg::slogdet(v); },
                    [&] { linalg::eigh(wide); },
                    [&] { linalg::eig(wide); },
                    [&] { linalg::eigvals(v); },
                    [&] { linalg::qr(v); },
                    [&] { linalg::svd(v); },
                    [&] { linalg::svdvals(ones_of({})); },
                    [&] { linalg::lstsq(m, ones_of({4})); },
                    [&] { linalg::pinv(v); },
                    [&] { linalg::matrix_power(wide, 2); },
                    [&] { linalg::matrix_rank(v); },
                    [&] { linalg::expm(wide); },
                    [&] { linalg::sqrtm(wide); },
                    [&] { linalg::norm(m, {.order = "nonsense"}); },
                    [&] { linalg::norm(m, {.order = 3.0}); },
                    [&] { linalg::norm(v, {.order = "fro", .axes = Axes{0}}); },
                    [&] {
                      linalg::norm(m, {.order = 2.0, .axes = Axes{0, 0}});
                    },
                    [&] { linalg::norm(m, {.axes = Axes{5}}); },
                    [&] { linalg::trace(v); },
                    [&] { linalg::multi_dot({m}); },
                    [&] {
                      linalg::multi_dot({m, ones_of({4, 2})});
                    },
                    [&] { linalg::cho_solve(wide, v); },
                    [&] { linalg::solve_triangular(wide, v); },
                    [&] { linalg::solve_triangular(m, ones_of({4})); },
                    [&] { linalg::diagonal(v); },
                    [&] {
                      linalg::diag(ones_of({2, 2, 2}));
                    },
                    [&] { linalg::tril(v); },
                    [&] { linalg::vander(m); },
                    [&] { linalg::kron(random::key(0), m); }});
}

TEST_CASE("bad inputs 127: places in arrays") {
  const Array x = ones_of({3, 4}), v = ones_of({4}), place = zeros({}, int32);
  all_refused(127, {[&] { static_cast<void>(x[3]); },
                    [&] { static_cast<void>(x[-4]); },
                    [&] { static_cast<void>(ones_of({})[0]); },
                    [&] { take(x, v, 0); },
                    [&] { take(x, ones_of({2}, bool_), 0); },
                    [&] { take(x, zeros({2}, int32), 2); },
                    [&] { take_along_axis(x, zeros({3}, int32), 0); },
                    [&] {
                      take_along_axis(x, zeros({3, 4}), 0);
                    },
                    [&] { slice(x, {0}, {1}); },
                    [&] {
                      slice(x, {0, 0}, {4, 4});
                    },
                    [&] {
                      slice(x, {2, 0}, {1, 4});
                    },
                    [&] {
                      slice(x, {0, 0}, {3, 4}, {0, 1});
                    },
                    [&] { slice_in_dim(x, 0, 9, 0); },
                    [&] { slice_in_dim(x, 0, 1, 4); },
                    [&] {
                      dynamic_slice(x, {place}, {1, 1});
                    },
                    [&] {
                      dynamic_slice(x, {place, place}, {4, 1});
                    },
                    [&] {
                      dynamic_slice(x, {ones_of({}), ones_of({})}, {1, 1});
                    },
                    [&] {
                      index(x, {0, 0, 0});
                    },
                    [&] { index(x, {5}); },
                    [&] {
                      index(x, {ellipsis, ellipsis});
                    },
                    [&] {
                      index(x, {Slice{0, 2, 0}});
                    },
                    [&] { index(x, {v}); },
                    [&] { split(x, 3, 1); },
                    [&] { split(x, 0, 0); },
                    [&] { split(x, -1, 0); },
                    [&] { array_split(x, 0); },
                    [&] { hsplit(x, 3); },
                    [&] { vsplit(v, 2); },
                    [&] { dsplit(x, 1); },
                    [&] { concatenate(std::vector<Array>{}); },
                    [&] {
                      concatenate({x, v});
                    },
                    [&] {
                      concatenate({x, ones_of({3, 5})}, 0);
                    },
                    [&] { stack(std::vector<Array>{}); },
                    [&] {
                      stack({x, v});
                    },
                    [&] {
                      reshape(x, {5, 2});
                    },
                    [&] {
                      reshape(x, {-1, -1});
                    },
                    [&] {
                      reshape(x, {-1, 5});
                    },
                    [&] {
                      reshape(x, {-2, 6});
                    },
                    [&] { transpose(x, {0}); },
                    [&] {
                      transpose(x, {0, 0});
                    },
                    [&] {
                      transpose(x, {0, 2});
                    },
                    [&] { moveaxis(x, 0, 2); },
                    [&] {
                      moveaxis(x, Axes{0, 1}, Axes{0});
                    },
                    [&] { swapaxes(x, 0, 2); },
                    [&] { squeeze(x, 0); },
                    [&] { squeeze(x, Axes{2}); },
                    [&] { expand_dims(x, 4); },
                    [&] {
                      expand_dims(x, Axes{0, 0});
                    },
                    [&] {
                      broadcast_to(x, {4, 4});
                    },
                    [&] { broadcast_to(x, {4}); },
                    [&] { flip(x, Axes{2}); },
                    [&] { fliplr(v); },
                    [&] { flipud(ones_of({})); },
                    [&] {
                      roll(x, Axes{1}, Axes{0, 1});
                    },
                    [&] { rot90(v); },
                    [&] {
                      rot90(x, 1, {0, 0});
                    },
                    [&] { tile(x, {-1}); },
                    [&] { repeat(x, -1); },
                    [&] { repeat(x, zeros({2}, int32), 3, 0); },
                    [&] { repeat(v, ones_of({4}), 4); },
                    [&] { pad(x, 0, {1}, {1}); },
                    [&] {
                      pad(x, 0, {-4, 0}, {0, 0});
                    },
                    [&] {
                      reverse(x, {0, 0});
                    },
                    [&] { nonzero(x, -1); },
                    [&] { meshgrid({x}); },
                    [&] {
                      meshgrid({v, v}, "xz");
                    },
                    [&] {
                      select({x}, {x, x});
                    },
                    [&] { choose(v, {x}); },
                    [&] { interp(v, v, x); },
                    [&] { where(ones_of({2}), v, v); },
                    [&] {
                      switch_(array(1.0F), {[](const Array& a) { return a; }, [](const Array& a) { return -a; }}, v);
                    },
                    [&] {
                      switch_(true, {[](const Array& a) { return a; }, [](const Array& a) { return -a; }}, v);
                    }});
}

TEST_CASE("bad inputs 128: numbers of functions, dtypes and promotions") {
  const Array x = ones_of({3, 4}), v = ones_of({4}), i = ones_of({4}, int32), b = ones_of({4}, bool_);
  const Array key = random::key(0);
  all_refused(128, {[&] { v + ones_of({3}); },
                    [&] { v + key; },
                    [&] { b - b; },
                    [&] { -b; },
                    [&] { v& v; },
                    [&] { ~v; },
                    [&] { i + std::int64_t{3000000000}; },
                    [&] { ones_of({2}, uint8) + 300; },
                    [&] { ones_of({2}, uint8) - -1; },
                    [&] { ones_of({2}, int8) * 200; },
                    [&] { full({2}, 300, uint8); },
                    [&] { full({2}, -1, uint32); },
                    [&] { full({2}, 1e30, int32); },
                    [&] { full({2}, no_number, int32); },
                    [&] { full({2}, v); },
                    [&] { convert(key, float32); },
                    [&] { convert(v, DType::key); },
                    [&] { bitcast_convert(b, uint8); },
                    [&] { bitcast_convert(ones_of({3}, uint8), uint16); },
                    [&] { static_cast<void>(promote(DType::key, float32)); },
                    [&] { cumsum(v, 1); },
                    [&] { cumsum(random::split(key, 2)); },
                    [&] { sort(x, 2); },
                    [&] { sort(key); },
                    [&] { argsort(ones_of({}), 0); },
                    [&] { top_k(v, 5); },
                    [&] { top_k(v, -1); },
                    [&] { quantile(v, 1.5); },
                    [&] { quantile(v, -0.1); },
                    [&] { percentile(v, 101.0); },
                    [&] { quantile(ones_of({4}, complex64), 0.5); },
                    [&] { histogram(v, 0); },
                    [&] { histogram(v, 3, std::pair(2.0, 1.0)); },
                    [&] { histogram(v, 3, std::pair(0.0, no_number)); },
                    [&] { bincount(v, 3); },
                    [&] { bincount(i, -1); },
                    [&] { diff(v, -1); },
                    [&] { gradient(ones_of({1})); },
                    [&] { average(x, v, Axes{0}); },
                    [&] {
                      cov(ones_of({2, 2, 2}));
                    },
                    [&] { searchsorted(x, v); },
                    [&] { digitize(v, x); },
                    [&] { complex(v, v) < complex(v, v); },
                    [&] { max(complex(v, v)); },
                    [&] { floor(complex(v, v)); },
                    [&] { sum(x, 2); },
                    [&] {
                      sum(x, Axes{0, 0});
                    },
                    [&] { sum(random::split(key, 2)); },
                    [&] { mean(key); },
                    [&] { var(x, 5); },
                    [&] { all(key); },
                    [&] { softmax(x, 2); },
                    [&] { fft::fft(ones_of({})); },
                    [&] { fft::fft(v, 0); },
                    [&] { fft::irfft(ones_of({0})); },
                    [&] { clip(v, ones_of({3}), 1); },
                    [&] { piecewise(v, {b}, {}); },
                    [&] { static_cast<bool>(v); },
                    [&] { v.to_vector<int>(); },
                    [&] { Array().to_bytes(); },
                    [&] { Array() + 1; },
                    [&] { sum(Array()); }});
}

}  // namespace lockstep::tests
