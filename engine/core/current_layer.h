#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <lockstep/call_site.h>

namespace lockstep::place {

/// While it lives, this thread works for the layer of that path: errors made meanwhile say it. An empty path is none. Those
/// of a thread need not end in reverse order; the layer is that of the last one to begin, or to be touched, that still lives.
/// The end of a `named` one, which a layer holds while it computes, is that of all `of_scope` with its path, which live as
/// long as a Scope: to the end of the expression that the layer is called in, or longer.
class Layer {
 public:
  enum class Kind : std::uint8_t { named, of_scope };

  explicit Layer(std::shared_ptr<const std::string> path, Kind kind = Kind::named);
  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// Makes it the last one; if it has ended, once more.
  void touch() const;

 private:
  std::shared_ptr<const std::string> path_;
  Kind kind_;
  std::uint64_t number_;
};

/// The layer's path; empty outside of layers.
std::string layer();

/// Where the program's code calls the library; line 0: not known.
const detail::SourceLocation& call() noexcept;
/// "model.cpp:42", or empty.
std::string text_of(const detail::SourceLocation& call);

/// The text, with where this thread is behind it: ` (at model.cpp:42, in layer "encoder/dense")`, what of it is known. As it
/// is where it has such an end already, without the layer where it names that.
std::string placed(const std::string& text);

}  // namespace lockstep::place
