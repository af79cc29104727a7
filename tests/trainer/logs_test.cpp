#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "engine/trainer/event_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/foreign_entries.h"
#include "tests/support/forked.h"
#include "tests/support/full_disk.h"
#include "tests/support/non_finite.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/event_records.h"
#include "tests/trainer/small_training.h"

using namespace lockstep;
using tests::contains;
using tests::expect_error;
using tests::file_text;
using tests::ForeignKind;
using tests::FullDisk;
using tests::not_a_number;
using tests::TemporaryFolder;

namespace {

struct Row {
  std::int64_t step = 0;
  std::map<std::string, double> logs;
};

/// What `fit` would tell a callback, from a step on.
void tell(Callback& callback, std::int64_t from, const std::vector<Row>& rows) {
  const Tree state = Tree::dict({{"step", Tree(array(0))}});
  callback.on_begin({.step = from, .first_step = from}, state);
  for (const Row& row : rows) {
    Requests requests;
    callback.on_step({.step = row.step,
                      .epoch = row.step / 3,
                      .logs = row.logs,
                      .seconds = 2.0 * static_cast<double>(row.step),
                      .rows = 10 * row.step},
                     state, requests);
  }
  callback.close();
}

std::filesystem::path only_file(const std::filesystem::path& folder) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CHECK(found.empty());
    found = entry.path();
  }
  return found;
}

}  // namespace

TEST_CASE("a table has a row a report, and a column more where a log is new") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "runs" / "metrics.csv";
  callbacks::CsvLogger logger(file);
  const std::vector<Row> rows = {
      {1, {{"loss", 0.5}}}, {2, {{"loss", 1e-9}, {"val_loss", 0.25}}}, {3, {{"loss", not_a_number}}}};
  tell(logger, 0, rows);
  const std::string whole = "step,epoch,loss,val_loss\n1,0,0.5,\n2,0,1e-09,0.25\n3,1,nan,\n";
  CHECK(file_text(file) == whole);
  tell(logger, 0, rows);  // a new run begins anew
  CHECK(file_text(file) == whole);

  // Cut off behind step 3 and in the middle of a row, gone on with from step 1.
  folder.write("runs/metrics.csv", whole + "4,1,0.1");
  callbacks::CsvLogger resumed(file);
  tell(resumed, 1, {rows[1], rows[2]});
  CHECK(file_text(file) == whole);
  folder.write("runs/metrics.csv", "step,epo");
  tell(resumed, 0, rows);
  CHECK(file_text(file) == whole);

  callbacks::CsvLogger chosen(file, {.columns = {"loss", "step", "images/s, \"fast\""}, .rate = "images/s, \"fast\""});
  tell(chosen, 0, {rows[0], rows[2]});
  CHECK(file_text(file) == "loss,step,\"images/s, \"\"fast\"\"\"\n0.5,1,5\nnan,3,5\n");
  tell(chosen, 1, {rows[1]});
  CHECK(contains(file_text(file), "\n0.5,1,5\n1e-09,2,5\n"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_error<CheckpointError>([&] { tell(chosen, 0, rows); }, "metrics.csv cannot be written: Is a directory");
  std::ofstream(folder.path() / "file") << "";
  callbacks::CsvLogger nowhere(folder.path() / "file" / "metrics.csv");
  expect_error<CheckpointError>([&] { tell(nowhere, 0, rows); }, "metrics.csv cannot be written: Not a directory");
  callbacks::CsvLogger device("/dev/full");
  expect_error<CheckpointError>([&] { tell(device, 0, rows); }, "/dev/full cannot be written: it is a device");
  const FullDisk full(10);
  callbacks::CsvLogger large(folder.path() / "large.csv");
  expect_error<CheckpointError>([&] { tell(large, 0, rows); }, "large.csv cannot be written: File too large");
}

TEST_CASE("logs are written through no link, and no FIFO is waited for") {
  for (const ForeignKind& kind : tests::foreign_kinds()) {
    CAPTURE(kind.name);
    const TemporaryFolder folder, elsewhere;
    const auto target = elsewhere.write("target", "of another"), file = folder.path() / "metrics.csv";
    if (!kind.make(file, target)) continue;
    CHECK(
        tests::forked([&] {
          callbacks::CsvLogger logger(file);
          const std::string text = tests::error_text<CheckpointError>([&] { tell(logger, 0, {{1, {{"loss", 1.0}}}}); });
          return contains(text, file.string() + " cannot be written: it is " + kind.name) ? 0 : 1;
        }) == 0);
    CHECK(file_text(target) == "of another");
  }
}

TEST_CASE("JSON has a line a report, and each step once") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  callbacks::JsonLinesLogger logger(file);
  const std::vector<Row> rows = {{1, {{"a \"b\"", 0.5}}}, {2, {{"loss", not_a_number}}}, {3, {{"loss", 1e300}}}};
  tell(logger, 0, rows);
  const std::string whole =
      "{\"a \\\"b\\\"\":0.5,\"epoch\":0,\"step\":1}\n{\"epoch\":0,\"loss\":\"nan\",\"step\":2}\n"
      "{\"epoch\":1,\"loss\":1e+300,\"step\":3}\n";
  CHECK(file_text(file) == whole);
  folder.write("metrics.jsonl", whole + "{\"step\":4,");
  tell(logger, 2, {rows[2]});
  CHECK(file_text(file) == whole);
  expect_error<ValueError>([] { callbacks::JsonLinesLogger("x", -1); }, "every is -1");
}

