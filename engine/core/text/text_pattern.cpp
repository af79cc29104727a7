// Regular expressions as automata whose ways are all followed at once, byte by byte, in the order of their preference.
#include "engine/core/text/text_pattern.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/core/text/pattern_syntax.h"
#include "engine/core/text/shortened.h"

namespace lockstep::detail {
namespace {

using Instruction = TextPattern::Instruction;
using Step = Instruction::Kind;

constexpr std::size_t most_instructions = 10000;
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// Writes the instructions of a pattern; stops where there are too many.
class Assembler {
 public:
  Assembler(std::vector<Instruction>& program, std::vector<TextPattern::Bytes>& sets)
      : program_(program), sets_(sets) {}

  bool is_too_large() const { return program_.size() > most_instructions; }

  void write(const PatternNode& node) {
    if (is_too_large()) return;
    switch (node.kind) {
      case PatternNode::Kind::empty:
        return;
      case PatternNode::Kind::bytes:
        sets_.push_back(node.bytes);
        add(Step::bytes, sets_.size() - 1);
        return;
      case PatternNode::Kind::sequence:
        for (const PatternNode& part : node.parts) write(part);
        return;
      case PatternNode::Kind::alternatives:
        return write_alternatives(node);
      case PatternNode::Kind::repeat:
        return write_repeat(node);
      case PatternNode::Kind::group:
        if (node.group != 0) add(Step::mark, 2 * node.group);
        write(node.parts[0]);
        if (node.group != 0) add(Step::mark, 2 * node.group + 1);
        return;
      case PatternNode::Kind::begin:
        add(Step::begin);
        return;
      case PatternNode::Kind::end:
        add(Step::end);
        return;
      case PatternNode::Kind::boundary:
        add(Step::boundary);
        return;
      case PatternNode::Kind::inside:
        add(Step::inside);
        return;
    }
  }

  std::size_t add(Step kind, std::size_t first = 0) {
    program_.push_back({kind, static_cast<std::uint32_t>(first), 0});
    return program_.size() - 1;
  }

 private:
  void write_alternatives(const PatternNode& node) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i + 1 < node.parts.size() && !is_too_large(); ++i) {
      const std::size_t split = add(Step::split);
      program_[split].first = here();
      write(node.parts[i]);
      ends.push_back(add(Step::jump));
      program_[split].second = here();
    }
    write(node.parts.back());
    for (const std::size_t end : ends) program_[end].first = here();
  }

  void write_repeat(const PatternNode& node) {
    for (std::size_t i = 0; i < node.least && !is_too_large(); ++i) write(node.parts[0]);
    if (node.most == PatternNode::unbounded) {
      const std::size_t split = add(Step::split);
      write(node.parts[0]);
      add(Step::jump, split);
      lead(split, split + 1, here(), node.is_greedy);
      return;
    }
    std::vector<std::size_t> splits;
    for (std::size_t i = node.least; i < node.most && !is_too_large(); ++i) {
      splits.push_back(add(Step::split));
      write(node.parts[0]);
    }
    for (const std::size_t split : splits) lead(split, split + 1, here(), node.is_greedy);
  }

  void lead(std::size_t split, std::size_t into, std::size_t past, bool into_first) {
    program_[split].first = static_cast<std::uint32_t>(into_first ? into : past);
    program_[split].second = static_cast<std::uint32_t>(into_first ? past : into);
  }
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.size()); }

  std::vector<Instruction>& program_;
  std::vector<TextPattern::Bytes>& sets_;
};

/// The ways that a text's first bytes lead, each place of the program once, the preferred way first.
class Ways {
 public:
  Ways(const std::vector<Instruction>& program, std::size_t slots)
      : program_(program), slots_(slots), marks_(program.size() * slots), is_reached_(program.size()) {}

  void clear() {
    for (const std::uint32_t place : reached_) is_reached_[place] = false;
    reached_.clear();
    places_.clear();
  }

