#include "engine/exchange/weight_forms.h"

#include <string>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::exchange {

WeightForm plain_form(WeightForm form, std::string_view path, int rank) {
  if (form != WeightForm::torch_modules) return form;
  if (path != "kernel" && !path.ends_with("/kernel")) return WeightForm::same;
  if (rank == 2) return WeightForm::transposed;
  return rank > 2 ? WeightForm::spatial_last : WeightForm::same;
}

namespace {

void check_rank(const Array& array, WeightForm form) {
  if (form == WeightForm::transposed && array.ndim() != 2) {
    throw ShapeError(to_string(array.type()) + " is no matrix, as the form `transposed` asks for");
  }
  if (form == WeightForm::spatial_last && array.ndim() < 3) {
    throw ShapeError(to_string(array.type()) + " is no convolution's kernel, as the form `spatial_last` asks for");
  }
}

}  // namespace

Array to_variable(const Array& tensor, WeightForm form) {
  check_rank(tensor, form);
  if (form == WeightForm::transposed) return transpose(tensor);
  if (form != WeightForm::spatial_last) return tensor;
  Axes order;
  for (int d = 2; d < tensor.ndim(); ++d) order.push_back(d);
  order.push_back(1);
  order.push_back(0);
  return transpose(tensor, order);
}

Array to_tensor(const Array& variable, WeightForm form) {
  check_rank(variable, form);
  if (form == WeightForm::transposed) return transpose(variable);
  if (form != WeightForm::spatial_last) return variable;
  Axes order = {variable.ndim() - 1, variable.ndim() - 2};
  for (int d = 0; d + 2 < variable.ndim(); ++d) order.push_back(d);
  return transpose(variable, order);
}

Array take_part(const Array& whole, const EqualPart& part, int dim) {
  if (part.count == 1) return whole;
  if (part.count < 1 || part.index < 0 || part.index >= part.count || whole.ndim() == 0 ||
      whole.dim(dim) % part.count != 0) {
    throw ShapeError(to_string(whole.type()) + " has no part " + std::to_string(part.index) + " of " +
                     std::to_string(part.count) + " along dimension " + std::to_string(dim));
  }
  const std::int64_t extent = whole.dim(dim) / part.count;
  return slice_in_dim(whole, part.index * extent, (part.index + 1) * extent, dim);
}

}  // namespace lockstep::exchange
