#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/processes/group.h"

namespace lockstep {

using processes::Part;

namespace {

void check_time_limit(double seconds) {
  if (std::isfinite(seconds) && seconds > 0) return;
  throw ValueError(fmt::format("processes: a time limit of {} s; give a positive number of seconds", seconds));
}

void copy_span(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

/// What goes to and comes from each other process.
template <class Make>
std::vector<Part> parts_of(int size, int rank, const Make& make) {
  std::vector<Part> parts;
  parts.reserve(static_cast<std::size_t>(size));
  for (int i = 1; i < size; ++i) parts.push_back(make((rank + i) % size));
  return parts;
}

}  // namespace

Processes::Processes(std::shared_ptr<backend::Communicator> communicator, ProcessOptions options) {
  check_time_limit(options.time_limit);
  impl_ = detail::Owned<Impl>::make(std::move(communicator), std::move(options));
}

Processes::~Processes() { end(); }

void Processes::end() noexcept {
  if (impl_->has_ended.exchange(true)) return;
  if (impl_->watch) impl_->watch->stop();
  try {
    impl_->leave();
  } catch (...) {  // who leaves has nobody to tell
    impl_->communicator->abandon();
  }
}

std::string_view Processes::name() const { return impl_->communicator->name(); }
int Processes::rank() const { return impl_->rank; }
int Processes::size() const { return impl_->size; }
double Processes::time_limit() const { return impl_->options.time_limit; }
double Processes::patience() const { return impl_->patience(); }
const ProcessEntries& Processes::description() const { return impl_->options.description; }
std::uint64_t Processes::collectives() const { return impl_->number; }
std::uint64_t Processes::meetings() const { return impl_->meetings; }
bool Processes::has_failed() const { return impl_->has_failed || impl_->has_failures; }

void Processes::set_time_limit(double seconds) {
  check_time_limit(seconds);
  impl_->set_time_limit(seconds);
}

void Processes::set_flight_folder(std::filesystem::path folder) {
  const std::lock_guard lock(impl_->mutex);
  impl_->options.flight_folder = std::move(folder);
}

void Processes::barrier() { meet({"barrier"}, 0); }

void Processes::meet(CollectiveName name, std::size_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->wait_for(start_meet(name, bytes));
}

std::uint64_t Processes::start_meet(CollectiveName name, std::size_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  if (size() == 1) return 0;
  const auto nothing = [](int process) { return Part{process, {}, {}}; };
  return impl_->start(name, bytes, -1, parts_of(size(), rank(), nothing));
}

void Processes::finish(std::uint64_t number) {
  if (impl_->done >= number) return;
  const std::lock_guard lock(impl_->mutex);
  if (number > impl_->number) {
    throw ValueError("[processes] finish: no collective has the number " + std::to_string(number) + "; " +
                     std::to_string(impl_->number) + " were begun; give a number that a start_ function returned");
  }
  impl_->finish(number);
}

void Processes::advance() {
  const std::lock_guard lock(impl_->mutex);
  impl_->advance();
}

bool Processes::has_windows() const { return impl_->communicator->has_windows(); }

std::span<std::byte> Processes::window(int process, int number, std::size_t bytes) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->communicator->window(process, number, bytes);
}

void Processes::all_gather(std::span<const std::byte> sent, std::span<std::byte> received, CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  impl_->wait_for(start_all_gather(sent, received, name));
}

std::uint64_t Processes::start_all_gather(std::span<const std::byte> sent, std::span<std::byte> received,
                                          CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  const std::size_t block = sent.size();
  impl_->expect_room(received.size(), block * static_cast<std::size_t>(size()), name.op);
  const auto from = [&](int process) { return received.subspan(static_cast<std::size_t>(process) * block, block); };
  copy_span(sent, from(rank()));
  if (size() == 1) return 0;
  const auto part = [&](int process) { return Part{process, sent, from(process)}; };
  return impl_->start(name, block, -1, parts_of(size(), rank(), part));
}

void Processes::all_to_all(std::span<const std::byte> sent, std::span<std::byte> received, CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  impl_->wait_for(start_all_to_all(sent, received, name));
}

std::uint64_t Processes::start_all_to_all(std::span<const std::byte> sent, std::span<std::byte> received,
                                          CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  const auto processes = static_cast<std::size_t>(size());
  impl_->expect_room(received.size(), sent.size(), name.op);
  if (sent.size() % processes != 0) {
    throw CommunicatorError(fmt::format("{}: {} of {} bytes to {} processes; give every process a block of equal size.",
                                        this->name(), name.op, sent.size(), processes));
  }
  const std::size_t block = sent.size() / processes;
  const auto at = [&](int process) { return static_cast<std::size_t>(process) * block; };
  copy_span(sent.subspan(at(rank()), block), received.subspan(at(rank()), block));
  if (processes == 1) return 0;
  const auto part = [&](int process) {
    return Part{process, sent.subspan(at(process), block), received.subspan(at(process), block)};
  };
  return impl_->start(name, block, -1, parts_of(size(), rank(), part));
}

namespace {

/// The root sends to all, all answer the root: it knows that they have come.
std::vector<Part> parts_of_broadcast(std::span<std::byte> bytes, int root, int size, int rank) {
  if (rank != root) return {Part{root, {}, bytes}};
  return parts_of(size, rank, [&](int process) { return Part{process, bytes, {}}; });
}

}  // namespace

void Processes::broadcast(std::span<std::byte> bytes, int root, CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  if (root < 0 || root >= size()) {
    throw CommunicatorError(fmt::format("{}: {} from process {} of {}; give one from 0 to {}.", this->name(), name.op,
                                        root, size(), size() - 1));
  }
  if (size() == 1) return;
  impl_->run(name, bytes.size(), root, parts_of_broadcast(bytes, root, size(), rank()));
}

std::vector<std::string> Processes::all_gather_text(std::string_view text, CollectiveName name) {
  const std::lock_guard lock(impl_->mutex);
  const auto processes = static_cast<std::size_t>(size());
  const std::array<std::uint64_t, 1> length = {text.size()};
  std::vector<std::uint64_t> lengths(processes);
  all_gather(std::as_bytes(std::span(length)), std::as_writable_bytes(std::span(lengths)), name);
  const std::size_t longest = *std::ranges::max_element(lengths);
  std::string own(text);
  own.resize(longest);
  std::string all(longest * processes, '\0');
  all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)), name);
  std::vector<std::string> texts;
  for (std::size_t p = 0; p < processes; ++p) texts.push_back(all.substr(p * longest, lengths[p]));
  return texts;
}