  /// Adds the places that the automaton reaches from `start` without reading a byte, before byte `at` of the text.
  void follow(std::uint32_t start, std::string_view text, std::size_t at, std::vector<std::size_t> marks) {
    struct Task {
      std::uint32_t place = 0;
      std::size_t slot = nowhere, mark = 0;  // to be put back, where it is one
    };
    std::vector<Task> tasks = {{start}};
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      if (task.slot != nowhere) {
        marks[task.slot] = task.mark;
        continue;
      }
      if (is_reached_[task.place]) continue;
      is_reached_[task.place] = true;
      reached_.push_back(task.place);
      const Instruction& step = program_[task.place];
      switch (step.kind) {
        case Step::split:
          tasks.push_back({step.second});
          tasks.push_back({step.first});
          break;
        case Step::jump:
          tasks.push_back({step.first});
          break;
        case Step::mark:
          if (step.first < slots_) {
            tasks.push_back({0, step.first, marks[step.first]});
            marks[step.first] = at;
          }
          tasks.push_back({task.place + 1});
          break;
        case Step::bytes:
        case Step::match:
          places_.push_back(task.place);
          std::copy(marks.begin(), marks.end(), marks_.begin() + static_cast<std::ptrdiff_t>(task.place * slots_));
          break;
        default:
          if (holds(step.kind, text, at)) tasks.push_back({task.place + 1});
      }
    }
  }

  const std::vector<std::uint32_t>& places() const { return places_; }
  std::vector<std::size_t> marks(std::uint32_t place) const {
    const auto begin = marks_.begin() + static_cast<std::ptrdiff_t>(place * slots_);
    return {begin, begin + static_cast<std::ptrdiff_t>(slots_)};
  }

 private:
  static bool holds(Step kind, std::string_view text, std::size_t at) {
    if (kind == Step::begin) return at == 0;
    if (kind == Step::end) return at == text.size();
    const bool before = at > 0 && is_word(static_cast<unsigned char>(text[at - 1]));
    const bool after = at < text.size() && is_word(static_cast<unsigned char>(text[at]));
    return (before != after) == (kind == Step::boundary);
  }

  const std::vector<Instruction>& program_;
  std::size_t slots_;
  std::vector<std::size_t> marks_;
  std::vector<bool> is_reached_;
  std::vector<std::uint32_t> reached_, places_;
};

}  // namespace

std::optional<TextPattern> TextPattern::compile(std::string_view pattern, std::string& mistake) {
  const PatternSyntax syntax = parse_pattern(pattern);
  mistake = syntax.mistake;
  if (!mistake.empty()) return std::nullopt;
  TextPattern compiled;
  compiled.groups_ = syntax.groups;
  Assembler assembler(compiled.program_, compiled.sets_);
  assembler.write(syntax.root);
  assembler.add(Step::match);
  if (assembler.is_too_large()) {
    mistake = fmt::format("it is too large: more than {} instructions", most_instructions);
    return std::nullopt;
  }
  return compiled;
}

TextPattern TextPattern::of_paths(std::string_view who, std::string_view pattern, std::string_view example) {
  std::string mistake;
  if (auto compiled = compile(pattern, mistake)) return *std::move(compiled);
  throw ValueError(
      fmt::format("{}: \"{}\" is no regular expression ({}); expected a path or a pattern that matches all of one; "
                  "write for example "
                  "\"{}\"",
                  who, shortened(pattern), mistake, example));
}

std::optional<TextPattern::Slots> TextPattern::run(std::string_view text, std::size_t slots) const {
  Ways one(program_, slots), other(program_, slots);
  Ways *now = &one, *next = &other;
  now->follow(0, text, 0, Slots(slots, nowhere));
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (now->places().empty()) return std::nullopt;
    next->clear();
    for (const std::uint32_t place : now->places()) {
      const Instruction& step = program_[place];
      if (step.kind != Step::bytes || !sets_[step.first][static_cast<unsigned char>(text[at])]) continue;
      next->follow(place + 1, text, at + 1, now->marks(place));
    }
    std::swap(now, next);
  }
  for (const std::uint32_t place : now->places()) {
    if (program_[place].kind == Step::match) return now->marks(place);
  }
  return std::nullopt;
}

bool TextPattern::matches(std::string_view text) const { return run(text, 0).has_value(); }

std::optional<std::string> TextPattern::replace(std::string_view text, std::string_view replacement) const {
  const std::optional<Slots> slots = run(text, 2 * groups_ + 2);
  if (!slots) return std::nullopt;
  std::string result;
  const auto digit = [&](std::size_t i) {
    return i < replacement.size() && replacement[i] >= '0' && replacement[i] <= '9'
               ? std::optional<std::size_t>(static_cast<std::size_t>(replacement[i] - '0'))
               : std::nullopt;
  };
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    const char next = i + 1 < replacement.size() ? replacement[i + 1] : '\0';
    if (replacement[i] != '$' || (next != '$' && next != '&' && !digit(i + 1))) {
      result += replacement[i];
      continue;
    }
    ++i;
    if (next == '$') result += '$';
    if (next == '&') result += text;
    if (!digit(i)) continue;
    std::size_t group = *digit(i);
    if (digit(i + 1) && group * 10 + *digit(i + 1) <= groups_) group = group * 10 + *digit(++i);
    if (group == 0) {
      result += text;
    } else if (group <= groups_ && (*slots)[2 * group + 1] != nowhere) {
      result += text.substr((*slots)[2 * group], (*slots)[2 * group + 1] - (*slots)[2 * group]);
    }
  }
  return result;
}

}  // namespace lockstep::detail
