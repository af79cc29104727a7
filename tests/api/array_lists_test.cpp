#include <vector>

#include <doctest/doctest.h>

#include <lockstep/einsum.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/reductions.h>

#include "tests/support/array_values.h"

using namespace lockstep;
using tests::check_close;
using tests::check_same_bits;

// Every function of several arrays takes them in braces, which means the same as a vector of them.
TEST_CASE("functions that join arrays take them in braces") {
  const Array a = array({1.f, 5.f}), b = array({4.f, 2.f});
  const std::vector<Array> both = {a, b};
  check_close(stack({a, b}, 0), {2, 2}, {1, 5, 4, 2});
  check_close(stack({a, b}, 1), {2, 2}, {1, 4, 5, 2});
  check_close(stack({a}, 0), {1, 2}, {1, 5});
  check_same_bits(concatenate({a, b}, 0), concatenate(both, 0));
  check_same_bits(stack({a, b}, 0), stack(both, 0));
  check_same_bits(hstack({a, b}), hstack(both));
  check_same_bits(vstack({a, b}), vstack(both));
  check_same_bits(dstack({a, b}), dstack(both));
  check_same_bits(column_stack({a, b}), column_stack(both));
  check_same_bits(einsum("i,i->", {a, b}), einsum("i,i->", both));
  check_same_bits(linalg::multi_dot({a, eye(2), b}), linalg::multi_dot(std::vector<Array>{a, eye(2), b}));
  check_same_bits(lax::concatenate({a, b}, {{"dim", std::int64_t{0}}})[0],
                  lax::concatenate(both, {{"dim", std::int64_t{0}}})[0]);
}

TEST_CASE("functions that choose from arrays, or give several, take them in braces") {
  const Array a = array({1.f, 5.f}), b = array({4.f, 2.f}), holds = array({true, false});
  const std::vector<Array> both = {a, b};
  check_same_bits(meshgrid({a, b})[0], meshgrid(both)[0]);
  check_same_bits(meshgrid({a, b}, "ij")[1], meshgrid(both, "ij")[1]);
  check_same_bits(broadcast_arrays({a, ones({3, 1})})[0], broadcast_arrays(std::vector<Array>{a, ones({3, 1})})[0]);
  check_close(select({holds, a > 9.f}, {a, b}, -1.f), {2}, {1, -1});
  check_close(select({holds}, {a}), {2}, {1, 0});
  check_close(choose(array({1, 0}), {a, b}), {2}, {4, 5});
  check_close(piecewise(a, {a > 4.f}, {[](const Array& x) { return -x; }, [](const Array& x) { return x * 10.f; }}),
              {2}, {10, -5});
  check_close(sort({b, a})[1], {2}, {5, 1});
  check_close(sort({b, a}, 0, 2)[0], {2}, {2, 4});
  check_close(lexsort({a, b}), {2}, {1, 0});
}

TEST_CASE("starts of slices stand in braces") {
  const Array x = reshape(arange(6, float32), {2, 3}), zero = array(0), one = array(1);
  check_close(dynamic_slice(x, {one, one}, {1, 2}), {1, 2}, {4, 5});
  check_close(dynamic_update_slice(x, ones({1, 2}), {zero, one}), {2, 3}, {0, 1, 1, 3, 4, 5});
}
