#include <map>
#include <string>

#include "engine/exchange/stablehlo/importer.h"

// What a region computes, as text that can be compared: a region is that of a known op where the expressions are equal, and
// not where it has ops of the same names.
namespace lockstep::exchange {
namespace {

constexpr std::size_t longest = 1000;
const std::string unknown = "?";

}  // namespace

Comparison comparison_of(const OpCall& call, const mlir::Op& op) {
  const OpCall compared{call.importer, op, call.values, {}};
  const mlir::Attribute *direction = compared.find({"comparison_direction"}), *type = compared.find({"compare_type"});
  const std::vector<std::string>& words = op.words;
  Comparison found{.direction = direction != nullptr ? direction->text
                                : words.empty()      ? ""
                                                     : words[0],
                   .type = type != nullptr    ? type->text
                           : words.size() > 1 ? words[1]
                                              : ""};
  if (!found.type.empty() && found.type != "FLOAT" && found.type != "TOTALORDER" && found.type != "SIGNED" &&
      found.type != "UNSIGNED") {
    compared.refuse("a comparison of type '" + found.type + "'; there are FLOAT, TOTALORDER, SIGNED and UNSIGNED");
  }
  return found;
}

std::vector<std::string> dataflow(const OpCall& call, const mlir::Region& region) {
  std::map<std::string, std::string> values;
  for (std::size_t i = 0; i < region.arguments.size(); ++i) values[region.arguments[i]] = "#" + std::to_string(i);
  const auto value = [&](const mlir::Use& use) {
    const auto found = values.find(use.name);
    return found == values.end() || use.index != 0 ? unknown : found->second;
  };
  for (const mlir::Op& op : region.ops) {
    if (op.name == "stablehlo.return") {
      std::vector<std::string> returned;
      for (const mlir::Use& use : op.operands) returned.push_back(value(use));
      return returned;
    }
    constexpr std::string_view dialect = "stablehlo.";
    std::string text = op.name.starts_with(dialect) ? op.name.substr(dialect.size()) : unknown;
    if (op.name == "stablehlo.compare") {
      const Comparison comparison = comparison_of(call, op);
      text = comparison.direction + (comparison.is_total() ? ".TOTALORDER" : "");
    } else if (!op.attributes.empty() || !op.words.empty() || !op.regions.empty() || op.results != 1) {
      text = unknown;
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) text += (i == 0 ? "(" : ",") + value(op.operands[i]);
    values[op.result] = text.size() < longest ? text + ")" : unknown;
  }
  return {};
}

}  // namespace lockstep::exchange
