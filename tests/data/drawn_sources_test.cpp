#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/ops.h>

// Sources put together at random, read by loaders that go on from one another's places.

using namespace lockstep;
using data::LoaderOptions;
using data::Position;
using data::Row;
using data::RowKey;
using data::SourceLoader;
using data::SourcePtr;

namespace {

class DrawnSources {
 public:
  explicit DrawnSources(unsigned seed) : draw_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(draw_() % static_cast<unsigned>(n)); }

  /// Rows of a number "n" and a "draw", through so many changes.
  SourcePtr source(int depth) {
    if (depth == 0) return counting(20 + below(30));
    const SourcePtr inner = source(depth - 1);
    const std::int64_t rows = inner->rows();
    switch (below(10)) {
      case 0:
        return data::map_rows(inner, [](Row row, const RowKey& key) {
          data::elements<double>(row.at("draw"))[0] += key.uniform(1);
          return row;
        });
      case 1:
        return data::slice_rows(inner, below(3), rows - below(3), 1 + below(2));
      case 2:
        return data::repeat_rows(inner, 1 + below(2));
      case 3:
        return data::interleave_rows({inner, counting(5 + below(9)), counting(12)});
      case 4:
        return data::concatenate_rows({counting(1 + below(9)), inner});
      case 5:
        return data::flat_map_rows(
            inner, [](std::int64_t i) { return i % 3; },
            [](Row row, std::int64_t nth, const RowKey& key) {
              data::elements<std::int32_t>(row.at("n"))[0] += static_cast<std::int32_t>(100000 * nth);
              data::elements<double>(row.at("draw"))[0] += key.uniform();
              return row;
            });
      case 6:
        return data::filter_rows(inner,
                                 [](const Row& row) { return data::elements<std::int32_t>(row.at("n"))[0] % 3 != 1; });
      case 7:
        return data::keep_rows(inner);
      case 8:
        return data::mix({inner, counting(30)}, {.weights = {1, 1}, .seed = 4, .rows = 0});
      default:
        return data::mix({inner, counting(9)}, {.weights = {3, 1}, .seed = 4, .rows = 40 + below(40)});
    }
  }

 private:
  SourcePtr counting(std::int64_t rows) {
    const auto first = static_cast<std::int32_t>(1000 * ++sources_);
    return data::generated(rows, [first](std::int64_t i, const RowKey& key) {
      return Row{{"n", data::host_table(std::vector<std::int32_t>{first + static_cast<std::int32_t>(i)}, Shape{})},
                 {"draw", data::host_table(std::vector<double>{key.uniform()}, Shape{})}};
    });
  }

  std::mt19937 draw_;
  int sources_ = 0;
};

using NumberAndDraw = std::pair<std::int32_t, double>;

/// The real rows of a batch; with drop_last all are.
std::vector<NumberAndDraw> read_rows(const Tree& batch, bool drops) {
  const auto n = batch.at("n").array().to_vector<std::int32_t>();
  const auto draw = batch.at("draw").array().to_vector<double>();
  const auto weight = batch.at("weight").array().to_vector<float>();
  std::vector<NumberAndDraw> rows;
  bool is_padding = false;
  for (std::size_t i = 0; i < n.size(); ++i) {
    CHECK((weight[i] == 0 || (weight[i] == 1 && !is_padding)));
    is_padding = weight[i] == 0;
    CHECK_FALSE((drops && is_padding));
    if (!is_padding) rows.emplace_back(n[i], draw[i]);
  }
  return rows;
}

std::vector<std::int32_t> sorted_numbers(const std::vector<NumberAndDraw>& rows) {
  std::vector<std::int32_t> numbers;
  for (const auto& [n, draw] : rows) numbers.push_back(n);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

TEST_CASE("drawn sources: each row once an epoch, in an order that no resume, thread or other batch changes") {
  DrawnSources draw(17);
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    const SourcePtr source = draw.source(1 + static_cast<int>(draw.below(3)));
    const std::int64_t rows = source->rows();
    const bool shuffles = draw.below(3) > 0;
    std::vector<std::int32_t> all;
    for (std::int64_t row = 0; row < rows; ++row) {
      all.push_back(data::elements<std::int32_t>(source->row(row, RowKey(1, 0, row)).at("n"))[0]);
    }
    std::ranges::sort(all);
    // All rows in batches that divide nothing.
    SourceLoader whole(source, {.batch = 7, .seed = 1, .shuffle = shuffles, .drop_last = false}, {.threads = 0});
    std::vector<NumberAndDraw> expected;
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<NumberAndDraw> once;
      while (whole.position().epoch == epoch) {
        const std::vector<NumberAndDraw> more = read_rows(whole.next(), false);
        once.insert(once.end(), more.begin(), more.end());
      }
      CHECK(sorted_numbers(once) == all);
      expected.insert(expected.end(), once.begin(), once.end());
    }
    // The same through loaders of other batches and threads, each going on where the one before stood.
    std::vector<NumberAndDraw> found;
    Position at;
    while (at.epoch < 2) {
      const LoaderOptions options{.batch = 1 + draw.below(16), .seed = 1, .shuffle = shuffles, .drop_last = false};
      SourceLoader loader(source, options, {.threads = static_cast<int>(draw.below(3))});
      loader.seek(at);
      for (std::int64_t batch = 1 + draw.below(4); batch > 0 && loader.position().epoch < 2; --batch) {
        const std::vector<NumberAndDraw> more = read_rows(loader.next(), false);
        found.insert(found.end(), more.begin(), more.end());
      }
      at = loader.position();
    }
    CHECK(found == expected);
  }
}

TEST_CASE("drop_last drops what is left of an epoch of another loader's batches, and never repeats a row") {
  DrawnSources draw(23);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const std::int64_t rows = 20 + draw.below(30), batch = 2 + draw.below(14), at = draw.below(rows);
    const LoaderOptions options{.batch = batch, .seed = 1};
    const Array numbers = arange(rows);
    data::TreeLoader without(Tree::dict({{"n", Tree(numbers)}}), options);
    data::TreeLoader with(Tree::dict({{"n", Tree(numbers)}, {"weight", Tree(ones({rows}))}}), options);
    SourceLoader unweighted(data::in_memory(Tree::dict({{"n", Tree(numbers)}})), options, {}, "");
    SourceLoader weighted(data::in_memory(Tree::dict({{"n", Tree(numbers)}})), options);
    const bool is_left = rows - at >= batch;
    const data::Permutation order(1, is_left ? 0 : 1, rows);
    std::vector<std::int64_t> expected;
    for (std::int64_t row = 0; row < batch; ++row) expected.push_back(order((is_left ? at : 0) + row));
    const auto check = [&](auto& loader) {
      loader.seek({0, at});
      CHECK(loader.position() == (is_left ? Position{0, at} : Position{1, 0}));
      const Tree next = loader.next();
      CHECK(convert(next.at("n").array(), int64).template to_vector<std::int64_t>() == expected);
      if (next.contains("weight")) {
        CHECK(next.at("weight").array().template to_vector<float>() ==
              std::vector<float>(static_cast<std::size_t>(batch), 1.0F));
      }
    };
    check(without);
    check(with);
    check(unweighted);
    check(weighted);
  }
}
