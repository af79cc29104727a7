#include "engine/api/transforms/bind.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/numpy/weak_types.h"
#include "engine/api/random/key_tracking.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/type_hash.h"
#include "engine/core/environment.h"
#include "engine/core/process_end.h"
#include "engine/core/stack_room.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep::api {

namespace {

std::uint64_t hash_of_equation(const ir::Primitive& primitive, std::span<const Array> operands, const Attrs& attrs) {
  StableHash hash;
  hash.add(reinterpret_cast<std::uintptr_t>(&primitive));
  hash.add(attrs.hash());
  for (const Array& operand : operands) add_type(hash, operand.type());
  return hash.value();
}

/// Executables of single equations by primitive, attributes and operand types.
class EagerCache {
 public:
  std::shared_ptr<const executable::Executable> find(std::uint64_t hash, const ir::Primitive& primitive,
                                                     std::span<const Array> operands, const Attrs& attrs) {
    const std::lock_guard lock(mutex_);
    auto [begin, end] = entries_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second.matches(primitive, operands, attrs)) return it->second.executable;
    }
    return nullptr;
  }

  void insert(std::uint64_t hash, const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs,
              std::shared_ptr<const executable::Executable> executable) {
    std::vector<ArrayType> types;
    for (const Array& operand : operands) types.push_back(operand.type());
    const std::lock_guard lock(mutex_);
    static const std::int64_t capacity = environment_count("LOCKSTEP_CACHED_PROGRAMS", 4096);
    if (capacity > 0 && std::ssize(entries_) >= capacity) entries_.clear();
    entries_.emplace(hash, Entry{&primitive, std::move(attrs), std::move(types), std::move(executable)});
  }

 private:
  struct Entry {
    const ir::Primitive* primitive;
    Attrs attrs;
    std::vector<ArrayType> types;
    std::shared_ptr<const executable::Executable> executable;

    bool matches(const ir::Primitive& other, std::span<const Array> operands, const Attrs& other_attrs) const {
      if (primitive != &other || types.size() != operands.size() || !(attrs == other_attrs)) return false;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!(types[i] == operands[i].type())) return false;
      }
      return true;
    }
  };
  std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, Entry> entries_;
};

EagerCache& eager_cache() {
  static EagerCache cache;
  return cache;
}

ir::FunctionPtr single_equation(const ir::Primitive& primitive, std::span<const Array> operands, const Attrs& attrs) {
  ir::Builder builder;
  std::vector<ir::Var> inputs;
  for (const Array& operand : operands) inputs.push_back(builder.input(operand.type()));
  return builder.finish(builder.apply(primitive, inputs, attrs));
}

std::vector<Array> applied(const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs) {
  if (tracing::is_open()) return tracing::bind(primitive, operands, std::move(attrs));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check_concrete(operands[i], [&] { return fmt::format("{}: operand {}", primitive.name, i); });
  }
  if (std::ranges::any_of(operands, [](const Array& operand) { return operand.state()->cut != nullptr; })) {
    return call(single_equation(primitive, operands, attrs), {operands.begin(), operands.end()});
  }
  const std::uint64_t hash = hash_of_equation(primitive, operands, attrs);
  auto executable = eager_cache().find(hash, primitive, operands, attrs);
  if (executable == nullptr) {
    executable = compiled(single_equation(primitive, operands, attrs));
    eager_cache().insert(hash, primitive, operands, attrs, executable);
  }
  const auto is_key = [](const Array& operand) { return operand.dtype() == DType::key; };
  if (!random::key_reuse_checks() || std::none_of(operands.begin(), operands.end(), is_key)) {
    return run(*executable, {operands.begin(), operands.end()});
  }
  const TrackedCall tracked(*single_equation(primitive, operands, attrs), operands);
  std::vector<Array> results = run(*executable, {operands.begin(), operands.end()});
  tracked.mark(results);
  return results;
}

}  // namespace

std::vector<Array> bind(const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs) {
  const InLibrary inside(primitive.name);
  expect_stack_room();
  if (operands.empty() || !is_weak(operands.front())) return applied(primitive, operands, std::move(attrs));
  return as_weak_as(operands, primitive, attrs, applied(primitive, operands, attrs));
}

Array bind_one(const ir::Primitive& primitive, std::initializer_list<Array> operands, Attrs attrs) {
  return std::move(api::bind(primitive, {operands.begin(), operands.size()}, std::move(attrs)).front());
}

}  // namespace lockstep::api

namespace lockstep::lax {

#define LOCKSTEP_OP(name, form)                                                \
  std::vector<Array> name(const ArrayOperands& operands, const Attrs& attrs) { \
    return api::bind(ops::primitives::name(), operands, attrs);                \
  }
#include <lockstep/ops.def>
#undef LOCKSTEP_OP

}  // namespace lockstep::lax
