#include "engine/ops/rules/reference.h"

#include "engine/core/lists.h"

namespace lockstep::ops::reference {

void for_each_index(const Shape& shape, const std::function<void(const Index&)>& visit) {
  const std::int64_t size = shape.size();
  Index index = repeated(shape.rank());
  for (std::int64_t i = 0; i < size; ++i) {
    visit(index);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      auto& position = nth(index, d);
      if (++position < shape[d]) break;
      position = 0;
    }
  }
}

std::int64_t offset(const Shape& shape, const Index& index) {
  std::int64_t result = 0;
  for (int d = 0; d < shape.rank(); ++d) result = result * shape[d] + nth(index, d);
  return result;
}

void copy_element(const ReferenceArray& from, std::int64_t i, ReferenceArray& to, std::int64_t j) {
  std::visit(
      [&](auto& target) {
        using Elements = std::remove_reference_t<decltype(target)>;
        nth(target, j) = nth(std::get<Elements>(from.values), i);
      },
      to.values);
}

void move_elements(const ReferenceArray& from, ReferenceArray& to, const std::vector<std::int64_t>& source) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] >= 0) copy_element(from, source[i], to, static_cast<std::int64_t>(i));
  }
}

ir::Reference moves(std::function<std::int64_t(const ReferenceContext&, const Index&)> source) {
  return [source = std::move(source)](const ReferenceContext& context) {
    std::int64_t i = 0;
    for_each_index(context.outputs[0].type.shape, [&](const Index& index) {
      const std::int64_t from = source(context, index);
      if (from >= 0) copy_element(context.inputs[0], from, context.outputs[0], i);
      ++i;
    });
  };
}

ir::Reference copies() {
  return [](const ReferenceContext& context) { context.outputs[0].values = context.inputs[0].values; };
}

}  // namespace lockstep::ops::reference
