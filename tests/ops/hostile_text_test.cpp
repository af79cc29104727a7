#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/text/parse.h"
#include "tests/support/op_functions.h"

// The text of a program may come from anywhere. Each op's samples are written with a wrong result, operands or attributes;
// what is not refused runs.
namespace lockstep::tests {
namespace {

using Ints = std::vector<std::int64_t>;
using Object = std::shared_ptr<const AttrObject>;

constexpr std::int64_t huge = std::int64_t{1} << 40;
constexpr std::int64_t beyond = std::numeric_limits<std::int64_t>::max() - 1;

struct Draft {
  std::vector<ArrayType> types;
  ir::Equation equation;
  bool may_run = true;  ///< Or may run for very long.
};

/// The sample's equation alone, on inputs of its operands' types.
struct Subject {
  const ir::Primitive& op;
  const ir::Sample& sample;
  FunctionPtr function;
  std::size_t place = 0;

  std::string written(const Draft& draft) const {
    std::vector<ir::Equation> equations = function->equations();
    equations[place] = draft.equation;
    equations.resize(place + 1);
    return ir::Function(function->axes(), draft.types, function->inputs(), equations, draft.equation.outputs).print(0);
  }
};

void add_result_drafts(const Draft& good, std::vector<Draft>& drafts) {
  for (const ir::Var v : good.equation.outputs) {
    const auto add = [&](const ArrayType& type) {
      drafts.push_back(good);
      drafts.back().types[v.id] = type;
    };
    const ArrayType& type = good.types[v.id];
    add({type.dtype, Shape{1000000}, type.varying});
    add({type.dtype, type.shape.rank() == 0 ? Shape{7} : type.shape.with(0, type.shape[0] + 1), type.varying});
    add({type.dtype == DType::float64 ? DType::int8 : DType::float64, type.shape, type.varying});
    if (!type.varying.empty()) add({type.dtype, type.shape, {}});
  }
  drafts.push_back(good);
  drafts.back().types.push_back({DType::float32, Shape{3}, {}});
  drafts.back().equation.outputs.push_back({static_cast<std::uint32_t>(good.types.size())});
  if (good.equation.outputs.size() < 2) return;
  drafts.push_back(good);
  drafts.back().equation.outputs.pop_back();
}

void add_operand_drafts(const Draft& good, std::vector<Draft>& drafts) {
  const std::vector<ir::Var>& inputs = good.equation.inputs;
  const auto add = [&](std::vector<ir::Var> changed) {
    drafts.push_back(good);
    drafts.back().equation.inputs = std::move(changed);
  };
  if (inputs.empty()) return;
  add({});
  add({inputs.begin(), inputs.end() - 1});
  std::vector<ir::Var> longer = inputs;
  longer.push_back(inputs.front());
  add(longer);
  add({inputs.rbegin(), inputs.rend()});
}

/// Values of every kind, and of the given one with numbers out of range.
std::vector<AttrValue> other_values(const AttrValue& value) {
  static const Object empty =
      std::make_shared<const ir::Function>(ir::AxisSizes(), std::vector<ArrayType>(), std::vector<ir::Var>(),
                                           std::vector<ir::Equation>(), std::vector<ir::Var>());
  std::vector<AttrValue> values = {true,
                                   std::int64_t{-1},
                                   huge,
                                   std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<double>::quiet_NaN(),
                                   std::string("x"),
                                   DType::key,
                                   Ints(),
                                   Ints(13, 1),
                                   std::vector<std::string>{"nowhere"},
                                   std::vector<Ints>{{0}, {0}, {0}},
                                   std::vector<std::vector<std::string>>{{"nowhere"}},
                                   empty};
  const auto add_lists = [&](const Ints& list, const auto& wrap) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{99}, huge, beyond, -beyond}) {
        Ints changed = list;
        changed[i] = n;
        values.push_back(wrap(changed));
      }
    }
    Ints longer = list;
    longer.push_back(0);
    values.push_back(wrap(longer));
  };
  if (const auto* list = std::get_if<Ints>(&value)) add_lists(*list, [](const Ints& l) { return AttrValue(l); });
  if (const auto* lists = std::get_if<std::vector<Ints>>(&value)) {
    for (std::size_t i = 0; i < lists->size(); ++i) {
      add_lists((*lists)[i], [&](const Ints& l) {
        std::vector<Ints> changed = *lists;
        changed[i] = l;
        return AttrValue(changed);
      });
    }
  }
  return values;
}

void add_attribute_drafts(const Draft& good, std::vector<Draft>& drafts) {
  for (const Attrs::Entry& entry : good.equation.attrs.entries()) {
    drafts.push_back(good);
    drafts.back().equation.attrs = good.equation.attrs.without(entry.name);
    for (const AttrValue& value : other_values(entry.value)) {
      drafts.push_back(good);
      drafts.back().equation.attrs = good.equation.attrs.with(entry.name, value);
      const auto* number = std::get_if<std::int64_t>(&value);
      drafts.back().may_run = number == nullptr || *number != huge;
    }
  }
}

/// Whether the text is refused; what is not is run.
bool is_refused(const Subject& subject, const Draft& draft) {
  const std::string text = subject.written(draft);
  CAPTURE(text);
  FunctionPtr parsed;
  try {
    parsed = ir::parse(text, ops::find_primitive);
  } catch (const Error&) {
    return true;
  }
  CHECK(parsed->print(0) == text);
  if (!draft.may_run || !has_value(subject.op)) return false;
  for (const ArrayType& type : parsed->types()) {
    if (type.size() > 1000000) return false;
  }
  try {
    run(over_mesh(parsed), draw(subject.sample, 3));
  } catch (const Error&) {
    // Its kernel may know better.
  }
  return false;
}

}  // namespace

TEST_CASE("a program's text is refused where an op's results, operands or attributes are not what its rule says") {
  std::size_t texts = 0, refused = 0;
  for (const ops::PrimitiveGetter getter : ops::all_primitives()) {
    const ir::Primitive& op = getter();
    CAPTURE(op.name);
    const std::vector<ir::Sample> samples = op.samples();
    for (std::size_t s = 0; s < std::min<std::size_t>(samples.size(), 2); ++s) {
      Subject subject{op, samples[s], primal_function(op, samples[s])};
      const auto& equations = subject.function->equations();
      while (subject.place < equations.size() && equations[subject.place].primitive != &op) ++subject.place;
      REQUIRE(subject.place < equations.size());
      const Draft good{subject.function->types(), equations[subject.place]};
      std::vector<Draft> drafts;
      add_result_drafts(good, drafts);
      for (const Draft& draft : drafts) CHECK(is_refused(subject, draft));
      texts += drafts.size();
      refused += drafts.size();
      drafts.clear();
      add_operand_drafts(good, drafts);
      add_attribute_drafts(good, drafts);
      texts += drafts.size();
      for (const Draft& draft : drafts) refused += is_refused(subject, draft) ? 1U : 0U;
    }
  }
  MESSAGE(texts << " texts, " << refused << " of them refused");
  CHECK(texts > 5000);
  CHECK(refused > texts * 9 / 10);
}

}  // namespace lockstep::tests
