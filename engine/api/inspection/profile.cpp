#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/debug.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/profile.h>
#include <lockstep/transforms.h>

#include "engine/api/inspection/profile_calls.h"
#include "engine/api/transforms/runtime.h"
#include "engine/core/quoting.h"
#include "engine/files/open_file.h"

namespace lockstep {

template class detail::OutOfLine<std::shared_ptr<Profile>>;

/// One call of the profiled function.
struct RecordedCall {
  std::shared_ptr<const executable::Executable> executable;  ///< What the slices point to.
  runtime::Record record;
  std::chrono::nanoseconds begin{};
  std::chrono::nanoseconds end{};
  std::int64_t number = 0;
};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

nanoseconds now() { return Clock::now().time_since_epoch(); }
double in_seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

const executable::CallNote* note_of(const executable::Slice& slice) {
  return slice.executable == nullptr ? nullptr : &slice.executable->call_notes[slice.call];
}

std::string op_of(const executable::Slice& slice) {
  return slice.executable == nullptr ? "barrier" : slice.executable->call_names[slice.call];
}

std::string layer_of(const executable::Slice& slice) {
  const executable::CallNote* note = note_of(slice);
  if (note == nullptr) return "barrier";
  const bool is_named = note->provenance.scope != nullptr && !note->provenance.scope->empty();
  const std::string path = is_named ? *note->provenance.scope : "(no layer)";
  return note->provenance.backward ? path + " backward" : path;
}

}  // namespace

struct Profile::Impl {
  ProfileOptions options;
  mutable std::mutex mutex;
  std::int64_t begun = 0;  ///< Calls, recorded or not.
  std::vector<RecordedCall> calls;

  /// The number of the call that begins, or -1 where it is not to be recorded.
  std::int64_t next() {
    const std::lock_guard lock(mutex);
    if (begun >= options.skip + options.calls) return -1;
    return begun++ < options.skip ? -1 : begun - 1;
  }

  void add(RecordedCall call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }

  /// `visit(call, device, slice)` for all slices.
  template <class Visit>
  void for_each_slice(const Visit& visit) const {
    for (const RecordedCall& call : calls) {
      for (std::size_t device = 0; device < call.record.size(); ++device) {
        for (const executable::Slice& slice : call.record[device].slices()) visit(call, device, slice);
      }
    }
  }

  std::vector<ProfileRow> rows(const std::function<std::string(const executable::Slice&)>& name_of) const {
    const std::lock_guard lock(mutex);
    std::map<std::string, ProfileRow> by_name;
    for_each_slice([&](const RecordedCall&, std::size_t, const executable::Slice& slice) {
      const std::string name = name_of(slice);
      ProfileRow& row = by_name[name];
      row.name = name;
      row.runs += 1;
      row.seconds += in_seconds(slice.end - slice.begin - slice.inside);
      if (const executable::CallNote* note = note_of(slice)) row.flops += note->flops, row.bytes += note->bytes;
    });
    std::vector<ProfileRow> rows;
    for (auto& [name, row] : by_name) rows.push_back(std::move(row));
    std::ranges::stable_sort(rows, std::greater{}, &ProfileRow::seconds);
    return rows;
  }
};

Profile::Profile(const ProfileOptions& options) : impl_(std::make_shared<Impl>()) {
  if (options.skip < 0 || options.calls < 1) {
    throw ValueError(fmt::format("Profile: skip is {} and calls is {}; expected 0 or more and 1 or more", options.skip,
                                 options.calls));
  }
  impl_->options = options;
}
Profile::~Profile() = default;

std::int64_t Profile::recorded() const {
  const std::lock_guard lock(impl_->mutex);
  return static_cast<std::int64_t>(impl_->calls.size());
}

bool Profile::is_complete() const { return recorded() >= impl_->options.calls; }

double Profile::seconds() const {
  const std::lock_guard lock(impl_->mutex);
  double sum = 0;
  for (const RecordedCall& call : impl_->calls) sum += in_seconds(call.end - call.begin);
  return sum;
}

int Profile::devices() const {
  const std::lock_guard lock(impl_->mutex);
  std::size_t most = 0;
  for (const RecordedCall& call : impl_->calls) most = std::max(most, call.record.size());
  return static_cast<int>(most);
}

