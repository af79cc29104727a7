#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/vision.h>

#include "tests/data/samples.h"
#include "tests/support/expect_error.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::HostTable;
using tests::samples;
using tests::TemporaryFolder;

namespace {

/// Where a library was not found when building, an error says so, and there is nothing else to test.
constexpr const char* without_png = "a build without libpng";
constexpr const char* without_jpeg = "a build without libjpeg";

bool can_read(const std::string& sample) {
  try {
    data::read_image(samples / sample);
    return true;
  } catch (const DataError& error) {
    CHECK(tests::contains(error.what(), "Lockstep was built without lib"));
    return false;
  }
}

std::uint32_t png_crc(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

/// In big-endian order.
std::string of_four_bytes(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string png_chunk(const std::string& name, const std::string& contents) {
  return of_four_bytes(static_cast<std::uint32_t>(contents.size())) + name + contents +
         of_four_bytes(png_crc(name + contents));
}

std::string of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

HostTable decoded(const std::string& bytes, int channels) {
  return data::decode_image(std::as_bytes(std::span(bytes)), "made", channels);
}

std::string bytes_of(const HostTable& image) {
  return {reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()};
}

}  // namespace

TEST_CASE("PNG files of every kind hold the pixels that were written") {
  if (!can_read("rgb.png")) return tests::skip(without_png);
  const std::string pixels = tests::file_text(samples / "rgb.bin");
  for (const char* name : {"rgb.png", "interlaced.png", "alpha.png"}) {
    CAPTURE(name);
    const HostTable image = data::read_image(samples / name);
    CHECK(image.type == ArrayType{uint8, {4, 5, 3}, {}});
    CHECK(bytes_of(image) == pixels);
    CHECK(data::read_image(samples / name, 1).type == ArrayType{uint8, {4, 5, 1}, {}});
  }
  const HostTable grey = data::read_image(samples / "grey.png", 1);
  const HostTable colours = data::read_image(samples / "grey.png", 3);
  for (std::size_t i = 0; i < grey.bytes.size(); ++i) CHECK(colours.bytes[3 * i + 1] == grey.bytes[i]);
}

TEST_CASE("JPEG files hold nearly the pixels that were written") {
  if (!can_read("smooth.jpg")) return tests::skip(without_jpeg);
  for (const char* name : {"smooth.jpg", "progressive.jpg"}) {
    CAPTURE(name);
    const HostTable image = data::read_image(samples / name);
    REQUIRE(image.type == ArrayType{uint8, {16, 16, 3}, {}});
    const auto pixels = data::elements<std::uint8_t>(image);
    int largest = 0;
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 16; ++x) {
        const auto* pixel = &pixels[static_cast<std::size_t>(3 * (16 * y + x))];
        largest =
            std::max({largest, std::abs(pixel[0] - 16 * x), std::abs(pixel[1] - 16 * y), std::abs(pixel[2] - 128)});
      }
    }
    CHECK(largest < 24);
    CHECK(data::read_image(samples / name, 1).type == ArrayType{uint8, {16, 16, 1}, {}});
  }
  CHECK(bytes_of(data::read_image(samples / "smooth.jpg")) == bytes_of(data::read_image(samples / "progressive.jpg")));
}

TEST_CASE("a colour image read with one channel is its luma, as a JPEG file's, whatever gamma a PNG file names") {
  if (!can_read("rgb.png")) return tests::skip(without_png);
  if (!can_read("smooth.jpg")) return tests::skip(without_jpeg);
  const std::vector<std::uint8_t> colours = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 12, 200, 99};
  const std::string expected = "\x4C\x96\x1D\xFF\x84";  // 76, 150, 29, 255, 132
  const HostTable image = data::host_table(colours, Shape{1, 5, 3});
  const std::vector<std::byte> encoded = data::encode_image(image, data::ImageForm::png);
  const std::string png(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  constexpr std::size_t behind_header = 8 + 25;
  const std::string chromaticities = of_four_bytes(31270) + of_four_bytes(32900) + of_four_bytes(64000) +
                                     of_four_bytes(33000) + of_four_bytes(21000) + of_four_bytes(71000) +
                                     of_four_bytes(15000) + of_four_bytes(6000);
  for (const std::string& more :
       {std::string(), png_chunk("gAMA", of_four_bytes(45455)), png_chunk("gAMA", of_four_bytes(100000)),
        png_chunk("sRGB", std::string(1, '\0')), png_chunk("cHRM", chromaticities),
        png_chunk("gAMA", of_four_bytes(30000)) + png_chunk("cHRM", chromaticities)}) {
    const std::string file = png.substr(0, behind_header) + more + png.substr(behind_header);
    CHECK(bytes_of(decoded(file, 1)) == expected);
    CHECK(bytes_of(decoded(file, 3)) == bytes_of(image));
  }
  const std::string interlaced = bytes_of(data::read_image(samples / "interlaced.png", 1));
  CHECK(interlaced == bytes_of(data::read_image(samples / "rgb.png", 1)));
  CHECK(interlaced == bytes_of(data::read_image(samples / "alpha.png", 1)));
  // Of one colour, which JPEG keeps but for its rounding.
  const HostTable red = data::host_table(std::vector<std::uint8_t>{255, 0, 0}, Shape{1, 1, 3});
  const std::vector<std::byte> jpeg = data::encode_image(red, data::ImageForm::jpeg, 100);
  CHECK(bytes_of(data::decode_image(jpeg, "made", 1)) == "\x4C");
}

