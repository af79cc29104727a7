#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/owned.h>

namespace lockstep {

/// While it lives, what is traced on this thread carries a path: messages about it, profiles and the NaN guard name it.
/// Nested scopes join their names with '/'. Errors made meanwhile say the path, whether something is traced or not.
///
///     const ls::NamedScope scope("encoder");
class LOCKSTEP_API NamedScope {
 public:
  explicit NamedScope(std::string_view name);
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

  /// The whole path at once, whatever surrounds it: how layers pass on their place in the model.
  static NamedScope at(std::string path);

 private:
  struct Impl;
  explicit NamedScope(detail::Owned<Impl> impl);
  detail::Owned<Impl> impl_;
};

namespace detail {
/// While it lives, errors made on this thread say that they are of the layer, unless one that was entered, or touched,
/// later lives as well.
class LayerPlace;
/// The place of the layer with that path, just entered.
LOCKSTEP_API std::shared_ptr<const LayerPlace> enter_layer(const std::string& path);
/// Makes it the one entered or touched last; nothing for none.
LOCKSTEP_API void touch_layer(const std::shared_ptr<const LayerPlace>& place);
}  // namespace detail

}  // namespace lockstep
