#include <cctype>
#include <string>

#include <lockstep/linalg.h>

#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

/// "FFT" of `fft_type = #stablehlo<fft_type FFT>` and of the pretty `type = FFT`.
std::string word_of(const OpCall& call, std::initializer_list<const char*> names) {
  const mlir::Attribute* found = call.find(names);
  if (found == nullptr) call.refuse(std::string(*names.begin()) + " is missing");
  return found->text;
}

std::vector<Array> fft_call(const OpCall& call) {
  std::string kind = word_of(call, {"type", "fft_type"});
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lax::fft({call.operand(0)}, {{"kind", kind}, {"lengths", call.integers({"length", "fft_length"}, {})}});
}

std::vector<Array> cholesky_call(const OpCall& call) {
  const bool lower = call.integer({"lower"}, 0) != 0;
  return {linalg::cholesky(call.operand(0), !lower, false)};
}

std::vector<Array> triangular_solve_call(const OpCall& call) {
  const std::string form = word_of(call, {"transpose_a"});
  if (form != "NO_TRANSPOSE" && form != "TRANSPOSE" && form != "ADJOINT") {
    call.refuse("transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT, not " + form);
  }
  const auto flag = [&](const char* name) { return call.integer({name}, 0) != 0; };
  return lax::triangular_solve({call.operand(0), call.operand(1)}, {{"left_side", flag("left_side")},
                                                                    {"lower", flag("lower")},
                                                                    {"transpose_a", form != "NO_TRANSPOSE"},
                                                                    {"conjugate_a", form == "ADJOINT"},
                                                                    {"unit_diagonal", flag("unit_diagonal")}});
}

}  // namespace

std::vector<Array> apply_linalg(const OpCall& call) {
  if (call.op.name == "stablehlo.fft") return fft_call(call);
  if (call.op.name == "stablehlo.cholesky") return cholesky_call(call);
  if (call.op.name == "stablehlo.triangular_solve") return triangular_solve_call(call);
  return {};
}

}  // namespace lockstep::exchange
