#include "engine/compile/kernel_pool.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/stable_hash.h"
#include "engine/ir/custom_op.h"
#include "engine/ir/primitive.h"
#include "engine/ops/grouped.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {
namespace {

std::string list(std::span<const ArrayType> types) {
  std::string text;
  for (const ArrayType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

[[noreturn]] void throw_no_kernel(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                                  std::span<const ArrayType> outputs,
                                  const std::vector<std::shared_ptr<const Backend>>& backends) {
  std::string names;
  for (const auto& backend : backends) names += (names.empty() ? "" : ", ") + std::string(backend->name());
  if (names.empty()) names = "none";
  throw BackendError(std::string(op) + ": no backend has a kernel for (" + list(inputs) + ") -> (" + list(outputs) +
                     ")" + (attrs.empty() ? "" : " [" + to_string(attrs) + "]") + "; backends asked: " + names +
                     ". Convert the operands to a dtype that has one, or build a backend that does.");
}

std::uint64_t hash_of(std::string_view op, const Attrs& attrs, const std::vector<ArrayType>& types) {
  StableHash hash;
  hash.add(op);
  hash.add(attrs.hash());
  for (const ArrayType& type : types) {
    hash.add(static_cast<std::uint64_t>(type.dtype));
    hash.add(static_cast<std::uint64_t>(type.shape.rank()));
    for (std::int64_t d : type.shape) hash.add(static_cast<std::uint64_t>(d));
  }
  return hash.value();
}

double flops_of(const KernelRequest& request) {
  if (const ir::Primitive* primitive = ops::find_primitive(request.op)) {
    return ir::flops_of(*primitive, {request.inputs, request.outputs, request.attrs});
  }
  const auto grouped = ops::grouped_kernels(request);
  return grouped ? static_cast<double>(grouped->count) * flops_of(grouped->first(request)) : 0;
}

}  // namespace

KernelPool::Entry* KernelPool::find_entry(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                                          std::span<const ArrayType> outputs) {
  std::vector<ArrayType> types;
  for (const ArrayType& type : inputs) types.push_back({type.dtype, type.shape, {}});
  for (const ArrayType& type : outputs) types.push_back({type.dtype, type.shape, {}});
  const std::uint64_t key = hash_of(op, attrs, types);
  for (auto [it, end] = entries_.equal_range(key); it != end; ++it) {
    Entry& entry = it->second;
    if (entry.op == op && entry.attrs == attrs && entry.types == types) return &entry;
  }
  const std::span<const ArrayType> all(types);
  const KernelRequest request{op, attrs, all.first(inputs.size()), all.subspan(inputs.size()), Device{}};
  const auto enter = [&](std::unique_ptr<Kernel> kernel, Note note, const Backend* backend) {
    const Kernel* kept = adopt(std::move(kernel), std::move(note));
    return &entries_.emplace(key, Entry{std::string(op), attrs, std::move(types), kept, backend, {}})->second;
  };
  if (std::unique_ptr<Kernel> kernel = ir::custom_kernel(request)) {
    return enter(std::move(kernel), Note{"custom", 0}, nullptr);
  }
  for (const auto& backend : backends_) {
    if (!backend->supports(DeviceKind::cpu)) continue;
    if (std::unique_ptr<Kernel> kernel = backend->make_kernel(request)) {
      return enter(std::move(kernel), Note{std::string(backend->name()), flops_of(request)}, backend.get());
    }
  }
  return nullptr;
}

const Kernel* KernelPool::find(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                               std::span<const ArrayType> outputs) {
  const Entry* entry = find_entry(op, attrs, inputs, outputs);
  return entry == nullptr ? nullptr : entry->kernel;
}

std::vector<const Kernel*> KernelPool::parts(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                                             std::span<const ArrayType> outputs) {
  Entry* entry = find_entry(op, attrs, inputs, outputs);
  if (entry == nullptr || entry->backend == nullptr) return {};
  if (entry->parts.has_value()) return *entry->parts;
  const std::span<const ArrayType> types(entry->types);
  std::vector<const Kernel*> result;
  std::vector<std::unique_ptr<Kernel>> made = entry->backend->make_parts(
      {op, attrs, types.first(inputs.size()), types.subspan(inputs.size()), Device{}}, *entry->kernel);
  const Note whole = note(entry->kernel);
  for (std::unique_ptr<Kernel>& part : made) {
    result.push_back(adopt(std::move(part), {whole.backend, whole.flops / static_cast<double>(made.size())}));
  }
  entry->parts = result;
  return result;
}

const Kernel* KernelPool::get(std::string_view op, const Attrs& attrs, std::span<const ArrayType> inputs,
                              std::span<const ArrayType> outputs) {
  const Kernel* kernel = find(op, attrs, inputs, outputs);
  if (kernel == nullptr) throw_no_kernel(op, attrs, inputs, outputs, backends_);
  return kernel;
}

KernelPool::Note KernelPool::note(const Kernel* kernel) const {
  const auto it = notes_.find(kernel);
  return it == notes_.end() ? Note{} : it->second;
}

std::vector<std::shared_ptr<const Backend>> KernelPool::entered() const {
  std::set<std::string, std::less<>> makers;
  for (const auto& [kernel, note] : notes_) makers.insert(note.backend);
  if (makers.contains(Note().backend)) return backends_;
  std::vector<std::shared_ptr<const Backend>> result;
  std::ranges::copy_if(backends_, std::back_inserter(result),
                       [&](const auto& backend) { return makers.contains(backend->name()); });
  return result;
}

const Kernel* KernelPool::adopt(std::unique_ptr<Kernel> kernel, Note note) {
  kernels_.push_back(std::move(kernel));
  notes_.emplace(kernels_.back().get(), std::move(note));
  return kernels_.back().get();
}

}  // namespace lockstep::compile
