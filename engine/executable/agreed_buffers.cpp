// Memory in which all processes of a group are known to hold the same.
#include "engine/executable/agreed_buffers.h"

#include <algorithm>
#include <atomic>
#include <map>

namespace lockstep::executable {

namespace {

std::atomic<bool> have_been_made = false;

}  // namespace

bool AgreedBuffers::exist() { return have_been_made.load(std::memory_order_relaxed); }

std::shared_ptr<AgreedBuffers> AgreedBuffers::of(const std::shared_ptr<Processes>& processes) {
  static std::mutex mutex;
  static std::map<std::weak_ptr<Processes>, std::shared_ptr<AgreedBuffers>, std::owner_less<>> groups;
  const std::lock_guard lock(mutex);
  have_been_made = true;
  std::erase_if(groups, [](const auto& group) { return group.first.expired(); });
  std::shared_ptr<AgreedBuffers>& buffers = groups[processes];
  if (buffers == nullptr) buffers = std::make_shared<AgreedBuffers>();
  return buffers;
}

void AgreedBuffers::add(const BufferPtr& buffer) {
  buffer->set_agreed(true);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<backend::Buffer>& known = buffers_[buffer.get()];
  // A buffer may lie where another one lay.
  if (known.owner_before(buffer) || buffer.owner_before(known)) known = buffer;
  if (buffers_.size() > most_) remove_gone();
}

bool AgreedBuffers::contains(const BufferPtr& buffer) const {
  if (!buffer->is_agreed() || !buffer->writable()) return false;
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(buffer.get());
  return found != buffers_.end() && !found->second.owner_before(buffer) && !buffer.owner_before(found->second);
}

void AgreedBuffers::remove_gone() {
  std::erase_if(buffers_, [](const auto& known) { return known.second.expired(); });
  most_ = std::max<std::size_t>(1024, 2 * buffers_.size());
}

}  // namespace lockstep::executable
