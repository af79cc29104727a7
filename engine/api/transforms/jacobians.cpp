#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/linearized_tree.h"
#include "engine/core/lists.h"
#include "engine/trace/cells.h"

namespace lockstep::detail {

namespace {

using api::LinearizedTree;

/// The directions along each element of a leaf: [size, shape...].
Array basis(const ArrayType& type) {
  const Array identity = eye(type.shape.size(), type.dtype);
  return reshape(identity, type.shape.insert(0, type.shape.size()).to_vector());
}

std::shared_ptr<LinearizedTree> linearized_in(std::string_view op, const TreeFunction& function,
                                              const std::vector<Tree>& arguments, int argnum, api::Leaves allowed) {
  const api::FlatArguments flat(arguments);
  return api::linearized(function, arguments,
                         api::active_leaves(op, flat, flat.types(), {argnum}, arguments.size(), allowed));
}

/// Of the float and complex leaves of a result.
void check_results(std::string_view op, const LinearizedTree& point, bool holomorphic) {
  for (const ArrayType& type : point.output_types()) {
    if (is_inexact(type.dtype)) api::check_results(op, type, holomorphic);
  }
}

/// `linear`, (residual..., u...) -> (v...), along every element of u[place], the other u zero: [size, v.shape...] each.
std::vector<Array> along_all(const ir::FunctionPtr& linear, const std::vector<Array>& residuals, std::size_t place) {
  std::vector<bool> batched(linear->inputs().size(), false);
  batched[residuals.size() + place] = true;
  std::vector<Array> operands = residuals;
  for (std::size_t i = residuals.size(); i < batched.size(); ++i) {
    const ArrayType& type = linear->type(linear->inputs()[i]);
    operands.push_back(pvary(batched[i] ? basis(type) : zeros(type.shape, type.dtype), type.varying));
  }
  const ArrayType& type = linear->type(linear->inputs()[residuals.size() + place]);
  return api::call(transform::vmap(linear, batched, type.shape.size()), std::move(operands));
}

/// [columns, rows...] to rows.shape + columns.shape.
Array columns_last(const Array& x, const Shape& columns) {
  std::vector<std::int64_t> shape = x.shape().erase(0).to_vector();
  for (const std::int64_t extent : columns) shape.push_back(extent);
  return reshape(moveaxis(x, 0, -1), shape);
}

/// [rows, columns...] to rows.shape + columns.shape.
Array rows_first(const Array& x, const Shape& rows) {
  std::vector<std::int64_t> shape = rows.to_vector();
  for (const std::int64_t extent : x.shape().erase(0)) shape.push_back(extent);
  return reshape(x, shape);
}

/// The result's tree with a tree like the argument at each float leaf. `jacobians[k][i]`: of the k-th float leaf of the
/// result by the i-th leaf of the argument.
Tree assembled(const LinearizedTree& point, const Tree& argument, const std::vector<std::vector<Array>>& jacobians) {
  const api::FlatArguments like({argument});
  std::vector<Tree> leaves;
  std::size_t next = 0;
  for (const ArrayType& type : point.output_types()) {
    leaves.push_back(is_inexact(type.dtype) ? like.rebuild(jacobians[next++])[0] : Tree());
  }
  std::size_t leaf = 0;
  const std::function<Tree(const Tree&)> filled = [&](const Tree& tree) -> Tree {
    if (tree.is_leaf()) return leaves[leaf++];
    if (tree.kind() == Tree::Kind::list) {
      std::vector<Tree> items;
      for (const Tree& item : tree.items()) items.push_back(filled(item));
      return Tree::list(std::move(items));
    }
    if (tree.kind() == Tree::Kind::dict) {
      std::map<std::string, Tree> entries;
      for (const auto& [key, item] : tree.entries()) entries.emplace(key, filled(item));
      return Tree::dict(std::move(entries));
    }
    return tree;
  };
  return filled(point.traced.result);
}

}  // namespace

Tree jacfwd(const TreeFunction& function, const std::vector<Tree>& arguments, int argnum, const GradOptions& options) {
  const auto point = linearized_in("jacfwd", function, arguments, argnum,
                                   options.holomorphic ? api::Leaves::complex : api::Leaves::floats);
  if (options.holomorphic) check_results("jacfwd", *point, true);
  api::check_forward_mode("jacfwd", *point->parts.linear);
  const ir::FunctionPtr& linear = point->parts.linear;
  std::vector<std::vector<Array>> jacobians(linear->outputs().size());
  const std::size_t columns = linear->inputs().size() - point->residuals.size();
  for (std::size_t i = 0; i < columns; ++i) {
    const Shape& shape = linear->type(linear->inputs()[point->residuals.size() + i]).shape;
    const std::vector<Array> all = along_all(linear, point->residuals, i);
    for (std::size_t k = 0; k < all.size(); ++k) jacobians[k].push_back(columns_last(all[k], shape));
  }
  return assembled(*point, nth(arguments, argnum), jacobians);
}

Tree jacrev(const TreeFunction& function, const std::vector<Tree>& arguments, int argnum, const GradOptions& options) {
  const auto point = linearized_in("jacrev", function, arguments, argnum,
                                   options.holomorphic ? api::Leaves::complex : api::Leaves::inexact);
  check_results("jacrev", *point, options.holomorphic);
  const ir::FunctionPtr back = transform::transpose(point->parts.linear, point->parts.residuals);
  std::vector<std::vector<Array>> jacobians;
  const std::size_t rows = back->inputs().size() - point->residuals.size();
  for (std::size_t k = 0; k < rows; ++k) {
    const Shape& shape = back->type(back->inputs()[point->residuals.size() + k]).shape;
    jacobians.emplace_back();
    for (const Array& row : along_all(back, point->residuals, k)) jacobians[k].push_back(rows_first(row, shape));
  }
  return assembled(*point, nth(arguments, argnum), jacobians);
}

std::function<std::vector<Tree>(const Tree&)> linear_transpose(const TreeFunction& function,
                                                               const std::vector<Tree>& arguments) {
  const api::FlatArguments flat(arguments);
  const std::vector<ArrayType> types = flat.types();
  const std::vector<bool> active = api::inexact_of(types);
  const api::TracedTree traced = api::trace_tree(function, flat, types);
  tracing::refuse_written(
      traced.cells, "linear_transpose: the function changes state, but is not itself called; use vjp, which calls it");
  const ir::Function& f = *traced.function;
  // What it is not transposed in comes first: captured arrays and integer leaves.
  std::vector<ir::Var> fixed, linear;
  std::vector<Array> residuals;
  const std::vector<Array> given = api::joined(flat.leaves(), traced.captured);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_linear = i < active.size() && active[i];
    (is_linear ? linear : fixed).push_back(f.inputs()[i]);
    if (!is_linear) residuals.push_back(given[i]);
  }
  const int count = static_cast<int>(fixed.size());
  fixed.insert(fixed.end(), linear.begin(), linear.end());
  std::vector<ir::Var> outputs;
  for (const ir::Var v : f.outputs()) {
    if (is_inexact(f.type(v).dtype)) outputs.push_back(v);
  }
  const ir::FunctionPtr transposed = transform::transpose(
      std::make_shared<const ir::Function>(f.axes(), f.types(), std::move(fixed), f.equations(), std::move(outputs)),
      count);
  return [=, result = traced.result, weak = traced.weak, result_types = f.output_types()](const Tree& cotangent) {
    const std::vector<Array> directions = api::matching_directions(
        "linear_transpose", "cotangent", result, result_types, cotangent, api::inexact_of(result_types), weak);
    const std::vector<Array> results = api::call(transposed, api::joined(residuals, directions));
    api::Reader reader(results);
    return flat.rebuild(api::filled(types, active, reader));
  };
}

ResultTypes eval_shape(const TreeFunction& function, const std::vector<Tree>& arguments) {
  const api::FlatArguments flat(arguments);
  const api::TracedTree traced = api::trace_tree(function, flat, flat.types());
  std::vector<ArrayType> types = traced.result_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (traced.weak[i] == WeakType::number) types[i].dtype = float32;
  }
  return {traced.result.paths(), std::move(types)};
}

}  // namespace lockstep::detail

namespace lockstep {

const ArrayType& ResultTypes::at(std::string_view path) const {
  const auto place = std::find(paths.begin(), paths.end(), path);
  if (place == paths.end()) {
    throw StateError(fmt::format("eval_shape: the result has no leaf \"{}\"; its leaves are {}", path,
                                 fmt::format("\"{}\"", fmt::join(paths, "\", \""))));
  }
  return nth(types, place - paths.begin());
}

}  // namespace lockstep
