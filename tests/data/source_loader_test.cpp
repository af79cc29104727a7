#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/device_threads.h>
#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/expect_error.h"
#include "tests/support/forked.h"

using namespace lockstep;
using data::LoaderOptions;
using data::Position;
using data::PrefetchOptions;
using data::Row;
using data::RowKey;
using data::SourceLoader;
using data::SourcePtr;

namespace {

/// x: the row's number; noise: what its key draws. Later rows may be ready sooner.
SourcePtr noisy_rows(std::int64_t rows) {
  return data::generated(rows, [](std::int64_t i, const RowKey& key) {
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return Row{{"x", data::host_table(std::vector<float>{static_cast<float>(i)}, Shape{})},
               {"noise", data::host_table(std::vector<double>{key.uniform()}, Shape{1})}};
  });
}

struct Batches {
  std::vector<std::vector<float>> x;
  std::vector<std::vector<double>> noise;
  std::vector<Position> positions;
  bool operator==(const Batches&) const = default;
};

Batches read(SourceLoader& loader, int batches) {
  Batches result;
  for (int i = 0; i < batches; ++i) {
    result.positions.push_back(loader.position());
    const Tree batch = loader.next();
    result.x.push_back(batch.at("x").array().to_vector<float>());
    result.noise.push_back(batch.at("noise").array().to_vector<double>());
  }
  return result;
}

}  // namespace

TEST_CASE("batches are those of a Loader, however many threads make them") {
  const LoaderOptions options{.batch = 8, .seed = 3};
  auto set = std::make_shared<data::Dataset>();
  std::vector<float> numbers(50);
  std::vector<std::int32_t> labels(50, 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  set->x = data::host_table(numbers, Shape{50});
  set->y = data::host_table(labels, Shape{50});
  data::Loader plain(set, options);
  SourceLoader inline_loader(noisy_rows(50), options, {.threads = 0});
  const Batches expected = read(inline_loader, 20);
  for (int i = 0; i < 20; ++i) {
    CHECK(plain.position() == expected.positions[static_cast<std::size_t>(i)]);
    CHECK(plain.next().x.to_vector<float>() == expected.x[static_cast<std::size_t>(i)]);
  }
  for (const int threads : {1, 2, 5}) {
    for (const int ahead : {1, 4}) {
      SourceLoader loader(noisy_rows(50), options, {.threads = threads, .ahead = ahead});
      CHECK(loader.batches_per_epoch() == 6);
      CHECK(read(loader, 20) == expected);
    }
  }
  SourceLoader in_memory(data::in_memory(*set), options);
  for (int i = 0; i < 7; ++i) {
    const auto batch = in_memory.next<Batch>();
    CHECK(batch.x.to_vector<float>() == expected.x[static_cast<std::size_t>(i)]);
    CHECK(batch.weight.to_vector<float>() == std::vector<float>(8, 1.0F));
  }
}

TEST_CASE("the widest call since it was asked last is told, of this thread alone; cores are shared by processes") {
  const auto call = [](int count) {
    const Mesh mesh({{"batch", 4}}, devices("cpu:0-" + std::to_string(count - 1)));
    pmap([](const Array& x) { return x * 2.0; },
         {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}})(ones({4}));
  };
  static_cast<void>(backend::devices_of_calls());
  CHECK(backend::devices_of_calls() == 0);
  call(1);
  call(4);
  call(2);
  CHECK(backend::devices_of_calls() == 4);
  CHECK(backend::devices_of_calls() == 0);
  std::thread([&] { call(2); }).join();
  CHECK(backend::devices_of_calls() == 0);
  call(1);
  CHECK(backend::devices_of_calls() == 1);
  CHECK(backend::own_cores() >= 1);
  CHECK(backend::own_cores(1 << 20) <= backend::own_cores());
}

