#include "backends/jit/code_cache.h"

#include <algorithm>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

namespace lockstep::backend::jit {
namespace {

template <class T>
void append_bytes(std::string& text, T value) {
  static_assert(std::is_integral_v<T>);
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string key_of(const Loop& loop) {
  std::string key;
  for (const Step& step : loop.code.steps()) {
    append_bytes(key, static_cast<std::uint8_t>(step.op));
    for (const int operand : {step.a, step.b, step.c}) append_bytes(key, static_cast<std::int16_t>(operand));
    append_bytes(key, step.bits);
  }
  for (const auto* accesses : {&loop.operands, &loop.results}) {
    append_bytes(key, static_cast<std::uint32_t>(accesses->size()));
    for (const Access& access : *accesses) {
      append_bytes(key, static_cast<std::uint8_t>(access.element));
      append_bytes(key, static_cast<std::uint8_t>(static_cast<int>(access.written) * 2 + access.uniform));
    }
  }
  for (const int value : loop.values) append_bytes(key, value);
  return key;
}

/// x + x of one element.
bool runs(Isa isa) {
  Loop loop;
  const int x = loop.code.step(Op::load);
  loop.values = {loop.code.step(Op::add, x, x)};
  loop.operands = {{}};
  loop.results = {{}};
  float in = 1.5F;
  float out = 0;
  std::int64_t numbers[] = {1, 1, reinterpret_cast<std::int64_t>(&in), reinterpret_cast<std::int64_t>(&out), 0, 0};
  try {
    generate(loop, isa)->run(numbers);
  } catch (const std::exception& error) {
    if (!may_execute_written_pages()) return false;
    // Which kernels a training has must not hang on what memory there was as it began.
    throw BackendError(std::string("jit: the system gives no memory for machine code: ") + error.what() +
                       "; end other programs, or raise this process's limit (ulimit -v)");
  }
  return out == 3.0F;
}

}  // namespace

CodeCache::CodeCache(Isa isa, CodeRecord record)
    : isa_(isa), refused_(isa != Isa::none && !runs(isa)), record_(std::move(record)) {}

std::shared_ptr<const MachineCode> CodeCache::get(const Loop& loop, std::string_view label) {
  const std::string key = key_of(loop);
  const std::scoped_lock lock(mutex_);
  const auto found = codes_.find(key);
  if (found != codes_.end()) {
    if (auto living = found->second.lock()) return living;
  }
  std::shared_ptr<const MachineCode> made;
  try {
    made = generate(loop, isa_);
  } catch (const std::exception&) {
    return nullptr;
  }
  record_.add(made->code(), label);
  codes_[key] = made;
  newest_.push_back(made);
  if (newest_.size() > newest_kept) newest_.pop_front();
  if (codes_.size() >= purge_at_) purge();
  return made;
}

std::size_t CodeCache::size() {
  const std::scoped_lock lock(mutex_);
  return codes_.size();
}

void CodeCache::purge() {
  std::erase_if(codes_, [](const auto& code) { return code.second.expired(); });
  purge_at_ = std::max<std::size_t>(64, 2 * codes_.size());
}

}  // namespace lockstep::backend::jit
