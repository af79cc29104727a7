#include "engine/trace/key_reuse.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"

namespace lockstep::trace {

namespace {

using ir::Equation;
using ir::Function;
using ir::Var;

/// Larger arrays of keys are not followed.
constexpr std::int64_t most_elements = 1 << 16;

std::string describe(const Equation& equation) {
  const auto& scope = equation.provenance.scope;
  return equation.primitive->name + (scope && !scope->empty() ? " (in layer '" + *scope + "')" : "");
}

/// One use of all keys of an array; one that is there several times is used once.
void use_all(const KeyElements& keys, const std::string& by) {
  std::set<KeyElement*> distinct;
  for (const auto& key : keys) distinct.insert(key.get());
  for (KeyElement* key : distinct) {
    if (!key->used_by.empty()) {
      throw KeyReuseError("key reuse: " + by + " uses a random key that " + key->used_by +
                          " has used before, so both see the same random bits. Give each a key of its own: split the "
                          "key first, or fold another number into it for each use; random::clone(key) says that equal "
                          "numbers are meant.");
    }
    key->used_by = by;
  }
}

bool any_used(const KeyElements& keys) {
  return std::ranges::any_of(keys, [](const auto& key) { return !key->used_by.empty(); });
}

/// Ops that only move the elements of operands that are all keys, by attributes alone.
bool moves_keys(const Function& f, const Equation& equation) {
  return equation.primitive->traits.moves != ir::Moves::none &&
         std::ranges::all_of(equation.inputs, [&](Var v) { return f.type(v).dtype == DType::key; });
}

class Follower {
 public:
  explicit Follower(const Function& f) : f_(f), keys_(f.types().size()) {}

  std::vector<KeyElements> run(std::span<const KeyElements> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) keys_[f_.inputs()[i].id] = inputs[i];
    for (const Equation& equation : f_.equations()) follow(equation);
    std::vector<KeyElements> outputs;
    for (const Var v : f_.outputs()) outputs.push_back(keys_[v.id]);
    return outputs;
  }

 private:
  KeyElements& of(Var v) { return keys_[v.id]; }
  std::vector<KeyElements> operands(const Equation& equation) {
    std::vector<KeyElements> list;
    for (const Var v : equation.inputs) list.push_back(of(v));
    return list;
  }

  void set_outputs(const Equation& equation, std::vector<KeyElements> keys) {
    for (std::size_t i = 0; i < equation.outputs.size(); ++i) of(equation.outputs[i]) = std::move(keys[i]);
  }

  void follow(const Equation& equation) {
    const std::string& op = equation.primitive->name;
    for (const Var v : equation.outputs) of(v) = new_keys(f_.type(v));
    static const std::set<std::string_view> uses = {"random_bits", "random_split", "random_gamma", "random_poisson",
                                                    "random_binomial"};
    if (uses.contains(op)) {
      if (!equation.provenance.backward) use_all(of(equation.inputs[0]), describe(equation));
    } else if (equation.primitive->traits.moves == ir::Moves::in_place) {
      of(equation.outputs[0]) = of(equation.inputs[0]);
    } else if (op == "pmap") {
      follow_map(equation);
    } else if (op == "scan") {
      follow_scan(equation);
    } else if (op == "while_loop") {
      follow_while(equation);
    } else if (op == "cond") {
      follow_cond(equation);
    } else if (equation.primitive->traits.call) {
      set_outputs(equation, follow_keys(*ir::sub_function(equation.attrs, "body"), operands(equation)));
    } else if (moves_keys(f_, equation)) {
      move(equation);
    }
  }

