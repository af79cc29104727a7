#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"

// The effects of debug_print and error_if.
namespace lockstep::ir {

/// The text between the "{}" of a format, one piece more than there are of these; "{{" and "}}" are braces. Throws
/// ValueError for any other brace.
std::vector<std::string> format_pieces(std::string_view format);

/// While it lives, lines that this thread prints go to the standard output, for a sink is at work: it must not wait for
/// itself.
class InDebugSink {
 public:
  explicit InDebugSink(bool is_one);
  ~InDebugSink();
  InDebugSink(const InDebugSink&) = delete;
  InDebugSink& operator=(const InDebugSink&) = delete;

 private:
  bool before_;
};
/// Whether this thread works for a sink that writes a line.
bool in_debug_sink();

void print_effect(const Attrs& attrs, std::span<const ReferenceArray> operands);
void check_effect(const Attrs& attrs, std::span<const ReferenceArray> operands);

}  // namespace lockstep::ir
