#pragma once

#include <string_view>

#include <lockstep/array.h>
#include <lockstep/exchange/key_map.h>

namespace lockstep::exchange {

/// Which of the plain forms a rule's form means for a variable: torch_modules never comes back.
WeightForm plain_form(WeightForm form, std::string_view path, int rank);
/// A file's tensor as the variable lies. Throws ShapeError where the form is not one of its rank.
Array to_variable(const Array& tensor, WeightForm form);
/// The way back.
Array to_tensor(const Array& variable, WeightForm form);

/// Part `part` along a dimension, which its count must divide. Throws ShapeError otherwise.
Array take_part(const Array& whole, const EqualPart& part, int dim);

}  // namespace lockstep::exchange
