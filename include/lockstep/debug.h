#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/error.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>

namespace lockstep {

class Profile;  // profile.h

extern template class LOCKSTEP_API detail::OutOfLine<std::shared_ptr<Profile>>;

/// What a compiled function looks for in its results, at the price of keeping its arguments. What it finds it traces
/// back by evaluating the program once more, equation by equation.
struct DebugOptions {
  bool nans = false;  ///< A NaN that no argument held.
  bool infs = false;  ///< An infinity likewise; masks are often made of them.
  detail::OutOfLine<std::shared_ptr<Profile>> profile =
      {};  ///< Records when which kernel runs, at no price where there is none.
};

/// A NaN or an infinity that was looked for: which op made it, in which layer, forwards or backwards, on which replica,
/// in which iteration, and where its operands lie.
class LOCKSTEP_API NonFiniteError : public Error {
 public:
  using Error::Error;
  ~NonFiniteError() override;
};

// Effects inside compiled functions are never removed or merged, and done in the order in which the function that has
// them states them; those of a map's or a loop's body are in order among themselves. A replica's number stands in front
// of what it prints, "[batch=3]". vmap does them for each element. Derivatives do those of the function once.

/// Where debug_print writes, one call a line (without its end), never two at once. An empty function stands for the
/// default: the standard output, where lines go, too, that the sink itself has programs print while it writes one.
LOCKSTEP_API void set_debug_sink(std::function<void(std::string_view)> sink);

namespace detail {
/// Throws ValueError where there are not as many "{}" as arrays.
LOCKSTEP_API void debug_print(std::string_view format, const std::vector<Array>& arrays);
}  // namespace detail

/// Writes the format with each "{}" replaced by an array, as to_string prints it, whenever this place of the program is
/// run; "{{" and "}}" are braces. Throws ValueError where there are not as many "{}" as arrays.
template <class... Arrays>
void debug_print(std::string_view format, const Arrays&... arrays) {
  detail::debug_print(format, {Array(arrays)...});
}

/// Makes the call that runs it throw CheckError with the message where an element of the predicate (bool) holds, with the
/// replica's numbers along the axes that the predicate varies along.
LOCKSTEP_API void error_if(const ArrayOperand& predicate, std::string_view message);

}  // namespace lockstep
