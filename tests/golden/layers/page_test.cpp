#include <set>
#include <string>

#include <doctest/doctest.h>

#include "tests/golden/layers/catalogue.h"
#include "tests/golden/page_names.h"

// docs/layers.md has a row for every public layer, and each has a line in the catalogue or stands here.
namespace lockstep::tests::layers {
namespace {

/// No layer: what one takes.
const std::set<std::string> elsewhere = {"empty_cache"};

}  // namespace

TEST_CASE("the page of layers has every layer, and the catalogue too") {
  std::set<std::string> declared, rows, held = elsewhere;
  for (const char* header : {"attention", "convolution", "dense", "normalization", "pooling", "preprocessing",
                             "recurrent", "regularization"}) {
    add_found(declared, text_of("include/lockstep/layers_" + std::string(header) + ".h"),
              "\nLOCKSTEP_API (?:Array|KvCache|std::pair<Array, \\w+>) (\\w+)\\(");
  }
  for (const CatalogueLayer& layer : every_layer()) held.insert(layer.function);
  add_found(rows, text_of("docs/layers.md"), "\n\\| `(\\w+)` \\|");
  for (const std::string& name : declared) {
    CHECK_MESSAGE(rows.contains(name), name << " has no row in docs/layers.md");
    CHECK_MESSAGE(held.contains(name), name << " has no line in the catalogue");
  }
  for (const std::string& name : rows) CHECK_MESSAGE(declared.contains(name), name << " has a row, but is not public");
  CHECK(declared.size() > 40);
}

}  // namespace lockstep::tests::layers
