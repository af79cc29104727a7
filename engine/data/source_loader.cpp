#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

#include <lockstep/backend/device_threads.h>
#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/processes.h>
#include <lockstep/sources.h>

#include "engine/core/process_end.h"
#include "engine/data/batch_columns.h"
#include "engine/data/gathered_rows.h"

namespace lockstep::data {

/// Batches in order. Threads take the next position that nobody has taken; a batch waits in the queue until it is its
/// turn.
class SourceLoader::Batches {
 public:
  Batches(SourcePtr source, LoaderOptions options, PrefetchOptions prefetch, std::string weight)
      : source_(std::move(source)), options_(options), prefetch_(prefetch), weight_(std::move(weight)) {
    check_batch(options_.batch);
    check_source(source_, "loader");
    const int threads = prefetch_.threads.value_or(1);
    if (threads < 0 || prefetch_.ahead < 1) {
      throw ValueError("[loader] threads is " + std::to_string(threads) + ", ahead " + std::to_string(prefetch_.ahead) +
                       "; give 0 threads or more, and 1 batch or more ahead");
    }
    lockstep::watch_process_end();
    rows_ = source_->rows();
    check_gives_batches(options_, rows_);
    if (!options_.drop_last && weight_.empty() && rows_ % options_.batch != 0) {
      throw DataError("[loader] the last batch of " + std::to_string(rows_) + " rows has " +
                      std::to_string(rows_ % options_.batch) + " of " + std::to_string(options_.batch) +
                      ", and there is no name for weights that would tell padding apart; give one, a batch that "
                      "divides the rows, or drop_last = true");
    }
  }
  ~Batches() { end_threads(); }
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Whether all threads are over; not where it is one of them that asks.
  bool end_threads() {
    if (is_elsewhere()) return true;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    work_.notify_all();
    bool are_over = true;
    for (std::thread& thread : threads_) {
      const bool is_this = thread.get_id() == std::this_thread::get_id();
      if (thread.joinable() && !is_this) thread.join();
      are_over = are_over && !is_this;
    }
    return are_over;
  }

  bool has_stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  /// Whether this is a child of fork, where the threads are not.
  bool is_elsewhere() const { return ::getpid() != process_; }
  std::int64_t batches_per_epoch() const { return batches_of(options_, rows_); }
  Position position() const { return position_; }
  const LoaderOptions& options() const { return options_; }

  void seek(Position position) {
    position_ = begin_at(options_, position, rows_, "source");
    if (threads_.empty() || is_elsewhere()) return;
    restart();
  }

  Tree next() {
    if (is_elsewhere() || has_stopped()) return made_now(false);
    if ((!reads_ahead() && !has_begun()) || !start()) return made_now(!prefetch_.threads && devices_ > 1);
    std::unique_lock lock(mutex_);
    if (std::exchange(has_failed_, false)) work_.notify_all();
    ready_.wait(lock, [&] { return !queue_.empty() && queue_.front()->done; });
    const std::shared_ptr<Slot> slot = queue_.front();
    if (slot->error) {
      has_failed_ =
          true;  // asked again, the same rows are read again, and not before: what they failed by may be mended
      begin_anew();
      std::rethrow_exception(slot->error);
    }
    queue_.pop_front();
    position_ = slot->next;
    lock.unlock();
    work_.notify_one();
    return std::move(slot->batch);
  }

 private:
  /// Of rows of a batch: one of them, with its number.
  struct Form {
    std::shared_ptr<const Row> row;
    std::int64_t number = 0;
  };
  /// What the batch at a position is made of.
  struct Plan {
    Position at{-1, 0};
    BatchRows rows;
    std::vector<RowKey> keys;
  };
  struct Slot {
    Position next;
    Tree batch;
    std::exception_ptr error;
    bool done = false;
  };

