#include <utility>

#include <lockstep/named_scope.h>

#include "engine/core/current_layer.h"
#include "engine/trace/trace.h"

namespace lockstep {

struct NamedScope::Impl {
  explicit Impl(std::string path) : name(std::move(path)) {}
  tracing::ScopeName name;
};

NamedScope::NamedScope(detail::Owned<Impl> impl) : impl_(std::move(impl)) {}

NamedScope::NamedScope(std::string_view name) {
  const std::string outer = tracing::is_open() ? tracing::scope_path() : place::layer();
  impl_ = detail::Owned<Impl>::make(outer.empty() ? std::string(name) : outer + "/" + std::string(name));
}

NamedScope::~NamedScope() = default;

NamedScope NamedScope::at(std::string path) { return NamedScope(detail::Owned<Impl>::make(std::move(path))); }

class detail::LayerPlace : public place::Layer {
 public:
  explicit LayerPlace(const std::string& path)
      : place::Layer(std::make_shared<const std::string>(path), Kind::of_scope) {}
};

std::shared_ptr<const detail::LayerPlace> detail::enter_layer(const std::string& path) {
  return std::make_shared<const LayerPlace>(path);
}

void detail::touch_layer(const std::shared_ptr<const LayerPlace>& place) {
  if (place != nullptr) place->touch();
}

}  // namespace lockstep
