#include <algorithm>
#include <string>

#include <lockstep/control_flow.h>
#include <lockstep/error.h>
#include <lockstep/generation.h>
#include <lockstep/indexing.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "engine/models/steps.h"

namespace lockstep::models {

namespace {

void check_prompts(const Array& prompts, const std::optional<Array>& lengths, const GptOptions& gpt,
                   const GenerateOptions& options) {
  if (prompts.ndim() != 2 || !is_integer(prompts.dtype()) || prompts.size() == 0 ||
      (lengths && (!is_integer(lengths->dtype()) || lengths->shape() != Shape{prompts.dim(0)}))) {
    throw ShapeError("[generate] prompts are " + to_string(prompts.type()) + ", lengths " +
                     (lengths ? to_string(lengths->type()) : "not given") +
                     "; give integer prompts [N, T] of at least one token and a length for each");
  }
  if (options.tokens >= 1 && options.chunk >= 1 && prompts.dim(1) + options.tokens <= gpt.positions + 1) return;
  throw ValueError(
      "[generate] prompts have " + std::to_string(prompts.dim(1)) + " tokens, tokens is " +
      std::to_string(options.tokens) + ", chunk " + std::to_string(options.chunk) + ", positions " +
      std::to_string(gpt.positions) +
      "; give at least one token and a chunk of at least one, and room for all: the last token alone needs "
      "no position");
}

std::int64_t chunk_of(const GptOptions& gpt, const GenerateOptions& options) {
  return std::min(options.chunk, gpt.positions);
}

/// How long prompts are that have been padded to whole chunks, or to all positions: a chunk that would reach beyond
/// these starts earlier.
std::int64_t padded_length(const Array& prompts, const GptOptions& gpt, std::int64_t chunk) {
  return std::min((prompts.dim(1) + chunk - 1) / chunk * chunk, gpt.positions);
}

Array lengths_of(const Array& prompts, const std::optional<Array>& lengths) {
  return lengths ? convert(*lengths, int32) : full({prompts.dim(0)}, prompts.dim(1), int32);
}

void check_counts(const std::vector<std::int32_t>& counts, std::int64_t most) {
  for (std::size_t row = 0; row < counts.size(); ++row) {
    if (counts[row] >= 1 && counts[row] <= most) continue;
    throw ValueError("[generate] the length of prompt " + std::to_string(row) + " is " + std::to_string(counts[row]) +
                     "; give 1 to " + std::to_string(most) + ", as many tokens as prompts have");
  }
}

Array row_keys(const Array& key, std::int64_t rows) {
  if (key.ndim() == 1 && key.dim(0) == rows) return key;
  if (key.ndim() == 0) {
    return vmap([&](const Array& row) { return random::fold_in(key, row); })(arange(rows));
  }
  throw ShapeError("[generate] the key is " + to_string(key.type()) + " for " + std::to_string(rows) +
                   " rows; give one key, or one for each row");
}

Generated generated(const Array& tokens, const Array& logits, const std::optional<std::int64_t>& stop) {
  const std::int64_t count = tokens.dim(1);
  if (!stop) return {tokens, full({tokens.dim(0)}, count, int32), logits};
  const Array others =
      sum(convert(tokens != *stop, int32), Axes{1}, false);  // behind the first stop there is nothing else
  return {tokens, minimum(convert(others, int32) + 1, static_cast<int>(count)), logits};
}

/// A row that has ended keeps the logits of its stop, however long the others go on.
Array kept(const Array& ended, const Array& logits, const Array& next) {
  return where(expand_dims(ended, 1), logits, next);
}

Array stop_token(const GenerateOptions& options) { return full({}, options.stop.value_or(-1), int32); }

}  // namespace

Generated generate(const Tree& weights, const Array& prompts, const Array& key, const GptOptions& gpt,
                   const GenerateOptions& options, const std::optional<Array>& lengths) {
  check_prompts(prompts, lengths, gpt, options);
  const std::int64_t rows = prompts.dim(0), chunk = chunk_of(gpt, options);
  const std::int64_t length = padded_length(prompts, gpt, chunk);
  const Array all = pad(convert(prompts, int32), 0, {0, 0}, {0, length - prompts.dim(1)});
  const Array counts = lengths_of(prompts, lengths);
  using Part = std::pair<Prefilled, Array>;  // and how far it is
  const auto prefill_row = [&](const Array& row) {
    const Array tokens = dynamic_slice_in_dim(all, row, 1, 0), count = dynamic_slice_in_dim(counts, row, 1, 0);
    const auto more = [&](const Part& part) { return part.second < count[0]; };
    const auto step = [&](const Part& part) {
      const Array from = minimum(part.second, static_cast<int>(length - chunk));
      const Array next = dynamic_slice_in_dim(tokens, from, chunk, 1);
      return Part{prefill(weights, part.first, next, expand_dims(from, 0), count, gpt), from + static_cast<int>(chunk)};
    };
    return while_loop(more, step,
                      Part{{empty_cache(1, gpt), zeros({1, gpt.vocabulary}, gpt.dtype)}, full({}, 0, int32)})
        .first;
  };
  const auto into = [](const Array& of, const Array& from, const Array& row) {
    return dynamic_update_slice_in_dim(of, from, row, 0);
  };
  const auto add_row = [&](const Array& row, const Prefilled& to) {
    const Prefilled from = prefill_row(row);
    Prefilled next = to;
    for (std::size_t i = 0; i < next.cache.keys.size(); ++i) {
      next.cache.keys[i] = into(to.cache.keys[i], from.cache.keys[i], row);
      next.cache.values[i] = into(to.cache.values[i], from.cache.values[i], row);
    }
    next.cache.length = into(to.cache.length, from.cache.length, row);
    next.logits = into(to.logits, from.logits, row);
    return next;
  };
  const Prefilled none{empty_cache(rows, gpt), zeros({rows, gpt.vocabulary}, gpt.dtype)};
  const Prefilled start = fori_loop(0, rows, add_row, none);
  const Array keys = row_keys(key, rows);
  const Drawing first = draw({start.cache, zeros({rows}, int32), full({rows}, false, bool_), full({}, 0, int32)},
                             start.logits, keys, stop_token(options), options.sampling);
  const auto step = [&](const Decoded& from, const Array&) {
    Decoded to = decode(weights, from.drawing, keys, stop_token(options), gpt, options.sampling);
    if (options.stop) to.logits = kept(from.drawing.ended, from.logits, to.logits);
    const Array token = to.drawing.token;
    return std::pair(std::move(to), token);
  };
  auto [last, rest] = scan(step, Decoded{first, start.logits}, arange(options.tokens - 1));
  const Array tokens = concatenate({expand_dims(first.token, 1), swapaxes(rest, 0, 1)}, 1);
  return generated(tokens, last.logits, options.stop);
}

struct Generator::Compiled {
  GptOptions gpt;
  SamplingOptions sampling;
  struct Prefill {
    GptOptions gpt;
    Prefilled operator()(const Tree& weights, const Prefilled& so_far, const Array& tokens, const Array& start,
                         const Array& count) const {
      return prefill(weights, so_far, tokens, start, count, gpt);
    }
  };
  struct Join {
    Prefilled operator()(const std::vector<Prefilled>& rows) const { return joined(rows); }
  };
  struct Draw {
    SamplingOptions sampling;
    Drawing operator()(const Drawing& from, const Array& logits, const Array& keys, const Array& stop) const {
      return draw(from, logits, keys, stop, sampling);
    }
  };
  struct Decode {
    GptOptions gpt;
    SamplingOptions sampling;
    Decoded operator()(const Tree& weights, const Drawing& from, const Array& keys, const Array& stop) const {
      return decode(weights, from, keys, stop, gpt, sampling);
    }
  };
  Jitted<Prefill> prefill_chunk;
  Jitted<Join> join;
  Jitted<Draw> draw_first;
  Jitted<Decode> decode_next;
};

Generator::Generator(GptOptions gpt, SamplingOptions sampling, Precision precision) {
  const JitOptions how{.precision = precision};
  compiled_ = std::make_shared<const Compiled>(Compiled{gpt, sampling, jit(Compiled::Prefill{gpt}, how),
                                                        jit(Compiled::Join{}, how), jit(Compiled::Draw{sampling}, how),
                                                        jit(Compiled::Decode{gpt, sampling}, how)});
}

namespace {

/// Rows of tokens as C++ has them; numbers of 32 bits.
std::vector<std::int32_t> values_of(const Array& tokens) { return convert(tokens, int32).to_vector<std::int32_t>(); }

bool all_true(const Array& rows) {
  const std::vector<bool> values = rows.to_vector<bool>();
  return std::ranges::find(values, false) == values.end();
}

/// What goes through the model at a time of prompts beside each other: enough for products to be fast.
constexpr std::int64_t most_tokens_at_once = 512;

/// Some rows of prompts, chunk by chunk. A row that has no more of them goes on with its last one.
struct Chunks {
  const std::vector<std::int32_t>& given;   ///< Of all rows, `stride` each.
  const std::vector<std::int32_t>& counts;  ///< Of all rows.
  std::int64_t stride, length, chunk;       ///< `length`: padded.
  std::int64_t first, rows;

