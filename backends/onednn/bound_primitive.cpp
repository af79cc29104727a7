#include "backends/onednn/bound_primitive.h"

#include <algorithm>
#include <thread>

#include <lockstep/error.h>

namespace lockstep::backend::onednn {

namespace {

/// Streams of the CPU hold no state: all threads share one.
const dnnl::stream& stream() {
  static const dnnl::stream shared(cpu_engine());
  return shared;
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine shared(dnnl::engine::kind::cpu, 0);
  return shared;
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return dnnl::memory::data_type::f32;
    case DType::bfloat16:
      return dnnl::memory::data_type::bf16;
    case DType::float16:
      return dnnl::memory::data_type::f16;
    default:
      return dnnl::memory::data_type::undef;
  }
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

bool is_reference(const dnnl::primitive_desc_base& description) {
  const std::string_view name = description.impl_info_str();
  return name.find("ref") != std::string_view::npos || name.find("any") != std::string_view::npos;
}

BoundPrimitive::BoundPrimitive(const dnnl::primitive_desc_base& description, dnnl::primitive primitive,
                               std::vector<Argument> arguments)
    : primitive_(std::move(primitive)),
      arguments_(std::move(arguments)),
      scratch_bytes_(description.scratchpad_desc().get_size()) {
  arguments_.emplace_back(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  // As many as may run at once, so that none has to be made in a steady call.
  static const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i < std::min(threads, idle_.size()); ++i) idle_[i] = make_arguments().release();
}

BoundPrimitive::~BoundPrimitive() {
  for (std::atomic<Arguments*>& slot : idle_) delete slot.load();
}

std::unique_ptr<BoundPrimitive::Arguments> BoundPrimitive::make_arguments() const {
  auto made = std::make_unique<Arguments>();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    made->memory[i] = dnnl::memory(arguments_[i].second, cpu_engine(), DNNL_MEMORY_NONE);
    made->list[i] = {arguments_[i].first, made->memory[i].get()};
  }
  return made;
}

std::unique_ptr<BoundPrimitive::Arguments> BoundPrimitive::take() const {
  for (std::atomic<Arguments*>& slot : idle_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (Arguments* found = slot.exchange(nullptr, std::memory_order_acquire)) {
      return std::unique_ptr<Arguments>(found);
    }
  }
  return make_arguments();
}

void BoundPrimitive::put_back(std::unique_ptr<Arguments> arguments) const {
  for (std::atomic<Arguments*>& slot : idle_) {
    Arguments* empty = nullptr;
    if (slot.compare_exchange_strong(empty, arguments.get(), std::memory_order_release, std::memory_order_relaxed)) {
      arguments.release();
      return;
    }
  }
}

void BoundPrimitive::run(std::initializer_list<const void*> addresses, void* scratch) const {
  std::unique_ptr<Arguments> arguments = take();
  dnnl_status_t status = dnnl_success;
  const auto point = [&](std::size_t i, const void* address) {
    const dnnl_status_t set = dnnl_memory_set_data_handle(arguments->list[i].memory, const_cast<void*>(address));
    if (set != dnnl_success) status = set;
  };
  std::size_t i = 0;
  for (const void* address : addresses) point(i++, address);
  point(i++, scratch);
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(i), arguments->list.data());
  }
  put_back(std::move(arguments));
  if (status != dnnl_success) {
    throw BackendError("onednn backend: a primitive ended with status " + std::to_string(status) +
                       "; set LOCKSTEP_MAX_ISA=none to go without oneDNN");
  }
}

}  // namespace lockstep::backend::onednn
