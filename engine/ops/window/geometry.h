#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

namespace lockstep::ops {

/// Windows over the spatial dimensions of an array [batch, spatial..., features].
struct WindowGeometry {
  std::int64_t batch = 0;
  std::int64_t features = 0;
  Dims in, out;
  Dims window, strides, dilation, low, high;

  Shape plane_in() const { return Shape(in); }
  Shape plane_out() const { return Shape(out); }
  Shape x() const;
  Shape y() const;
};

/// Of an op whose operand 0 is x. Throws ShapeError where rank or attributes do not fit.
WindowGeometry geometry_of_windows(const ir::InferContext& context);
/// Of an op whose operand 0 is y and whose attribute `spatial` holds the extents of x.
WindowGeometry geometry_of_spread(const ir::InferContext& context);

/// For output position `o`, calls `visit(position in the flattened spatial plane of x)` in row-major order of the
/// window, padding left out.
void for_each_in_window(const WindowGeometry& geometry, const Dims& o, const std::function<void(std::int64_t)>& visit);

/// `dilation` is left out where it is empty: windows without holes.
Attrs window_attrs(const Dims& window, const Dims& strides, const std::vector<Dims>& padding,
                   const Dims& dilation = {});
/// Elements of one spatial plane of an array [batch, spatial..., features].
std::int64_t plane_size(const Shape& shape);

/// Arithmetic operations where each element of y meets a whole window, padding counted in.
double window_flops(const ArrayType& y, const Attrs& attrs);

Value window_gather(const Value& x, const Value& indices);
Value window_scatter(const Value& indices, const Value& y, const Dims& spatial);

/// The batch merged into the dimension of rows: for ops that treat every row alike.
ir::BatchRule rows_batch_rule(const ir::Primitive& (*self)());

struct WindowCase {
  Shape x, y;
  Attrs attrs;
};
/// Valid cases that samples are made of; no window lies in the padding as a whole.
const std::vector<WindowCase>& window_cases();
/// What is wrong with every op whose operand 0 is x.
std::vector<ir::ErrorSample> window_attr_errors();

}  // namespace lockstep::ops
