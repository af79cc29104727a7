#include <complex>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "engine/exchange/zip_writer.h"
#include "tests/exchange/golden.h"
#include "tests/fuzz/mutations.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::expect_error;
using tests::golden;

namespace {

/// An archive of that pickle, and of a storage "0" of four floats.
std::filesystem::path pickled(const tests::TemporaryFolder& folder, const std::string& pickle, const std::string& order,
                              const std::string& storage) {
  exchange::ZipWriter zip("test", "test");
  zip.add("a/data.pkl", pickle);
  zip.add("a/byteorder", order);
  zip.add("a/data/0", storage);
  const std::vector<std::byte> bytes = std::move(zip).finish();
  return folder.write("made.pt", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::filesystem::path pickled(const tests::TemporaryFolder& folder, const std::string& pickle,
                              const std::string& order = "little", std::size_t storage = 16) {
  return pickled(folder, pickle, order, std::string(storage, '\0'));
}

std::string pickled_text(const std::string& text) {
  return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text;
}

/// Of numbers below 256.
std::string pickled_tuple(const std::vector<int>& values) {
  std::string pickle = "(";
  for (const int value : values) pickle += std::string("K") + static_cast<char>(value);
  return pickle + "t";
}

std::string pickled_tensor(const std::vector<int>& sizes, const std::vector<int>& strides, int elements = 4,
                           const std::string& storage = "0", const std::string& storage_class = "FloatStorage",
                           const std::string& rest = "") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") + "ctorch\n" + storage_class + "\n" +
         pickled_text(storage) + pickled_text("cpu") + "K" + static_cast<char>(elements) + "tQK" +
         std::string(1, '\0') + pickled_tuple(sizes) + pickled_tuple(strides) + rest + "tR";
}

std::string pickled_dict(const std::string& value) { return "}" + pickled_text("x") + value + "s"; }

template <class Read>
void damage(const std::string& good, const std::string& ending, std::uint64_t cases, const Read& read) {
  const tests::TemporaryFolder folder;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    try {
      read(folder.write("damaged" + ending, tests::mutated(good, seed)));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
}

}  // namespace

TEST_CASE("tensors of torch.save: dtypes, strides, shared storages, nested dicts") {
  const auto tensors = exchange::load_torch(golden / "tensors.pt");
  CHECK(tensors.size() == 14);
  std::vector<float> base(24);
  for (std::size_t i = 0; i < 24; ++i) base[i] = static_cast<float>(i);
  const Array expected = array(base, {4, 6});
  CHECK(tensors.at("model.base").to_bytes() == expected.to_bytes());
  CHECK(tensors.at("model.transposed").shape() == Shape{6, 4});
  CHECK(tensors.at("model.transposed").to_bytes() == transpose(expected).to_bytes());
  CHECK(tensors.at("model.part").to_vector<float>() == std::vector<float>{8, 9, 10, 14, 15, 16});
  CHECK(tensors.at("model.column").to_vector<float>() == std::vector<float>{1, 7, 13, 19});
  CHECK(tensors.at("model.bfloat").type() == ArrayType{bfloat16, {2}, {}});
  CHECK(tensors.at("model.bfloat").to_vector<float>() == std::vector<float>{1.5, -2});
  CHECK(tensors.at("model.half").item<float>() == 0.25f);
  CHECK(tensors.at("model.double").item<double>() == 1.0 / 3);
  CHECK(tensors.at("model.whole").item<std::int64_t>() == -7);
  CHECK(tensors.at("model.small").to_vector<std::int8_t>() == std::vector<std::int8_t>{1, -2});
  CHECK(tensors.at("model.truth").to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(tensors.at("model.empty").shape() == Shape{0, 3});
  CHECK(tensors.at("model.complex").to_vector<std::complex<float>>()[0] == std::complex<float>(1, 2));
  CHECK(tensors.at("model.parameter").to_vector<float>() == std::vector<float>{1, 1});
  CHECK(tensors.at("5").shape() == Shape{6});
}

TEST_CASE("what is saved is loaded, by each format") {
  const tests::TemporaryFolder folder;
  const Named<Array> tensors = {{"a.b", array({{1.0f, 2.0f}, {3.0f, 4.0f}})},
                                {"scalar", array(std::int64_t{-3})},
                                {"half", array({1.5f}).astype(float16)},
                                {"truth", array(std::vector<bool>{true, false, true})},
                                {"none", zeros({0, 2})}};
  for (const std::string ending : {".npz", ".pt", ".safetensors"}) {
    CAPTURE(ending);
    const auto file = folder.path() / ("w" + ending);
    exchange::save_weights(file, tensors);
    const auto read = exchange::load_weights(file);
    REQUIRE(read.size() == tensors.size());
    for (const auto& [name, tensor] : tensors) {
      CHECK(read.at(name).type() == tensor.type());
      CHECK(read.at(name).to_bytes() == tensor.to_bytes());
    }
  }
}

TEST_CASE("what a format does not know is refused") {
  const tests::TemporaryFolder folder;
  expect_error<DataError>(
      [&] {
        exchange::save_npz(folder.path() / "a.npz", {{"w", zeros({2}, bfloat16)}});
      },
      "[save_npz]", "'w' has dtype bfloat16, which NumPy does not know; convert it");
  expect_error<DataError>(
      [&] {
        exchange::save_torch(folder.path() / "a.pt", {{"w", zeros({2}, uint32)}});
      },
      "[save_torch]", "'w' has dtype uint32, for which torch has no storage class; convert it");
  expect_error<ValueError>([&] { exchange::load_weights("w.h5"); }, "[load_weights] w.h5 ends in '.h5'; expected");
  expect_error<ValueError>([&] { exchange::save_weights("w", {}); }, "[save_weights] w ends in ''; expected");
  expect_error<DataError>([&] { exchange::load_torch(folder.write("old.pt", "\x80\x02}q")); },
                          "a bare pickle, as PyTorch before 1.6 wrote it; load it there and save it again");
  exchange::save_npz(folder.path() / "b.npz", {{"w", zeros({2})}});
  expect_error<DataError>([&] { exchange::load_torch(folder.path() / "b.npz"); },
                          "no data.pkl in it; expected what torch.save writes");
}

TEST_CASE("what a pickle says is held against the storages") {
  const tests::TemporaryFolder folder;
  const std::string start = "\x80\x02";
  const auto load = [&](const std::string& value) {
    return exchange::load_torch(pickled(folder, start + pickled_dict(value) + "."));
  };
  const auto refused = [&](const std::string& value, const auto&... parts) {
    expect_error<DataError>([&] { load(value); }, "[load_torch]", parts...);
  };
  CHECK(load(pickled_tensor({2, 2}, {1, 2})).at("x").shape() == Shape{2, 2});
  refused(pickled_tensor({5}, {1}), "'x': its sizes and strides leave the 4 elements of its storage, or repeat them");
  refused(pickled_tensor({2, 2}, {1, 3}), "leave the 4 elements of its storage");
  refused(pickled_tensor({4, 4}, {0, 1}), "or repeat them; save tensor.clone()");
  refused(pickled_tensor({1}, {1}, 5), "'x': its storage has 16 bytes, too few for 5 elements of float32");
  refused(pickled_tensor({1}, {1}, 4, "7"), "'x': its storage '7' is not in the file");
  refused(pickled_tensor({1}, {1}, 4, "0", "QInt8Storage"), "'x' has a 'QInt8Storage', for which there is no dtype");
  refused(pickled_tensor(std::vector<int>(13, 1), std::vector<int>(13, 1)), "'x' has rank 13; at most 12");
  std::string deep = pickled_tensor({1}, {1});
  for (int i = 0; i < 40; ++i) deep = pickled_dict(deep);
  refused(deep, "dicts are nested more than 32 deep");
  refused("}N" + pickled_tensor({1}, {1}) + "s", "a key of a dict is no text");
  refused("cposix\nsystem\n", "the pickle names 'posix system', and nothing that a file names is run here");

  const std::string one = start + pickled_tensor({1}, {1}) + ".";
  expect_error<DataError>([&] { exchange::load_torch(pickled(folder, one)); },
                          "it holds one tensor; save a dict of tensors");
  expect_error<DataError>([&] { exchange::load_torch(pickled(folder, start + "N.")); },
                          "it holds no dict; save a dict");
  expect_error<DataError>([&] { exchange::load_torch(pickled(folder, one, "big")); },
                          "its byte order is 'big'; expected");
  std::string many = start + "}" + pickled_text("first") + pickled_tensor({255, 100}, {100, 1}) + "q\1s";
  CHECK(exchange::load_torch(pickled(folder, many + ".", "little", 102400)).size() == 1);
  for (char c = 'a'; c <= 'z'; ++c) {
    for (char d = 'a'; d <= 'z'; ++d) many += pickled_text({c, d}) + "h\1s";
  }
  expect_error<DataError>(
      [&] { exchange::load_torch(pickled(folder, many + ".", "little", 102400)); },
      "its tensors share storages so often that they would take more than 64 times the file's size");
}

// torch.save of x.conj(), x.conj().imag and the like: the storage as it is, the view's bits as a seventh argument of
// torch._utils._rebuild_tensor_v2 (PyTorch, torch/_tensor.py and torch/_utils.py). Values: the elements that PyTorch reads.
TEST_CASE("views whose conjugate or negative bit is set have their elements") {
  const tests::TemporaryFolder folder;
  const auto metadata = [](const std::string& entries) {
    return std::string("\x89") + "ccollections\nOrderedDict\n)R" + entries;
  };
  const auto flag = [](const std::string& name) { return "}" + pickled_text(name) + "\x88s"; };
  const auto load = [&](const Array& stored, int count, int stride, const std::string& storage_class,
                        const std::string& entries) {
    const std::vector<std::byte> bytes = stored.to_bytes();
    const std::string storage(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string tensor =
        pickled_tensor({count}, {stride}, static_cast<int>(stored.size()), "0", storage_class, metadata(entries));
    return exchange::load_torch(pickled(folder, "\x80\x02" + pickled_dict(tensor) + ".", "little", storage)).at("x");
  };
  using C = std::complex<float>;
  const Array z = array({C(1, 2), C(3, -4), C(0, 0)});
  const auto same = [](const Array& a, const Array& b) { CHECK(a.to_bytes() == b.to_bytes()); };
  same(load(z, 3, 1, "ComplexFloatStorage", "}"), z);
  same(load(z, 3, 1, "ComplexFloatStorage", "N"), z);
  same(load(z, 3, 1, "ComplexFloatStorage", flag("conj")), array({C(1, -2), C(3, 4), C(0, -0.0F)}));
  same(load(z, 3, 1, "ComplexFloatStorage", flag("neg")), array({C(-1, -2), C(-3, 4), C(-0.0F, -0.0F)}));
  same(load(z, 2, 2, "ComplexFloatStorage", "}(" + pickled_text("conj") + "\x88" + pickled_text("neg") + "\x88u"),
       array({C(-1, 2), C(-0.0F, 0)}));
  same(load(z, 3, 1, "ComplexFloatStorage", "}" + pickled_text("conj") + "\x89s"), z);
  same(load(array({1.5F, -2.0F, 0.0F}), 3, 1, "FloatStorage", flag("neg")), array({-1.5F, 2.0F, -0.0F}));
  same(load(array({std::int32_t{5}, std::int32_t{-256}, std::int32_t{0}}), 3, 1, "IntStorage", flag("neg")),
       array({std::int32_t{-5}, std::int32_t{256}, std::int32_t{0}}));
  expect_error<DataError>([&] { load(z, 3, 1, "ComplexFloatStorage", flag("format")); },
                          "a tensor's metadata holds 'format'; expected 'conj' and 'neg' only; save tensor.clone()");
  expect_error<DataError>([&] { load(z, 3, 1, "ComplexFloatStorage", "K\1"); }, "a tensor's metadata must be a dict");
  expect_error<DataError>([&] { load(z, 3, 1, "ComplexFloatStorage", "}" + pickled_text("neg") + "K\1s"); },
                          "a tensor's metadata 'neg' must be True or False");
  expect_error<DataError>([&] { load(z, 3, 1, "ComplexFloatStorage", "NN"); }, "a tensor of 8 arguments");
  expect_error<DataError>([&] { load(array({true}), 1, 1, "BoolStorage", flag("neg")); },
                          "'x' is of bool with the negative bit");
}

TEST_CASE("an archive that would need another form is refused") {
  exchange::ZipWriter zip("save_npz", "w.npz");
  const std::byte one{};
  expect_error<DataError>(
      [&] { zip.add("x", std::span(&one, std::size_t{1} << 32)); },
      "[save_npz] w.npz: the archive would be 4 GiB or larger, or have more than 65535 entries; save to "
      "a .safetensors file");
}

TEST_CASE("damaged weight files") {
  const std::filesystem::path files[] = {golden / "tensors.pt", golden / "vit_values.npz"};
  damage(tests::file_text(files[0]), ".pt", 1500, [](const auto& file) { exchange::load_torch(file); });
  damage(tests::file_text(files[1]), ".npz", 500, [](const auto& file) { exchange::load_npz(file); });
}
