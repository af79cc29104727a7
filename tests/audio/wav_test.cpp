#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/audio.h>
#include <lockstep/data.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// WAV files and folders of them.

using namespace lockstep;
using tests::TemporaryFolder;

namespace {

std::string little(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string chunk(const std::string& name, const std::string& content) {
  return name + little(static_cast<std::uint32_t>(content.size()), 4) + content + (content.size() % 2 == 1 ? "x" : "");
}

struct Form {
  int kind = 1, channels = 1, bits = 16;
  std::uint32_t rate = 8000;
};

std::string format(const Form& f) {
  const int frame = f.channels * f.bits / 8;
  return little(f.kind, 2) + little(f.channels, 2) + little(f.rate, 4) + little(f.rate * frame, 4) + little(frame, 2) +
         little(f.bits, 2);
}

std::string riff(const std::string& chunks) { return chunk("RIFF", "WAVE" + chunks); }
std::string wav(const Form& f, const std::string& samples) {
  return riff(chunk("fmt ", format(f)) + chunk("data", samples));
}

data::Audio parsed_wav(const std::string& bytes) {
  return data::parse_wav(std::as_bytes(std::span(bytes.data(), bytes.size())), "f");
}
std::vector<float> samples_of(const data::Audio& audio) {
  const auto values = data::elements<float>(audio.samples);
  return {values.begin(), values.end()};
}
std::string refusal(const std::string& bytes) {
  return tests::error_text<DataError>([&] { parsed_wav(bytes); });
}

}  // namespace

TEST_CASE("read_wav reads whole numbers of 8 to 32 bits and floats") {
  const auto of = [](int bits, const std::string& bytes) { return samples_of(parsed_wav(wav({.bits = bits}, bytes))); };
  CHECK(of(8, std::string("\x00\x80\xFF", 3)) == std::vector<float>{-1, 0, 127.0F / 128});
  CHECK(of(16, little(0x8000, 2) + little(0, 2) + little(0x4000, 2)) == std::vector<float>{-1, 0, 0.5F});
  CHECK(of(24, little(0x800000, 3) + little(0x200000, 3) + little(0xFFFFFF, 3)) ==
        std::vector<float>{-1, 0.25F, -0x1p-23F});
  CHECK(of(32, little(0x80000000, 4) + little(0x40000000, 4)) == std::vector<float>{-1, 0.5F});
  const std::string quarter = little(std::bit_cast<std::uint32_t>(0.25F), 4);
  CHECK(samples_of(parsed_wav(wav({.kind = 3, .bits = 32}, quarter))) == std::vector<float>{0.25F});
  const data::Audio stereo = parsed_wav(wav({.channels = 2, .rate = 44100}, little(1 << 14, 2) + little(0, 2)));
  CHECK(stereo.samples.type == ArrayType{float32, {1, 2}, {}});
  CHECK(stereo.sampling_rate == 44100);
}

TEST_CASE("read_wav passes other chunks, and takes the extensible form") {
  const std::string extended =
      format({.kind = 0xFFFE}) + little(22, 2) + little(16, 2) + little(4, 4) + little(1, 2) + std::string(14, 'g');
  const std::string bytes = riff(chunk("LIST", "odd") + chunk("fmt ", extended) + chunk("data", little(0x4000, 2)));
  CHECK(samples_of(parsed_wav(bytes)) == std::vector<float>{0.5F});
  CHECK(parsed_wav(wav({}, "")).samples.type == ArrayType{float32, {0, 1}, {}});
}

TEST_CASE("read_wav says what is wrong with a file") {
  const std::string good = wav({}, little(7, 2));
  CHECK(refusal("RIFFxxxxWAVX") == "[read_wav] f, byte 0: the file does not begin as a WAV file, RIFF and WAVE");
  CHECK(refusal(wav({.kind = 7}, "")) ==
        "[read_wav] f, byte 20: format 7 of 16 bits; expected 1 (whole numbers) of 8, 16, 24 or 32 bits, or 3 (floats) "
        "of "
        "32");
  CHECK(tests::contains(refusal(wav({.kind = 3, .bits = 16}, "")), "format 3 of 16 bits"));
  CHECK(tests::contains(refusal(wav({.channels = 0}, "")), "0 channels, 8000 frames a second; expected at least 1"));
  CHECK(tests::contains(refusal(wav({}, "odd")), "3 bytes of samples; expected whole frames of 2 bytes"));
  CHECK(
      tests::contains(refusal(riff(chunk("data", ""))), "samples before their format; expected a chunk 'fmt ' first"));
  CHECK(tests::contains(refusal(riff(chunk("fmt ", format({})))), "the file ends without samples"));
  CHECK(tests::contains(refusal(riff(chunk("fmt ", "short"))), "the format has 5 bytes; expected at least 16"));
  std::string lies = good;
  lies[32] = 9;
  CHECK(tests::contains(refusal(lies), "a frame has 9 bytes; 1 channels of 16 bits have 2"));
  lies = good;
  lies[43] = '\x7F';  // of the length of the samples
  CHECK(tests::contains(refusal(lies), "the file ends in the samples: 2130706434 bytes expected, 2 found"));
  for (std::size_t size = 0; size < good.size(); ++size) CHECK_THROWS_AS(parsed_wav(good.substr(0, size)), DataError);
}

TEST_CASE("an audio folder has a class for each of its folders") {
  const TemporaryFolder folder;
  for (const char* name : {"yes", "no"}) std::filesystem::create_directory(folder.path() / name);
  folder.write("yes/1.wav", wav({}, little(0x4000, 2) + little(0x2000, 2) + little(0x1000, 2)));
  folder.write("no/2.WAV", wav({}, little(0xC000, 2)));
  folder.write("no/notes.txt", "no sound");
  CHECK(data::audio_classes(folder.path()) == std::vector<std::string>{"no", "yes"});
  const data::SourcePtr sounds = data::audio_folder(folder.path(), {.frames = 2});
  REQUIRE(sounds->rows() == 2);
  const data::Row first = sounds->row(0, data::RowKey(0, 0, 0)), second = sounds->row(1, data::RowKey(0, 0, 1));
  CHECK(data::elements<float>(first.at("x"))[0] == -0.5F);
  CHECK(data::elements<float>(first.at("x"))[1] == 0);
  CHECK(second.at("x").type == ArrayType{float32, {2, 1}, {}});
  CHECK(data::elements<std::int32_t>(second.at("y"))[0] == 1);
  CHECK(data::audio_folder(folder.path())->row(1, data::RowKey(0, 0, 1)).at("x").type ==
        ArrayType{float32, {3, 1}, {}});
  tests::expect_error<DataError>([&] { sounds->row(2, data::RowKey(0, 0, 0)); }, "row 2 of 2 sounds");
  tests::expect_error<DataError>(
      [&] { data::audio_folder(folder.path(), {.sampling_rate = 16000})->row(0, data::RowKey(0, 0, 0)); },
      "has 8000 frames a second; expected 16000");
  tests::expect_error<ValueError>([&] { data::audio_folder(folder.path(), {.frames = -1}); },
                                  "frames is -1, sampling_rate 0; give 0 or more");
  const TemporaryFolder empty;
  tests::expect_error<DataError>([&] { data::audio_folder(empty.path()); },
                                 "has no sound; expected a folder for each class, with files ending in .wav");
}