TEST_CASE("batches that a loader makes as it finds fit are the same: ahead, and by devices that take all cores") {
  const LoaderOptions options{.batch = 24, .seed = 3, .drop_last = false};
  SourceLoader plain(noisy_rows(200), options, {.threads = 0});
  const Batches expected = read(plain, 40);
  SourceLoader loader(noisy_rows(200), options), moved_on(noisy_rows(200), options);
  Batches found = read(loader, 7);
  static_cast<void>(read(moved_on, 3));
  // From here on no core is left: what threads have begun is given out first.
  const std::int64_t count = std::bit_ceil(std::thread::hardware_concurrency());
  const Mesh mesh({{"batch", count}}, devices("cpu:0-" + std::to_string(count - 1)));
  const auto step =
      pmap([](const Array& x) { return x * 2.0; }, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  const auto use_all = [&] { static_cast<void>(step(ones({count}))); };
  use_all();
  const Batches rest = read(loader, 33);
  found.x.insert(found.x.end(), rest.x.begin(), rest.x.end());
  found.noise.insert(found.noise.end(), rest.noise.begin(), rest.noise.end());
  found.positions.insert(found.positions.end(), rest.positions.begin(), rest.positions.end());
  CHECK(found == expected);
  use_all();
  moved_on.seek(expected.positions[20]);
  CHECK(moved_on.next().at("x").array().to_vector<float>() == expected.x[20]);
  SourceLoader anew(noisy_rows(200), options), in_turn(noisy_rows(200), options);
  use_all();
  CHECK(read(anew, 40) == expected);
  for (int i = 0; i < 40; ++i) {  // all cores, one device, and back
    if (i % 7 == 0) use_all();
    if (i % 7 == 3) static_cast<void>(jit([](const Array& x) { return x * 3.0; })(ones({3})));
    CHECK(in_turn.next().at("x").array().to_vector<float>() == expected.x[static_cast<std::size_t>(i)]);
  }
  SourceLoader before_fork(noisy_rows(200), options);
  use_all();
  static_cast<void>(before_fork.next());
  CHECK(tests::forked([&] { return before_fork.next().at("x").array().to_vector<float>() == expected.x[1] ? 1 : 0; }) ==
        1);
}

TEST_CASE("batches have the rows of a permutation, of any number of rows") {
  for (const std::int64_t rows : {1, 2, 3, 31, 33, 64, 65, 100, 257, 1000}) {
    SourceLoader loader(noisy_rows(rows), {.batch = rows, .seed = 9}, {.threads = 0});
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const std::vector<float> x = loader.next().at("x").array().to_vector<float>();
      const data::Permutation order(9, epoch, rows);
      for (std::int64_t i = 0; i < rows; ++i) {
        REQUIRE(x[static_cast<std::size_t>(i)] == static_cast<float>(order(i)));
      }
    }
  }
  // More rows than 32 bits count.
  const std::int64_t many = (std::int64_t{1} << 40) + 3;
  SourceLoader loader(data::generated(many,
                                      [](std::int64_t i, const RowKey&) {
                                        return Row{{"x", data::host_table(std::vector<std::int64_t>{i}, Shape{})}};
                                      }),
                      {.batch = 50, .seed = 2}, {.threads = 0});
  loader.seek({1, 1012345678901});
  const std::vector<std::int64_t> x = loader.next().at("x").array().to_vector<std::int64_t>();
  const data::Permutation order(2, 1, many);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(x[i] == order(1012345678901 + static_cast<std::int64_t>(i)));
}

TEST_CASE("batches keep what they hold while others are made, behind the loader's end, and over threads") {
  for (const int threads : {0, 2}) {
    std::vector<Tree> batches;
    {
      SourceLoader loader(noisy_rows(64), {.batch = 8, .seed = 5}, {.threads = threads});
      for (int i = 0; i < 8; ++i) batches.push_back(loader.next());
      for (int i = 0; i < 8; ++i) std::thread([dropped = loader.next()] {}).join();
    }
    SourceLoader again(noisy_rows(64), {.batch = 8, .seed = 5}, {.threads = 0});
    for (const Tree& batch : batches) CHECK(fingerprint(batch) == fingerprint(again.next()));
  }
}

