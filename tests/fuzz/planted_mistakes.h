#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"

// Ops with one wrong rule, and programs that use them: what the laws of random programs must find.
namespace lockstep::tests {

struct Mistake {
  std::string name;
  std::shared_ptr<const ir::Primitive> wrong;  ///< Under the right op's name.
};

namespace mistakes {

using ir::BatchContext;
using ir::JvpContext;
using ir::Tangent;
using ir::TransposeContext;
using ir::Value;

template <class Change>
Mistake changed(std::string name, const ir::Primitive& right, Change change) {
  auto wrong = std::make_shared<ir::Primitive>(right);
  change(*wrong);
  return {std::move(name), std::move(wrong)};
}

/// The right transpose, its result changed.
template <class Change>
Mistake wrong_transpose(std::string name, const ir::Primitive& right, Change change) {
  return changed(std::move(name), right, [&](ir::Primitive& op) {
    op.derivative.transpose = [rule = right.derivative.transpose, change](const TransposeContext& context) {
      return change(context, rule(context));
    };
  });
}

inline std::vector<Tangent> scaled(std::vector<Tangent> all, double by) {
  for (Tangent& t : all) {
    if (t) t = ops::operator*(*t, by);
  }
  return all;
}

inline Mistake sign_in_a_jvp() {
  return changed("a sign in the jvp of sin", ops::primitives::sin(), [](ir::Primitive& op) {
    op.derivative.jvp = [rule = op.derivative.jvp](const JvpContext& c) { return scaled(rule(c), -1); };
  });
}
inline Mistake one_side_of_a_product() {
  return changed("a product's derivative without its right side", ops::primitives::mul(), [](ir::Primitive& op) {
    op.derivative.kind = ir::Derivative::Kind::jvp;
    op.derivative.jvp = [](const JvpContext& c) {
      return std::vector<Tangent>{c.tangents[0] ? Tangent(ops::mul(*c.tangents[0], c.inputs[1])) : Tangent()};
    };
  });
}
inline Mistake swapped_axes() {
  return wrong_transpose("transpose with the forward permutation", ops::primitives::transpose(),
                         [](const TransposeContext& c, const std::vector<Tangent>&) {
                           const auto& axes = c.attrs.get<std::vector<std::int64_t>>("permutation");
                           return std::vector<Tangent>{ops::transpose(*c.cotangents[0], axes)};
                         });
}
inline Mistake dropped_pvary() {
  return wrong_transpose(
      "the transpose of pvary without its psum", ops::primitives::pvary(),
      [](const TransposeContext& c, const std::vector<Tangent>&) { return std::vector<Tangent>{c.cotangents[0]}; });
}
inline Mistake double_reduction() {
  return wrong_transpose("a gradient reduced twice", ops::primitives::pvary(),
                         [](const TransposeContext& c, std::vector<Tangent> right) {
                           double replicas = 1;
                           for (const auto& axis : c.builder.axes().axes()) replicas *= static_cast<double>(axis.size);
                           return scaled(std::move(right), replicas);
                         });
}
inline Mistake slice_off_by_one() {
  return wrong_transpose("the transpose of slice at the other end", ops::primitives::slice(),
                         [](const TransposeContext& c, std::vector<Tangent> right) {
                           ops::Dims dims;
                           for (int i = 0; i < c.input_types[0].shape.rank(); ++i) dims.push_back(i);
                           right[0] = ops::apply_one(ops::primitives::reverse(), {*right[0]}, {{"dims", dims}});
                           return right;
                         });
}
inline Mistake broadcast_counted_twice() {
  return wrong_transpose(
      "the transpose of broadcast_in_dim doubled", ops::primitives::broadcast_in_dim(),
      [](const TransposeContext&, std::vector<Tangent> right) { return scaled(std::move(right), 2); });
}
inline Mistake maximum_of_all() {
  return changed("the jvp of reduce_max as a sum", ops::primitives::reduce_max(), [](ir::Primitive& op) {
    op.derivative.jvp = [](const JvpContext& c) {
      return std::vector<Tangent>{ops::reduce_sum(*c.tangents[0], c.attrs.get<std::vector<std::int64_t>>("axes"))};
    };
  });
}
inline Mistake batch_along_the_wrong_dim() {
  return changed("reduce_sum batched along the same axes", ops::primitives::reduce_sum(), [](ir::Primitive& op) {
    op.batch = [](const BatchContext& c) { return ops::apply(ops::primitives::reduce_sum(), c.inputs, c.attrs); };
  });
}
inline Mistake scan_batched_backwards() {
  return changed("a batched scan in the other direction", ops::primitives::scan(), [](ir::Primitive& op) {
    op.batch = [rule = op.batch](const BatchContext& c) {
      const Attrs turned = c.attrs.with("reverse", !c.attrs.get<bool>("reverse"));
      return rule({c.builder, turned, c.inputs, c.batched, c.size, c.axis, c.transforms});
    };
  });
}
inline Mistake wrong_scan_carry() {
  return changed("a scan that does not differentiate its carry", ops::primitives::scan(), [](ir::Primitive& op) {
    op.derivative.joint = [rule = op.derivative.joint](const JvpContext& c) {
      ir::JointTangents joint = rule(c);
      const auto carries = static_cast<std::size_t>(c.attrs.get<std::int64_t>("carries"));
      for (std::size_t i = 0; i < carries; ++i) joint.tangents[i].reset();
      return joint;
    };
  });
}
inline Mistake first_branch_only() {
  return changed("the jvp of cond takes its first branch", ops::primitives::cond(), [](ir::Primitive& op) {
    op.derivative.joint = [rule = op.derivative.joint](const JvpContext& c) {
      std::vector<Value> inputs(c.inputs.begin(), c.inputs.end());
      inputs[0] = ops::sub(inputs[0], inputs[0]);
      return rule({c.builder, c.attrs, inputs, c.outputs, c.tangents, c.transforms});
    };
  });
}

}  // namespace mistakes

inline std::vector<Mistake> planted_mistakes() {
  using namespace mistakes;
  return {sign_in_a_jvp(),           one_side_of_a_product(), swapped_axes(),
          dropped_pvary(),           double_reduction(),      slice_off_by_one(),
          broadcast_counted_twice(), maximum_of_all(),        batch_along_the_wrong_dim(),
          scan_batched_backwards(),  wrong_scan_carry(),      first_branch_only()};
}

/// The function with the wrong op in place of the right one, in sub-functions too; null where it does not use it.
inline ir::FunctionPtr with_mistake(const ir::FunctionPtr& f, const Mistake& mistake) {
  bool used = false;
  std::vector<ir::Equation> equations;
  for (ir::Equation equation : f->equations()) {
    if (equation.primitive->name == mistake.wrong->name) {
      equation.primitive = mistake.wrong.get();
      used = true;
    }
    for (const Attrs::Entry& entry : equation.attrs.entries()) {
      const auto* object = std::get_if<std::shared_ptr<const AttrObject>>(&entry.value);
      const auto inner = object == nullptr ? nullptr : std::dynamic_pointer_cast<const ir::Function>(*object);
      if (inner == nullptr) continue;
      if (const ir::FunctionPtr changed = with_mistake(inner, mistake)) {
        equation.attrs = equation.attrs.with(entry.name, std::shared_ptr<const AttrObject>(changed));
        used = true;
        break;  // the entries have changed; one wrong sub-function is enough
      }
    }
    equations.push_back(std::move(equation));
  }
  if (!used) return nullptr;
  return std::make_shared<const ir::Function>(f->axes(), f->types(), f->inputs(), std::move(equations), f->outputs());
}

}  // namespace lockstep::tests