void Processes::run_on_first(std::string_view what, const std::function<void()>& work, double seconds) {
  if (size() == 1) return work();
  meet({what}, 0);
  std::array<char, 2000> outcome{};
  std::exception_ptr thrown;
  if (rank() == 0) {
    const AtWork at_work(*this);
    std::string text;
    try {
      work();
    } catch (const std::exception& error) {
      text = error.what();
      thrown = std::current_exception();
    } catch (...) {
      text = "an error of no known kind";
      thrown = std::current_exception();
    }
    std::copy_n(text.begin(), std::min(text.size(), outcome.size() - 1), outcome.begin());
  }
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(outcome));
  const std::lock_guard lock(impl_->mutex);  // not while it works: others ask whether it is alive
  impl_->run({what}, bytes.size(), 0, parts_of_broadcast(bytes, 0, size(), rank()), seconds);
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (outcome[0] != '\0') throw CheckpointError(fmt::format("process 0 failed: {}", outcome.data()));
}

AtWork::AtWork(Processes& processes) : processes_(processes) { ++processes_.impl_->works; }
AtWork::~AtWork() { --processes_.impl_->works; }

void Processes::fail(std::string_view text) noexcept {
  try {
    impl_->fail(text);
  } catch (...) {  // the time limit tells the others
    impl_->communicator->abandon();
  }
}

void Processes::expect_same_later(std::string what, std::uint64_t hash) {
  if (size() == 1) return;
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t begun = impl_->number;
  std::erase_if(impl_->noted, [&](const auto& note) { return note.first < begun; });
  impl_->noted.emplace_back(begun, std::move(what));
  impl_->add_data(hash);
}

void Processes::begin_call(std::uint64_t program, std::uint64_t data, std::function<std::string()> names) {
  const std::lock_guard lock(impl_->mutex);
  impl_->program = program;
  impl_->argument_names = std::move(names);
  impl_->call_began = impl_->number;
  if (data != 0) impl_->add_data(data);
  impl_->in_call = true;
  impl_->recorder.begin_call(++impl_->calls, program);
}

std::uint64_t Processes::calls() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->calls;
}

void Processes::end_call() {
  const std::lock_guard lock(impl_->mutex);
  impl_->settle();
  impl_->in_call = false;
  impl_->argument_names = nullptr;
  impl_->recorder.end_call();
}

template class detail::OutOfLine<ProcessEntries>;

}  // namespace lockstep