  std::int64_t count(std::int64_t row) const { return counts[static_cast<std::size_t>(first + row)]; }

  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t row = 0; row < rows; ++row) most = std::max(most, count(row));
    return most;
  }

  std::int64_t start(std::int64_t row, std::int64_t next) const {
    return std::min({next, (count(row) - 1) / chunk * chunk, length - chunk});
  }

  Array starts(std::int64_t next) const {
    std::vector<std::int32_t> values;
    for (std::int64_t row = 0; row < rows; ++row) values.push_back(static_cast<std::int32_t>(start(row, next)));
    return array(values, {rows});
  }

  Array lengths() const {
    const auto from = counts.begin() + first;
    return array(std::vector<std::int32_t>(from, from + rows), {rows});
  }

  Array tokens(std::int64_t next) const {
    std::vector<std::int32_t> values(static_cast<std::size_t>(rows * chunk));
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t from = start(row, next);
      std::copy_n(given.begin() + (first + row) * stride + from, std::min(chunk, stride - from),
                  values.begin() + row * chunk);
    }
    return array(values, {rows, chunk});
  }
};

/// [N, count] of one [N] a token, the last of which is repeated.
Array side_by_side(const std::vector<Array>& tokens, std::int64_t count) {
  const std::int64_t rows = tokens[0].dim(0);
  std::vector<std::int32_t> values(static_cast<std::size_t>(rows * count));
  for (std::int64_t t = 0; t < count; ++t) {
    const auto from = std::min(static_cast<std::size_t>(t), tokens.size() - 1);
    const std::vector<std::int32_t> column = tokens[from].to_vector<std::int32_t>();
    for (std::int64_t row = 0; row < rows; ++row) {
      values[static_cast<std::size_t>(row * count + t)] = column[static_cast<std::size_t>(row)];
    }
  }
  return array(values, {rows, count});
}

}  // namespace

