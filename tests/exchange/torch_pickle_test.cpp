#include "engine/exchange/torch_pickle.h"

#include <span>
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/fuzz/mutations.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using exchange::TorchPickle;
using tests::expect_error;

namespace {

TorchPickle read(const std::string& bytes) {
  return TorchPickle(std::as_bytes(std::span(bytes.data(), bytes.size())), "p.pkl");
}

const std::string start = "\x80\x02";

}  // namespace

TEST_CASE("a pickle that asks for more than tensors is refused by what it names") {
  expect_error<DataError>(
      [] { read(start + "cposix\nsystem\n"); },
      "[load_torch] p.pkl, byte 2: the pickle names 'posix system', and nothing that a file names is "
      "run here; save a dict of tensors, model.state_dict()");
  expect_error<DataError>([] { read(start + "\x81"); },
                          "byte 2: pickle opcode 0x81 is none that a dict of tensors needs; save model.state_dict()");
  expect_error<DataError>([] { read("\x80\x04"); }, "pickle protocol 4; expected 2, which torch.save writes");
  expect_error<DataError>([] { read(start + "\x85."); }, "the pickle takes a value that is not there");
  expect_error<DataError>([] { read(start + "t."); }, "the pickle takes a mark that is not there");
  expect_error<DataError>([] { read(start + "h\x01."); }, "the pickle asks for value 1 before there is one");
  expect_error<DataError>([] { read(start + "K\x01K\x02K\x03s."); }, "the pickle adds to what is no container");
  expect_error<DataError>([] { read(start + "}(K\x01u."); }, "a dict's key without a value");
  expect_error<DataError>([] { read(start + "K\x01Q."); }, "a storage must be ('storage', class, key, device");
  expect_error<DataError>([] { read(start + "K\x01)R."); }, "the pickle calls what is no known function");
  expect_error<DataError>([] { read(start + "ccollections\nOrderedDict\nK\x01\x85R."); },
                          "the pickle calls 'collections OrderedDict' with arguments that torch.save does not give it");
  expect_error<DataError>([] { read(start + "ctorch._utils\n_rebuild_tensor_v2\n)R."); },
                          "a tensor must be made of a storage, an offset, sizes and as many strides");
  expect_error<DataError>(
      [] {
        read(start +
             "\x8a\x09"
             "123456789.");
      },
      "a whole number of more than 64 bits");
  expect_error<DataError>(
      [] {
        read(start +
             "X\xFF\xFF\xFF\xFF"
             "ab");
      },
      "the file ends in the pickle");
}

TEST_CASE("whole numbers have a sign") {
  CHECK(read(start + "\x8a\x01\xFF.").root().integer == -1);
  CHECK(read(start + std::string("\x8a\x02\xFF\x00.", 5)).root().integer == 255);
  CHECK(read(start + std::string("\x8a\x00.", 3)).root().integer == 0);
  CHECK(read(start + "G?\xF8" + std::string(6, '\0') + ".").root().real == 1.5);
}

TEST_CASE("damaged pickles") {
  const std::string good =
      exchange::write_torch_pickle({{"weight", "FloatStorage", {2, 3}}, {"bias", "HalfStorage", {3}}});
  REQUIRE(read(good).root().items.size() == 4);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    CAPTURE(seed);
    try {
      read(tests::mutated(good, seed));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
