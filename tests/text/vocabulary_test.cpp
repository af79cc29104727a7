#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/text.h>

#include "tests/data/samples.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::Vocabulary;
using tests::samples;
using tests::TemporaryFolder;
using Tokens = std::vector<std::int32_t>;

TEST_CASE("bytes are tokens") {
  const Vocabulary bytes = data::byte_vocabulary();
  CHECK(bytes.size() == 256);
  const std::string text = "a\xFFz";
  CHECK(bytes.encode(text) == Tokens{97, 255, 122});
  CHECK(bytes.decode(bytes.encode(text)) == text);
  tests::expect_error<ValueError>([&] { bytes.decode(Tokens{256}); }, "token 256 of a vocabulary of 256");
  tests::expect_error<ValueError>([&] { bytes.decode(Tokens{-1}); }, "token -1");
}

TEST_CASE("byte pairs are merged as a plain reading of GPT-2's rules merges them") {
  const Vocabulary vocabulary = data::read_bpe_vocabulary(samples / "vocab.json", samples / "merges.txt");
  for (const auto& pair : nlohmann::json::parse(tests::file_text(samples / "encoded.json"))) {
    const auto text = pair[0].get<std::string>();
    CAPTURE(text);
    CHECK(vocabulary.encode(text) == pair[1].get<Tokens>());
    CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  }
  // Any bytes at all come back, and one long word takes no longer than its length deserves.
  std::string text;
  for (int i = 0; i < 70000; ++i) text += static_cast<char>(i * 7 % 256);
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  std::string word;
  while (word.size() < (1U << 20)) word += "th";
  CHECK(vocabulary.encode(word).size() == word.size() / 2);
}

