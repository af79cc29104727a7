#include "engine/processes/flight_recorder.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <unistd.h>

#include "engine/files/open_file.h"

namespace lockstep::processes {

FlightRecorder::Event& FlightRecorder::next() {
  if (events_.empty()) events_.resize(capacity);
  Event& event = events_[count_++ % capacity];
  event.begin = Clock::now();
  event.end = {};
  return event;
}

void FlightRecorder::begin(const CollectiveHeader& collective) {
  Event& event = next();
  event.kind = Kind::collective;
  event.collective = collective;
}

void FlightRecorder::end(std::uint64_t number) {
  for (std::size_t i = count_; i > count_ - std::min(count_, capacity); --i) {
    Event& event = events_[(i - 1) % capacity];
    if (event.kind != Kind::collective || event.collective.number != number) continue;
    event.end = Clock::now();
    return;
  }
}

void FlightRecorder::begin_call(std::uint64_t call, std::uint64_t program) {
  Event& event = next();
  event.kind = Kind::call_begins;
  event.collective.call = call;
  event.collective.program = program;
}

void FlightRecorder::end_call() { next().kind = Kind::call_ends; }

std::string FlightRecorder::line(const Event& event) const {
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  const std::string start = fmt::format("{:12.6f} s  ", seconds(event.begin - start_));
  switch (event.kind) {
    case Kind::call_begins:
      return start +
             fmt::format("call {} of program {} begins", event.collective.call, hexadecimal(event.collective.program));
    case Kind::call_ends:
      return start + "the call ends";
    case Kind::collective:
      break;
  }
  const std::string took = event.end == Clock::time_point()
                               ? "has not ended"
                               : fmt::format("took {:.1f} us", 1e6 * seconds(event.end - event.begin));
  return start + describe(event.collective) + ", " + took;
}

std::string FlightRecorder::text() const {
  std::string text;
  for (std::size_t i = count_ - std::min(count_, capacity); i < count_; ++i) text += line(events_[i % capacity]) + "\n";
  return text;
}

std::string FlightRecorder::write(const std::vector<std::filesystem::path>& folders, int rank,
                                  std::string_view reason) const {
  const std::string beginning = fmt::format("lockstep-flight-{}-{}-", rank, getpid());
  const std::string events = std::string(reason) + "\n\n" + text();
  for (const std::filesystem::path& folder : folders) {
    if (folder.empty()) continue;
    try {
      const auto [file, path] = files::create_unforeseen(folder, beginning, ".txt");
      files::write_all(file, path, std::as_bytes(std::span(events)));
      return "the last events are in " + path.string();
    } catch (const files::FileError&) {  // the next one may take it
    }
  }
  return "no folder took the flight recorder's file";
}

}  // namespace lockstep::processes
