#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/summary.h>

namespace lockstep {
namespace {

using Row = std::array<std::string, 6>;

/// "1,234,567".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

Row row_of(const Variable& variable) {
  return {variable.path,
          to_string(variable.type),
          grouped(variable.type.shape.size()),
          grouped(variable.type.nbytes()),
          std::string(name(variable.aggregation)),
          variable.trainable ? "yes" : "no"};
}

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {:<{}}  {}", row[0], widths[0], row[1], widths[1],
                                   row[2], widths[2], row[3], widths[3], row[4], widths[4], row[5]);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string detail::summary(const std::vector<Variable>& variables, const Function& call) {
  std::vector<Row> rows = {{"variable", "type", "parameters", "bytes", "aggregation", "trained"}};
  std::array<std::int64_t, 2> parameters{}, bytes{};  // trained or not
  for (const Variable& variable : variables) {
    rows.push_back(row_of(variable));
    const std::size_t kind = variable.trainable ? 0 : 1;
    parameters[kind] += variable.type.shape.size();
    bytes[kind] += variable.type.nbytes();
  }
  const Plan plan = call.plan();
  std::string text = table(rows);
  text += fmt::format("trained: {} parameters, {} bytes\n", grouped(parameters[0]), grouped(bytes[0]));
  text += fmt::format("not trained: {} numbers, {} bytes\n", grouped(parameters[1]), grouped(bytes[1]));
  text += fmt::format("an evaluation call: {}{} FLOPs\n", plan.has_while_loops ? "at least " : "",
                      grouped(static_cast<std::int64_t>(plan.flops)));
  return text;
}

}  // namespace lockstep
