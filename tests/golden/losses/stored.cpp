#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/golden/losses/cases.h"

namespace lockstep::tests::losses {
namespace {

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> values;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) values.push_back(std::stod(word));
  return values;
}

/// "name kind extents..."
void add_given(Given& given, const std::string& what, const std::vector<double>& values) {
  std::istringstream stream(what);
  std::string name, kind;
  stream >> name >> kind;
  std::vector<std::int64_t> extents;
  for (std::int64_t extent = 0; stream >> extent;) extents.push_back(extent);
  const Array flat = reshape(array(values), extents);
  given.emplace(name, kind == "i" ? convert(flat, int32) : flat);
}

Stored read_values() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/losses/values.txt");
  if (!file.good()) throw std::runtime_error("no golden/losses/values.txt");
  Stored all;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    const std::size_t bar = line.find(" | ");
    if (line[0] == '#' || bar == std::string::npos) continue;
    if (line[0] != ' ') {
      name = line.substr(0, bar);
      if (name != "given") all.lines[name];
    } else if (name == "given") {
      add_given(all.given, line.substr(1, bar - 1), numbers_in(line.substr(bar + 3)));
    } else {
      all.lines[name][line.substr(1, bar - 1)] = numbers_in(line.substr(bar + 3));
    }
  }
  return all;
}

}  // namespace

const Stored& stored() {
  static const Stored all = read_values();
  return all;
}

}  // namespace lockstep::tests::losses
