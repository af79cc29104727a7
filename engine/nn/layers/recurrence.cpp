#include "engine/nn/layers/recurrence.h"

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/nn/layers/unseen_places.h"

namespace lockstep::nn {

void check_sequences(std::string_view layer, const Scope& scope, const Array& x, std::int64_t units) {
  if (x.ndim() != 3 || !is_float(x.dtype())) {
    throw ShapeError(fmt::format("[{} '{}'] the input is {}; give float sequences [N, T, features]", layer,
                                 scope.path(), to_string(x.type())));
  }
  if (units <= 0) {
    throw ValueError(fmt::format("[{} '{}'] units is {}; it must be at least 1", layer, scope.path(), units));
  }
}

Initializer ones_in_gate(std::int64_t gate, std::int64_t gates) {
  return [=](const Array&, const Shape& shape, DType dtype) {
    const std::int64_t units = shape[0] / gates;
    const Array place = arange(shape[0]);
    return convert((place >= gate * units) & (place < (gate + 1) * units), dtype);
  };
}

Array held_places(std::string_view layer, const Scope& scope, const Array& x, const std::optional<Array>& lengths,
                  const std::optional<Array>& mask) {
  const Shape rows = {x.dim(0)}, places = {x.dim(0), x.dim(1)};
  const bool lengths_fit = !lengths || lengths->shape() == rows;
  if (!lengths_fit || (mask && mask->shape() != places)) {
    throw ShapeError(fmt::format("[{} '{}'] the input is {}, {} {}; give lengths {} or a mask {}", layer, scope.path(),
                                 to_string(x.type()), lengths_fit ? "the mask is" : "lengths are",
                                 to_string(lengths_fit ? mask->type() : lengths->type()), to_string(rows),
                                 to_string(places)));
  }
  if (lengths && !is_integer(lengths->dtype())) {
    throw DtypeError(fmt::format("[{} '{}'] lengths are {}; give integers, or a mask {}", layer, scope.path(),
                                 to_string(lengths->type()), to_string(places)));
  }
  if (mask && mask->dtype() != bool_) {
    throw DtypeError(fmt::format("[{} '{}'] the mask is {}; give bool, true where a place is held (mask != 0)", layer,
                                 scope.path(), to_string(mask->type())));
  }
  Array held;
  if (lengths) held = swapaxes(within(*lengths, x.dim(1)), 0, 1);
  if (!mask) return held;
  const Array given = swapaxes(*mask, 0, 1);
  return held.has_value() ? held & given : given;
}

Array held_inputs(const Array& x, const Array& held) {
  if (!held.has_value()) return x;
  std::vector<std::int64_t> places(static_cast<std::size_t>(x.ndim()), 1);
  places[0] = x.dim(0);
  places[1] = x.dim(1);
  return where(reshape(swapaxes(held, 0, 1), places), x, 0);
}

std::pair<Array, std::vector<Array>> recurrence(const RecurrentStep& step, const Array& inputs, const Places& places) {
  using States = std::vector<Array>;
  const ScanOptions order{.reverse = places.reverse};
  if (!places.held.has_value()) {
    const auto body = [&](const States& state, const Array& input) {
      States next = step(state, input);
      const Array h = next[0];
      return std::pair(std::move(next), h);
    };
    const auto [last, ys] = scan(body, places.initial, inputs, order);
    return {swapaxes(ys, 0, 1), last};
  }
  const auto body = [&](const States& state, const std::pair<Array, Array>& at) {
    States next = step(state, at.first);
    std::vector<std::int64_t> column(static_cast<std::size_t>(next[0].ndim()), 1);
    column[0] = at.second.dim(0);
    const Array held = reshape(at.second, column);
    for (std::size_t i = 0; i < next.size(); ++i) next[i] = where(held, next[i], state[i]);
    const Array h = where(held, next[0], 0);
    return std::pair(std::move(next), h);
  };
  const auto [last, ys] = scan(body, places.initial, std::pair(inputs, places.held), order);
  return {swapaxes(ys, 0, 1), last};
}

}  // namespace lockstep::nn
