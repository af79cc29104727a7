#include "engine/processes/collective.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::processes {

void CollectiveHeader::set_op(std::string_view name) {
  op.fill('\0');
  std::copy_n(name.begin(), std::min(name.size(), op.size() - 1), op.begin());
}

std::string describe(const CollectiveHeader& header) {
  std::string text = fmt::format("collective {}, {}", header.number, header.op.data());
  if (header.bytes > 0) text += fmt::format(" of {} bytes of {}", header.bytes, name(header.dtype));
  if (header.root > 0) text += fmt::format(" from process {}", header.root);
  if (header.call > 0) text += fmt::format(", in call {} of program {}", header.call, hexadecimal(header.program));
  return text;
}

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace lockstep::processes
