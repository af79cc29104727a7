#include <vector>

#include <doctest/doctest.h>

#include <lockstep/einsum.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/arange_of.h"
#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradient_checks.h"
#include "tests/support/value_rows.h"

using namespace lockstep;
using tests::arange_of;
using tests::check_gradient;
using tests::check_rows;
using tests::expect_error;

// Values in rows are JAX's.
TEST_CASE("einsum") {
  const Array a = arange_of({2, 3}) - 2, b = arange_of({3, 4}) * 0.5 - 1, s = arange_of({3, 3});
  const Array d = arange_of({2, 3, 4}) * 0.1 - 1, e = arange_of({2, 4, 3}) * 0.2 - 2;
  const Array u = array({1.f, -2.f}), v = array({3.f, 0.5f, 2.f});
  const Array f = arange_of({4, 2}) - 3, g = arange_of({5, 4}) * 0.1, h = arange_of({2, 2, 3});
  check_rows(
      {
          {"ij,jk->ik", einsum("ij,jk->ik", {a, b}), {2, 4}, {1, -0.5, -2, -3.5, 10, 13, 16, 19}},
          {"ij,jk", einsum("ij,jk", {a, b}), {2, 4}, {1, -0.5, -2, -3.5, 10, 13, 16, 19}},
          {"ij->ji", einsum("ij->ji", {a}), {3, 2}, {-2, 1, -1, 2, 0, 3}},
          {"ij->", einsum("ij->", {a}), {}, {3}},
          {"ij", einsum("ij", {a}), {2, 3}, {-2, -1, 0, 1, 2, 3}},
          {"ji", einsum("ji", {a}), {3, 2}, {-2, 1, -1, 2, 0, 3}},
          {"ij,ij->", einsum("ij,ij->", {a, a}), {}, {19}},
          {"ij,ij->i", einsum("ij,ij->i", {a, a}), {2}, {5, 14}},
          {"ii->i", einsum("ii->i", {s}), {3}, {0, 4, 8}},
          {"ii", einsum("ii", {s}), {}, {12}},
          {"ii->", einsum("ii->", {s}), {}, {12}},
          {"i,j->ij", einsum("i,j->ij", {u, v}), {2, 3}, {3, 0.5, 2, -6, -1, -4}},
          {"bij,bjk->bik",
           einsum("bij,bjk->bik", {d, e}),
           {2, 3, 3},
           {4.04, 3.36, 2.68, 2.28, 1.92, 1.56, 0.52, 0.48, 0.44, 2.12, 2.4, 2.68, 4.2, 4.8, 5.4, 6.28, 7.2, 8.12}},
          {"bij,bjk", einsum("bij,bjk", {d, e}), {3, 3}, {6.16, 5.76, 5.36, 6.48, 6.72, 6.96, 6.8, 7.68, 8.56}},
          {"...ij,...jk->...ik",
           einsum("...ij,...jk->...ik", {d, arange_of({4, 2})}),
           {2, 3, 2},
           {-9.2, -12.6, -4.4, -6.2, 0.4, 0.2, 5.2, 6.6, 10, 13, 14.8, 19.4}},
          {"...ij->...ji", einsum("...ij->...ji", {d}), {2, 4, 3}, {-1,  -0.6, -0.2, -0.9, -0.5, -0.1, -0.8, -0.4,
                                                                    0,   -0.7, -0.3, 0.1,  0.2,  0.6,  1,    0.3,
                                                                    0.7, 1.1,  0.4,  0.8,  1.2,  0.5,  0.9,  1.3}},
          {"...i->...", einsum("...i->...", {d}), {2, 3}, {-3.4, -1.8, -0.2, 1.4, 3, 4.6}},
          {"ij,jk,kl->il", einsum("ij,jk,kl->il", {a, b, f}), {2, 2}, {-15, -20, 30, 88}},
          {"ij,jk,jk->i", einsum("ij,jk,jk->i", {a, b, b}), {2}, {-16.5, 201}},
          {"i,i,i->i", einsum("i,i,i->i", {u, u, u}), {2}, {1, -8}},
          {"bij,kj->bik",
           einsum("bij,kj->bik", {d, g}),
           {2, 3, 5},
           {-0.46, -1.82, -3.18, -4.54, -5.9, -0.22, -0.94, -1.66, -2.38, -3.1, 0.02, -0.06, -0.14, -0.22, -0.3,
            0.26,  0.82,  1.38,  1.94,  2.5,  0.5,   1.7,   2.9,   4.1,   5.3,  0.74, 2.58,  4.42,  6.26,  8.1}},
          {"ijk,ikj->i", einsum("ijk,ikj->i", {d, e}), {2}, {6.4, 15.04}},
          {"iij->j", einsum("iij->j", {h}), {3}, {9, 11, 13}},
          {"ij,kl->", einsum("ij,kl->", {a, b}), {}, {63}},
          {"b...,b...->b...", einsum("b...,b...->b...", {reshape(u, {2, 1}), a}), {2, 3}, {-2, -1, 0, -2, -4, -6}},
          {"ij , jk -> ik", einsum("ij , jk -> ik", {a, b}), {2, 4}, {1, -0.5, -2, -3.5, 10, 13, 16, 19}},
      },
      2e-6);
  CHECK(einsum("i,i->", {array({1, 2}), array({0.5f, 2.f})}).dtype() == float32);
  CHECK(einsum("i,i->", {array({1, 2}), array({3, 4})}).item<std::int32_t>() == 11);
  CHECK(einsum("i,i", {array<std::int8_t>({100, 1}), array<std::int8_t>({1, 2})}).dtype() == int8);
  CHECK(einsum("i->", {array({false, true})}).item<bool>());
}

