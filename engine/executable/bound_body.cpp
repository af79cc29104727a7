#include "engine/executable/bound_body.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace lockstep::executable {
namespace {

std::size_t shards_bytes(const Executable& e) {
  return e.shard_bytes * static_cast<std::size_t>(std::max(e.local_shards, 1));
}
std::size_t bases_of(const Executable& e) {
  return base::first_argument + e.argument_types.size() + e.result_types.size();
}

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes) {
  if (nbytes > 0 && to != from) std::memcpy(to, from, nbytes);
}

std::size_t BoundBody::shared_bytes(const Executable& executable) {
  return whole_lines(executable.arena_bytes) + whole_lines(shards_bytes(executable));
}

std::size_t BoundBody::own_bytes(const Executable& executable) {
  return whole_lines(executable.scratch_bytes) + whole_lines(executable.views.size() * sizeof(ArrayView)) +
         whole_lines(bases_of(executable) * sizeof(std::byte*));
}

BoundBody::BoundBody(const Executable& executable, std::byte* shared, std::byte* own) : executable_(executable) {
  std::byte* views = own + whole_lines(executable.scratch_bytes);
  std::byte* bases = views + whole_lines(executable.views.size() * sizeof(ArrayView));
  views_ = reinterpret_cast<ArrayView*>(views);
  bases_ = reinterpret_cast<std::byte**>(bases);
  std::uninitialized_copy(executable.views.begin(), executable.views.end(), views_);
  std::uninitialized_fill_n(bases_, bases_of(executable), nullptr);
  bases_[base::arena] = shared;
  bases_[base::all_shards] = shared + whole_lines(executable.arena_bytes);
  bases_[base::scratch] = own;
  if (executable.constants != nullptr) {
    bases_[base::constants] = static_cast<std::byte*>(executable.constants->data());
  }
}

const std::byte* BoundBody::value(std::size_t i) {
  const ResultSource& source = executable_.results[i];
  const auto index = static_cast<std::size_t>(source.index);
  if (source.kind == ResultSource::Kind::argument) return argument(index);
  return source.kind == ResultSource::Kind::result ? result(index) : result(i);
}

bool BoundBody::has_copies() const {
  return std::any_of(executable_.results.begin(), executable_.results.end(),
                     [](const ResultSource& source) { return source.kind != ResultSource::Kind::fresh; });
}

void BoundBody::copy_result(std::size_t i) {
  copy_bytes(result(i), value(i), static_cast<std::size_t>(executable_.result_types[i].nbytes()));
}

}  // namespace lockstep::executable
