#pragma once

#include <lockstep/error.h>

namespace lockstep {

/// What a compiled function looks for in its results, at the price of keeping its arguments. What it finds it traces back
/// by evaluating the program once more, equation by equation.
struct DebugOptions {
  bool nans = false;  ///< A NaN that no argument held.
  bool infs = false;  ///< An infinity likewise; masks are often made of them.
};

/// A NaN or an infinity that was looked for: which op made it, in which layer, forwards or backwards, on which replica, in
/// which iteration, and where its operands lie.
class LOCKSTEP_API NonFiniteError : public Error {
 public:
  using Error::Error;
  ~NonFiniteError() override;
};

}  // namespace lockstep
