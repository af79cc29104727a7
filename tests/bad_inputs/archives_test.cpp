// Files of tensors whose names, elements or lengths do not fit.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "engine/exchange/torch_pickle.h"
#include "engine/exchange/zip_writer.h"
#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

const TemporaryFolder& archives_folder() {
  static const TemporaryFolder made;
  return made;
}

std::map<std::string, Array> named(const std::string& name) { return {{name, ones({2})}}; }

fs::path written(const std::string& name, const std::vector<std::byte>& bytes) {
  const fs::path path = archives_folder().path() / name;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  return path;
}

/// A file of PyTorch's with these tensors of four elements, whose storages hold these bytes.
void load_torch_of(const std::vector<exchange::PickledTensor>& tensors, const std::string& elements) {
  exchange::ZipWriter zip("test", "bad.pt");
  zip.add("archive/data.pkl", exchange::write_torch_pickle(tensors));
  for (std::size_t i = 0; i < tensors.size(); ++i) zip.add("archive/data/" + std::to_string(i), elements);
  exchange::load_weights(written("bad.pt", std::move(zip).finish()));
}

void load_safetensors_of(const std::string& header, const std::string& elements) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
  checkpoint::load_safetensors(archives_folder().write("bad.safetensors", file + header + elements));
}

/// A file of so many bytes, of which the disk has none.
fs::path sparse(const std::string& name, std::uintmax_t bytes) {
  const fs::path path = archives_folder().write(name, "");
  fs::resize_file(path, bytes);
  return path;
}

}  // namespace

TEST_CASE("bad inputs 141: names of tensors, and bools that are none") {
  const std::string nul("a\0b", 3), not_utf8 = "a\xFF";
  const auto npz = archives_folder().path() / "x.npz", torch = archives_folder().path() / "x.pt",
             safe = archives_folder().path() / "x.safetensors";
  all_refused(
      141,
      {[&] { exchange::save_weights(npz, named(nul)); },
       [&] { exchange::save_weights(npz, named(not_utf8)); },
       [&] { exchange::save_weights(npz, named("\xED\xA0\x80")); },
       [&] { exchange::save_weights(npz, named("\xC0\xAF")); },
       [&] { exchange::save_weights(npz, named(std::string(70000, 'a'))); },
       [&] { exchange::save_weights(torch, named(nul)); },
       [&] { exchange::save_weights(torch, named(not_utf8)); },
       [&] { exchange::save_weights(safe, named(nul)); },
       [&] { exchange::save_weights(safe, named(not_utf8)); },
       [&] { exchange::save_weights(archives_folder().path() / "x.bad", named("a")); },
       [&] {
         checkpoint::save(archives_folder().path() / "saved", Tree::dict({{nul, Tree(ones({1}))}}), {});
       },
       [&] {
         checkpoint::save(archives_folder().path() / "saved", Tree::dict({{not_utf8, Tree(ones({1}))}}), {});
       },
       [&] {
         load_torch_of({{"a", "FloatStorage", {1}}, {"a", "FloatStorage", {1}}}, "abcd");
       },
       [&] {
         load_torch_of({{nul, "FloatStorage", {1}}}, "abcd");
       },
       [&] {
         load_torch_of({{not_utf8, "FloatStorage", {1}}}, "abcd");
       },
       [&] {
         load_torch_of({{"", "FloatStorage", {1}}}, "abcd");
       },
       [&] {
         load_torch_of({{"a", "BoolStorage", {4}}}, "abcd");
       },
       [&] {
         load_torch_of({{"a", "FloatStorage", {2}}}, "abcd");
       },
       [&] {
         load_torch_of({{"a", "FloatStorage", {-1}}}, "abcd");
       },
       [&] {
         load_torch_of({{"a", "NothingStorage", {1}}}, "abcd");
       },
       [&] { load_safetensors_of(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"); },
       [&] { load_safetensors_of(R"({"a\u0000b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"); },
       [&] { load_safetensors_of("{\"a\xFF\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", "\x01\x02"); },
       [&] {
         load_safetensors_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                             "\x01\x02");
       },
       [&] { load_safetensors_of(std::string(100000, '['), ""); },
       [&] { load_safetensors_of(R"({"a":)" + std::string(100000, '[') + "}", ""); }});
  row(141, [&] {
    exchange::save_weights(npz, named("layer/\xC3\xA9"));
    CHECK(exchange::load_weights(npz).contains("layer/\xC3\xA9"));
  });
}

TEST_CASE("bad inputs 142: files that no memory holds") {
  const std::uintmax_t terabyte = std::uintmax_t{1} << 40;
  all_refused(142, {[&] { exchange::load_weights(sparse("large.safetensors", terabyte)); },
                    [&] { exchange::load_weights(sparse("large.npz", terabyte)); },
                    [&] { exchange::load_weights(sparse("large.pt", terabyte)); },
                    [&] { data::read_npy(sparse("large.npy", terabyte)); },
                    [&] { data::read_idx(sparse("large.idx", terabyte)); },
                    [&] { exchange::load_function(sparse("large.function", terabyte)); }});
}

}  // namespace lockstep::tests
