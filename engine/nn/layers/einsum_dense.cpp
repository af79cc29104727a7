#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/einsum.h>
#include <lockstep/error.h>
#include <lockstep/layers_dense.h>

namespace lockstep {
namespace {

struct Equation {
  std::string x, kernel, result;
};

[[noreturn]] void refuse(const Scope& scope, const EinsumDenseOptions& options, const std::string& what) {
  throw ValueError(fmt::format("[einsum_dense '{}'] the equation is \"{}\"; {}", scope.path(), options.equation, what));
}

Equation parsed(const Scope& scope, const EinsumDenseOptions& options) {
  const std::string& text = options.equation;
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow ||
      text.find(' ') != std::string::npos || text.find(',', comma + 1) != std::string::npos) {
    refuse(scope, options, "write the letters of x, of the kernel and of the result, as \"btf,fhd->bthd\"");
  }
  return {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

/// Those that x has, counted from either side of "...", and those that the options give.
std::map<char, std::int64_t> extents_by_letter(const Scope& scope, const Array& x, const Equation& equation,
                                               const EinsumDenseOptions& options) {
  std::map<char, std::int64_t> extents = options.extents;
  const std::size_t dots = equation.x.find("...");
  const bool open = dots != std::string::npos;
  const std::string front = equation.x.substr(0, open ? dots : std::string::npos);
  const std::string back = open ? equation.x.substr(dots + 3) : "";
  const auto letters = static_cast<int>(front.size() + back.size());
  if (open ? letters > x.ndim() : letters != x.ndim()) {
    throw ShapeError(
        fmt::format("[einsum_dense '{}'] the input is {}, its letters are \"{}\"; give an input of as many "
                    "dimensions",
                    scope.path(), to_string(x.type()), equation.x));
  }
  for (std::size_t i = 0; i < front.size(); ++i) extents[front[i]] = x.dim(static_cast<int>(i));
  for (std::size_t i = 0; i < back.size(); ++i) {
    extents[back[i]] = x.dim(static_cast<int>(i) - static_cast<int>(back.size()));
  }
  for (const auto& [letter, extent] : options.extents) {
    if (equation.kernel.find(letter) == std::string::npos || extents.at(letter) != extent) {
      refuse(scope, options,
             fmt::format("`extents` has {} for '{}'; give it letters of the kernel that the input {} has not", extent,
                         letter, to_string(x.type())));
    }
  }
  return extents;
}

Shape shape_of(const Scope& scope, const EinsumDenseOptions& options, const std::string& letters,
               const std::map<char, std::int64_t>& extents) {
  std::vector<std::int64_t> shape;
  for (const char letter : letters) {
    const auto found = extents.find(letter);
    if (found == extents.end() || found->second < 1) {
      refuse(scope, options, fmt::format("give `extents` one of at least 1 for '{}'", letter));
    }
    shape.push_back(found->second);
  }
  return Shape(shape);
}

/// The bias, with extents of 1 for the result's letters behind its first that it has not.
Array spread(const Array& bias, const std::string& result, const std::string& own) {
  std::vector<std::int64_t> shape;
  int at = 0;
  for (const char letter : result.substr(result.find(own[0]))) {
    shape.push_back(own.find(letter) == std::string::npos ? 1 : bias.dim(at++));
  }
  return reshape(bias, shape);
}

}  // namespace

Array einsum_dense(const Scope& scope, const ArrayOperand& given, const EinsumDenseOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  const Equation equation = parsed(scope, options);
  if (!is_float(x.dtype())) {
    throw ShapeError(
        fmt::format("[einsum_dense '{}'] the input is {}; give floats", scope.path(), to_string(x.type())));
  }
  const auto extents = extents_by_letter(scope, x, equation, options);
  Array kernel = scope.trainable("kernel", {.shape = shape_of(scope, options, equation.kernel, extents),
                                            .dtype = x.dtype(),
                                            .initializer = options.kernel_initializer,
                                            .aggregation = options.aggregation});
  if (options.kernel_function) kernel = options.kernel_function(scope, kernel);
  const Array y = einsum(options.equation, {x, kernel});
  if (options.bias_axes.empty()) return y;
  std::string own;
  for (const char letter : equation.result) {
    if (letter != '.' && options.bias_axes.find(letter) != std::string::npos) own += letter;
  }
  if (own.size() != options.bias_axes.size() || (equation.result.find("...") != std::string::npos &&
                                                 equation.result.find("...") > equation.result.find(own[0]))) {
    refuse(scope, options,
           fmt::format("the bias has \"{}\"; give letters of the result, behind its \"...\"", options.bias_axes));
  }
  const Array bias = scope.trainable("bias", {.shape = shape_of(scope, options, own, extents),
                                              .dtype = x.dtype(),
                                              .initializer = options.bias_initializer,
                                              .aggregation = options.aggregation});
  return y + spread(bias, equation.result, own);
}

template class detail::OutOfLine<std::map<char, std::int64_t>>;

}  // namespace lockstep
