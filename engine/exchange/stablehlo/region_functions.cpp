#include <iterator>
#include <string_view>
#include <utility>

#include <lockstep/reduce.h>
#include <lockstep/transforms.h>

#include "engine/exchange/stablehlo/importer.h"

// What a region combines two elements by, as a function of many elements at once.
namespace lockstep::exchange {
namespace {

constexpr std::string_view multiply_name = "stablehlo.multiply";

/// The region for each pair of elements of trees of one shape.
TreeFunction of_elements(const OpCall& call, const mlir::Region& region) {
  return [&call, &region](const std::vector<Tree>& pair) {
    const Shape shape = pair[0].leaves()[0].shape();
    const auto flat = [](const Array& x) { return reshape(x, {-1}); };
    const auto scalars = [&](const std::vector<Tree>& elements) {
      std::vector<Array> arguments = elements[0].leaves();
      for (const Array& right : elements[1].leaves()) arguments.push_back(right);
      return list_of(call.importer.run(region, arguments, &call.values));
    };
    if (shape.rank() == 0) return scalars(pair);
    const Tree combined = lockstep::detail::vmap(scalars, {map(flat, pair[0]), map(flat, pair[1])}, {0, 0}, 0, {});
    return map([&](const Array& x) { return reshape(x, shape.to_vector()); }, combined);
  };
}

/// Operands, and behind them as many values that the reduction begins with.
std::pair<Tree, Tree> operands_and_starts(const OpCall& call) {
  const std::size_t count = call.operands.size() / 2;
  if (count == 0 || call.operands.size() != 2 * count) call.refuse("it takes arrays and as many initial values");
  const auto middle = call.operands.begin() + static_cast<std::ptrdiff_t>(count);
  return {list_of({call.operands.begin(), middle}), list_of({middle, call.operands.end()})};
}

}  // namespace

Tree list_of(std::vector<Array> arrays) {
  std::vector<Tree> items(std::make_move_iterator(arrays.begin()), std::make_move_iterator(arrays.end()));
  return Tree::list(std::move(items));
}

std::vector<Array> reduced_by_region(const OpCall& call, const mlir::Region& region, const Axes& axes) {
  const auto [operands, starts] = operands_and_starts(call);
  return lockstep::detail::reduce(of_elements(call, region), operands, starts, axes).leaves();
}

Array joined_by_region(const OpCall& call, const mlir::Region& region, const Array& a, const Array& b) {
  return of_elements(call, region)({list_of({a}), list_of({b})}).leaves()[0];
}

std::vector<Array> windows_by_region(const OpCall& call, const mlir::Region& region,
                                     const ReduceWindowOptions& options) {
  const auto [operands, starts] = operands_and_starts(call);
  const TreeFunction combine = of_elements(call, region);
  if (call.operands.size() > 2 || call.combiner(region) != multiply_name) {
    return lockstep::detail::reduce_window(combine, operands, starts, options).leaves();
  }
  // What it begins with counts once in a window, and not for each place of its padding.
  const Tree neutral = map([](const Array& start) { return ones_like(start); }, starts);
  const Tree products = lockstep::detail::reduce_window(combine, operands, neutral, options);
  return {products.leaves()[0] * starts.leaves()[0]};
}

}  // namespace lockstep::exchange
