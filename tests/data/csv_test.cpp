#include <clocale>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::CsvTable;
using data::parse_csv;

TEST_CASE("CSV files are read as RFC 4180 has them") {
  const CsvTable table =
      parse_csv("\xEF\xBB\xBFname,\"a, b\",n\r\n\"say \"\"hi\"\"\",\"two\r\nlines\",3\r\n,x y,-4\r\n", "t.csv");
  CHECK(table.columns() == std::vector<std::string>{"name", "a, b", "n"});
  CHECK(table.rows() == 2);
  CHECK(table.text(0, "name") == "say \"hi\"");
  CHECK(table.text(0, "a, b") == "two\r\nlines");
  CHECK(table.text(1, "name").empty());
  CHECK(table.text(1, "a, b") == "x y");
  const auto n = table.integers("n");
  CHECK(std::vector(data::elements<std::int32_t>(n).begin(), data::elements<std::int32_t>(n).end()) ==
        std::vector<std::int32_t>{3, -4});
  const CsvTable plain = parse_csv("1;2.5\n+3; 4e-1 ", "t.csv", {.separator = ';', .header = false});
  CHECK(plain.columns() == std::vector<std::string>{"0", "1"});
  const auto numbers = plain.numbers({"1", "0"});
  CHECK(numbers.type == ArrayType{float32, {2, 2}, {}});
  CHECK(std::vector(data::elements<float>(numbers).begin(), data::elements<float>(numbers).end()) ==
        std::vector<float>{2.5F, 1, 0.4F, 3});
  CHECK(parse_csv("a,b\n", "t.csv").rows() == 0);
  CHECK(parse_csv("a\n\nx", "t.csv").rows() == 2);
  const tests::TemporaryFolder folder;
  CHECK(data::read_csv(folder.write("t.csv", "a\n1\n")).rows() == 1);
}

TEST_CASE("lines of a CSV file end in CR, too, and those of a quoted field do not end it") {
  for (const std::string end : {"\r", "\n", "\r\n"}) {
    for (const std::string& last : {std::string(), end}) {
      std::string text = "a,b" + end + "1,\"x\ny\rz\"" + end + "3," + end + "5,6" + last;
      const CsvTable table = parse_csv(text, "t.csv");
      REQUIRE(table.rows() == 3);
      CHECK(table.text(0, "b") == "x\ny\rz");
      CHECK(table.text(1, "b").empty());
      CHECK(table.text(2, "b") == "6");
    }
    CHECK(tests::error_text<DataError>([&] { parse_csv("a,b" + end + "\"1\r2\"" + end, "t.csv"); }) ==
          "[read_csv] t.csv, line 2: 2 fields expected, 1 found");
  }
}

TEST_CASE("a number too small for float32 is 0 with its sign, and one too large an error") {
  const auto number = [](const std::string& text) {
    return data::elements<float>(parse_csv("x\n" + text + "\n", "t.csv").numbers({"x"}))[0];
  };
  for (const char* text : {"1e-50", "+1E-50", "0.0001e-45", "1e-400", "1e-99999999999999999999", "0.00000000000e-80",
                           "123456e-60", " 5e-324"}) {
    CAPTURE(text);
    CHECK(number(text) == 0);
    CHECK_FALSE(std::signbit(number(text)));
  }
  CHECK(number("0." + std::string(60, '0') + "1") == 0);
  CHECK(std::signbit(number("-1e-50")));
  CHECK(number("1e-40") == 1e-40F);
  CHECK(number("1e-45") == std::numeric_limits<float>::denorm_min());
  CHECK(number("10000000000e-50") == 1e-40F);
  for (const std::string& text : {std::string("1e39"), std::string("-1e400"), std::string("1e99999999999999999999"),
                                  std::string("0.001e50"), "1" + std::string(60, '0')}) {
    tests::expect_error<DataError>([&] { number(text); }, "is no number of float32");
  }
}

TEST_CASE("CSV files that do not fit the form are refused, with line and byte") {
  struct Bad {
    std::string bytes;
    std::string says;
  };
  const std::vector<Bad> table = {
      {"", ", line 1, byte 0: the file is empty; expected a line at least"},
      {"a,b\n1,2\n3\n", ", line 3: 2 fields expected, 1 found"},
      {"a,b\n1,2,3\n", ", line 2: 2 fields expected, 3 found"},
      {"a,b\n\"1\n2\",3\n4\n", ", line 4: 2 fields expected, 1 found"},
      {"a,b\n1,\"2\n\n", ", line 2, byte 6: a quote that does not end"},
      {"a\n\"1\"2\n", ", line 2, byte 5: text behind a closing quote: '2?'"},
      {"a\n1\"2\"\n", ", line 2, byte 3: a quote inside of a field that began without one: '1\"2\"?'"},
      {std::string("a\n1\0\n", 5), ", line 2, byte 3: NUL; a CSV file is text"},
      {"a,a\n1,2\n", ", line 1: two columns are called 'a'"},
  };
  for (const Bad& bad : table) {
    CHECK(tests::error_text<DataError>([&] { parse_csv(bad.bytes, "t.csv"); }) == "[read_csv] t.csv" + bad.says);
  }
  const CsvTable numbers = parse_csv("a,b\n1,2\n\"x\n\",1e99\n3.5,4294967296\n,\n", "t.csv");
  const auto text = [](auto function) { return tests::error_text<DataError>(function); };
  CHECK(text([&] { static_cast<void>(numbers.numbers({"a"})); }) ==
        "[read_csv] t.csv, line 3, column 'a': 'x?' is no number of float32");
  CHECK(text([&] { static_cast<void>(numbers.numbers({"b"})); }) ==
        "[read_csv] t.csv, line 3, column 'b': '1e99' is no number of float32");
  CHECK(text([&] { static_cast<void>(parse_csv("b\n4294967296\n", "t.csv").integers("b")); }) ==
        "[read_csv] t.csv, line 2, column 'b': '4294967296' is no whole number of 32 bits");
  CHECK(text([&] { static_cast<void>(parse_csv("b\n\n", "t.csv").integers("b")); }) ==
        "[read_csv] t.csv, line 2, column 'b': '' is no whole number of 32 bits");
  CHECK(text([&] { static_cast<void>(parse_csv("b\n2,621\n", "t.csv", {.separator = ';'}).numbers({"b"})); }) ==
        "[read_csv] t.csv, line 2, column 'b': '2,621' is no number of float32");
  CHECK(text([&] { static_cast<void>(numbers.text(0, "c")); }) ==
        "[read_csv] t.csv has no column 'c'; there are 'a', 'b'");
  CHECK(text([&] { static_cast<void>(numbers.text(4, "a")); }) ==
        "[read_csv] row 4 of t.csv, which has 4; give rows from 0 on, below that");
  tests::expect_error<ValueError>([] { parse_csv("a", "t.csv", {.separator = '"'}); }, "the separator is a quote");
}