  /// Whether threads are to make batches now; one that the loader has started for itself rests meanwhile.
  bool reads_ahead() {
    if (prefetch_.threads) return *prefetch_.threads > 0;
    if (processes_ == 0) processes_ = world()->size();
    if (const int devices = backend::devices_of_calls(); devices > 0) devices_ = devices;
    constexpr int batches_a_look = 16;  // the system is slow to tell of cores where a step has used the caches
    if (looked_++ % batches_a_look == 0) cores_ = backend::own_cores(processes_);
    const bool wanted = devices_ < cores_;
    if (wanted == !rests_) return wanted;
    const std::lock_guard lock(mutex_);
    rests_ = !wanted;
    if (wanted) work_.notify_all();
    return wanted;
  }
  /// Whether threads have begun batches that are not given out.
  bool has_begun() {
    const std::lock_guard lock(mutex_);
    return !queue_.empty();
  }
  Tree made_now(bool on_waiting_threads) {
    if (!(planned_.at == position_)) planned_ = plan(position_);
    Tree batch = make(planned_, on_waiting_threads ? &last_ : nullptr);
    const Position next = planned_.rows.next;
    planned_ = plan(next);  // now, as what it takes is in the caches
    position_ = next;
    if (threads_.empty() || is_elsewhere()) return batch;
    const std::lock_guard lock(mutex_);
    ahead_ = position_;
    return batch;
  }

  /// Whether there are threads now.
  bool start() {
    if (!threads_.empty()) return true;
    ahead_ = position_;
    try {
      for (int i = 0; i < prefetch_.threads.value_or(1); ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty() && prefetch_.threads) {
        throw ValueError("[loader] no thread can be started; take threads = 0");
      }
    }
    return !threads_.empty();
  }
  void restart() {
    const std::lock_guard lock(mutex_);
    has_failed_ = false;
    begin_anew();
    work_.notify_all();
  }
  void begin_anew() {
    queue_.clear();
    ahead_ = position_;
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopped_ || (!rests_ && !has_failed_ && std::ssize(queue_) < prefetch_.ahead); });
      if (stopped_) return;
      Plan plan{ahead_, batch_rows(options_, ahead_, rows_), {}};
      ahead_ = plan.rows.next;
      const auto slot = std::make_shared<Slot>();
      slot->next = plan.rows.next;
      queue_.push_back(slot);
      lock.unlock();
      Tree batch;
      std::exception_ptr error;
      try {
        plan.keys = keys_of(plan);
        batch = make(plan, nullptr);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot->batch = std::move(batch);
      slot->error = error;
      slot->done = true;
      ready_.notify_all();
    }
  }

  std::vector<RowKey> keys_of(const Plan& plan) const {
    return RowKey::of_rows(options_.seed, static_cast<std::uint64_t>(plan.at.epoch), plan.rows.rows);
  }
  Plan plan(Position at) const {
    Plan plan{at, batch_rows(options_, at, rows_), {}};
    plan.keys = keys_of(plan);
    return plan;
  }
  /// On this thread, or where the form that the last batch's rows had is given, on waiting ones as well.
  Tree make(const Plan& plan, Form* last) const {
    const std::vector<std::int64_t>& rows = plan.rows.rows;
    if (last != nullptr && last->row != nullptr) {
      BatchColumns columns(last->row, last->number, options_.batch, memory_);
      if (fill(columns, plan, 0, true)) return batch_of(columns, rows.size());
    }
    source_->expect(rows[0]);
    const Form first{std::make_shared<const Row>(source_->row(rows[0], plan.keys[0])), rows[0]};
    BatchColumns columns(first.row, first.number, options_.batch, memory_);
    columns.add(*first.row, first.number, 0);
    fill(columns, plan, 1, last != nullptr);
    if (last != nullptr) *last = first;
    return batch_of(columns, rows.size());
  }
  /// The rows from `begin` on. Those in front of it are of this batch: others of another form are an error. Where there are
  /// none, one of another form is a reason to begin with the batch's own: false.
  bool fill(BatchColumns& columns, const Plan& plan, std::size_t begin, bool on_waiting_threads) const {
    const std::vector<std::int64_t>& rows = plan.rows.rows;
    constexpr std::size_t ahead = 3;
    std::atomic<bool> are_like = true;
    const auto read = [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < std::min(first + ahead, last); ++i) source_->expect(rows[i]);
      for (std::size_t i = first; i < last && are_like; ++i) {
        if (i + ahead < last) source_->expect(rows[i + ahead]);
        const Row row = source_->row(rows[i], plan.keys[i]);
        if (begin == 0 && !columns.takes(row)) {
          are_like = false;
        } else {
          columns.add(row, rows[i], i);
        }
      }
    };
    const std::size_t left = rows.size() - begin;
    const std::size_t parts = on_waiting_threads ? std::min<std::size_t>(left, 16) : 1;
    backend::on_waiting_threads(static_cast<int>(parts), [&](int i) {
      const auto part = static_cast<std::size_t>(i);
      read(begin + left * part / parts, begin + left * (part + 1) / parts);
    });
    return are_like;
  }
  Tree batch_of(BatchColumns& columns, std::size_t real) const {
    columns.repeat(real);
    Tree batch = columns.take();
    if (weight_.empty()) return batch;
    const Array flags = real_rows(real, options_.batch);
    if (!batch.contains(weight_)) return batch.with(weight_, Tree(flags));
    if (static_cast<std::int64_t>(real) == options_.batch) return batch;
    return batch.with(weight_, Tree(where(flags != 0, batch.at(weight_).array(), 0)));
  }

  SourcePtr source_;
  LoaderOptions options_;
  PrefetchOptions prefetch_;
  std::string weight_;
  std::int64_t rows_ = 0;
  Position position_;
  const pid_t process_ = ::getpid();
  int processes_ = 0;         ///< That share the cores; 0: not asked.
  std::uint64_t looked_ = 0;  ///< How often it was asked whether threads are to read ahead.
  int cores_ = 1;
  int devices_ = 1;  ///< Of what is done with batches, as far as it was seen.
  Plan planned_;     ///< Of the batch that this thread makes next.
  Form last_;        ///< Of the last batch that waiting threads made.
  const std::shared_ptr<BatchMemory> memory_ = std::make_shared<BatchMemory>();

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Slot>> queue_;
  Position ahead_;  ///< Of the next batch to be made.
  bool stopped_ = false;
  bool rests_ = false;
  bool has_failed_ = false;  ///< The batch that was asked for last; until it is asked for again nothing is read.
  std::vector<std::thread> threads_;
  const lockstep::AtProcessEnd at_end_{[this] { return end_threads(); }};
};

