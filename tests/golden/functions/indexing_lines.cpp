#include <lockstep/einsum.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Reads and writes at places, and products.
namespace lockstep::tests::functions {
namespace {

constexpr std::string_view unique_alone = "JAX has none unless all indices differ";
const Input four_by_three = drawn({4, 3}), cube = drawn({2, 3, 4}), wild = whole({0, 3, -1, -4, 4, 9, -9, 2}, {2, 4});

Lines taken() {
  return {
      {"take", "jnp.take(x, y, 0)", {four_by_three, wild}, [](A x, A y) { return take(x, y, 0); }, any_dtype},
      {"take", "jnp.take(x, y)", {four_by_three, wild}, [](A x, A y) { return take(x, y); }},
      {"take",
       "jnp.take(x, y, -1, mode='clip')",
       {four_by_three, wild},
       [](A x, A y) { return take(x, y, -1, IndexMode::clip); },
       any_dtype},
      {"take",
       "jnp.take(x, y, 0, mode='wrap')",
       {four_by_three, wild},
       [](A x, A y) { return take(x, y, 0, IndexMode::wrap); },
       any_dtype},
      {"take",
       "jnp.take(x, y, 0, fill_value=7)",
       {four_by_three, wild},
       [](A x, A y) { return take(x, y, 0, IndexMode::fill, 7); }},
      {"take", "jnp.take(x, y, 0)", {four_by_three, whole({})}, [](A x, A y) { return take(x, y, 0); }},
      {"take_rows",
       "jnp.take(x, y, 0, mode='clip')",
       {four_by_three, wild},
       [](A x, A y) { return take_rows(x, clip(y, 0, 3)); }},
      {"take_along_axis",
       "jnp.take_along_axis(x, y, 1)",
       {four_by_three, whole({0, 2, 1, 1, 0, 0, 2, 2}, {4, 2})},
       [](A x, A y) { return take_along_axis(x, y, 1); },
       any_dtype},
      {"take_along_axis",
       "jnp.take_along_axis(x, y, -2)",
       {four_by_three, whole({3, 0, 1}, {1, 3})},
       [](A x, A y) { return take_along_axis(x, y, -2); }},
      {"put_along_axis",
       "jnp.put_along_axis(x, y, z, 1, inplace=False)",
       {four_by_three, whole({0, 2, 1, -1, 5, 0, -9, 2}, {4, 2}), drawn({4, 2})},
       [](A x, A y, A z) { return put_along_axis(x, y, z, 1); }},
      {"put_along_axis",
       "jnp.put_along_axis(x, y, 7, 0, inplace=False)",
       {four_by_three, whole({3, 0, 1}, {1, 3})},
       [](A x, A y) { return put_along_axis(x, y, 7, 0); },
       {.dtypes = numbers}},
      {"dynamic_slice",
       "lax.dynamic_slice(x, (y, z), (2, 2))",
       {four_by_three, whole({9}, Shape{}), whole({-9}, Shape{})},
       [](A x, A y, A z) {
         return dynamic_slice(x, Arrays{y, z}, {2, 2});
       },
       any_dtype},
      {"dynamic_slice",
       "lax.dynamic_slice(x, (y, z), (2, 2))",
       {four_by_three, whole({-4}, Shape{}), whole({-2}, Shape{})},
       [](A x, A y, A z) {
         return dynamic_slice(x, Arrays{y, z}, {2, 2});
       }},
      {"dynamic_slice_in_dim",
       "lax.dynamic_slice_in_dim(x, y, 2, 0)",
       {four_by_three, whole({3}, Shape{})},
       [](A x, A y) { return dynamic_slice_in_dim(x, y, 2, 0); }},
      {"dynamic_slice_in_dim",
       "lax.dynamic_slice_in_dim(x, y, 2, 1)",
       {four_by_three, whole({-3}, Shape{})},
       [](A x, A y) { return dynamic_slice_in_dim(x, y, 2, 1); }},
      {"dynamic_index_in_dim",
       "lax.dynamic_index_in_dim(x, y, 0)",
       {four_by_three, whole({-1}, Shape{})},
       [](A x, A y) { return dynamic_index_in_dim(x, y, 0); }},
      {"dynamic_index_in_dim",
       "lax.dynamic_index_in_dim(x, y, -1, keepdims=False)",
       {four_by_three, whole({7}, Shape{})},
       [](A x, A y) { return dynamic_index_in_dim(x, y, -1, false); }},
      {"dynamic_update_slice",
       "lax.dynamic_update_slice(x, y, (z, w))",
       {four_by_three, drawn({2, 2}), whole({3}, Shape{}), whole({-2}, Shape{})},
       [](A x, A y, A z, A w) {
         return dynamic_update_slice(x, y, Arrays{z, w});
       },
       any_dtype},
      {"dynamic_update_slice_in_dim",
       "lax.dynamic_update_slice_in_dim(x, y, z, 0)",
       {four_by_three, drawn({2, 3}), whole({-2}, Shape{})},
       [](A x, A y, A z) { return dynamic_update_slice_in_dim(x, y, z, 0); }},
      {"dynamic_update_index_in_dim",
       "lax.dynamic_update_index_in_dim(x, y, z, 1)",
       {four_by_three, drawn({4}), whole({-1}, Shape{})},
       [](A x, A y, A z) { return dynamic_update_index_in_dim(x, y, z, 1); }},
  };
}

Lines indexed() {
  const Slice all{}, back{.step = -1}, inner{1, -1};
  const Input rows = whole({0, 3, -1, 2, -4}), columns = whole({1, 0, -1, 2, 0}), outside = whole({0, 3, -1, 9, -9});
  const Options dropped = {.no_derivative =
                               "cotangents of clipped reads are dropped in JAX, here they go where was read"};
  return {
      {"index",
       "x[0, 1:-1]",
       {cube},
       [=](A x) {
         return index(x, {0, inner});
       },
       any_dtype},
      {"index",
       "x[..., ::-1]",
       {cube},
       [=](A x) {
         return index(x, {ellipsis, back});
       }},
      {"index",
       "x[::-2, None, -1]",
       {cube},
       [](A x) {
         return index(x, {Slice{.step = -2}, newaxis, -1});
       }},
      {"index",
       "x[5:1:-1, -99:99]",
       {four_by_three},
       [](A x) {
         return index(x, {Slice{5, 1, -1}, Slice{-99, 99}});
       }},
      {"index",
       "x[3:1]",
       {four_by_three},
       [](A x) {
         return index(x, {Slice{3, 1}});
       }},
      {"index", "x[y]", {four_by_three, rows}, [](A x, A y) { return index(x, {y}); }, any_dtype},
      {"index",
       "x[y, z]",
       {four_by_three, rows, columns},
       [](A x, A y, A z) {
         return index(x, {y, z});
       }},
      {"index",
       "x[:, y, None]",
       {cube, columns},
       [=](A x, A y) {
         return index(x, {all, y, newaxis});
       }},
      {"index",
       "x[y, :, z]",
       {cube, whole({0, 1, 1}), whole({3, -1, 0})},
       [=](A x, A y, A z) {
         return index(x, {y, all, z});
       }},
      {"index",
       "x[y[:, None], z]",
       {four_by_three, rows, whole({0, 2})},
       [](A x, A y, A z) {
         return index(x, {expand_dims(y, 1), z});
       }},
      {"Place::get",
       "x.at[y].get(mode='fill', fill_value=7)",
       {four_by_three, outside},
       [](A x, A y) { return at(x, y).get(IndexMode::fill, 7); }},
      {"Place::get",
       "x.at[y].get(mode='fill')",
       {four_by_three, outside},
       [](A x, A y) { return at(x, y).get(IndexMode::fill); },
       any_dtype},
      {"Place::set",
       "x.at[y].set(z)",
       {four_by_three, whole({0, 3, 9, -2}), drawn({4, 3})},
       [](A x, A y, A z) { return at(x, y).set(z); },
       any_dtype},
      {"Place::set",
       "x.at[1:3, 0].set(2)",
       {four_by_three},
       [](A x) {
         return at(x, Slice{1, 3}, 0).set(2);
       },
       {.dtypes = numbers}},
      {"Place::set",
       "x.at[y, z].set(w, mode='clip')",
       {four_by_three, whole({0, 9, 1}), whole({2, 9, 0}), drawn({3})},
       [](A x, A y, A z, A w) { return at(x, y, z).set(w, IndexMode::clip); }},
      {"Place::add",
       "x.at[y].add(z)",
       {four_by_three, outside, drawn({5, 3})},
       [](A x, A y, A z) { return at(x, y).add(z); },
       {.dtypes = numbers}},
      {"Place::add",
       "x.at[y, z].add(1)",
       {four_by_three, outside, columns},
       [](A x, A y, A z) { return at(x, y, z).add(1); },
       {.dtypes = numbers}},
      {"Place::subtract",
       "x.at[y].subtract(z)",
       {four_by_three, outside, drawn({3})},
       [](A x, A y, A z) { return at(x, y).subtract(z); }},
      {"Place::multiply",
       "x.at[y].multiply(z)",
       {four_by_three, whole({0, 2, 9}), drawn({3, 3})},
       [](A x, A y, A z) { return at(x, y).multiply(z); },
       {.dtypes = numbers, .no_derivative = unique_alone}},
      {"Place::divide",
       "x.at[y].divide(z)",
       {four_by_three, whole({0, 2, 9}), drawn({3, 3}, 1, 2)},
       [](A x, A y, A z) { return at(x, y).divide(z); },
       {.no_derivative = unique_alone}},
      {"Place::min",
       "x.at[y].min(z)",
       {four_by_three, outside, distinct({5, 3})},
       [](A x, A y, A z) { return at(x, y).min(z); },
       {.dtypes = floats + integers}},
      {"Place::max",
       "x.at[y].max(z)",
       {four_by_three, outside, distinct({5, 3})},
       [](A x, A y, A z) { return at(x, y).max(z); },
       {.dtypes = floats + integers}},
  };
}

Lines windows_and_segments() {
  const Input places = whole({0, 1, 3, 2, -1, 0}, {3, 2}), ids = whole({0, 2, 0, 5, -1, 1}), rows = drawn({6, 2});
  const ScatterDims dims{
      .update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0, 1}};
  const Options unique = {.dtypes = numbers, .no_derivative = unique_alone};
  const Input updates = drawn({3, 2}), away = whole({0, 1, 2, 0, 9, 0}, {3, 2});
  return {
      {"gather",
       "lax.gather(x, y, lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 2), mode='clip')",
       {four_by_three, places},
       [](A x, A y) {
         return gather(x, y, {{1}, {0}, {0, 1}}, {1, 2}, IndexMode::clip);
       },
       any_dtype},
      {"gather",
       "lax.gather(x, y, lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 2), mode='fill', fill_value=3)",
       {four_by_three, places},
       [](A x, A y) {
         return gather(x, y, {{1}, {0}, {0, 1}}, {1, 2}, IndexMode::fill, 3);
       }},
      {"scatter",
       "lax.scatter(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))",
       {four_by_three, away, updates},
       [dims](A x, A y, A z) { return scatter(x, y, z, dims); },
       any_dtype},
      {"scatter_add",
       "lax.scatter_add(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))",
       {four_by_three, places, updates},
       [dims](A x, A y, A z) { return scatter_add(x, y, z, dims); },
       {.dtypes = numbers}},
      {"scatter_mul",
       "lax.scatter_mul(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))",
       {four_by_three, away, updates},
       [dims](A x, A y, A z) { return scatter_mul(x, y, z, dims); },
       unique},
      {"scatter_min",
       "lax.scatter_min(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)), mode='clip')",
       {four_by_three, places, updates},
       [dims](A x, A y, A z) { return scatter_min(x, y, z, dims, IndexMode::clip); },
       {.dtypes = floats + integers, .no_derivative = "JAX's is infinite where an index is clipped"}},
      {"scatter_min",
       "lax.scatter_min(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))",
       {four_by_three, away, updates},
       [dims](A x, A y, A z) { return scatter_min(x, y, z, dims); }},
      {"scatter_max",
       "lax.scatter_max(x, y, z, lax.ScatterDimensionNumbers((1,), (0,), (0, 1)))",
       {four_by_three, places, updates},
       [dims](A x, A y, A z) { return scatter_max(x, y, z, dims); },
       {.dtypes = floats + integers}},
      {"segment_sum",
       "jax.ops.segment_sum(x, y, 4)",
       {rows, ids},
       [](A x, A y) { return segment_sum(x, y, 4); },
       {.dtypes = numbers}},
      {"segment_prod",
       "jax.ops.segment_prod(x, y, 4)",
       {rows, whole({0, 2, 3, 5, -1, 1})},
       [](A x, A y) { return segment_prod(x, y, 4); },
       unique},
      {"segment_max",
       "jax.ops.segment_max(x, y, 4)",
       {distinct({6, 2}), ids},
       [](A x, A y) { return segment_max(x, y, 4); },
       {.dtypes = floats + integers}},
      {"segment_min",
       "jax.ops.segment_min(x, y, 4)",
       {distinct({6, 2}), ids},
       [](A x, A y) { return segment_min(x, y, 4); },
       {.dtypes = floats + integers}},
  };
}

Lines indexing_products() {
  const Room sums{1e-5, 0, "long sums in another order"};
  Lines lines = {
      {"dot_general",
       "lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))",
       {cube, drawn({2, 4, 5})},
       [](A x, A y) {
         return dot_general(x, y, {{2}, {1}}, {{0}, {0}});
       },
       {.dtypes = numbers}},
      {"matmul", "x @ y", {cube, drawn({4, 5})}, [](A x, A y) { return matmul(x, y); }, {.dtypes = numbers}},
      {"matmul", "x @ y", {drawn({5, 1, 3, 4}), drawn({2, 4, 2})}, [](A x, A y) { return matmul(x, y); }},
      {"matmul", "x @ y", {drawn({4}), drawn({4})}, [](A x, A y) { return matmul(x, y); }},
      {"matmul", "x @ y", {drawn({4}), drawn({2, 4, 3})}, [](A x, A y) { return matmul(x, y); }},
      {"matmul", "x @ y", {cube, drawn({4})}, [](A x, A y) { return matmul(x, y); }},
      {"matmul", "x @ y", {drawn({3, 0}), drawn({0, 2})}, [](A x, A y) { return matmul(x, y); }},
      {"matmul",
       "x @ y",
       {drawn({3, 4}), whole({1, 2, 3, 4})},
       [](A x, A y) { return matmul(x, y); },
       {.dtypes = floats + complexes}},
  };
  const auto add = [&](std::string_view jax, std::string_view equation, const Input& a, const Input& b) {
    lines.push_back({"einsum",
                     jax,
                     {a, b},
                     [equation](A x, A y) {
                       return einsum(equation, {x, y});
                     },
                     {.dtypes = numbers, .room = sums}});
  };
  add("jnp.einsum('bij,bjk->bik', x, y)", "bij,bjk->bik", cube, drawn({2, 4, 5}));
  add("jnp.einsum('ij,kj', x, y)", "ij,kj", four_by_three, drawn({2, 3}));
  add("jnp.einsum('...i,i...->...', x, y)", "...i,i...->...", four_by_three, drawn({3, 4}));
  add("jnp.einsum('ii,j->ij', x, y)", "ii,j->ij", drawn({3, 3}), drawn({2}));
  add("jnp.einsum('a,b->ba', x, y)", "a,b->ba", drawn({2}), drawn({3}));
  add("jnp.einsum('ij,ij->', x, y)", "ij,ij->", four_by_three, four_by_three);
  lines.push_back({"einsum", "jnp.einsum('ii', x)", {drawn({3, 3})}, [](A x) { return einsum("ii", {x}); }});
  lines.push_back({"einsum", "jnp.einsum('ba', x)", {four_by_three}, [](A x) { return einsum("ba", {x}); }});
  lines.push_back({"einsum", "jnp.einsum('...ij->...ji', x)", {cube}, [](A x) { return einsum("...ij->...ji", {x}); }});
  lines.push_back({"einsum",
                   "jnp.einsum('ab,bc,cd->ad', x, y, z)",
                   {four_by_three, drawn({3, 5}), drawn({5, 2})},
                   [](A x, A y, A z) {
                     return einsum("ab,bc,cd->ad", {x, y, z});
                   }});
  return lines;
}

}  // namespace

Lines indexing_lines() {
  Lines lines = taken();
  for (const Lines& part : {indexed(), windows_and_segments(), indexing_products()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
