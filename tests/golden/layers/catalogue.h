#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

// Layers under the names of those of Keras, PyTorch and JAX in values.txt, and those that draw.
namespace lockstep::tests::layers {

struct CatalogueLayer {
  std::string name;
  std::string function;               ///< The public function that it holds.
  std::vector<std::int64_t> example;  ///< Extents of one row of the input.
  std::function<Array(const Scope&, const Array&, Aggregation)> layer;
  bool draws = false;  ///< A training call depends on a draw: no stored values.
};
const std::vector<CatalogueLayer>& catalogue();
/// These, and those whose values tests/nn and tests/golden hold by other means.
const std::vector<CatalogueLayer>& every_layer();

/// Numbers in [-0.7, 0.7] in an order that repeats in no dimension; `which` makes another order of them.
Array filled(const Shape& shape, std::int64_t which);
/// So many rows of a layer's input.
Array rows_of(const CatalogueLayer& layer, std::int64_t rows);
/// Variables and state with such numbers, by order of path.
std::pair<Tree, Tree> filled_variables(const Model<Array, Array>& model, const Array& x);

}  // namespace lockstep::tests::layers
