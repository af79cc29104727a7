#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/compile/compile.h"
#include "engine/compile/program.h"
#include "engine/core/environment.h"

namespace lockstep::compile {
namespace {

/// What an executable depends on beside the function. The processes are kept, so that no others can take their place.
struct Setting {
  std::string text;
  std::shared_ptr<Processes> processes;
  bool operator==(const Setting&) const = default;
};

Setting describe(const Options& options) {
  Setting setting{{}, options.processes};
  for (const auto& backend : options.backends) setting.text += std::string(backend->name()) + ",";
  setting.text += ";" + std::to_string(options.threads) + (options.optimize ? ";optimized" : "") +
                  (options.fuse ? ";fused" : "") + ";" + std::string(name(options.precision)) + ";" +
                  std::to_string(options.bucket_bytes);
  return setting;
}

/// Least recently used entries go first.
class Cache {
 public:
  std::shared_ptr<const Executable> find(std::uint64_t key, const ir::Function& function, const Setting& setting) {
    const std::lock_guard lock(mutex_);
    const auto it = locate(key, function, setting);
    if (it == index_.end()) {
      ++misses_;
      return nullptr;
    }
    ++hits_;
    entries_.splice(entries_.begin(), entries_, it->second);
    return it->second->executable;
  }

  std::shared_ptr<const Executable> add(std::uint64_t key, const ir::FunctionPtr& function, const Setting& setting,
                                        std::shared_ptr<const Executable> executable) {
    const std::lock_guard lock(mutex_);
    if (const auto it = locate(key, *function, setting); it != index_.end()) return it->second->executable;
    entries_.push_front({key, function, setting, std::move(executable)});
    index_.emplace(key, entries_.begin());
    static const std::int64_t capacity = environment_count("LOCKSTEP_CACHED_PROGRAMS", 4096);
    if (capacity > 0 && std::ssize(entries_) > capacity) drop_oldest();
    return entries_.front().executable;
  }

  CacheStatistics statistics() {
    const std::lock_guard lock(mutex_);
    return {entries_.size(), hits_, misses_};
  }

 private:
  struct Entry {
    std::uint64_t key;
    ir::FunctionPtr function;
    Setting setting;
    std::shared_ptr<const Executable> executable;
  };
  using Index = std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator>;

  Index::iterator locate(std::uint64_t key, const ir::Function& function, const Setting& setting) {
    for (auto [it, end] = index_.equal_range(key); it != end; ++it) {
      if (it->second->setting == setting && it->second->function->equals(function)) return it;
    }
    return index_.end();
  }

  void drop_oldest() {
    const auto oldest = std::prev(entries_.end());
    for (auto [it, end] = index_.equal_range(oldest->key); it != end; ++it) {
      if (it->second == oldest) {
        index_.erase(it);
        break;
      }
    }
    entries_.pop_back();
  }

  std::mutex mutex_;
  std::list<Entry> entries_;  // newest first
  Index index_;
  std::size_t hits_ = 0;
  std::size_t misses_ = 0;
};

Cache& cache() {
  static Cache instance;
  return instance;
}

}  // namespace

namespace {

template <class Lower>
std::shared_ptr<const Executable> cached(const ir::FunctionPtr& function, const Setting& setting, const Lower& lower) {
  const std::uint64_t key = function->hash() ^ std::hash<std::string>{}(setting.text);
  if (auto found = cache().find(key, *function, setting)) return found;
  return cache().add(key, function, setting, lower());
}

}  // namespace

std::shared_ptr<const Executable> compile(const ir::FunctionPtr& function, const Options& options) {
  return cached(function, describe(options), [&] {
    std::optional<AtWork> at_work;
    if (options.processes) at_work.emplace(*options.processes);
    return lower(function, options);
  });
}

std::shared_ptr<const Executable> compile_body(const ir::FunctionPtr& function, const Options& options,
                                               const BodySpec& spec) {
  Options alone = options;
  alone.threads = 1;
  Setting setting = describe(alone);
  setting.text += ";" + spec.describe();
  return cached(function, setting, [&] { return lower_body(function, alone, spec); });
}

CacheStatistics cache_statistics() { return cache().statistics(); }

}  // namespace lockstep::compile
