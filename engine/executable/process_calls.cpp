#include "engine/executable/process_calls.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/core/content_hash.h"
#include "engine/core/stable_hash.h"

namespace lockstep::executable {

ProcessCalls::ProcessCalls(std::shared_ptr<Processes> processes, ir::FunctionPtr program, ProcessEntries entries)
    : processes_(std::move(processes)),
      agreed_(AgreedBuffers::of(processes_)),
      program_(std::move(program)),
      entries_(std::move(entries)) {
  StableHash hash;
  hash.add(std::string_view(program_->print(0)));
  hash_ = hash.value();
}

void ProcessCalls::begin(std::span<const std::span<const std::byte>> arguments, const ArgumentName* name) {
  if (!is_compared()) {
    const std::lock_guard lock(mutex_);
    if (!is_compared_) {
      compare(arguments, name);
      is_compared_.store(true, std::memory_order_release);
      return processes_->begin_call(hash_);
    }
  }
  StableHash hash;
  bool any = false;
  for (const std::span<const std::byte> argument : arguments) {
    if (argument.empty()) continue;
    hash.add(content_hash(argument));
    any = true;
  }
  if (!any) return processes_->begin_call(hash_);
  processes_->begin_call(hash_, hash.value(), [arguments, name] {
    std::string names;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].empty()) continue;
      names += (names.empty() ? "" : ", ") + (name == nullptr ? fmt::format("argument {}", i) : (*name)(i));
    }
    return names.find(',') == names.npos ? names : "one of " + names;
  });
}

void ProcessCalls::compare(std::span<const std::span<const std::byte>> arguments, const ArgumentName* name) const {
  StableHash hash;
  for (const ProcessEntries* entries : {&processes_->description(), &entries_}) {
    for (const auto& [key, value] : *entries) hash.add(std::string_view(key)), hash.add(std::string_view(value));
  }
  hash.add(hash_);
  std::vector<std::uint64_t> hashes;
  for (const std::span<const std::byte> argument : arguments) hash.add(hashes.emplace_back(content_hash(argument)));
  processes_->expect_same("a compiled function", hash.value(), [&] {
    ProcessEntries all = processes_->description();
    all.insert(all.end(), entries_.begin(), entries_.end());
    all.emplace_back("the program", program_->print(0));
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const std::string path = name == nullptr ? fmt::format("argument {}", i) : (*name)(i);
      all.emplace_back("the value of " + path, fmt::format("bytes with the hash {:016x}", hashes[i]));
    }
    return all;
  });
}

}  // namespace lockstep::executable
