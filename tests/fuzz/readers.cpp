#include "tests/fuzz/readers.h"

#include <algorithm>
#include <span>
#include <string>

#include <lockstep/audio.h>
#include <lockstep/data_files.h>
#include <lockstep/error.h>
#include <lockstep/exchange.h>
#include <lockstep/text.h>
#include <lockstep/vision.h>

#include "engine/data/files/npy.h"
#include "engine/text/vocabulary_form.h"
#include "tests/fuzz/memory_file.h"

namespace lockstep::tests {
namespace {

std::span<const std::byte> bytes_in(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void read_csv(std::string_view bytes) {
  const data::CsvTable table = data::parse_csv(bytes, "fuzzed");
  for (const std::string& column : table.columns()) {
    for (std::int64_t row = 0; row < table.rows(); ++row) static_cast<void>(table.text(row, column));
  }
  static_cast<void>(table.numbers({table.columns().back()}));
}

/// vocab.json, NUL, merges.txt; what the vocabulary makes of both comes back.
void read_bpe(std::string_view bytes) {
  const std::size_t end = bytes.find('\0');
  const std::string_view merges = end == std::string_view::npos ? "" : bytes.substr(end + 1);
  const data::Vocabulary vocabulary = data::parse_bpe(bytes.substr(0, end), "vocab", merges, "merges");
  const std::string_view text = bytes.substr(0, 4096);
  if (vocabulary.decode(vocabulary.encode(text)) != text) throw std::string("the text does not come back");
}

/// All tokens behind each other come back.
void read_token_list(std::string_view bytes) {
  const data::Vocabulary vocabulary = data::parse_token_list(bytes, "fuzzed");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min<std::int64_t>(vocabulary.size(), 64)));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  const std::string text = vocabulary.decode(tokens);
  if (vocabulary.decode(vocabulary.encode(text)) != text) throw std::string("the text does not come back");
}

void read_records(std::string_view bytes) {
  const data::SourcePtr records = data::tfrecord_rows(file_in_memory(bytes));
  for (std::int64_t i = 0; i < records->rows(); ++i) records->row(i, data::RowKey(0, 0, i));
}

/// GPT-2's words are the text, cut.
void read_words(std::string_view bytes) {
  std::string joined;
  for (const std::string_view word : data::gpt2_words(bytes)) {
    if (word.empty()) throw std::string("an empty word");
    joined += word;
  }
  if (joined != bytes) throw std::string("the words are not the text");
  data::read_text(file_in_memory(bytes));
}

}  // namespace

const std::vector<Reader>& data_readers() {
  static const std::vector<Reader> readers = {
      {"idx", [](std::string_view bytes) { data::read_idx(file_in_memory(bytes)); }},
      {"npy", [](std::string_view bytes) { data::parse_npy(bytes_in(bytes), "fuzzed", "read_npy"); }},
      {"npz", [](std::string_view bytes) { data::parse_npz(bytes_in(bytes), "fuzzed"); }},
      {"csv", read_csv},
      {"png", [](std::string_view bytes) { data::decode_image(bytes_in(bytes), "fuzzed"); }},
      {"jpeg", [](std::string_view bytes) { data::decode_image(bytes_in(bytes), "fuzzed"); }},
      {"bpe", read_bpe},
      {"token_list", read_token_list},
      {"text", read_words},
      {"wav", [](std::string_view bytes) { data::parse_wav(bytes_in(bytes), "fuzzed"); }},
      {"tfrecord", read_records},
      {"tf_example", [](std::string_view bytes) { data::parse_example(bytes_in(bytes), "fuzzed"); }},
  };
  return readers;
}

}  // namespace lockstep::tests