TEST_CASE("rows of every dtype become batches") {
  const auto batch_of = [](const Array& values) {
    const data::HostTable table{{values.dtype(), Shape{3}, {}}, values.to_bytes()};
    SourceLoader loader(data::generated(4,
                                        [table](std::int64_t, const RowKey&) {
                                          return Row{{"x", table}};
                                        }),
                        {.batch = 2}, {.threads = 0});
    return loader.next().at("x").array();
  };
  for (const DType dtype : {DType::bool_, DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                            DType::uint16, DType::uint32, DType::uint64, DType::float16, DType::bfloat16,
                            DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    const Array values = convert(array(std::vector<float>{0, 1, 1}), dtype);
    const Array batch = batch_of(values);
    CHECK(batch.dtype() == dtype);
    CHECK(batch.shape() == Shape{2, 3});
    CHECK(batch[1].to_bytes() == values.to_bytes());
  }
  CHECK(batch_of(random::split(random::key(3), 3)).dtype() == DType::key);
}

TEST_CASE("a loader goes on from a position, with other threads, and with batches of another size") {
  SourceLoader whole(noisy_rows(64), {.batch = 8, .seed = 5}, {.threads = 2});
  const Batches expected = read(whole, 16);
  for (const std::size_t start : {std::size_t{0}, std::size_t{3}, std::size_t{8}, std::size_t{11}}) {
    SourceLoader resumed(noisy_rows(64), {.batch = 8, .seed = 5}, {.threads = 3, .ahead = 3});
    static_cast<void>(resumed.next());
    resumed.seek(expected.positions[start]);
    const Batches rest = read(resumed, static_cast<int>(16 - start));
    CHECK(std::vector(expected.x.begin() + static_cast<std::ptrdiff_t>(start), expected.x.end()) == rest.x);
    CHECK(std::vector(expected.noise.begin() + static_cast<std::ptrdiff_t>(start), expected.noise.end()) == rest.noise);
  }
  // Half of an epoch in batches of 8, the rest in batches of 16: each row once.
  SourceLoader first(noisy_rows(64), {.batch = 8, .seed = 5});
  std::multiset<float> seen;
  for (int i = 0; i < 4; ++i) {
    for (const float x : first.next().at("x").array().to_vector<float>()) seen.insert(x);
  }
  SourceLoader second(noisy_rows(64), {.batch = 16, .seed = 5});
  second.seek(first.position());
  while (second.position().epoch == 0) {
    for (const float x : second.next().at("x").array().to_vector<float>()) seen.insert(x);
  }
  CHECK(seen.size() == 64);
  CHECK(std::set<float>(seen.begin(), seen.end()).size() == 64);
  tests::expect_error<DataError>([&] { second.seek({0, 64}); }, "outside the source of 64 rows");
}

TEST_CASE("the last batch is padded by its last row, with weight 0") {
  SourceLoader loader(noisy_rows(7), {.batch = 4, .shuffle = false, .drop_last = false});
  static_cast<void>(loader.next());
  const Tree last = loader.next();
  CHECK(last.at("x").array().to_vector<float>() == std::vector<float>{4, 5, 6, 6});
  CHECK(last.at("weight").array().to_vector<float>() == std::vector<float>{1, 1, 1, 0});
  CHECK(loader.position() == Position{1, 0});
  // Weights of the rows' own are kept for real rows.
  const SourcePtr weighted = data::map_rows(noisy_rows(3), [](Row row, const RowKey&) {
    row["weight"] = data::host_table(std::vector<float>{0.5F}, Shape{});
    return row;
  });
  SourceLoader own(weighted, {.batch = 4, .shuffle = false, .drop_last = false});
  CHECK(own.next().at("weight").array().to_vector<float>() == std::vector<float>{0.5F, 0.5F, 0.5F, 0});
  SourceLoader without(noisy_rows(8), {.batch = 4}, {}, "");
  CHECK_FALSE(without.next().contains("weight"));
}

TEST_CASE("what a row's function throws is thrown by next, and the rows can be asked for again") {
  const auto fails = std::make_shared<std::atomic<bool>>(true);
  const SourcePtr source = data::map_rows(noisy_rows(12), [fails](Row row, const RowKey&) {
    if (*fails && data::elements<float>(row.at("x"))[0] == 5) throw ValueError("row five");
    return row;
  });
  for (const std::optional<int> threads : {std::optional<int>(), {0}, {1}, {3}}) {
    *fails = true;
    SourceLoader loader(source, {.batch = 4, .shuffle = false}, {threads});
    CHECK(loader.next().at("x").array().to_vector<float>()[3] == 3);
    tests::expect_error<ValueError>([&] { static_cast<void>(loader.next()); }, "row five");
    CHECK(loader.position() == Position{0, 4});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // in which threads could read them again
    *fails = false;
    CHECK(loader.next().at("x").array().to_vector<float>() == std::vector<float>{4, 5, 6, 7});
  }
}

TEST_CASE("rows of other forms, and loaders that cannot work, are refused") {
  const auto rows_like = [](auto change) {
    return data::map_rows(noisy_rows(4), [change](Row row, const RowKey&) {
      if (data::elements<float>(row.at("x"))[0] == 2) change(row);
      return row;
    });
  };
  const auto next = [](const SourcePtr& source) {
    SourceLoader loader(source, {.batch = 4, .shuffle = false});
    static_cast<void>(loader.next());
  };
  tests::expect_error<DataError>(
      [&] {
        next(rows_like([](Row& row) { row["x"] = data::host_table(std::vector<float>{1, 2}, Shape{2}); }));
      },
      "row 2 is {'noise' f64[1], 'x' f32[2]}, row 0 is {'noise' f64[1], 'x' f32[]}", "map_rows can crop");
  tests::expect_error<DataError>([&] { next(rows_like([](Row& row) { row.erase("noise"); })); },
                                 "row 2 is {'x' f32[]}");
  tests::expect_error<DataError>([&] { next(rows_like([](Row& row) { row["z"] = row["x"]; })); }, "row 2 is {");
  tests::expect_error<DataError>([&] { next(rows_like([](Row& row) { row["x"].bytes.resize(3); })); },
                                 "row 2: 'x' is f32[] with 3 bytes");
  tests::expect_error<DataError>([&] { next(data::generated(4, [](std::int64_t, const RowKey&) { return Row{}; })); },
                                 "row 0 has no field");
  const auto make = [](SourcePtr source, LoaderOptions options, PrefetchOptions prefetch = {},
                       std::string weight = "w") {
    static_cast<void>(SourceLoader(std::move(source), options, prefetch, std::move(weight)));
  };
  tests::expect_error<ValueError>([&] { make(noisy_rows(4), {.batch = 0}); }, "the batch is 0");
  tests::expect_error<DataError>([&] { make(nullptr, {.batch = 1}); }, "the source is null");
  tests::expect_error<DataError>([&] { make(noisy_rows(4), {.batch = 5}); }, "a batch of 5 from 4 rows");
  tests::expect_error<ValueError>([&] { make(noisy_rows(4), {.batch = 2}, {.threads = -1}); }, "threads is -1");
  tests::expect_error<ValueError>([&] { make(noisy_rows(4), {.batch = 2}, {.ahead = 0}); }, "ahead 0");
  tests::expect_error<DataError>([&] { make(noisy_rows(5), {.batch = 2, .drop_last = false}, {}, ""); },
                                 "has 1 of 2, and there is no name for weights");
  SourceLoader loader(noisy_rows(4), {.batch = 2});
  const SourceLoader moved = std::move(loader);
  CHECK(moved.batches_per_epoch() == 2);
  tests::expect_error<ValueError>([&] { static_cast<void>(loader.next()); }, "it holds nothing");
}

TEST_CASE("batches may differ in form, each of rows that are alike, also where devices that take all cores make them") {
  const SourcePtr source = data::generated(12, [](std::int64_t i, const RowKey&) {
    const std::int64_t batch = i / 4;
    Row row{{"x", data::host_table(std::vector<float>(static_cast<std::size_t>(1 + batch), static_cast<float>(i)),
                                   Shape{1 + batch})}};
    if (batch == 1) row["a"] = row["weight"] = data::host_table(std::vector<float>{2}, Shape{});
    return row;
  });
  const std::int64_t count = std::bit_ceil(std::thread::hardware_concurrency());
  const Mesh mesh({{"batch", count}}, devices("cpu:0-" + std::to_string(count - 1)));
  const auto step =
      pmap([](const Array& x) { return x * 2.0; }, {.mesh = mesh, .in = {sharded("batch")}, .out = {sharded("batch")}});
  for (const std::optional<int> threads : {std::optional<int>(), {0}, {1}, {3}}) {
    SourceLoader loader(source, {.batch = 4, .shuffle = false}, {threads});
    for (const int batch : {0, 1, 2, 0, 1}) {
      static_cast<void>(step(ones({count})));
      const Tree made = loader.next();
      const auto first = static_cast<float>(batch * 4);
      CHECK(made.at("x").array().shape() == Shape{4, 1 + batch});
      CHECK(made.at("x").array().to_vector<float>().front() == first);
      CHECK(made.at("x").array().to_vector<float>().back() == first + 3);
      CHECK(made.contains("a") == (batch == 1));
      CHECK(made.at("weight").array().to_vector<float>() == std::vector<float>(4, batch == 1 ? 2.0F : 1.0F));
    }
  }
}

TEST_CASE("a loader that is never read, or dropped while threads work, ends") {
  for (int i = 0; i < 20; ++i) {
    SourceLoader loader(noisy_rows(64), {.batch = 8}, {.threads = 3, .ahead = 5});
    if (i % 2 == 0) static_cast<void>(loader.next());
  }
}

TEST_CASE("in a child of fork, where the threads are not, batches are made when they are asked for") {
  SourceLoader loader(noisy_rows(64), {.batch = 8, .seed = 1}, {.threads = 2});
  static_cast<void>(loader.next());
  const Position position = loader.position();
  const int first = tests::forked([&] {
    SourceLoader moved = std::move(loader);
    return static_cast<int>(moved.next().at("x").array().to_vector<float>()[0]);
  });
  CHECK(loader.position() == position);
  CHECK(first == static_cast<int>(loader.next().at("x").array().to_vector<float>()[0]));
}