Generated Generator::operator()(const Tree& weights, const Array& prompts, const Array& key,
                                const GenerateOptions& options, const std::optional<Array>& lengths) const {
  const Compiled& c = lockstep::detail::held(compiled_, "generator");
  check_prompts(prompts, lengths, c.gpt, options);
  const std::int64_t rows = prompts.dim(0), chunk = chunk_of(c.gpt, options);
  const std::int64_t length = padded_length(prompts, c.gpt, chunk);
  const std::vector<std::int32_t> given = values_of(prompts), counts = values_of(lengths_of(prompts, lengths));
  check_counts(counts, prompts.dim(1));
  const std::int64_t at_once = std::max<std::int64_t>(1, most_tokens_at_once / chunk);
  std::vector<Prefilled> parts;
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const Chunks chunks{given, counts, prompts.dim(1), length, chunk, row, std::min(at_once, rows - row)};
    Prefilled part{empty_cache(chunks.rows, c.gpt), zeros({chunks.rows, c.gpt.vocabulary}, c.gpt.dtype)};
    for (std::int64_t next = 0; next < chunks.longest(); next += chunk) {
      part = c.prefill_chunk(weights, std::move(part), chunks.tokens(next), chunks.starts(next), chunks.lengths());
    }
    parts.push_back(std::move(part));
  }
  Prefilled start = parts.size() == 1 ? std::move(parts[0]) : c.join(std::move(parts));
  const Array keys = row_keys(key, rows), stop = stop_token(options);
  Array logits = start.logits;
  Drawing drawing = c.draw_first(
      Drawing{std::move(start.cache), zeros({rows}, int32), full({rows}, false, bool_), full({}, 0, int32)}, logits,
      keys, stop);
  std::vector<Array> tokens = {drawing.token};
  while (static_cast<std::int64_t>(tokens.size()) < options.tokens && !(options.stop && all_true(drawing.ended))) {
    const Array ended = drawing.ended;
    Decoded next = c.decode_next(weights, std::move(drawing), keys, stop);
    drawing = std::move(next.drawing);
    logits = options.stop ? kept(ended, logits, next.logits) : std::move(next.logits);
    tokens.push_back(drawing.token);
  }
  return generated(side_by_side(tokens, options.tokens), logits, options.stop);
}

std::size_t Generator::traces() const {
  const Compiled& c = lockstep::detail::held(compiled_, "generator");
  return c.prefill_chunk.traces() + c.join.traces() + c.draw_first.traces() + c.decode_next.traces();
}

}  // namespace lockstep::models
