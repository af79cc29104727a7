#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/forked.h"
#include "tests/trainer/small_training.h"

namespace lockstep::tests {
namespace {

std::shared_ptr<const data::Dataset> ten_rows() {
  return std::make_shared<const data::Dataset>(data::Dataset{data::host_table(std::vector<float>(20), Shape{10, 2}),
                                                             data::host_table(std::vector<float>(10), Shape{10, 1}),
                                                             0});
}

template <class E>
void loader_row(int number, const data::LoaderOptions& options) {
  refused<E>(number, [&] { data::Loader loader(ten_rows(), options); });
}

TrainState trained(const DataParallelOptions& options, std::int64_t rows) {
  const TrainStep step = data_parallel(StepLoss(line_loss), optim::sgd(0.1), options);
  return step(line_start(step), Batch{ones({rows, 3}), ones({rows, 1}), {}}).first;
}

/// In a process that may make no thread.
int without_threads(const std::function<void()>& work) {
  return forked([&] {
    const rlimit none{1, 1};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
    if (geteuid() == 0 && setuid(65534) != 0) return 3;  // root may make any number
    work();
    return 0;
  });
}

}  // namespace

TEST_CASE("bad inputs 89 to 91: batches, shards and devices") {
  loader_row<ValueError>(89, {.batch = 0});
  loader_row<ValueError>(89, {.batch = -1});
  loader_row<DataError>(89, {.batch = 11});
  loader_row<ValueError>(89, {.batch = std::int64_t{1} << 62, .drop_last = false});
  refused<DataError>(89, [] { trained({.shards = 2}, 0); });
  row(90, [] {  // a batch that shards do not divide is padded by rows of weight 0
    CHECK(trained({.shards = 4}, 6).step.item<std::int64_t>() == 1);
  });
  refused<MeshError>(90, [] { trained({.shards = 3}, 6); });
  refused<MeshError>(90, [] { trained({.shards = -2}, 6); });
  refused<MeshError>(90, [] { trained({.devices = devices("cpu:0-2"), .shards = 8}, 8); });
  refused<MeshError>(90, [] { trained({.devices = devices("cpu:0-3"), .shards = 2}, 8); });
  refused<MeshError>(90, [] { devices(""); });
  refused<MeshError>(90, [] { devices("cpu:3-1"); });
  row(91, [] {
    data::Loader dropped(ten_rows(), {.batch = 4});
    CHECK(dropped.batches_per_epoch() == 2);
    data::Loader padded(ten_rows(), {.batch = 4, .shuffle = false, .drop_last = false});
    CHECK(padded.batches_per_epoch() == 3);
    padded.next();
    padded.next();
    CHECK(padded.next().weight.to_vector<float>() == std::vector<float>{1, 1, 0, 0});
  });
}

TEST_CASE("bad inputs 92: more devices than there are cores or threads") {
  row(92, [] {
    CHECK(trained({.devices = devices("cpu:0-63"), .shards = 64}, 64).step.item<std::int64_t>() == 1);
    CHECK(trained({.devices = devices("cpu:0-1023"), .shards = 1024}, 1024).step.item<std::int64_t>() == 1);
  });
  CHECK(without_threads([] {
          if (!refused<BackendError>(92, [] { trained({.devices = devices("cpu:0-3"), .shards = 4}, 8); })) _exit(6);
          if (trained({.devices = devices("cpu:0"), .shards = 4}, 8).step.item<std::int64_t>() != 1) _exit(4);
          data::SourceLoader loader(data::generated(10, [](std::int64_t, const data::RowKey&) { return data::Row{}; }),
                                    {.batch = 2}, {.threads = 2});
          if (!refused<ValueError>(92, [&] { loader.next(); })) _exit(7);
          const TemporaryFolder folder;  // a checkpoint is then written by the thread that trains
          checkpoint::Manager manager(folder.path());
          manager.save(1, Tree::dict({{"w", Tree(ones({2}))}}));
          if (manager.latest() != 1) _exit(5);
        }) == 0);
}

}  // namespace lockstep::tests
