#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/parallel_layers.h>

namespace lockstep::detail {

namespace {

/// Every leaf in parts, [parts, rows of one, ...].
Tree in_parts(const Tree& x, const PipelineOptions& options) {
  return map_with_path(
      [&](const std::string& path, const Array& leaf) {
        const std::string what = path.empty() ? "the input" : "'" + path + "'";
        if (leaf.type().varying.contains(options.axis)) {
          throw MeshError(
              fmt::format("pipeline: {}, {}, varies along \"{}\", whose replicas are the stages; give all of "
                          "them the same rows",
                          what, to_string(leaf.type()), options.axis));
        }
        if (options.microbatches < 1 || leaf.ndim() == 0 || leaf.dim(0) % options.microbatches != 0) {
          throw ShapeError(fmt::format("pipeline: {}, {}, cannot be cut into {} microbatches of rows", what,
                                       to_string(leaf.type()), options.microbatches));
        }
        std::vector<std::int64_t> shape = leaf.shape().to_vector();
        shape[0] /= options.microbatches;
        shape.insert(shape.begin(), options.microbatches);
        return reshape(leaf, shape);
      },
      x);
}

Tree part(const Tree& parts, const Array& i) {
  return map([&](const Array& leaf) { return dynamic_index_in_dim(leaf, i, 0, false); }, parts);
}

/// What the stage makes, of the types that it was given.
Tree through(const std::function<Tree(const Tree&)>& stage, const Tree& rows) {
  const Tree made = stage(rows);
  return map(
      [&](const Array& given, const Array& result) {
        if (given.dtype() != result.dtype() || !(given.shape() == result.shape())) {
          throw ShapeError(
              fmt::format("pipeline: a stage is given {} and returns {}; all stages must return what they "
                          "are given, so put what changes types before or behind the pipeline",
                          to_string(given.type()), to_string(result.type())));
        }
        return result;
      },
      rows, made);
}

}  // namespace

Tree pipeline(const std::function<Tree(const Tree&)>& stage, const Tree& x, const PipelineOptions& options) {
  if (options.axis.empty()) throw MeshError("pipeline: no axis given; write {.axis = \"name\"}");
  const std::int64_t n = axis_size(options.axis), last = options.microbatches - 1;
  const Tree parts = in_parts(x, options);
  const Array place = axis_index(options.axis);
  std::vector<std::pair<std::int64_t, std::int64_t>> onward;
  for (std::int64_t i = 0; i + 1 < n; ++i) onward.emplace_back(i, i + 1);

  const Tree first = part(parts, zeros({}, int32));
  const auto varies = [&](const Array& leaf) { return pvary(leaf, {options.axis}); };
  const auto step = [&](const Tree& arrived, const Array& t) {
    const Tree rows = part(parts, minimum(t, last));
    const Tree input = map([&](const Array& own, const Array& sent) { return where(equal(place, 0), own, sent); },
                           map(varies, rows), arrived);
    const Tree made = through(stage, input);
    return std::pair(map([&](const Array& leaf) { return ppermute(leaf, options.axis, onward); }, made), made);
  };
  const Tree made = scan(step, map(varies, first), lockstep::arange(options.microbatches + n - 1)).second;
  return map(
      [&](const Array& given, const Array& all) {
        const Array results = slice_in_dim(all, n - 1, n - 1 + options.microbatches, 0);
        const Array of_last = where(equal(place, n - 1), results, zeros_like(results));
        return reshape(convert(psum(of_last, {options.axis}), given.dtype()), given.shape().to_vector());
      },
      x, made);
}

}  // namespace lockstep::detail
