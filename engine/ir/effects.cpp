#include "engine/ir/effects.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include <lockstep/backend/effects.h>
#include <lockstep/debug.h>
#include <lockstep/error.h>

#include "engine/ir/text/array_text.h"

namespace lockstep {

namespace {

using Sink = std::function<void(std::string_view)>;

struct GuardedSink {
  std::mutex mutex;    ///< Of `write`, held for a moment.
  std::mutex writing;  ///< Held while a line is written.
  std::shared_ptr<const Sink> write;
};

/// Threads may print until the process is gone.
GuardedSink& guarded_sink() {
  static GuardedSink& sink = *new GuardedSink;
  return sink;
}

thread_local bool works_for_sink = false;

void write_line(const std::string& line) {
  GuardedSink& sink = guarded_sink();
  if (!works_for_sink) {
    const std::lock_guard lock(sink.writing);
    const std::shared_ptr<const Sink> write = [&] {
      const std::lock_guard moment(sink.mutex);
      return sink.write;
    }();
    if (write != nullptr) {
      const ir::InDebugSink inside(true);
      return (*write)(line);
    }
  }
  const std::string whole = line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void set_debug_sink(Sink sink) {
  GuardedSink& guarded = guarded_sink();
  auto made = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(guarded.mutex);
  guarded.write.swap(made);
}

namespace ir {

InDebugSink::InDebugSink(bool is_one) : before_(std::exchange(works_for_sink, is_one)) {}
InDebugSink::~InDebugSink() { works_for_sink = before_; }
bool in_debug_sink() { return works_for_sink; }

namespace {

/// The operands of one effect, taken apart.
class Operands {
 public:
  Operands(const Attrs& attrs, std::span<const ReferenceArray> operands)
      : axes_(attrs.get<std::vector<std::string>>("axes")),
        batch_(static_cast<int>(attrs.get<std::int64_t>("batch"))),
        operands_(operands.first(operands.size() - (attrs.get_or<bool>("ordered", false) ? 1 : 0))) {}

  /// How often the effect is done.
  std::int64_t count() const {
    std::int64_t count = 1;
    for (int d = 0; d < batch_; ++d) count *= operands_.front().type.shape[d];
    return operands_.empty() ? 1 : count;
  }

  std::size_t values() const { return operands_.size() - axes_.size(); }
  /// Value `i` of the effect's `at`-th doing.
  ReferenceArray value(std::size_t i, std::int64_t at) const { return element(axes_.size() + i, at); }

  /// "batch=3 model=0", or nothing outside of maps.
  std::string replica(std::int64_t at) const {
    std::string text;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      text += (i > 0 ? " " : "") + axes_[i] + "=" + std::to_string(element(i, at).integers().at(0));
    }
    return text;
  }

 private:
  ReferenceArray element(std::size_t operand, std::int64_t at) const {
    const ReferenceArray& whole = operands_[operand];
    ArrayType type{whole.type.dtype, Shape{}, {}};
    for (int d = batch_; d < whole.type.shape.rank(); ++d) type.shape.append(whole.type.shape[d]);
    ReferenceArray part = reference_zeros(type);
    const auto size = static_cast<std::ptrdiff_t>(type.size());
    std::visit(
        [&](const auto& from) {
          auto& to = std::get<std::remove_cvref_t<decltype(from)>>(part.values);
          std::copy_n(from.begin() + size * at, size, to.begin());
        },
        whole.values);
    return part;
  }

  const std::vector<std::string>& axes_;
  int batch_;
  std::span<const ReferenceArray> operands_;
};

std::vector<ReferenceArray> reference_arrays(std::span<const ArrayView> views) {
  std::vector<ReferenceArray> arrays;
  for (const ArrayView& view : views) {
    const ArrayType type{view.dtype, view.shape, {}};
    arrays.push_back(reference_from_bytes(
        type, {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(type.nbytes())}));
  }
  return arrays;
}

}  // namespace

std::vector<std::string> format_pieces(std::string_view format) {
  std::vector<std::string> pieces(1);
  for (std::size_t i = 0; i < format.size(); ++i) {
    const std::string_view two = format.substr(i, 2);
    if (two == "{}") {
      pieces.emplace_back();
      ++i;
    } else if (two == "{{" || two == "}}") {
      pieces.back() += format[i];
      ++i;
    } else if (format[i] == '{' || format[i] == '}') {
      throw ValueError("debug_print: a single '" + std::string(1, format[i]) + "' at position " + std::to_string(i) +
                       " of the format \"" + std::string(format) +
                       "\"; write {} for an array, {{ and }} for the braces themselves");
    } else {
      pieces.back() += format[i];
    }
  }
  return pieces;
}

void print_effect(const Attrs& attrs, std::span<const ReferenceArray> operands) {
  const Operands effect(attrs, operands);
  const std::vector<std::string> pieces = format_pieces(attrs.get<std::string>("format"));
  for (std::int64_t at = 0; at < effect.count(); ++at) {
    const std::string replica = effect.replica(at);
    std::string line = (replica.empty() ? "" : "[" + replica + "] ") + pieces[0];
    for (std::size_t i = 0; i < effect.values(); ++i) line += array_text(effect.value(i, at), {}) + pieces[i + 1];
    write_line(line);
  }
}

void check_effect(const Attrs& attrs, std::span<const ReferenceArray> operands) {
  const Operands effect(attrs, operands);
  for (std::int64_t at = 0; at < effect.count(); ++at) {
    const ReferenceArray predicate = effect.value(0, at);
    if (std::ranges::none_of(predicate.integers(), [](std::int64_t holds) { return holds != 0; })) continue;
    const std::string replica = effect.replica(at);
    throw CheckError("error_if: " + attrs.get<std::string>("message") +
                     (replica.empty() ? "" : " (replica " + replica + ")"));
  }
}

bool has_effects(const Equation& equation) {
  return any_equation(equation, [](const Equation& e) { return e.primitive->traits.effect; });
}

}  // namespace ir

void backend::effects::print(const Attrs& attrs, std::span<const ArrayView> operands) {
  ir::print_effect(attrs, ir::reference_arrays(operands));
}

void backend::effects::check(const Attrs& attrs, std::span<const ArrayView> operands) {
  ir::check_effect(attrs, ir::reference_arrays(operands));
}

}  // namespace lockstep
