#include "engine/ir/rewrite.h"

#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "engine/ir/text/print.h"

namespace lockstep::ir {

FunctionPtr rewrite(const Function& function, const RewriteRule& rule) {
  Builder builder(function.axes());
  std::vector<Var> mapped(function.types().size());
  for (const Var v : function.inputs()) mapped[v.id] = builder.input(function.type(v));
  for (const Equation& equation : function.equations()) {
    std::vector<Var> operands;
    for (const Var v : equation.inputs) operands.push_back(mapped[v.id]);
    builder.set_provenance(equation.provenance);
    std::optional<std::vector<Var>> results = rule(builder, equation, operands);
    if (!results) results = builder.apply(*equation.primitive, operands, equation.attrs);
    if (results->size() != equation.outputs.size()) {
      throw IrError("rewrite: the rule gave " + std::to_string(results->size()) + " values for the " +
                    std::to_string(equation.outputs.size()) + " outputs of\n  " + print_equation(function, equation));
    }
    for (std::size_t i = 0; i < results->size(); ++i) mapped[equation.outputs[i].id] = (*results)[i];
  }
  std::vector<Var> outputs;
  for (const Var v : function.outputs()) outputs.push_back(mapped[v.id]);
  return builder.finish(std::move(outputs));
}

}  // namespace lockstep::ir