TEST_CASE("what is no equation is refused") {
  const Array a = arange_of({2, 3}), b = arange_of({3, 4});
  expect_error<ValueError>([&] { einsum("ij,jk->ik", {a}); }, "ij,jk->ik", "2 operands, 1 arrays");
  expect_error<ValueError>([] { einsum("", {}); }, "no arrays were given");
  expect_error<ValueError>([&] { einsum("i1->i", {a}); }, "'1' is neither a letter");
  expect_error<ValueError>([&] { einsum("i..->i", {a}); }, "'.' is neither a letter");
  expect_error<ValueError>([&] { einsum("ij->ik", {a}); }, "the result's 'k' is in no operand");
  expect_error<ValueError>([&] { einsum("ij->ii", {a}); }, "the result's 'i' occurs twice");
  expect_error<ValueError>([&] { einsum("...j->j", {a}); }, "\"...\" is missing in the result");
  expect_error<ShapeError>([&] { einsum("ijk->i", {a}); }, "names 3 dimensions", "[2,3]");
  expect_error<ShapeError>([&] { einsum("i...jk->i...", {a}); }, "names 3 dimensions", "[2,3]");
  expect_error<ShapeError>([&] { einsum("ij,ik->jk", {a, b}); }, "the extents of 'i' differ: 2 and 3");
  expect_error<ShapeError>([&] { einsum("...,...", {a, b}); }, "einsum", "differ");
}

TEST_CASE("the derivatives of einsum") {
  const Array a = tests::wavy({2, 3}), b = tests::wavy({3, 4}, 1), s = tests::wavy({3, 3}, 2);
  check_gradient([&](const Array& x) { return einsum("ij,jk,kl->il", {x, b, transpose(b)}); }, a);
  check_gradient([&](const Array& x) { return einsum("ij,ij,jk->k", {x, x, b}); }, a, 2);
  check_gradient([](const Array& x) { return einsum("ii->i", {x}); }, s);
  check_gradient([&](const Array& x) { return einsum("...j,kj->...k", {a, x}); }, s);
}
