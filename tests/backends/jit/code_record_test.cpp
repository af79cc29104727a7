#include "backends/jit/code_record.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "backends/jit/code_cache.h"
#include "tests/backends/jit/loops.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// What profilers are told of generated code.
namespace lockstep::tests {

namespace {

using backend::jit::CodeCache;
using backend::jit::CodeRecord;

backend::jit::Loop sum_of_two(std::uint32_t constant) {
  backend::jit::Loop loop;
  const int x = loop.code.step(backend::jit::Op::load);
  loop.values = {loop.code.step(backend::jit::Op::add, x, loop.code.constant(constant))};
  loop.operands = {{}};
  loop.results = {{}};
  return loop;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("generated code is named in perf's map and written to files where that is asked for") {
  for (const backend::Isa isa : usable_sets()) {
    const TemporaryFolder folder;
    const std::filesystem::path map = folder.path() / "perf.map", dumped = folder.path() / "made" / "code";
    CodeCache codes(isa, CodeRecord(map, dumped));
    const auto first = codes.get(sum_of_two(7), "fused(mul, add)"), second = codes.get(sum_of_two(9), "add");
    CHECK(codes.get(sum_of_two(7), "another") == first);
    std::ifstream lines(map);
    for (const auto& [code, label] :
         {std::pair(first, "lockstep:fused(mul, add)"), std::pair(second, "lockstep:add")}) {
      std::uintptr_t address = 0;
      std::size_t bytes = 0;
      std::string symbol;
      lines >> std::hex >> address >> bytes >> std::ws;
      std::getline(lines, symbol);
      CHECK(address == reinterpret_cast<std::uintptr_t>(code->code().data()));
      CHECK(bytes == code->code().size());
      CHECK(symbol == label);
    }
    CHECK((lines >> std::ws).eof());
    CHECK(file_text(dumped / "0-fused_mul__add_.bin") == text_of(first->code()));
    CHECK(file_text(dumped / "1-add.bin") == text_of(second->code()));
    CHECK(std::distance(std::filesystem::directory_iterator(dumped), {}) == 2);
  }
}

TEST_CASE("a record that cannot be written says what to change") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "file";
  std::ofstream(file) << "no folder";
  const std::vector<std::byte> code(16);
  tests::expect_error<BackendError>([&] { static_cast<void>(CodeRecord("", file).add(code, "add")); },
                                    "0-add.bin cannot be written");
  tests::expect_error<BackendError>([&] { static_cast<void>(CodeRecord("", file).add(code, "add")); },
                                    "set LOCKSTEP_DUMP_CODE to a folder that can");
  tests::expect_error<BackendError>([&] { static_cast<void>(CodeRecord(file / "map", "").add(code, "add")); },
                                    "unset LOCKSTEP_PERF_MAP");
  CHECK_NOTHROW(CodeRecord("", "").add(code, "add"));
}

}  // namespace lockstep::tests
