#include "matrix_calls.h"

#include <string>
#include <utility>
#include <vector>

#include <lockstep/linalg.h>
#include <lockstep/lockstep.h>

namespace lockstep::benches {

namespace {

constexpr std::int64_t width = 512;
constexpr std::string_view wide = "_float64";

std::string_view without_dtype(std::string_view name) {
  return name.ends_with(wide) ? name.substr(0, name.size() - wide.size()) : name;
}

Array lower_solution(const Array& a, const Array& b) { return linalg::solve_triangular(a, b, {.lower = true}); }

}  // namespace

bool is_matrix_workload(std::string_view name) {
  const std::string_view op = without_dtype(name);
  return op.starts_with("cholesky") || op.starts_with("triangular_solve");
}

void write_matrix_inputs(std::string_view name, const std::filesystem::path& folder) {
  const DType dtype = name.ends_with(wide) ? float64 : float32;
  const auto draw = [&](std::uint64_t seed) { return random::normal(random::key(seed), {width, width}, float32); };
  const Array a = draw(1), one = eye(width);
  const bool is_cholesky = name.starts_with("cholesky");
  const Array matrix = is_cholesky ? matmul(a, transpose(a)) / width + one : a / width + 2.0 * one;
  checkpoint::save(folder / "weights", Tree::dict({{"a", Tree(matrix.astype(dtype))}}), {});
  checkpoint::save(folder / "batches",
                   Tree::dict({{"b", Tree(draw(2).astype(dtype))}, {"c", Tree(draw(3).astype(dtype))}}), {});
}

std::function<double()> matrix_call(std::string_view name, const std::filesystem::path& folder,
                                    std::shared_ptr<Profile> profile) {
  const Array a = checkpoint::restore(folder / "weights").tree.at("a").array();
  const Tree given = checkpoint::restore(folder / "batches").tree;
  const Array b = given.at("b").array(), c = given.at("c").array();
  const std::string_view op = without_dtype(name);
  const auto results = [op](const Array& x, const Array& y, const Array& z) -> std::vector<Array> {
    if (op == "cholesky") return {linalg::cholesky(x)};
    if (op == "cholesky_grad") return {grad([&](const Array& v) { return sum(linalg::cholesky(v) * y); })(x)};
    if (op == "triangular_solve") return {lower_solution(x, y)};
    const auto weighted = [&](const Array& v, const Array& w) { return sum(lower_solution(v, w) * z); };
    const auto [of_a, of_b] = grad<0, 1>(weighted)(x, y);
    return {of_a, of_b};
  };
  const auto compiled = jit(
      [results](const Array& x, const Array& y, const Array& z) {
        std::vector<Array> list = results(x, y, z);
        list.push_back(list[0][0][0].astype(float32));
        return list;
      },
      {.debug = {.profile = std::move(profile)}});
  return [=] { return static_cast<double>(compiled(a, b, c).back().template item<float>()); };
}

}  // namespace lockstep::benches
