#pragma once

#include <cstdint>

// Winograd's transformations along one side of a tile, of Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks" (2015): with x, window and y the matrices B^T, G and A^T there, y(x(d) * window(g)) are the places of y that
// windows g make of the places d of x. Those of the window's gradient are window's transposed, of sums of x(d) times y's
// transposed.
namespace lockstep::backend::cpu {

/// F(2, 3): two places of y from four of x.
///
///   B^T = 1  0 -1  0    G = 1    0    0    A^T = 1 1  1 0
///         0  1  1  0        1/2  1/2  1/2        0 1 -1 1
///         0 -1  1  0        1/2 -1/2  1/2
///         0 -1  0  1        0    0    1
struct TilesOf2 {
  static constexpr std::int64_t places = 2, elements = 4;

  template <class Lanes>
  static void transform_x(const Lanes (&d)[4], Lanes (&to)[4]) {
    to[0] = Lanes::sub(d[0], d[2]);
    to[1] = Lanes::add(d[1], d[2]);
    to[2] = Lanes::sub(d[2], d[1]);
    to[3] = Lanes::sub(d[3], d[1]);
  }
  template <class Lanes>
  static void transform_window(const Lanes (&g)[3], Lanes (&to)[4]) {
    const Lanes half = Lanes::all(0.5F), outer = Lanes::mul(Lanes::add(g[0], g[2]), half);
    const Lanes inner = Lanes::mul(g[1], half);
    to[0] = g[0];
    to[1] = Lanes::add(outer, inner);
    to[2] = Lanes::sub(outer, inner);
    to[3] = g[2];
  }
  template <class Lanes>
  static void transform_m(const Lanes (&m)[4], Lanes (&to)[2]) {
    to[0] = Lanes::add(Lanes::add(m[0], m[1]), m[2]);
    to[1] = Lanes::add(Lanes::sub(m[1], m[2]), m[3]);
  }
  template <class Lanes>
  static void transform_dy(const Lanes (&d)[2], Lanes (&to)[4]) {
    to[0] = d[0];
    to[1] = Lanes::add(d[0], d[1]);
    to[2] = Lanes::sub(d[0], d[1]);
    to[3] = d[1];
  }
  template <class Lanes>
  static void transform_sums(const Lanes (&s)[4], Lanes (&to)[3]) {
    const Lanes half = Lanes::all(0.5F), a = Lanes::mul(s[1], half), b = Lanes::mul(s[2], half);
    const Lanes both = Lanes::add(a, b);
    to[0] = Lanes::add(s[0], both);
    to[1] = Lanes::sub(a, b);
    to[2] = Lanes::add(both, s[3]);
  }
};

/// F(4, 3): four places of y from six of x.
///
///   B^T = 4  0 -5  0 1 0    G =  1/4    0    0     A^T = 1 1  1 1  1 0
///         0 -4 -4  1 1 0        -1/6 -1/6 -1/6           0 1 -1 2 -2 0
///         0  4 -4 -1 1 0        -1/6  1/6 -1/6           0 1  1 4  4 0
///         0 -2 -1  2 1 0        1/24 1/12  1/6           0 1 -1 8 -8 1
///         0  2 -1 -2 1 0        1/24 -1/12 1/6
///         0  4  0 -5 0 1         0     0    1
struct TilesOf4 {
  static constexpr std::int64_t places = 4, elements = 6;

  template <class Lanes>
  static void transform_x(const Lanes (&d)[6], Lanes (&to)[6]) {
    const Lanes two = Lanes::all(2), less_two = Lanes::all(-2), four = Lanes::all(4), less_four = Lanes::all(-4);
    const Lanes less_five = Lanes::all(-5);
    const Lanes a = Lanes::fma(less_four, d[2], d[4]), b = Lanes::fma(less_four, d[1], d[3]);
    const Lanes c = Lanes::sub(d[4], d[2]), e = Lanes::sub(d[3], d[1]);
    to[0] = Lanes::fma(four, d[0], Lanes::fma(less_five, d[2], d[4]));
    to[1] = Lanes::add(a, b);
    to[2] = Lanes::sub(a, b);
    to[3] = Lanes::fma(two, e, c);
    to[4] = Lanes::fma(less_two, e, c);
    to[5] = Lanes::fma(four, d[1], Lanes::fma(less_five, d[3], d[5]));
  }
  template <class Lanes>
  static void transform_window(const Lanes (&g)[3], Lanes (&to)[6]) {
    const Lanes sixth = Lanes::all(1.0F / 6), twelfth = Lanes::all(1.0F / 12), less_sixth = Lanes::all(-1.0F / 6);
    const Lanes outer = Lanes::mul(Lanes::add(g[0], g[2]), less_sixth), inner = Lanes::mul(g[1], sixth);
    const Lanes far = Lanes::fma(g[0], Lanes::all(1.0F / 24), Lanes::mul(g[2], sixth)), mid = Lanes::mul(g[1], twelfth);
    to[0] = Lanes::mul(g[0], Lanes::all(0.25F));
    to[1] = Lanes::sub(outer, inner);
    to[2] = Lanes::add(outer, inner);
    to[3] = Lanes::add(far, mid);
    to[4] = Lanes::sub(far, mid);
    to[5] = g[2];
  }
  template <class Lanes>
  static void transform_m(const Lanes (&m)[6], Lanes (&to)[4]) {
    const Lanes a = Lanes::add(m[1], m[2]), b = Lanes::sub(m[1], m[2]);
    const Lanes c = Lanes::add(m[3], m[4]), e = Lanes::sub(m[3], m[4]);
    to[0] = Lanes::add(Lanes::add(m[0], a), c);
    to[1] = Lanes::fma(Lanes::all(2), e, b);
    to[2] = Lanes::fma(Lanes::all(4), c, a);
    to[3] = Lanes::add(Lanes::fma(Lanes::all(8), e, b), m[5]);
  }
  template <class Lanes>
  static void transform_dy(const Lanes (&d)[4], Lanes (&to)[6]) {
    const Lanes a = Lanes::add(d[0], d[2]), b = Lanes::add(d[1], d[3]), four = Lanes::all(4);
    const Lanes c = Lanes::fma(four, d[2], d[0]), e = Lanes::fma(four, d[3], d[1]);
    to[0] = d[0];
    to[1] = Lanes::add(a, b);
    to[2] = Lanes::sub(a, b);
    to[3] = Lanes::fma(Lanes::all(2), e, c);
    to[4] = Lanes::fma(Lanes::all(-2), e, c);
    to[5] = d[3];
  }
  template <class Lanes>
  static void transform_sums(const Lanes (&s)[6], Lanes (&to)[3]) {
    const Lanes sixth = Lanes::all(1.0F / 6);
    const Lanes a = Lanes::add(s[1], s[2]), b = Lanes::sub(s[2], s[1]);
    const Lanes c = Lanes::add(s[3], s[4]), e = Lanes::sub(s[3], s[4]);
    const Lanes near = Lanes::fma(Lanes::all(-1.0F / 6), a, Lanes::mul(Lanes::all(0.25F), s[0]));
    to[0] = Lanes::fma(Lanes::all(1.0F / 24), c, near);
    to[1] = Lanes::fma(Lanes::all(1.0F / 12), e, Lanes::mul(b, sixth));
    to[2] = Lanes::fma(Lanes::sub(c, a), sixth, s[5]);
  }
};

}  // namespace lockstep::backend::cpu
