#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/number_fits.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/checked_sizes.h"
#include "engine/ops/primitives.h"

namespace lockstep {

Array full(const Shape& shape, const Operand& scalar, DType dtype) {
  if (scalar.is_scalar()) return api::constant(__func__, scalar, dtype, shape);
  return api::at(__func__, scalar, dtype, shape);
}

Array zeros(const Shape& shape, DType dtype, const detail::CallSite& /*at*/) { return full(shape, 0, dtype); }
Array ones(const Shape& shape, DType dtype, const detail::CallSite& /*at*/) { return full(shape, 1, dtype); }
Array full_like(const ArrayOperand& like, const Operand& scalar) { return full(like.shape(), scalar, like.dtype()); }
Array zeros_like(const ArrayOperand& like) { return zeros(like.shape(), like.dtype()); }
Array ones_like(const ArrayOperand& like) { return ones(like.shape(), like.dtype()); }

Array iota(const Shape& shape, std::int64_t dim, DType dtype, const detail::CallSite& /*at*/) {
  const std::int64_t axis = normalize_axis(dim, shape.rank(), __func__);
  const std::int64_t extent = shape.dim(static_cast<int>(axis));
  check_size(__func__, {dtype, shape, {}});
  if (extent > 0) api::check_number_fits(__func__, extent - 1, dtype);
  return api::bind_one(ops::primitives::iota(), {}, {{"dtype", dtype}, {"shape", shape.to_vector()}, {"dim", axis}});
}

Array arange(std::int64_t n, DType dtype, const detail::CallSite& /*at*/) {
  const Shape shape{n};
  check_size(__func__, {dtype, shape, {}});
  if (n > 0) api::check_number_fits(__func__, n - 1, dtype);
  return iota(shape, 0, dtype);
}

Array eye(std::int64_t n, DType dtype, const detail::CallSite& /*at*/) {
  const Shape shape{n, n};
  return convert(equal(iota(shape, 0), iota(shape, 1)), dtype);
}

Array convert(const ArrayOperand& x, DType dtype) {
  const Array value = api::exact(x);
  if (x.dtype() == dtype || value.dtype() == dtype) return api::strong(x.dtype() == dtype ? x : value);
  return api::bind_one(ops::primitives::convert(), {value}, {{"dtype", dtype}});
}

Array bitcast_convert(const ArrayOperand& x, DType dtype) {
  if (x.dtype() == dtype) return api::strong(x);
  return api::bind_one(ops::primitives::bitcast_convert(), {x}, {{"dtype", dtype}});
}

Array where(const ArrayOperand& predicate, const Operand& on_true, const Operand& on_false) {
  const Operand condition = predicate.dtype() == DType::bool_ ? Array(predicate) : not_equal(predicate, 0);
  const DType dtype = api::common_dtype({&on_true, &on_false});
  Shape shape = predicate.shape();
  for (const Operand* operand : {&on_true, &on_false}) {
    if (!operand->is_scalar()) shape = broadcast_shapes(shape, operand->array().shape(), "where");
  }
  const AxisSet varying = api::joined_varying({&condition, &on_true, &on_false});
  return api::bind_one(ops::primitives::select(), {api::at("where", condition, DType::bool_, shape, varying),
                                                   api::at("where", on_true, dtype, shape, varying),
                                                   api::at("where", on_false, dtype, shape, varying)});
}

Array clip(const ArrayOperand& x, const Operand& low, const Operand& high) { return minimum(maximum(x, low), high); }

Array square(const ArrayOperand& x) {
  // A product of bools would be theirs; a power of them is a number.
  const Array number = x.dtype() == bool_ ? convert(x, int32) : Array(x);
  return mul(number, number);
}

}  // namespace lockstep
