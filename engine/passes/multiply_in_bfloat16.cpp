#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

// Values that are multiplied have two forms, float32 and bfloat16, each made where it is read first. A product gives
// the narrow one; so does a move of it.
namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

namespace primitives = ops::primitives;

bool is_product(const Equation& e) {
  return e.primitive == &primitives::dot_general() || e.primitive == &primitives::conv() ||
         e.primitive == &primitives::conv_input_grad() || e.primitive == &primitives::conv_kernel_grad();
}

/// Ops of one operand whose elements are its elements, not more than it has.
bool is_move(const Equation& e) {
  const ir::Moves moves = e.primitive->traits.moves;
  return moves == ir::Moves::in_place || moves == ir::Moves::elsewhere;
}

/// What is known of a function's inputs from where it is called.
struct Input {
  bool may_be_narrow = false;  ///< The caller can give the bfloat16 form instead.
  bool is_weight = false;
};

struct Rounded {
  FunctionPtr function;
  std::vector<bool> is_narrow;  ///< By input: expects the bfloat16 form.
};

class Rounder {
 public:
  Rounder(const ir::Function& f, const std::vector<Input>& inputs)
      : f_(f),
        draft_(f),
        forms_(f.types().size()),
        is_weight_(f.types().size()),
        reads_wide_(f.types().size()),
        reads_narrow_(f.types().size()),
        is_reduced_(f.types().size()) {
    draft_.equations.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) is_weight_[f.inputs()[i].id] = inputs[i].is_weight;
    note_reads();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Var v = f.inputs()[i];
      result_.is_narrow.push_back(inputs[i].may_be_narrow && is_float32(v) && reads_only_narrow(v));
      if (!result_.is_narrow.back()) continue;
      draft_.types[v.id].dtype = DType::bfloat16;
      forms_[v.id] = {v, std::nullopt, true};
    }
  }

  Rounded run() {
    for (const Equation& e : f_.equations()) visit(e);
    for (Var& v : draft_.outputs) v = wide(v);
    result_.function = draft_.finish();
    return std::move(result_);
  }

 private:
  /// The two forms of a float32 value of the function.
  struct Forms {
    std::optional<Var> narrow;
    std::optional<Var> wide;  ///< Of a value that is made narrow: its float32 copy, once there is one.
    bool is_made_narrow = false;
  };

  bool is_float32(Var v) const { return f_.type(v).dtype == DType::float32; }
  bool multiplies(const Equation& e) const { return is_product(e) && is_float32(e.inputs[0]); }

  // ---- who reads what

  /// Backwards, so that a move is read as its result is.
  void note_reads() {
    for (const Var v : f_.outputs()) reads_wide_[v.id] = true;
    for (auto it = f_.equations().rbegin(); it != f_.equations().rend(); ++it) {
      const Equation& e = *it;
      if (multiplies(e)) {
        for (const Var v : e.inputs) reads_narrow_[v.id] = true;
      } else if (is_move(e)) {
        const Var from = e.inputs[0], to = e.outputs[0];
        reads_wide_[from.id] = reads_wide_[from.id] || reads_wide_[to.id];
        reads_narrow_[from.id] = reads_narrow_[from.id] || reads_narrow_[to.id];
        is_reduced_[from.id] = is_reduced_[from.id] || is_reduced_[to.id];
      } else {
        for (const Var v : e.inputs) reads_wide_[v.id] = true;
        if (!e.primitive->traits.collective) continue;
        for (const Var v : e.inputs) is_reduced_[v.id] = true;
      }
    }
  }

  bool reads_only_narrow(Var v) const { return reads_narrow_[v.id] && !reads_wide_[v.id]; }

  // ---- forms

  /// A value of the same type but for the dtype.
  Var new_like(Var v, DType dtype) {
    ArrayType type = f_.type(v);
    type.dtype = dtype;
    return draft_.new_var(type);
  }

  void emit(const ir::Primitive& primitive, Attrs attrs, std::vector<Var> inputs, Var output,
            const ir::Provenance& provenance) {
    draft_.equations.push_back({&primitive, std::move(attrs), std::move(inputs), {output}, provenance});
  }

  Var converted(Var from, Var like, DType dtype) {
    const Var to = new_like(like, dtype);
    emit(primitives::convert(), {{"dtype", dtype}}, {from}, to, provenance_);
    return to;
  }

  Var narrow(Var v) {
    if (const std::optional<Var> known = forms_[v.id].narrow) return *known;
    const Var made = make_narrow(v);
    forms_[v.id].narrow = made;
    return made;
  }

  /// What varies only by its type is rounded before it does, once for all shards; what is moved only to be multiplied,
  /// before it moves.
  Var make_narrow(Var v) {
    const Equation* e = v.id < definition_.size() ? definition_[v.id] : nullptr;
    const bool moves = e != nullptr && is_move(*e);
    if (!moves || (e->primitive != &primitives::pvary() && reads_wide_[v.id])) {
      return converted(v, v, DType::bfloat16);
    }
    const Var from = narrow(e->inputs[0]);
    const Var to = new_like(v, DType::bfloat16);
    emit(*e->primitive, e->attrs, {from}, to, e->provenance);
    return to;
  }

  /// The float32 form, of which all but element-wise readers share one.
  Var wide(Var v) {
    Forms& forms = forms_[v.id];
    if (!forms.is_made_narrow) return v;
    if (!forms.wide) forms.wide = converted(*forms.narrow, v, DType::float32);
    return *forms_[v.id].wide;
  }

  // ---- equations

  void visit(const Equation& e) {
    provenance_ = e.provenance;
    if (multiplies(e)) {
      visit_product(e);
    } else if (is_move(e) && forms_[e.inputs[0].id].is_made_narrow) {
      visit_move(e);
    } else if (e.primitive == &primitives::scan() || e.primitive == &primitives::checkpoint()) {
      visit_body(e);
    } else {
      Equation copy = map_sub_functions(e, [&](const FunctionPtr& body) { return of_body(e, body); });
      const bool in_a_loop = e.primitive->traits.pointwise || e.primitive->traits.loop_sum;
      for (Var& v : copy.inputs) {
        // Their own copies cost a loop nothing, while a shared one would be written for those that come much later.
        v = in_a_loop && forms_[v.id].is_made_narrow ? converted(*forms_[v.id].narrow, v, DType::float32) : wide(v);
      }
      draft_.equations.push_back(std::move(copy));
    }
    for (const Var v : e.outputs) {
      if (definition_.size() <= v.id) definition_.resize(v.id + 1, nullptr);
      definition_[v.id] = &e;
    }
    if (is_move(e)) is_weight_[e.outputs[0].id] = is_weight_[e.inputs[0].id];
  }

  void visit_product(const Equation& e) {
    Equation product = e;
    for (Var& v : product.inputs) v = narrow(v);
    // Which results are narrow depends on what is reduced, so on layouts. Where bits must not, all are float32.
    if (e.attrs.has("sum_blocks")) {
      for (std::size_t i = 0; i < e.inputs.size(); ++i) {
        product.inputs[i] = converted(product.inputs[i], e.inputs[i], DType::float32);
      }
      draft_.equations.push_back(std::move(product));
      return;
    }
    const Var result = e.outputs[0];
    if (gives_float32(e)) {
      product.attrs = e.attrs.with("dtype", DType::float32);
    } else {
      const Var rounded = new_like(result, DType::bfloat16);
      product.outputs = {rounded};
      forms_[result.id] = {rounded, std::nullopt, true};
    }
    draft_.equations.push_back(std::move(product));
  }

  /// Gradients of weights, which are products of what two layers compute, and what is added up over shards.
  bool gives_float32(const Equation& e) const {
    if (e.primitive == &primitives::conv_kernel_grad()) return true;
    if (e.primitive != &primitives::dot_general() || reads_narrow_[e.outputs[0].id]) return false;
    if (is_reduced_[e.outputs[0].id]) return true;
    return std::ranges::none_of(e.inputs, [&](Var v) { return is_weight_[v.id]; });
  }

  void visit_move(const Equation& e) {
    const Var to = new_like(e.outputs[0], DType::bfloat16);
    emit(*e.primitive, e.attrs, {*forms_[e.inputs[0].id].narrow}, to, e.provenance);
    forms_[e.outputs[0].id] = {to, std::nullopt, true};
  }

  /// A body whose operands may come in either form.
  void visit_body(const Equation& e) {
    const bool loops = e.primitive == &primitives::scan();
    const std::size_t consts = loops ? ir::Scan::of(e.attrs).consts : 0;
    const std::size_t carries = loops ? ir::Scan::of(e.attrs).carries : 0;
    std::vector<Input> inputs;
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      const bool is_carry = i >= consts && i < consts + carries;
      inputs.push_back({!is_carry, (!loops || i < consts) && is_weight_[e.inputs[i].id]});
    }
    const Rounded body = Rounder(*ir::sub_function(e.attrs, "body"), inputs).run();
    Equation copy = e;
    copy.attrs = e.attrs.with("body", std::shared_ptr<const AttrObject>(body.function));
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      copy.inputs[i] = body.is_narrow[i] ? narrow(e.inputs[i]) : wide(e.inputs[i]);
    }
    draft_.equations.push_back(std::move(copy));
  }

  /// Of a map: arguments that are the same on all replicas are its weights.
  static FunctionPtr of_body(const Equation& e, const FunctionPtr& body) {
    std::vector<Input> inputs;
    for (const Var v : body->inputs()) {
      inputs.push_back({false, e.primitive == &primitives::pmap() && body->type(v).varying.empty()});
    }
    return Rounder(*body, inputs).run().function;
  }

  const ir::Function& f_;
  Draft draft_;
  Rounded result_;
  ir::Provenance provenance_;
  std::vector<Forms> forms_;  // by var of the function, as are all that follow
  std::vector<const Equation*> definition_;
  std::vector<bool> is_weight_;
  std::vector<bool> reads_wide_, reads_narrow_;
  std::vector<bool> is_reduced_;  // by a collective, perhaps after moves
};

}  // namespace

FunctionPtr multiply_in_bfloat16(const FunctionPtr& function) {
  return dce(Rounder(*function, std::vector<Input>(function->inputs().size(), Input{false, true})).run().function);
}

}  // namespace lockstep::passes
