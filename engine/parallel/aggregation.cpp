#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 4> aggregation_names = {"none", "mean", "sum", "only_first_replica"};

bool is_legal(DType dtype, Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::none:
    case Aggregation::only_first_replica:
      return true;
    case Aggregation::sum:
      return dtype != DType::bool_ && dtype != DType::key;
    case Aggregation::mean:
      return is_inexact(dtype);
  }
  return false;
}

std::string legal_choices(DType dtype) {
  std::string choices;
  for (std::size_t i = 0; i < aggregation_names.size(); ++i) {
    if (!is_legal(dtype, static_cast<Aggregation>(i))) continue;
    choices += (choices.empty() ? "" : ", ") + std::string(aggregation_names[i]);
  }
  return choices;
}

}  // namespace

std::string_view name(Aggregation aggregation) { return aggregation_names.at(static_cast<std::size_t>(aggregation)); }

Aggregation parse_aggregation(std::string_view text) {
  for (std::size_t i = 0; i < aggregation_names.size(); ++i) {
    if (aggregation_names[i] == text) return static_cast<Aggregation>(i);
  }
  throw AggregationError(fmt::format("aggregation \"{}\" is none of {}", text,
                                     fmt::join(aggregation_names.begin(), aggregation_names.end(), ", ")));
}

void check_aggregation(std::string_view path, DType dtype, Aggregation aggregation) {
  if (is_legal(dtype, aggregation)) return;
  throw AggregationError(fmt::format("variable \"{}\": replicas of dtype {} cannot be combined by {}; {} allows {}",
                                     path, name(dtype), name(aggregation), name(dtype), legal_choices(dtype)));
}

}  // namespace lockstep
