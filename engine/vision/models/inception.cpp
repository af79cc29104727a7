#include "engine/vision/models/numbered_convolutions.h"

namespace lockstep::models {
namespace {

/// Windows of 1, 5 and twice 3.
Array small_windows(Numbered& conv, const Array& x, std::int64_t pooled) {
  const Array one = conv(x, Window{64, 1, 1});
  const Array five = conv(x, {{48, 1, 1}, {64, 5, 5}});
  const Array twice = conv(x, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}});
  return concatenate({one, five, twice, conv(means_of_neighbours(x), Window{pooled, 1, 1})}, -1);
}

/// Windows of 7 as a row and a column.
Array long_windows(Numbered& conv, const Array& x, std::int64_t inside) {
  const Array one = conv(x, Window{192, 1, 1});
  const Array seven = conv(x, {{inside, 1, 1}, {inside, 1, 7}, {192, 7, 1}});
  const Array twice = conv(x, {{inside, 1, 1}, {inside, 7, 1}, {inside, 1, 7}, {inside, 7, 1}, {192, 1, 7}});
  return concatenate({one, seven, twice, conv(means_of_neighbours(x), Window{192, 1, 1})}, -1);
}

/// Rows and columns beside each other.
Array branched_windows(Numbered& conv, const Array& x) {
  const auto both = [&](const Array& y) {
    const Array row = conv(y, Window{384, 1, 3});
    return concatenate({row, conv(y, Window{384, 3, 1})}, -1);
  };
  const Array one = conv(x, Window{320, 1, 1});
  const Array three = both(conv(x, Window{384, 1, 1}));
  const Array twice = both(conv(x, {{448, 1, 1}, {384, 3, 3}}));
  return concatenate({one, three, twice, conv(means_of_neighbours(x), Window{192, 1, 1})}, -1);
}

}  // namespace

Array inception_stem(Numbered& conv, const Array& x) {
  constexpr Padding valid = Padding::valid;
  const Array h = conv(x, {{32, 3, 3, 2, valid}, {32, 3, 3, 1, valid}, {64, 3, 3}});
  return largest_of_neighbours(conv(largest_of_neighbours(h), {{80, 1, 1}, {192, 3, 3, 1, valid}}));
}

Array inception_v3(const Scope& scope, const Array& x, const InceptionV3Options& options) {
  check_image("inception_v3", x, 75);
  constexpr Padding valid = Padding::valid;
  Numbered conv(scope);
  Array h = inception_stem(conv, x);
  for (const std::int64_t pooled : {32, 64, 64}) h = small_windows(conv, h, pooled);
  const Array three = conv(h, Window{384, 3, 3, 2, valid});
  h = concatenate({three, conv(h, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3, 2, valid}}), largest_of_neighbours(h)}, -1);
  for (const std::int64_t inside : {128, 160, 160, 192}) h = long_windows(conv, h, inside);
  const Array stepped = conv(h, {{192, 1, 1}, {320, 3, 3, 2, valid}});
  h = concatenate(
      {stepped, conv(h, {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3, 2, valid}}), largest_of_neighbours(h)}, -1);
  for (int block = 0; block < 2; ++block) h = branched_windows(conv, h);
  return classes_of(scope, h, options.classes, options.head);
}

}  // namespace lockstep::models
