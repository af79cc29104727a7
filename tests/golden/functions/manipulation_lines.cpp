#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

#include "tests/golden/functions/table.h"

// Making, reshaping, rearranging, cutting and joining arrays.
namespace lockstep::tests::functions {
namespace {

const Input four_dims = drawn({2, 1, 3, 4}), three_by_four = drawn({3, 4}), five = drawn({5}),
            empty_matrix = drawn({0, 3});

Lines creation() {
  return {
      {"full",
       "jnp.full((2, 3), 1.5)",
       {},
       [] {
         return full({2, 3}, 1.5);
       }},
      {"full", "jnp.full((2,), 7, 'int8')", {}, [] { return full({2}, 7, int8); }},
      {"zeros",
       "jnp.zeros((2, 0))",
       {},
       [] {
         return zeros({2, 0});
       }},
      {"ones",
       "jnp.ones((2, 3), 'bool')",
       {},
       [] {
         return ones({2, 3}, bool_);
       }},
      {"full_like", "jnp.full_like(x, 2)", {three_by_four}, [](A x) { return full_like(x, 2); }, any_dtype},
      {"zeros_like", "jnp.zeros_like(x)", {three_by_four}, [](A x) { return zeros_like(x); }, any_dtype},
      {"ones_like", "jnp.ones_like(x)", {three_by_four}, [](A x) { return ones_like(x); }, any_dtype},
      {"arange", "jnp.arange(5)", {}, [] { return arange(5); }},
      {"arange", "jnp.arange(0)", {}, [] { return arange(0); }},
      {"arange", "jnp.arange(2, 9, 3)", {}, [] { return arange(2, 9, 3); }},
      {"arange", "jnp.arange(5, -4, -2)", {}, [] { return arange(5, -4, -2); }},
      {"arange", "jnp.arange(5, 5)", {}, [] { return arange(5, 5); }},
      {"arange", "jnp.arange(0.5, 3.0, 0.3)", {}, [] { return arange(0.5, 3.0, 0.3); }},
      {"arange", "jnp.arange(1.0, -1.0, -0.1, dtype='float64')", {}, [] { return arange(1.0, -1.0, -0.1, float64); }},
      {"arange", "jnp.arange(0, 4, dtype='float32')", {}, [] { return arange(0, 4, 1, float32); }},
      {"iota",
       "lax.broadcasted_iota('int32', (2, 3), 1)",
       {},
       [] {
         return iota({2, 3}, 1);
       }},
      {"eye", "jnp.eye(3)", {}, [] { return eye(3); }},
      {"linspace", "jnp.linspace(-1.5, 2.0, 7)", {}, [] { return linspace(-1.5, 2.0, 7); }},
      {"linspace",
       "jnp.linspace(0.1, 1.0, 10, endpoint=False, dtype='float64')",
       {},
       [] { return linspace(0.1, 1.0, 10, false, float64); }},
      {"linspace", "jnp.linspace(2.0, 3.0, 1)", {}, [] { return linspace(2.0, 3.0, 1); }},
      {"linspace", "jnp.linspace(2.0, 3.0, 0)", {}, [] { return linspace(2.0, 3.0, 0); }},
      {"linspace", "jnp.linspace(0.0, 1.0)", {}, [] { return linspace(0.0, 1.0); }},
      {"logspace",
       "jnp.logspace(-1.0, 2.0, 7, dtype='float64')",
       {},
       [] { return logspace(-1.0, 2.0, 7, true, 10, float64); }},
      {"logspace",
       "jnp.logspace(0.0, 3.0, 4, endpoint=False, base=2.0)",
       {},
       [] { return logspace(0.0, 3.0, 4, false, 2.0); }},
      {"meshgrid",
       "jnp.meshgrid(x, y)",
       {five, drawn({3})},
       [](A x, A y) {
         return meshgrid(Arrays{x, y});
       },
       any_dtype},
      {"meshgrid",
       "jnp.meshgrid(x, y, x, indexing='ij')",
       {five, drawn({3})},
       [](A x, A y) {
         return meshgrid(Arrays{x, y, x}, "ij");
       }},
      {"bartlett", "jnp.bartlett(7)", {}, [] { return bartlett(7); }},
      {"blackman", "jnp.blackman(6).astype('float64')", {}, [] { return blackman(6, float64); }},
      {"hamming", "jnp.hamming(6)", {}, [] { return hamming(6); }},
      {"hanning", "jnp.hanning(7)", {}, [] { return hanning(7); }},
      {"hanning", "jnp.hanning(1)", {}, [] { return hanning(1); }},
      {"tri", "jnp.tri(3, 5, 1)", {}, [] { return tri(3, 5, 1); }},
      {"tri", "jnp.tri(3, 2, -1, dtype='int32')", {}, [] { return tri(3, 2, -1, int32); }},
      {"tril_indices", "jnp.tril_indices(3, 1, 4)", {}, [] { return tril_indices(3, 1, 4); }},
      {"triu_indices", "jnp.triu_indices(4, -1)", {}, [] { return triu_indices(4, -1); }},
  };
}

Lines shape_lines() {
  return {
      {"reshape",
       "x.reshape(4, -1)",
       {four_dims},
       [](A x) {
         return reshape(x, {4, -1});
       },
       any_dtype},
      {"reshape",
       "x.reshape(3, 0)",
       {empty_matrix},
       [](A x) {
         return reshape(x, {3, 0});
       }},
      {"transpose",
       "jnp.transpose(x, (3, 0, 2, 1))",
       {four_dims},
       [](A x) {
         return transpose(x, {3, 0, 2, 1});
       },
       any_dtype},
      {"transpose", "x.T", {four_dims}, [](A x) { return transpose(x); }},
      {"moveaxis", "jnp.moveaxis(x, -1, 1)", {four_dims}, [](A x) { return moveaxis(x, -1, 1); }},
      {"moveaxis",
       "jnp.moveaxis(x, (0, 2), (-1, 0))",
       {four_dims},
       [](A x) {
         return moveaxis(x, Axes{0, 2}, Axes{-1, 0});
       }},
      {"swapaxes", "jnp.swapaxes(x, 0, -1)", {four_dims}, [](A x) { return swapaxes(x, 0, -1); }},
      {"expand_dims", "jnp.expand_dims(x, -1)", {three_by_four}, [](A x) { return expand_dims(x, -1); }},
      {"expand_dims",
       "jnp.expand_dims(x, (0, -2))",
       {three_by_four},
       [](A x) {
         return expand_dims(x, Axes{0, -2});
       }},
      {"squeeze", "jnp.squeeze(x, (1,))", {four_dims}, [](A x) { return squeeze(x, Axes{1}); }},
      {"squeeze", "jnp.squeeze(x)", {drawn({1, 3, 1})}, [](A x) { return squeeze(x); }},
      {"flatten", "x.reshape(x.shape[0], -1)", {four_dims}, [](A x) { return flatten(x); }},
      {"broadcast_to",
       "jnp.broadcast_to(x, (2, 3, 4))",
       {three_by_four},
       [](A x) {
         return broadcast_to(x, {2, 3, 4});
       },
       any_dtype},
      {"ravel", "jnp.ravel(x)", {four_dims}, [](A x) { return ravel(x); }},
      {"rollaxis", "jnp.rollaxis(x, 2)", {four_dims}, [](A x) { return rollaxis(x, 2); }},
      {"rollaxis", "jnp.rollaxis(x, 0, 3)", {four_dims}, [](A x) { return rollaxis(x, 0, 3); }},
      {"rollaxis", "jnp.rollaxis(x, -1, -3)", {four_dims}, [](A x) { return rollaxis(x, -1, -3); }},
      {"atleast_1d", "jnp.atleast_1d(x)", {drawn({})}, [](A x) { return atleast_1d(x); }},
      {"atleast_2d", "jnp.atleast_2d(x)", {five}, [](A x) { return atleast_2d(x); }},
      {"atleast_3d", "jnp.atleast_3d(x)", {three_by_four}, [](A x) { return atleast_3d(x); }},
      {"atleast_3d", "jnp.atleast_3d(x)", {five}, [](A x) { return atleast_3d(x); }},
      {"broadcast_arrays",
       "jnp.broadcast_arrays(x, y)",
       {three_by_four, drawn({2, 3, 1})},
       [](A x, A y) {
         return broadcast_arrays(Arrays{x, y});
       }},
  };
}

Lines rearranged() {
  const std::vector<std::pair<std::int64_t, std::int64_t>> widths = {{2, 1}, {0, 5}};
  Lines lines = {
      {"flip", "jnp.flip(x)", {three_by_four}, [](A x) { return flip(x); }, any_dtype},
      {"flip",
       "jnp.flip(x, (0, -1))",
       {four_dims},
       [](A x) {
         return flip(x, Axes{0, -1});
       }},
      {"fliplr", "jnp.fliplr(x)", {three_by_four}, [](A x) { return fliplr(x); }},
      {"flipud", "jnp.flipud(x)", {three_by_four}, [](A x) { return flipud(x); }},
      {"roll", "jnp.roll(x, 3)", {three_by_four}, [](A x) { return roll(x, 3); }, any_dtype},
      {"roll", "jnp.roll(x, -9, 1)", {three_by_four}, [](A x) { return roll(x, -9, 1); }},
      {"roll",
       "jnp.roll(x, (1, -2), (0, -1))",
       {three_by_four},
       [](A x) {
         return roll(x, Axes{1, -2}, Axes{0, -1});
       }},
      {"roll", "jnp.roll(x, 2, 0)", {empty_matrix}, [](A x) { return roll(x, 2, 0); }},
      {"rot90", "jnp.rot90(x)", {three_by_four}, [](A x) { return rot90(x); }},
      {"rot90",
       "jnp.rot90(x, -1, (1, 2))",
       {drawn({2, 3, 4})},
       [](A x) {
         return rot90(x, -1, {1, 2});
       }},
      {"rot90", "jnp.rot90(x, 6)", {three_by_four}, [](A x) { return rot90(x, 6); }},
      {"tile",
       "jnp.tile(x, (2, 1, 3))",
       {three_by_four},
       [](A x) {
         return tile(x, {2, 1, 3});
       },
       any_dtype},
      {"tile", "jnp.tile(x, (2,))", {three_by_four}, [](A x) { return tile(x, {2}); }},
      {"tile",
       "jnp.tile(x, (0, 1))",
       {three_by_four},
       [](A x) {
         return tile(x, {0, 1});
       }},
      {"repeat", "jnp.repeat(x, 2)", {three_by_four}, [](A x) { return repeat(x, 2); }, any_dtype},
      {"repeat", "jnp.repeat(x, 3, -1)", {three_by_four}, [](A x) { return repeat(x, 3, -1); }},
      {"repeat", "jnp.repeat(x, 0, 0)", {three_by_four}, [](A x) { return repeat(x, 0, 0); }},
      {"repeat",
       "jnp.repeat(x, y, 0, total_repeat_length=6)",
       {three_by_four, whole({1, 0, 3})},
       [](A x, A y) { return repeat(x, y, 6, 0); }},
      {"repeat",
       "jnp.repeat(x, y, total_repeat_length=3)",
       {five, whole({1, 2, 0, 1, 5})},
       [](A x, A y) { return repeat(x, y, 3); }},
      {"pad",
       "jnp.pad(x, ((1, 2), (0, 3)), constant_values=1.5)",
       {three_by_four},
       [](A x) {
         return pad(x, 1.5, {1, 0}, {2, 3});
       }},
      {"pad",
       "lax.pad(x, jnp.asarray(2, x.dtype), [(1, -1, 2), (-1, 0, 1)])",
       {three_by_four},
       [](A x) {
         return pad(x, 2, {1, -1}, {-1, 0}, {2, 1});
       },
       {.dtypes = floats + integers + complexes}},
      {"reverse", "lax.rev(x, (1,))", {three_by_four}, [](A x) { return reverse(x, {1}); }},
      {"slice",
       "lax.slice(x, (0, 1), (3, 4), (2, 1))",
       {three_by_four},
       [](A x) {
         return slice(x, {0, 1}, {3, 4}, {2, 1});
       },
       any_dtype},
      {"slice_in_dim",
       "lax.slice_in_dim(x, 1, 3, axis=-1)",
       {three_by_four},
       [](A x) { return slice_in_dim(x, 1, 3, -1); }},
  };
  const std::pair<PadMode, std::string_view> modes[] = {
      {PadMode::edge, "jnp.pad(x, ((2, 1), (0, 5)), 'edge')"},
      {PadMode::reflect, "jnp.pad(x, ((2, 1), (0, 5)), 'reflect')"},
      {PadMode::symmetric, "jnp.pad(x, ((2, 1), (0, 5)), 'symmetric')"},
      {PadMode::wrap, "jnp.pad(x, ((2, 1), (0, 5)), 'wrap')"}};
  for (const auto& [mode, jax] : modes) {
    lines.push_back({"pad", jax, {three_by_four}, [mode, widths](A x) { return pad(x, widths, mode); }});
    lines.push_back({"pad", jax, {drawn({3, 1})}, [mode, widths](A x) { return pad(x, widths, mode); }});
  }
  return lines;
}

Lines cut_and_joined() {
  return {
      {"concatenate",
       "jnp.concatenate([x, y], -1)",
       {three_by_four, drawn({3, 2})},
       [](A x, A y) {
         return concatenate({x, y}, -1);
       },
       any_dtype},
      {"concatenate",
       "jnp.concatenate([x, y], 0)",
       {drawn({0, 4}), three_by_four},
       [](A x, A y) {
         return concatenate({x, y}, 0);
       }},
      {"concatenate",
       "jnp.concatenate([x, y], 0)",
       {five, whole({1, 2})},
       [](A x, A y) {
         return concatenate({x, y}, 0);
       },
       {.dtypes = floats + booleans + complexes}},
      {"stack",
       "jnp.stack([x, y], -1)",
       {three_by_four, three_by_four},
       [](A x, A y) {
         return stack(Arrays{x, y}, -1);
       },
       any_dtype},
      {"split", "jnp.split(x, 2, 1)", {three_by_four}, [](A x) { return split(x, 2, 1); }},
      {"split_at",
       "jnp.split(x, [1, 1, 3], -1)",
       {three_by_four},
       [](A x) {
         return split_at(x, {1, 1, 3}, -1);
       }},
      {"unstack", "jnp.unstack(x, axis=-1)", {three_by_four}, [](A x) { return unstack(x, -1); }},
      {"array_split", "jnp.array_split(x, 3)", {five}, [](A x) { return array_split(x, 3); }},
      {"array_split", "jnp.array_split(x, 3, 1)", {drawn({2, 7})}, [](A x) { return array_split(x, 3, 1); }},
      {"hsplit", "jnp.hsplit(x, 2)", {three_by_four}, [](A x) { return hsplit(x, 2); }},
      {"hsplit", "jnp.hsplit(x, 3)", {drawn({6})}, [](A x) { return hsplit(x, 3); }},
      {"vsplit", "jnp.vsplit(x, 3)", {three_by_four}, [](A x) { return vsplit(x, 3); }},
      {"dsplit", "jnp.dsplit(x, 2)", {drawn({1, 2, 4})}, [](A x) { return dsplit(x, 2); }},
      {"hstack",
       "jnp.hstack([x, y])",
       {five, drawn({2})},
       [](A x, A y) {
         return hstack(Arrays{x, y});
       }},
      {"hstack",
       "jnp.hstack([x, y])",
       {three_by_four, drawn({3, 1})},
       [](A x, A y) {
         return hstack(Arrays{x, y});
       }},
      {"vstack",
       "jnp.vstack([x, y])",
       {five, five},
       [](A x, A y) {
         return vstack(Arrays{x, y});
       }},
      {"dstack",
       "jnp.dstack([x, y])",
       {three_by_four, three_by_four},
       [](A x, A y) {
         return dstack(Arrays{x, y});
       }},
      {"dstack",
       "jnp.dstack([x, y])",
       {five, five},
       [](A x, A y) {
         return dstack(Arrays{x, y});
       }},
      {"column_stack",
       "jnp.column_stack([x, y])",
       {five, drawn({5, 2})},
       [](A x, A y) {
         return column_stack(Arrays{x, y});
       }},
      {"append", "jnp.append(x, y)", {three_by_four, five}, [](A x, A y) { return append(x, y); }},
      {"append", "jnp.append(x, y, 1)", {three_by_four, drawn({3, 2})}, [](A x, A y) { return append(x, y, 1); }},
  };
}

Lines chosen() {
  const Input which = whole({0, 2, 1, -1, 5});
  return {
      {"select",
       "jnp.select([x, y], [z, w], 7)",
       {mask({5}), mask({5}), five, five},
       [](A x, A y, A z, A w) {
         return select(Arrays{x, y}, Arrays{z, w}, 7);
       }},
      {"choose",
       "jnp.choose(x, [y, z, y], mode='clip')",
       {which, five, five},
       [](A x, A y, A z) {
         return choose(x, Arrays{y, z, y});
       }},
      {"choose",
       "jnp.choose(x, [y, z, y], mode='wrap')",
       {which, five, five},
       [](A x, A y, A z) {
         return choose(x, Arrays{y, z, y}, true);
       }},
      {"piecewise",
       "jnp.piecewise(x, [x < 0, x > 1], [lambda a: -a, jnp.exp, lambda a: a * a])",
       {five},
       [](A x) {
         const std::vector<Branch> branches = {[](A a) { return -a; }, [](A a) { return exp(a); },
                                               [](A a) { return a * a; }};
         return piecewise(x, Arrays{x<0, x> 1}, branches);
       }},
      {"interp",
       "jnp.interp(x, y, z)",
       {drawn({9}, -1, 5), given({0, 1, 2.5, 4}), drawn({4})},
       [](A x, A y, A z) { return interp(x, y, z); }},
      {"interp",
       "jnp.interp(x, y, z, left=-1.0, right=9.0)",
       {given({-1, 0, 4, 5, nan}), given({0, 1, 2.5, 4}), drawn({4})},
       [](A x, A y, A z) { return interp(x, y, z, -1.0, 9.0); },
       {.no_derivative = "NaN"}},
      {"trapezoid",
       "jsp.integrate.trapezoid(x)",
       {three_by_four},
       [](A x) { return trapezoid(x); },
       {.dtypes = floats + complexes}},
      {"trapezoid",
       "jsp.integrate.trapezoid(x, dx=0.5, axis=0)",
       {three_by_four},
       [](A x) { return trapezoid(x, 0.5, 0); }},
      {"trapezoid",
       "jsp.integrate.trapezoid(x, y)",
       {three_by_four, drawn({4})},
       [](A x, A y) { return trapezoid(x, y); }},
  };
}

}  // namespace

Lines manipulation_lines() {
  Lines lines = creation();
  for (const Lines& part : {shape_lines(), rearranged(), cut_and_joined(), chosen()}) {
    lines.insert(lines.end(), part.begin(), part.end());
  }
  return lines;
}

}  // namespace lockstep::tests::functions
