#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <lockstep/convolution.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "engine/exchange/stablehlo/importer.h"
#include "engine/exchange/stablehlo/windows.h"

// select_and_scatter: each window chooses one of its elements, and a source element is joined to what is there.
namespace lockstep::exchange {
namespace {

constexpr std::int64_t most_unrolled = 1024;

/// Where the element lies that each window chooses, as a place among all elements; their count where a window has none.
Array chosen_places(const OpCall& call, const Windows& windows) {
  const Array& x = call.operand(0);
  if (windows.elements() > most_unrolled) {
    call.refuse(fmt::format("windows of more than {} elements that choose by a region of their own", most_unrolled));
  }
  const std::int64_t count = x.size();
  const Array all_places = reshape(arange(count, int64), x.shape().to_vector());
  const std::vector<Array> values = windows.split(x, zeros({}, x.dtype())),
                           places = windows.split(all_places, array(count));
  Array value = values[0], place = places[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    Array keep = joined_by_region(call, call.op.regions[0], value, values[i]);
    if (keep.dtype() != bool_) call.refuse("its first region must give one i1");
    if (windows.has_padding()) keep = (place < count) & (keep | (places[i] >= count));
    value = where(keep, value, values[i]);
    place = where(keep, place, places[i]);
  }
  return place;
}

/// As a scatter of scalars, with the region that joins them.
Array scattered(const OpCall& call, const Array& places) {
  const Array &x = call.operand(0), &source = call.operand(1), &start = call.operand(2);
  using Kind = mlir::Attribute::Kind;
  const mlir::Attribute none{.kind = Kind::list}, first{.kind = Kind::list, .items = {{.text = "0"}}};
  mlir::Op op{.name = "stablehlo.scatter", .line = call.op.line};
  op.attributes = {{"update_window_dims", none},
                   {"inserted_window_dims", first},
                   {"scatter_dims_to_operand_dims", first},
                   {"index_vector_dim", {.text = "1"}}};
  op.regions = {call.op.regions[1]};
  const OpCall scatter{call.importer,
                       op,
                       call.values,
                       {broadcast_to(start, {x.size()}), reshape(places, {-1, 1}), reshape(source, {-1})}};
  return reshape(apply_indexing(scatter)[0], x.shape().to_vector());
}

}  // namespace

std::vector<Array> select_and_scatter(const OpCall& call) {
  const Array &x = call.operand(0), &source = call.operand(1), &start = call.operand(2);
  if (call.op.regions.size() != 2) call.refuse("it takes a region that chooses and one that joins");
  const Windows windows(call, x.ndim());
  if (source.shape() != windows.result(x.shape())) {
    call.refuse(fmt::format("its source is {}; expected one element for each of the windows, {}",
                            to_string(source.type()), to_string(windows.result(x.shape()))));
  }
  if (start.ndim() != 0 || start.dtype() != x.dtype() || source.dtype() != x.dtype()) {
    call.refuse("its source and initial value, a scalar, must be of its operand's dtype");
  }
  if (x.size() == 0 || source.size() == 0) return {broadcast_to(start, x.shape())};
  // The derivative of the windows' maxima or minima; of a window with NaN it is the NaN that is chosen.
  const std::vector<std::string> choice = dataflow(call, call.op.regions[0]);
  const bool largest = choice == std::vector<std::string>{"GE(#0,#1)"};
  const bool least = choice == std::vector<std::string>{"LE(#0,#1)"};
  if ((largest || least) && is_float(x.dtype()) && x.ndim() > 0 && x.ndim() <= Shape::max_rank - 2 &&
      call.combiner(call.op.regions[1]) == "stablehlo.add" && windows.all_hold_elements(x.shape())) {
    const auto chosen_by = largest ? reduce_window_max : reduce_window_min;
    const auto [extrema, spread] = vjp([&](const Array& values) { return chosen_by(values, windows.options()); }, x);
    return {std::get<0>(spread(source)) + broadcast_to(start, x.shape())};
  }
  return {scattered(call, chosen_places(call, windows))};
}

}  // namespace lockstep::exchange