TEST_CASE("JPEG files of four inks have the colours of their inks") {
  if (!can_read("smooth.jpg")) return tests::skip(without_jpeg);
  // One pixel of (200, 100, 50, 220), as libjpeg writes it at quality 100. Adobe's marker says that these are inks left out.
  std::string tables = "ffdb004300";
  for (int i = 0; i < 64; ++i) tables += "01";
  const std::string pixel =
      "ffc000140800010001044311004d11005911004b1100ffc4001500010100000000000000000000000000000a08ffc4001410010000000000"
      "000000"
      "0000000000000000ffda000e0443004d0059004b00003f0048087c63cb81ffd9";
  const auto check = [](const std::string& file, const std::vector<int>& expected, int luma) {
    const HostTable image = decoded(file, 3), grey = decoded(file, 1);
    REQUIRE(image.type == ArrayType{uint8, {1, 1, 3}, {}});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(std::abs(std::to_integer<int>(image.bytes[i]) - expected[i]) <= 1);
    }
    REQUIRE(grey.type == ArrayType{uint8, {1, 1, 1}, {}});
    CHECK(std::abs(std::to_integer<int>(grey.bytes[0]) - luma) <= 1);
  };
  check(of_hex("ffd8ffee000e41646f626500640000000000" + tables + pixel), {173, 86, 43}, 107);
  check(of_hex("ffd8" + tables + pixel), {8, 21, 28}, 18);
}

TEST_CASE("damaged images are refused, wherever they are cut off") {
  for (const char* name : {"rgb.png", "interlaced.png", "alpha.png", "smooth.jpg", "progressive.jpg"}) {
    if (!can_read(name)) continue;
    const std::string good = tests::file_text(samples / name);
    for (std::size_t size = 0; size + 2 < good.size(); ++size) {
      CAPTURE(size);
      const auto bytes = std::as_bytes(std::span(good.data(), size));
      CHECK_THROWS_AS(data::decode_image(bytes, name), DataError);
    }
  }
  const auto says = [](const std::string& bytes, int channels = 3) {
    return tests::error_text<DataError>(
        [&] { data::decode_image(std::as_bytes(std::span(bytes.data(), bytes.size())), "f", channels); });
  };
  CHECK(says("GIF89a") == "[read_image] f begins neither as a PNG nor as a JPEG file; expected one of these");
  if (can_read("rgb.png")) {
    std::string png = tests::file_text(samples / "rgb.png");
    CHECK(says(png.substr(0, 20)) == "[read_image] f is a damaged PNG file: the file ends too early");
    png[20] = '\x7F';  // of the width
    CHECK(says(png) == "[read_image] f is a damaged PNG file: IHDR: CRC error");
  }
  if (can_read("smooth.jpg")) {
    std::string jpeg = tests::file_text(samples / "smooth.jpg");
    const std::size_t frame = jpeg.find("\xFF\xC0");
    jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
    CHECK(says(jpeg) ==
          "[read_image] f says 65500 x 65500 pixels; expected 1 to 2^20 of either, no more than 2^30 "
          "bytes, and no more than the file can hold");
    jpeg = tests::file_text(samples / "smooth.jpg");
    CHECK(says(jpeg.substr(0, jpeg.size() - 40)) ==
          "[read_image] f is a damaged JPEG file, or of a kind that is not read: Premature end of JPEG file");
  }
  tests::expect_error<ValueError>([] { data::read_image(samples / "rgb.png", 2); },
                                  "channels is 2; expected 1 (grey) or 3");
}

TEST_CASE("an image folder has a class for each of its folders") {
  if (!can_read("rgb.png")) return tests::skip(without_png);
  if (!can_read("smooth.jpg")) return tests::skip(without_jpeg);
  const TemporaryFolder folder;
  for (const char* name : {"zebra", "ant"}) std::filesystem::create_directory(folder.path() / name);
  std::filesystem::copy(samples / "rgb.png", folder.path() / "zebra" / "1.png");
  std::filesystem::copy(samples / "smooth.jpg", folder.path() / "ant" / "2.JPG");
  folder.write("zebra/notes.txt", "no image");
  for (const char* name : {".git", ".ipynb_checkpoints", "__MACOSX", "zebra/.cache.png"}) {
    std::filesystem::create_directory(folder.path() / name);
  }
  for (const char* name : {"zebra/._1.png", "ant/.2.jpg", "__MACOSX/._3.png", ".git/4.png"}) folder.write(name, "none");
  CHECK(data::image_classes(folder.path()) == std::vector<std::string>{"ant", "zebra"});
  const data::SourcePtr images = data::image_folder(folder.path());
  REQUIRE(images->rows() == 2);
  const data::Row last = images->row(1, data::RowKey(0, 0, 1));
  CHECK(last.at("x").type == ArrayType{uint8, {4, 5, 3}, {}});
  CHECK(data::elements<std::int32_t>(last.at("y"))[0] == 1);
  data::SourceLoader differing(images, {.batch = 2, .shuffle = false});
  tests::expect_error<DataError>([&] { static_cast<void>(differing.next()); },
                                 "row 1 is {'x' u8[4,5,3], 'y' i32[]}, row 0 is {'x' u8[16,16,3], 'y' i32[]}");
  data::SourceLoader loader(data::map_rows(images,
                                           [](data::Row row, const data::RowKey&) {
                                             row["x"] = data::resize(row["x"], 8, 8);
                                             return row;
                                           }),
                            {.batch = 2});
  CHECK(loader.next().at("x").array().shape() == Shape{2, 8, 8, 3});
  tests::expect_error<DataError>([&] { images->row(2, data::RowKey(0, 0, 0)); }, "row 2 of 2 images");
  const TemporaryFolder empty;
  tests::expect_error<DataError>([&] { data::image_folder(empty.path()); },
                                 "has no image; expected a folder for each class");
  tests::expect_error<DataError>([&] { data::image_folder(empty.path() / "absent"); }, "cannot be read: No such file");
}
