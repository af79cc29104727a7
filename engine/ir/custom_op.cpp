#include "engine/ir/custom_op.h"

#include <atomic>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/quoting.h"
#include "engine/core/stable_hash.h"

namespace lockstep::ir {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

CustomOp::CustomOp(std::string name) : name_(std::move(name)), number_(next_number()) {}

std::string CustomOp::text() const { return "custom op " + quoted(name_); }

std::uint64_t CustomOp::hash() const {
  StableHash hash;
  hash.add(std::string_view(name_));
  hash.add(number_);
  return hash.value();
}

std::string CustomOp::print(int /*indent*/) const { return quoted(name_); }

CustomOpPtr custom_op(const Attrs& attrs) {
  const AttrValue* value = attrs.find("op");
  const auto* object = value == nullptr ? nullptr : std::get_if<std::shared_ptr<const AttrObject>>(value);
  return object == nullptr ? nullptr : std::dynamic_pointer_cast<const CustomOp>(*object);
}

CustomCall CustomCall::of(const Attrs& attrs, std::size_t operands) {
  CustomCall call{custom_op(attrs), attrs.get<std::vector<std::int64_t>>("sizes"),
                  attrs.get<std::vector<std::vector<std::int64_t>>>("mapped")};
  bool fits = call.op != nullptr && call.sizes.size() == call.mapped.size();
  for (const auto& marks : call.mapped) fits = fits && marks.size() == operands;
  if (!fits) {
    throw IrError("custom_call given [" + to_string(attrs) + "] for " + std::to_string(operands) +
                  " operands; expected an op and, for each mapped dimension, its size and a mark for each operand");
  }
  return call;
}

Attrs CustomCall::attrs() const {
  return {{"op", std::shared_ptr<const AttrObject>(op)}, {"sizes", sizes}, {"mapped", mapped}};
}

std::unique_ptr<Kernel> custom_kernel(const KernelRequest& request) {
  if (request.op != "custom_call") return nullptr;
  return CustomCall::of(request.attrs, request.inputs.size()).op->make_kernel(request);
}

}  // namespace lockstep::ir
