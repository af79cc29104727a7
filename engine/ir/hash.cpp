#include "engine/core/stable_hash.h"
#include "engine/ir/function.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/numbering.h"

namespace lockstep::ir {

namespace {

void add_type(StableHash& hash, const ArrayType& type) {
  hash.add(static_cast<std::uint64_t>(type.dtype));
  hash.add(static_cast<std::uint64_t>(type.shape.rank()));
  for (const std::int64_t extent : type.shape) hash.add(static_cast<std::uint64_t>(extent));
  hash.add(type.varying.size());
  for (const std::string& axis : type.varying) hash.add(std::string_view(axis));
}

class FunctionHash {
 public:
  FunctionHash(const std::vector<ArrayType>& types, const Numbering& numbers) : types_(types), numbers_(numbers) {}

  void add_axes(const AxisSizes& axes) {
    hash_.add(axes.axes().size());
    for (const AxisSizes::Axis& axis : axes.axes()) {
      hash_.add(std::string_view(axis.name));
      hash_.add(static_cast<std::uint64_t>(axis.size));
    }
  }
  void add_definitions(const std::vector<Var>& vars) {
    hash_.add(vars.size());
    for (const Var v : vars) {
      hash_.add(numbers_[v]);
      if (v.id < types_.size()) add_type(hash_, types_[v.id]);
    }
  }
  void add_uses(const std::vector<Var>& vars) {
    hash_.add(vars.size());
    for (const Var v : vars) hash_.add(numbers_[v]);
  }
  void add_equation(const Equation& equation) {
    hash_.add(std::string_view(equation.primitive->name));
    hash_.add(equation.attrs.hash());
    add_uses(equation.inputs);
    add_definitions(equation.outputs);
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  const std::vector<ArrayType>& types_;
  const Numbering& numbers_;
  StableHash hash_;
};

class Comparison {
 public:
  Comparison(const Function& a, const Function& b) : a_(a), b_(b), numbers_a_(a), numbers_b_(b) {}

  bool same_uses(const std::vector<Var>& a, const std::vector<Var>& b) const {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (numbers_a_[a[i]] != numbers_b_[b[i]]) return false;
    }
    return true;
  }
  bool same_definitions(const std::vector<Var>& a, const std::vector<Var>& b) const {
    if (!same_uses(a, b)) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (numbers_a_[a[i]] != Numbering::undefined && a_.type(a[i]) != b_.type(b[i])) return false;
    }
    return true;
  }
  bool same_equations() const {
    if (a_.equations().size() != b_.equations().size()) return false;
    for (std::size_t i = 0; i < a_.equations().size(); ++i) {
      const Equation& x = a_.equations()[i];
      const Equation& y = b_.equations()[i];
      if (x.primitive != y.primitive || !same_uses(x.inputs, y.inputs) || !same_definitions(x.outputs, y.outputs) ||
          !(x.attrs == y.attrs)) {
        return false;
      }
    }
    return true;
  }

 private:
  const Function& a_;
  const Function& b_;
  Numbering numbers_a_;
  Numbering numbers_b_;
};

}  // namespace

Function::Function(AxisSizes axes, std::vector<ArrayType> types, std::vector<Var> inputs,
                   std::vector<Equation> equations, std::vector<Var> outputs)
    : axes_(std::move(axes)),
      types_(std::move(types)),
      inputs_(std::move(inputs)),
      equations_(std::move(equations)),
      outputs_(std::move(outputs)) {
  const Numbering numbers(inputs_, equations_, types_.size());
  FunctionHash hash(types_, numbers);
  hash.add_axes(axes_);
  hash.add_definitions(inputs_);
  for (const Equation& equation : equations_) hash.add_equation(equation);
  hash.add_uses(outputs_);
  hash_ = hash.value();
}

std::uint64_t Function::hash() const { return hash_; }

bool Function::equals(const AttrObject& other) const {
  if (this == &other) return true;
  const auto* function = dynamic_cast<const Function*>(&other);
  if (function == nullptr || hash_ != function->hash_ || axes_ != function->axes_) return false;
  const Comparison comparison(*this, *function);
  return comparison.same_definitions(inputs_, function->inputs_) && comparison.same_equations() &&
         comparison.same_uses(outputs_, function->outputs_);
}

}  // namespace lockstep::ir