TEST_CASE("the sum of event files is RFC 3720's") {
  CHECK(detail::crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(detail::crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(detail::crc32c("123456789") == 0xE3069283U);
}

// TensorBoard 2.21's own EventAccumulator reads files written so: scalars with these tags, steps and values, texts of its
// plugin, and, of a run that was cut off behind step 30 and gone on with from step 10, each step once ("Purging expired
// events from Tensorboard display between the previous step: -1 and current step: 11").
TEST_CASE("event files hold scalars and texts, framed with their sums") {
  const TemporaryFolder folder;
  callbacks::TensorBoard board(folder.path() / "events");
  expect_error<StateError>([&] { board.text("a", "b", 1); }, "a text was given outside of a run");
  expect_error<StateError>([&] { board.scalar("a", 1, 1); }, "a scalar was given outside of a run");
  const Tree state = Tree::dict(
      {{"count", Tree(array(1))}, {"inner", Tree()}, {"values", Tree::dict({{"learning_rate", Tree(array(0.125))}})}});
  board.on_begin({.step = 0}, state);
  Requests requests;
  board.on_step({.step = 300, .epoch = 2, .logs = {{"loss", 0.1}, {"val_loss", not_a_number}}}, state, requests);
  board.text("notes", "two\nlines", 301);
  board.scalar("own", -2, 1LL << 40);
  board.close();
  const auto records = tests::event_records(only_file(folder.path() / "events"));
  REQUIRE(records.size() == 8);
  for (const auto& record : records) CHECK(record.sums_fit);
  for (const auto& record : records) CHECK(record.wall_time > 1.7e9);
  CHECK(records[0].version == "brain.Event:2");
  CHECK(records[1].session_status == 1);
  CHECK(records[1].step == 1);
  CHECK(records[2].tag == "loss");
  CHECK(records[2].step == 300);
  CHECK(records[2].value == 0.1F);
  CHECK(std::isnan(records[3].value));
  CHECK(records[4].tag == "learning_rate");
  CHECK(records[4].value == 0.125F);
  CHECK(records[5].tag == "epoch");
  CHECK(records[6].tag == "notes");
  CHECK(records[6].plugin == "text");
  CHECK(records[6].text == "two\nlines");
  CHECK(records[7].step == 1LL << 40);
  CHECK(records[7].value == -2);
  std::ofstream(folder.path() / "file") << "";
  callbacks::TensorBoard nowhere(folder.path() / "file" / "events");
  expect_error<CheckpointError>([&] { nowhere.on_begin({}, state); }, "cannot be written: Not a directory");
}

TEST_CASE("a run writes all of its logs") {
  const TemporaryFolder folder;
  const TrainStep step = tests::line_step();
  auto loader = tests::line_loader();
  fit(step, tests::line_start(step), loader, {.steps = 6, .log_every = 2, .validate = tests::line_validation},
      {std::make_shared<callbacks::CsvLogger>(folder.path() / "metrics.csv"),
       std::make_shared<callbacks::JsonLinesLogger>(folder.path() / "metrics.jsonl", 3),
       std::make_shared<callbacks::TensorBoard>(folder.path() / "events")});
  const std::string table = file_text(folder.path() / "metrics.csv");
  CHECK(table.starts_with("step,epoch,grad_norm,loss,val_loss\n2,0,"));
  CHECK(std::count(table.begin(), table.end(), '\n') == 5);  // steps 2, 4, 5 (an epoch's end) and 6
  const std::string lines = file_text(folder.path() / "metrics.jsonl");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK(tests::event_records(only_file(folder.path() / "events")).size() == 2 + 2 * 4 + 2 * 5);
}

TEST_CASE("a trace of bits holds any name of a variable, once for each step") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "bits.csv";
  const Tree state = Tree::dict({{"a,b", Tree(array(1))}, {"say \"c\"", Tree(array(2))}});
  const auto trace = [&](std::int64_t from, std::int64_t last) {
    callbacks::BitTrace bits(file);
    bits.on_begin({.step = from, .first_step = from}, state);
    for (std::int64_t step = from + 1; step <= last; ++step) {
      Requests requests;
      bits.on_step({.step = step, .first_step = from}, state, requests);
    }
    bits.close();
  };
  trace(0, 3);
  trace(2, 4);  // gone on with from a checkpoint of step 2
  const data::CsvTable table = data::read_csv(file);
  REQUIRE(table.rows() == 8);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    CHECK(table.text(row, "step") == std::to_string(1 + row / 2));
    CHECK(table.text(row, "variable") == (row % 2 == 0 ? "a,b" : "say \"c\""));
  }
}