SourceLoader::SourceLoader(SourcePtr source, LoaderOptions options, PrefetchOptions prefetch, std::string weight)
    : batches_(lockstep::detail::Owned<Batches>::make(std::move(source), options, prefetch, std::move(weight))) {}
SourceLoader::SourceLoader(SourceLoader&&) noexcept = default;
SourceLoader& SourceLoader::operator=(SourceLoader&& other) noexcept {
  SourceLoader taken(std::move(other));
  batches_.swap(taken.batches_);
  return *this;
}
SourceLoader::~SourceLoader() {
  // What threads of the parent wait at cannot be destroyed in its child.
  if (batches_ != nullptr && batches_->is_elsewhere()) static_cast<void>(batches_.release());
}

std::int64_t SourceLoader::batches_per_epoch() const {
  return lockstep::detail::held(batches_, "[loader]").batches_per_epoch();
}
Position SourceLoader::position() const { return lockstep::detail::held(batches_, "[loader]").position(); }
const LoaderOptions& SourceLoader::options() const { return lockstep::detail::held(batches_, "[loader]").options(); }
void SourceLoader::seek(Position position) { lockstep::detail::held(batches_, "[loader]").seek(position); }
Tree SourceLoader::next_tree() { return lockstep::detail::held(batches_, "[loader]").next(); }

}  // namespace lockstep::data
