#include "engine/ir/verify.h"

#include <lockstep/error.h>

#include "engine/core/join.h"
#include "engine/core/quoting.h"
#include "engine/ir/custom_op.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/print.h"

namespace lockstep::ir {

namespace {

class Verifier {
 public:
  explicit Verifier(const Function& function) : f_(function), defined_(function.types().size()) {}

  void run() {
    for (const Var v : f_.inputs()) define(v, [] { return std::string("the inputs"); });
    for (const Equation& equation : f_.equations()) check(equation);
    for (const Var v : f_.outputs()) {
      if (!is_defined(v)) throw IrError("verify: output " + print_var(f_, v) + " is never defined");
    }
  }

 private:
  static std::string quote(const Function& f, const Equation& equation) {
    std::string text = "\n  " + print_equation(f, equation);
    if (equation.provenance.scope != nullptr) text += "\n  from " + *equation.provenance.scope;
    if (equation.provenance.backward) text += " (backward)";
    return text;
  }
  [[noreturn]] void fail(const Equation& equation, const std::string& what) const {
    throw IrError("verify: " + what + "\n  in" + quote(f_, equation).substr(2));
  }

  bool is_defined(Var v) const { return v.id < defined_.size() && defined_[v.id]; }

  /// `where` is asked for an error only: an equation's text takes longer than to check it.
  template <class Where>
  void define(Var v, const Where& where) {
    if (v.id >= defined_.size()) {
      throw IrError("verify: var " + std::to_string(v.id) + " of " + where() + " has no type");
    }
    if (defined_[v.id]) throw IrError("verify: " + print_var(f_, v) + " is defined twice, again by " + where());
    defined_[v.id] = true;
    for (const std::string& axis : f_.type(v).varying) {
      if (f_.axes().has(axis)) continue;
      throw IrError("verify: " + print_var(f_, v) + ":" + to_string(f_.type(v)) + " varies along the unbound axis " +
                    quoted(axis) + ", in " + where());
    }
  }

  void check(const Equation& equation) {
    for (const Var v : equation.inputs) {
      if (!is_defined(v)) fail(equation, print_var(f_, v) + " is used before it is defined");
    }
    check_sub_functions(equation);
    check_same_varying(equation);
    check_types(equation);
    for (const Var v : equation.outputs) define(v, [&] { return "the equation" + quote(f_, equation); });
  }

  void check_sub_functions(const Equation& equation) const {
    for (const Attrs::Entry& entry : equation.attrs.entries()) {
      const auto* object = std::get_if<std::shared_ptr<const AttrObject>>(&entry.value);
      if (object == nullptr) continue;
      const FunctionPtr function = function_in(entry.value);
      if (function == nullptr && dynamic_cast<const CustomOp*>(object->get()) != nullptr) continue;
      if (function == nullptr) fail(equation, "attribute " + entry.name + " is no function");
      try {
        verify(*function);
      } catch (const IrError& error) {
        throw IrError(std::string(error.what()) + "\n  which stands in " + entry.name + " of " +
                      equation.primitive->name);
      }
    }
  }

  void check_same_varying(const Equation& equation) const {
    if (equation.primitive->traits.typed_axes || equation.inputs.empty()) return;
    const ArrayType& first = f_.type(equation.inputs.front());
    for (const Var v : equation.inputs) {
      if (f_.type(v).varying == first.varying) continue;
      fail(equation, "operands " + print_var(f_, equation.inputs.front()) + ":" + to_string(first) + " and " +
                         print_var(f_, v) + ":" + to_string(f_.type(v)) +
                         " vary along different axes; pvary the one that varies along fewer first");
    }
  }

  void check_types(const Equation& equation) const {
    std::vector<ArrayType> operands;
    for (const Var v : equation.inputs) operands.push_back(f_.type(v));
    std::vector<ArrayType> inferred;
    try {
      inferred = infer_types(*equation.primitive, operands, equation.attrs, f_.axes());
    } catch (const Error& error) {
      fail(equation, error.what());
    }
    if (inferred.size() != equation.outputs.size()) {
      fail(equation,
           std::to_string(equation.outputs.size()) + " outputs instead of " + std::to_string(inferred.size()));
    }
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const Var v = equation.outputs[i];
      if (v.id < f_.types().size() && f_.type(v) == inferred[i]) continue;
      fail(equation, "output " + std::to_string(i) + " is of type " + to_string(inferred[i]) + ", not as recorded");
    }
  }

  const Function& f_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Function& function) { Verifier(function).run(); }

}  // namespace lockstep::ir