  /// The op's own reference moves the elements' numbers.
  void move(const Equation& equation) {
    KeyElements all;
    std::vector<ir::ReferenceArray> inputs;
    for (const Var v : equation.inputs) {
      const KeyElements& keys = of(v);
      if (static_cast<std::int64_t>(keys.size()) != f_.type(v).size()) return;  // not followed
      inputs.push_back(ir::reference_zeros({DType::key, f_.type(v).shape, {}}));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        inputs.back().integers()[i] = static_cast<std::int64_t>(all.size());
        all.push_back(keys[i]);
      }
    }
    std::vector<ir::ReferenceArray> outputs;
    for (const Var result : equation.outputs) {
      if (f_.type(result).size() > most_elements) return;
      outputs.push_back(ir::reference_zeros({DType::key, f_.type(result).shape, {}}));
    }
    equation.primitive->reference({inputs, equation.attrs, outputs});
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      KeyElements moved;
      for (const std::int64_t i : outputs[r].integers()) moved.push_back(all[static_cast<std::size_t>(i)]);
      of(equation.outputs[r]) = std::move(moved);
    }
  }

  /// An operand that the body sees in parts is used as a whole if a part of it is.
  void follow_map(const Equation& equation) {
    using Layouts = std::vector<std::vector<std::string>>;
    const auto is_cut = [](const std::vector<std::string>& layout) {
      return std::ranges::any_of(layout, [](const std::string& axis) { return !axis.empty(); });
    };
    const ir::FunctionPtr body = ir::sub_function(equation.attrs, "body");
    const auto& in = equation.attrs.get<Layouts>("in");
    const auto& out = equation.attrs.get<Layouts>("out");
    std::vector<KeyElements> inputs = operands(equation);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_cut(in[i])) inputs[i] = new_keys(body->type(body->inputs()[i]));
    }
    std::vector<KeyElements> outputs = follow_keys(*body, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_cut(in[i]) && any_used(inputs[i])) use_all(of(equation.inputs[i]), first_use(inputs[i]));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!is_cut(out[i])) of(equation.outputs[i]) = std::move(outputs[i]);
    }
  }

  static std::string first_use(const KeyElements& keys) {
    for (const auto& key : keys) {
      if (!key->used_by.empty()) return key->used_by;
    }
    return {};
  }

  /// What the body uses of its constants or of a carry that stays, the second iteration uses again.
  void follow_scan(const Equation& equation) {
    const ir::Scan scan = ir::Scan::of(equation.attrs);
    std::vector<KeyElements> inputs = operands(equation);
    const std::size_t first_x = scan.consts + scan.carries;
    std::vector<bool> x_used(inputs.size());
    std::string used_by;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(scan.length, 2); ++i) {
      for (std::size_t x = first_x; x < inputs.size(); ++x)
        inputs[x] = new_keys(scan.body->type(scan.body->inputs()[x]));
      const std::vector<KeyElements> outputs = follow_body(*scan.body, inputs, "scan", i);
      for (std::size_t c = 0; c < scan.carries; ++c) inputs[scan.consts + c] = outputs[c];
      for (std::size_t x = first_x; x < inputs.size(); ++x) {
        if (!any_used(inputs[x])) continue;
        x_used[x] = true;
        used_by = first_use(inputs[x]);
      }
    }
    for (std::size_t x = first_x; x < inputs.size(); ++x) {
      if (x_used[x]) use_all(of(equation.inputs[x]), used_by);
    }
    for (std::size_t c = 0; c < scan.carries; ++c) of(equation.outputs[c]) = inputs[scan.consts + c];
  }

  void follow_while(const Equation& equation) {
    const ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
    const std::vector<KeyElements> all = operands(equation);
    const auto begin = all.begin();
    const auto bodys = begin + static_cast<std::ptrdiff_t>(loop.cond_consts);
    const auto carry = bodys + static_cast<std::ptrdiff_t>(loop.body_consts);
    std::vector<KeyElements> carries(carry, all.end());
    for (std::int64_t i = 0; i < 2; ++i) {
      std::vector<KeyElements> inputs(begin, bodys);
      inputs.insert(inputs.end(), carries.begin(), carries.end());
      follow_body(*loop.cond, inputs, "while_loop", i);
      inputs.assign(bodys, carry);
      inputs.insert(inputs.end(), carries.begin(), carries.end());
      carries = follow_body(*loop.body, inputs, "while_loop", i);
    }
    set_outputs(equation, std::move(carries));
  }

  static std::vector<KeyElements> follow_body(const Function& body, std::span<const KeyElements> inputs,
                                              std::string_view op, std::int64_t iteration) {
    try {
      return follow_keys(body, inputs);
    } catch (const KeyReuseError& error) {
      if (iteration == 0) throw;
      throw KeyReuseError(std::string(error.what()) + " The first use was in an earlier iteration of the same " +
                          std::string(op) + ": carry a key that the body splits, or scan over the keys of a split.");
    }
  }

  /// Only one of the branches runs, so each starts from the same uses; afterwards those of all count.
  void follow_cond(const Equation& equation) {
    const ir::Cond cond = ir::Cond::of(equation.attrs);
    const std::vector<KeyElements> all = operands(equation);
    const std::vector<KeyElements> inputs(all.begin() + 1, all.end());
    std::vector<std::pair<KeyElement*, std::string>> before;
    for (const KeyElements& keys : inputs) {
      for (const auto& key : keys) before.emplace_back(key.get(), key->used_by);
    }
    std::vector<std::string> after(before.size());
    std::vector<KeyElements> outputs;
    for (const ir::FunctionPtr& branch : cond.branches) {
      for (const auto& [key, used_by] : before) key->used_by = used_by;
      std::vector<KeyElements> results = follow_keys(*branch, inputs);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (after[i].empty()) after[i] = before[i].first->used_by;
      }
      if (outputs.empty()) {
        outputs = std::move(results);
        continue;
      }
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] != results[i]) outputs[i] = new_keys(f_.type(equation.outputs[i]));
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) before[i].first->used_by = after[i];
    set_outputs(equation, std::move(outputs));
  }

  const Function& f_;
  std::vector<KeyElements> keys_;  // per var
};

}  // namespace

KeyElements new_keys(const ArrayType& type) {
  KeyElements keys;
  if (type.dtype != DType::key || type.size() > most_elements) return keys;
  for (std::int64_t i = 0; i < type.size(); ++i) keys.push_back(std::make_shared<KeyElement>());
  return keys;
}

std::vector<KeyElements> follow_keys(const Function& function, std::span<const KeyElements> inputs) {
  return Follower(function).run(inputs);
}

void check_key_reuse(const Function& function) {
  std::vector<KeyElements> inputs;
  for (const ArrayType& type : function.input_types()) inputs.push_back(new_keys(type));
  follow_keys(function, inputs);
}

}  // namespace lockstep::trace
