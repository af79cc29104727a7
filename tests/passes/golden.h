#pragma once

#include <string>

#include "engine/ir/text/parse.h"
#include "engine/ir/verify.h"
#include "engine/ops/primitives.h"

namespace lockstep::tests {

/// A program's text before and after a pass.
struct Golden {
  const char* what;
  const char* before;
  const char* after;
};

/// `text` as print writes it.
inline std::string printed(const std::string& text) { return ir::parse(text, ops::find_primitive)->print(0); }

/// The function after a pass; both are verified.
inline ir::FunctionPtr run_pass(ir::FunctionPtr (*pass)(const ir::FunctionPtr&), const std::string& text) {
  const ir::FunctionPtr before = ir::parse(text, ops::find_primitive);
  ir::verify(*before);
  ir::FunctionPtr result = pass(before);
  ir::verify(*result);
  return result;
}

}  // namespace lockstep::tests
