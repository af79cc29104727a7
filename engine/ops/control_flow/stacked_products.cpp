#include "engine/ops/control_flow/stacked_products.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/ops/primitives.h"

namespace lockstep::ops::control_flow {

namespace {

/// The dimensions of both factors behind a new first one.
std::vector<Dims> behind_first(std::vector<Dims> pairs) {
  for (auto& dims : pairs) {
    for (std::int64_t& d : dims) ++d;
  }
  return pairs;
}

const ir::Equation* definition(const ir::Function& body, ir::Var value) {
  const auto& equations = body.equations();
  const auto found = std::ranges::find_if(
      equations, [value](const ir::Equation& e) { return std::ranges::count(e.outputs, value) != 0; });
  return found == equations.end() ? nullptr : &*found;
}

}  // namespace

Value Product::sum(ir::Builder& builder, const Value& lefts, const Value& rights) const {
  std::vector<Dims> contract = behind_first(dot->attrs.get<std::vector<Dims>>("contract"));
  for (auto& dims : contract) dims.insert(dims.begin(), 0);
  const Attrs attrs = dot->attrs.with("contract", std::move(contract))
                          .with("batch", behind_first(dot->attrs.get<std::vector<Dims>>("batch")));
  ir::Var result = builder.apply(*dot->primitive, {lefts.var(), rights.var()}, attrs)[0];
  for (const ir::Equation* move : moves) result = builder.apply(*move->primitive, {result}, move->attrs)[0];
  return {builder, result};
}

std::optional<std::vector<Product>> as_products(const ir::Function& body, ir::Var value) {
  std::vector<const ir::Equation*> moves;
  const ir::Equation* e = definition(body, value);
  while (e != nullptr && (e->primitive == &primitives::transpose() || e->primitive == &primitives::reshape())) {
    moves.insert(moves.begin(), e);
    e = definition(body, e->inputs[0]);
  }
  if (e == nullptr) return std::nullopt;
  if (e->primitive == &primitives::dot_general()) return std::vector<Product>{{e, std::move(moves)}};
  if (e->primitive != &primitives::add()) return std::nullopt;
  std::vector<Product> all;
  for (const ir::Var term : e->inputs) {
    std::optional<std::vector<Product>> products = as_products(body, term);
    if (!products) return std::nullopt;
    for (Product& product : *products) {
      product.moves.insert(product.moves.end(), moves.begin(), moves.end());
      all.push_back(std::move(product));
    }
  }
  return all;
}

}  // namespace lockstep::ops::control_flow
