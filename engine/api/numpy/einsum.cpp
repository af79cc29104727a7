#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/einsum.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/numpy/operands.h"

namespace lockstep {

namespace {

/// An operand whose dimensions have names, one character each. Those of an ellipsis are named by characters that are no
/// letters, the last of them '0'.
struct Term {
  Array array;
  std::string names;
};

class EinsumEquation {
 public:
  EinsumEquation(std::string_view text, std::span<const Array> operands) : text_(text) {
    std::string spaceless;
    for (const char c : text) {
      if (c != ' ') spaceless += c;
    }
    const std::size_t arrow = spaceless.find("->");
    const std::vector<std::string> inputs = parts(spaceless.substr(0, arrow));
    if (inputs.size() != operands.size()) {
      fail(fmt::format("it has {} operands, {} arrays were given", inputs.size(), operands.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) terms_.push_back(named(operands[i], inputs[i]));
    if (arrow == std::string::npos) {
      result_ = implicit_result();
    } else {
      result_ = explicit_result(spaceless.substr(arrow + 2));
    }
    note_extents();
  }

  Array run() {
    for (Term& term : terms_) prepare(term);
    while (terms_.size() > 1) contract_cheapest();
    Term& last = terms_.front();
    sum_out(last, result_);
    return ordered(last, result_).array;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw ValueError(fmt::format("einsum: \"{}\": {}", text_, reason));
  }

  static std::vector<std::string> parts(const std::string& text) {
    std::vector<std::string> result(1);
    for (const char c : text) {
      if (c == ',') {
        result.emplace_back();
      } else {
        result.back() += c;
      }
    }
    return result;
  }

  /// Subscripts with the ellipsis written out for `wide` dimensions.
  std::string expanded(const std::string& subscripts, int wide) const {
    std::string names;
    bool seen = false;
    for (std::size_t i = 0; i < subscripts.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(subscripts[i])) != 0) {
        names += subscripts[i];
      } else if (!seen && subscripts.compare(i, 3, "...") == 0) {
        for (int d = wide; d-- > 0;) names += static_cast<char>('0' + d);
        seen = true;
        i += 2;
      } else {
        fail(fmt::format("'{}' is neither a letter nor one ellipsis; write subscripts like \"ij,jk->ik\"",
                         subscripts[i]));
      }
    }
    return names;
  }

  Term named(const Array& array, const std::string& subscripts) {
    expanded(subscripts, 0);  // refuses what is no subscript
    const bool ellipsis = subscripts.find("...") != std::string::npos;
    const int letters = static_cast<int>(subscripts.size()) - (ellipsis ? 3 : 0);
    if (ellipsis ? array.ndim() < letters : array.ndim() != letters) {
      throw ShapeError(fmt::format("einsum: \"{}\": \"{}\" names {} dimensions, the operand has shape {}", text_,
                                   subscripts, letters, to_string(array.shape())));
    }
    const int wide = array.ndim() - letters;
    widest_ = std::max(widest_, wide);
    return {array, expanded(subscripts, wide)};
  }

  std::string implicit_result() const {
    std::map<char, int> occurrences;
    for (const Term& term : terms_) {
      for (const char name : term.names) ++occurrences[name];
    }
    std::string names = expanded("...", widest_);
    for (const auto& [name, count] : occurrences) {
      if (std::isalpha(static_cast<unsigned char>(name)) != 0 && count == 1) names += name;
    }
    return names;
  }

  std::string explicit_result(const std::string& subscripts) const {
    const std::string names = expanded(subscripts, widest_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto has = [&](const Term& term) { return term.names.find(names[i]) != std::string::npos; };
      if (std::none_of(terms_.begin(), terms_.end(), has)) {
        fail(fmt::format("the result's '{}' is in no operand", names[i]));
      }
      if (names.find(names[i], i + 1) != std::string::npos) {
        fail(fmt::format("the result's '{}' occurs twice; each subscript names one dimension of it", names[i]));
      }
    }
    if (widest_ > 0 && subscripts.find("...") == std::string::npos) {
      fail("the operands' \"...\" is missing in the result; write it, or sum over those dimensions afterwards");
    }
    return names;
  }

  void note_extents() {
    for (const Term& term : terms_) {
      for (std::size_t d = 0; d < term.names.size(); ++d) {
        const std::int64_t extent = term.array.shape()[static_cast<int>(d)];
        std::int64_t& known = extents_.try_emplace(term.names[d], extent).first->second;
        if (known == 1) known = extent;
        if (extent != known && extent != 1) {
          throw ShapeError(fmt::format("einsum: \"{}\": the extents of {} differ: {} and {}", text_,
                                       std::isalpha(static_cast<unsigned char>(term.names[d])) != 0
                                           ? fmt::format("'{}'", term.names[d])
                                           : std::string("a dimension of \"...\""),
                                       known, extent));
        }
      }
    }
  }

