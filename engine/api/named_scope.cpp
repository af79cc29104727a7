#include <utility>

#include <lockstep/named_scope.h>

#include "engine/trace/trace.h"

namespace lockstep {

struct NamedScope::Impl {
  explicit Impl(std::string path) : name(std::move(path)) {}
  trace::ScopeName name;
};

NamedScope::NamedScope(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

NamedScope::NamedScope(std::string_view name) {
  if (!trace::is_open()) return;
  const std::string outer = trace::scope_path();
  impl_ = std::make_unique<Impl>(outer.empty() ? std::string(name) : outer + "/" + std::string(name));
}

NamedScope::~NamedScope() = default;

NamedScope NamedScope::at(std::string path) {
  return NamedScope(trace::is_open() ? std::make_unique<Impl>(std::move(path)) : nullptr);
}

}  // namespace lockstep
