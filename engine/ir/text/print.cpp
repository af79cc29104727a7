#include "engine/ir/text/print.h"

#include <algorithm>

#include "engine/core/quoting.h"
#include "engine/ir/primitive.h"
#include "engine/ir/text/numbering.h"

namespace lockstep::ir {

namespace {

std::string name_of(std::uint32_t number) {
  std::string text;
  for (std::uint64_t rest = std::uint64_t{number} + 1; rest > 0; rest = (rest - 1) / 26) {
    text += static_cast<char>('a' + (rest - 1) % 26);
  }
  std::ranges::reverse(text);
  return text;
}

class Printer {
 public:
  explicit Printer(const Function& function) : function_(function), numbers_(function) {}

  std::string var(Var v) const {
    const std::uint32_t number = numbers_[v];
    return number == Numbering::undefined ? "?" + std::to_string(v.id) : name_of(number);
  }

  std::string definition(Var v) const {
    return v.id < function_.types().size() ? var(v) + ":" + to_string(function_.type(v)) : var(v);
  }

  std::string equation(const Equation& equation, int indent) const {
    std::string text;
    for (const Var v : equation.outputs) text += definition(v) + " ";
    text += "= " + equation.primitive->name;
    if (!equation.attrs.empty()) text += "[" + attributes(equation.attrs, indent) + "]";
    for (const Var v : equation.inputs) text += " " + var(v);
    return text;
  }

  std::string function(int indent) const {
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    std::string text = "{ lambda" + axes();
    for (const Var v : function_.inputs()) text += " " + definition(v);
    text += ".";
    std::string opening = "let ";
    for (const Equation& e : function_.equations()) {
      text += "\n" + margin + "  " + opening + equation(e, indent + 6);
      opening = "    ";
    }
    text += "\n" + margin + "  in (";
    for (std::size_t i = 0; i < function_.outputs().size(); ++i)
      text += (i == 0 ? "" : ",") + var(function_.outputs()[i]);
    return text + (function_.outputs().size() == 1 ? ",) }" : ") }");
  }

 private:
  std::string axes() const {
    if (function_.axes().empty()) return "";
    std::string text;
    for (const AxisSizes::Axis& axis : function_.axes().axes()) {
      text += (text.empty() ? " [" : " ") + quoted_unless_bare(axis.name) + "=" + std::to_string(axis.size);
    }
    return text + "];";
  }

  static std::string attributes(const Attrs& attrs, int indent) {
    std::string text;
    for (const Attrs::Entry& entry : attrs.entries()) {
      if (!text.empty()) text += ' ';
      const auto* object = std::get_if<std::shared_ptr<const AttrObject>>(&entry.value);
      const bool nested = object != nullptr && *object != nullptr;
      text += entry.name + "=" + (nested ? (*object)->print(indent + 2) : to_string(entry.value));
    }
    return text;
  }

  const Function& function_;
  Numbering numbers_;
};

}  // namespace

std::string Function::print(int indent) const { return Printer(*this).function(indent); }

std::string print_equation(const Function& function, const Equation& equation) {
  return Printer(function).equation(equation, 0);
}

std::string print_var(const Function& function, Var v) { return Printer(function).var(v); }

}  // namespace lockstep::ir