  /// Diagonals taken, dimensions of extent 1 that others have larger dropped (they broadcast).
  void prepare(Term& term) const {
    Axes dropped;
    std::string names;
    for (std::size_t d = 0; d < term.names.size(); ++d) {
      if (term.array.shape()[static_cast<int>(d)] == 1 && extents_.at(term.names[d]) != 1) {
        dropped.push_back(static_cast<std::int64_t>(d));
      } else {
        names += term.names[d];
      }
    }
    term = {dropped.empty() ? term.array : squeeze(term.array, dropped), names};
    for (std::size_t d = 0; d < term.names.size(); ++d) {
      for (std::size_t e; (e = term.names.find(term.names[d], d + 1)) != std::string::npos;) take_diagonal(term, d, e);
    }
  }

  /// Dimensions d and e of one name become one: everything off the diagonal is zeroed and summed away.
  static void take_diagonal(Term& term, std::size_t d, std::size_t e) {
    const Shape& shape = term.array.shape();
    const Array on = equal(iota(shape, static_cast<std::int64_t>(d)), iota(shape, static_cast<std::int64_t>(e)));
    term.array = sum_kept(where(on, term.array, 0), {static_cast<std::int64_t>(e)});
    term.names.erase(e, 1);
  }

  /// A sum in the array's own dtype.
  static Array sum_kept(const Array& x, const Axes& axes) { return convert(sum(x, axes), x.dtype()); }

  /// Sums over every dimension whose name is not in `wanted`.
  static void sum_out(Term& term, const std::string& wanted) {
    Axes axes;
    std::string names;
    for (std::size_t d = 0; d < term.names.size(); ++d) {
      if (wanted.find(term.names[d]) == std::string::npos) {
        axes.push_back(static_cast<std::int64_t>(d));
      } else {
        names += term.names[d];
      }
    }
    if (!axes.empty()) term = {sum_kept(term.array, axes), names};
  }

  static Term ordered(const Term& term, const std::string& names) {
    Axes permutation;
    for (const char name : names) permutation.push_back(static_cast<std::int64_t>(term.names.find(name)));
    return {transpose(term.array, permutation), names};
  }

  /// Names that the result or a term other than i and j has.
  std::string needed_beside(std::size_t i, std::size_t j) const {
    std::string names = result_;
    for (std::size_t k = 0; k < terms_.size(); ++k) {
      if (k != i && k != j) names += terms_[k].names;
    }
    return names;
  }

  double size_of_names(const std::string& names) const {
    double size = 1;
    for (const char name : names) size *= static_cast<double>(extents_.at(name));
    return size;
  }

  std::string product_names(std::size_t i, std::size_t j) const {
    const std::string needed = needed_beside(i, j);
    std::string names;
    for (const char name : terms_[i].names + terms_[j].names) {
      if (needed.find(name) != std::string::npos && names.find(name) == std::string::npos) names += name;
    }
    return names;
  }

  /// The pair whose product is smallest against its factors; of equal ones the cheaper, then the first.
  void contract_cheapest() {
    std::size_t first = 0, second = 1;
    std::optional<std::pair<double, double>> least;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      for (std::size_t j = i + 1; j < terms_.size(); ++j) {
        std::string all = terms_[i].names;
        for (const char name : terms_[j].names) {
          if (all.find(name) == std::string::npos) all += name;
        }
        const std::pair<double, double> cost(
            size_of_names(product_names(i, j)) - size_of_names(terms_[i].names) - size_of_names(terms_[j].names),
            size_of_names(all));
        if (least && !(cost < *least)) continue;
        least = cost;
        first = i;
        second = j;
      }
    }
    const std::string needed = needed_beside(first, second);
    Term product = multiplied(terms_[first], terms_[second], needed);
    terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(second));
    terms_[first] = std::move(product);
  }

  static Term multiplied(Term a, Term b, const std::string& needed) {
    sum_out(a, needed + b.names);
    sum_out(b, needed + a.names);
    std::pair<Axes, Axes> contract, batch;
    std::string names, a_free, b_free;
    for (std::size_t d = 0; d < a.names.size(); ++d) {
      const std::size_t e = b.names.find(a.names[d]);
      if (e == std::string::npos) {
        a_free += a.names[d];
        continue;
      }
      const bool kept = needed.find(a.names[d]) != std::string::npos;
      auto& pair = kept ? batch : contract;
      pair.first.push_back(static_cast<std::int64_t>(d));
      pair.second.push_back(static_cast<std::int64_t>(e));
      if (kept) names += a.names[d];
    }
    for (const char name : b.names) {
      if (a.names.find(name) == std::string::npos) b_free += name;
    }
    return {dot_general(a.array, b.array, contract, batch), names + a_free + b_free};
  }

  std::string text_;
  std::vector<Term> terms_;
  std::string result_;
  int widest_ = 0;
  std::map<char, std::int64_t> extents_;
};

}  // namespace

Array einsum(std::string_view equation, const ArrayOperands& operands) {
  if (operands.empty()) throw ValueError(fmt::format("einsum: \"{}\": no arrays were given", equation));
  const DType dtype = api::common_dtype(operands);
  // Products and sums of bool are those of integers, as in jax.numpy.
  std::vector<Array> converted;
  for (const Array& operand : operands) converted.push_back(convert(operand, dtype == bool_ ? int32 : dtype));
  return convert(EinsumEquation(equation, converted).run(), dtype);
}

}  // namespace lockstep