std::vector<ProfileRow> Profile::by_op() const { return impl_->rows(op_of); }
std::vector<ProfileRow> Profile::by_layer() const { return impl_->rows(layer_of); }

// ---- the trace event format ----------------------------------------------------------------------------------------
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: complete events ("X"), times in
// microseconds; a row for each thread.

namespace {

std::string complete_event(std::string_view name, std::string_view category, int process, std::size_t row,
                           nanoseconds begin, nanoseconds end, const std::string& arguments) {
  const auto in_microseconds = [](nanoseconds time) { return static_cast<double>(time.count()) / 1000; };
  return fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                     json_quoted(name), json_quoted(category), process, row, in_microseconds(begin),
                     in_microseconds(end - begin), arguments);
}

std::string arguments_of(const RecordedCall& call, const executable::Slice& slice) {
  std::string text = fmt::format(R"("call":{})", call.number);
  if (slice.shard >= 0) text += fmt::format(R"(,"shard":{})", slice.shard);
  const executable::CallNote* note = note_of(slice);
  if (note == nullptr) return text;
  const auto& scope = note->provenance.scope;
  text += fmt::format(R"(,"layer":{},"direction":"{}","backend":{},"flops":{:.0f},"bytes":{:.0f})",
                      json_quoted(scope == nullptr ? "" : *scope), note->provenance.backward ? "backward" : "forward",
                      json_quoted(note->backend), note->flops, note->bytes);
  return text;
}

}  // namespace

std::string Profile::chrome_trace() const {
  const int process = world()->rank();
  std::vector<std::string> events = {
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"process {0}"}}}})", process)};
  for (int device = 0; device < devices(); ++device) {
    events.push_back(
        fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"device cpu:{}"}}}})", process,
                    device, device));
  }
  const std::lock_guard lock(impl_->mutex);
  const nanoseconds start = impl_->calls.empty() ? nanoseconds() : impl_->calls.front().begin;
  for (const RecordedCall& call : impl_->calls) {
    events.push_back(complete_event(fmt::format("call {}", call.number), "call", process, 0, call.begin - start,
                                    call.end - start, ""));
  }
  impl_->for_each_slice([&](const RecordedCall& call, std::size_t device, const executable::Slice& slice) {
    events.push_back(complete_event(op_of(slice), layer_of(slice), process, device, slice.begin - start,
                                    slice.end - start, arguments_of(call, slice)));
  });
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", fmt::join(events, ",\n"));
}

void Profile::write_chrome_trace(const std::filesystem::path& file) const {
  files::with_error<ValueError>("write_chrome_trace", [&] { files::replace_text(file, chrome_trace()); });
}

// ---- the machine ---------------------------------------------------------------------------------------------------

namespace {

template <class Work>
double best_seconds(const Work& work) {
  double best = 0;
  for (int i = 0; i < 6; ++i) {  // the first one touches new memory
    const nanoseconds begin = now();
    work();
    const double seconds = in_seconds(now() - begin);
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

}  // namespace

Peak measure_peak() {
  constexpr std::int64_t n = 1024;
  // In a map of one shard: outside of one all devices would share the product.
  const PmapOptions one_device = {
      .mesh = Mesh({{"one", 1}}, {Device{}}), .in = {sharded("one"), replicated}, .out = {sharded("one")}};
  const auto product = jit(pmap([](const Array& a, const Array& b) { return matmul(a, b); }, one_device));
  const Array a = ones({n, n});
  const double product_seconds = best_seconds([&] { static_cast<void>(product(a, a)); });
  constexpr std::size_t nbytes = 64 << 20;
  const std::vector<std::byte> from(nbytes, std::byte{1});
  std::vector<std::byte> to(nbytes);
  const double copy_seconds = best_seconds([&] { std::memcpy(to.data(), from.data(), nbytes); });
  return {2.0 * n * n * n / product_seconds, 2.0 * nbytes / copy_seconds};
}

namespace api {

void run_profiled(Profile& profile, const std::shared_ptr<const executable::Executable>& executable, CallSpace& space) {
  const std::int64_t number = profile.impl()->next();
  if (number < 0) return run(*executable, space);
  RecordedCall call{.executable = executable, .record = {}, .number = number};
  call.begin = now();
  run(*executable, space, &call.record);
  call.end = now();
  profile.impl()->add(std::move(call));
}

}  // namespace api

}  // namespace lockstep