TEST_CASE("vocabularies that do not fit together are refused, with file and line") {
  const std::string vocab = tests::file_text(samples / "vocab.json");
  const std::string merges = tests::file_text(samples / "merges.txt");
  const auto says = [](const std::string& tokens, const std::string& pairs) {
    const TemporaryFolder folder;
    const auto a = folder.write("vocab.json", tokens);
    const auto b = folder.write("merges.txt", pairs);
    std::string text = tests::error_text<DataError>([&] { data::read_bpe_vocabulary(a, b); });
    const std::string start = "[read_bpe_vocabulary] " + folder.path().string() + "/";
    CHECK(text.starts_with(start));
    return text.substr(start.size());
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = vocab;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string last = std::to_string(nlohmann::json::parse(vocab).size() - 1);
  CHECK(says("", merges) == "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says("[1]", merges) == "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says("{}", merges) == "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says(std::string(100000, '['), merges) ==
        "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says(vocab + "x", merges) == "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says(changed("\"a\": 97", "\"a\": -1"), merges) ==
        "vocab.json: token 'a' has number '-1'; expected 0 to " + last);
  CHECK(says(changed("\"a\": 97", "\"a\": 1e3"), merges) ==
        "vocab.json: token 'a' has number '1000.0'; expected 0 to " + last);
  CHECK(says(changed("\"a\": 97", "\"a\": 18446744073709551615"), merges) ==
        "vocab.json: token 'a' has number '18446744073709551615'; expected 0 to " + last);
  CHECK(says(changed("\"a\": 97", "\"a\": 98"), merges) == "vocab.json: number 98 is given to two tokens");
  CHECK(says(changed("\"a\": 97", "\"b\": 97"), merges) == "vocab.json: token 'b' appears twice");
  CHECK(says(changed("\"a\": 97", "\"\\ud83d\": 97"), merges) ==
        "vocab.json is no JSON object of tokens; expected {\"token\": number, ...}");
  CHECK(says(changed("\"a\": 97", "\"abc\": 97"), merges) ==
        "vocab.json: no token stands for byte 97; expected one for each of the 256");
  CHECK(says(vocab, "#version: 0.2\nt h\nt q\n") == "merges.txt, line 3: 'tq' is no token of the vocabulary");
  CHECK(says(vocab, "t h\nxyz h\n") == "merges.txt, line 2: 'xyz' is no token of the vocabulary");
  CHECK(says(vocab, "t h\nth\n") == "merges.txt, line 2: two tokens with a space between expected, found 'th'");
  CHECK(says(vocab, "t h e\n") == "merges.txt, line 1: two tokens with a space between expected, found 't h e'");
  CHECK(says(vocab, "t h\nt h\n") == "merges.txt, line 2: the pair 't h' appears twice");
}

TEST_CASE("a token list encodes by the longest token that fits") {
  const TemporaryFolder folder;
  const Vocabulary list = data::read_token_list(folder.write("t", "a\nab\nabc\r\n\\n\n\\x20\n\\\\"));
  CHECK(list.size() == 6);
  CHECK(list.encode("abcab a\n\\") == Tokens{2, 1, 4, 0, 3, 5});
  CHECK(list.decode(Tokens{2, 4, 3}) == "abc \n");
  CHECK(tests::error_text<DataError>([&] { list.encode("ab?"); }) ==
        "[encode] byte 2: no token stands for '?'; add one to the token list, or one for each byte");
  const auto says = [&](const std::string& text) {
    const auto path = folder.write("bad", text);
    return tests::error_text<DataError>([&] { data::read_token_list(path); }).substr(18 + path.string().size());
  };
  CHECK(says("") == " is empty; expected one token a line");
  CHECK(says("a\n\nb") == ", line 2: the token is empty; expected one byte at least");
  CHECK(says("a\nb\na") == ", line 3: token 'a' stands on line 1 too");
  for (const std::string bad : {"\\q", "\\", "\\x2", "\\xzz"}) {
    CHECK(says(bad) == ", line 1: an escape in '" + bad + "'; expected \\n, \\t, \\r, \\\\ or \\xHH");
  }
}

TEST_CASE("lines of a text are documents, and token files are windows") {
  const TemporaryFolder folder;
  const auto text = folder.write("text", "one\n\ntwo lines\r\nlast");
  CHECK(data::read_text(text) == "one\n\ntwo lines\r\nlast");
  const data::SourcePtr lines = data::text_documents(text, data::byte_vocabulary());
  REQUIRE(lines->rows() == 3);
  const data::Row row = lines->row(1, data::RowKey(0, 0, 0));
  const auto tokens = data::elements<std::int32_t>(row.at("tokens"));
  CHECK(data::byte_vocabulary().decode(tokens) == "two lines");
  const auto packed = data::pack(lines, {.length = 8});
  CHECK(packed->rows() == 2);
  CHECK(data::text_documents(folder.write("cr", "one\rtwo lines\r\rthree"), data::byte_vocabulary())->rows() == 3);
  for (const std::string bad : {"\xC0\x80", "a\xFF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    const auto path = folder.write("bad", bad);
    tests::expect_error<DataError>([&] { data::read_text(path); }, path.string() + ", byte ", " is no UTF-8");
    tests::expect_error<DataError>([&] { data::text_documents(path, data::byte_vocabulary()); }, "is no UTF-8");
  }
  tests::expect_error<DataError>([&] { data::text_documents(folder.write("n", "\n\n"), data::byte_vocabulary()); },
                                 "has no line that is not empty");
  tests::expect_error<DataError>([&] { lines->row(3, data::RowKey(0, 0, 0)); }, "row 3 of 3 lines");

  const Tokens numbers = {5, 6, 7, 8, 9, 10, 40000};
  for (const DType dtype : {uint16, uint32, int32}) {
    const auto path = folder.path() / "tokens.bin";
    data::write_tokens(path, numbers, dtype);
    const data::SourcePtr windows = data::token_windows(path, {.dtype = dtype, .length = 3});
    REQUIRE(windows->rows() == 2);
    const data::Row second = windows->row(1, data::RowKey(0, 0, 0));
    const auto x = data::elements<std::int32_t>(second.at("x")), y = data::elements<std::int32_t>(second.at("y"));
    CHECK(Tokens(x.begin(), x.end()) == Tokens{8, 9, 10});
    CHECK(Tokens(y.begin(), y.end()) == Tokens{9, 10, 40000});
    const data::SourcePtr few = data::token_windows(path, {.dtype = dtype, .length = 3, .vocabulary = 100});
    tests::expect_error<DataError>([&] { few->row(1, data::RowKey(0, 0, 0)); },
                                   ", byte " + std::to_string(6 * size_of(dtype)) + ": token 40000; expected 0 to 99");
  }
  const auto odd = folder.write("odd", "abc");
  tests::expect_error<DataError>([&] { data::token_windows(odd, {.length = 1}); },
                                 "odd has 3 bytes; expected whole tokens of 2 bytes, 2 at least");
  const auto negative = folder.write("negative", std::string(8, '\xFF'));
  tests::expect_error<DataError>(
      [&] { data::token_windows(negative, {.dtype = int32, .length = 1})->row(0, data::RowKey(0, 0, 0)); },
      "byte 0: token -1; expected 0 to 2147483647");
  tests::expect_error<ValueError>([&] { data::token_windows(odd, {.dtype = float32}); }, "tokens of float32");
  tests::expect_error<ValueError>([&] { data::token_windows(odd, {.length = 0}); }, "length is 0");
  tests::expect_error<DataError>([&] { data::write_tokens(folder.path() / "w", Tokens{65536}); }, "token 65536");
  tests::expect_error<DataError>([&] { data::write_tokens(folder.path() / "no" / "w", Tokens{1}); },
                                 "cannot be written");
}
