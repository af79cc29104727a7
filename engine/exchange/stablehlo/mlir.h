#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/types.h>

// A module of MLIR's as far as StableHLO's programs need it: functions, ops with attributes, regions of one block.
namespace lockstep::exchange::mlir {

/// An attribute's value: a word, number, string or symbol (`text`), a list, a dict, or elements of a tensor.
struct Attribute {
  enum class Kind : std::uint8_t { text, list, dict, dense };
  Kind kind = Kind::text;
  std::string text = {};                ///< Of dense what stands between '<' and '>'.
  std::vector<Attribute> items = {};    ///< Of a list.
  std::vector<Attribute> chained = {};  ///< Lists that follow by 'x' or '->': "[1] x [0]" has one.
  std::map<std::string, Attribute> entries = {};
  ArrayType type = {};  ///< Of dense.
};

/// A use of a value: result `index` of the op that defines `name`.
struct Use {
  std::string name = {};
  std::size_t index = 0;
};

struct Op;

/// A block: its arguments and ops, of which the last returns.
struct Region {
  std::vector<std::string> arguments;
  std::vector<ArrayType> types;  ///< Of the arguments, where they are written.
  std::vector<Op> ops;
};

struct Op {
  std::string name = {};  ///< With its dialect: "stablehlo.add", "func.call".
  std::int64_t line = 0;
  std::string result = {};                        ///< Empty where there is none.
  std::vector<std::string> further_results = {};  ///< Where each has a name of its own.
  std::size_t results = 0;
  std::vector<Use> operands = {};
  std::map<std::string, Attribute> attributes = {};
  std::vector<std::string> words = {};  ///< Of the pretty form, such as LT and SIGNED.
  std::string symbol = {};              ///< A callee or the name of a composite or target.
  std::vector<Region> regions = {};
  std::vector<ArrayType> result_types = {};
};

struct Func {
  std::string name = {};
  bool is_public = false;
  Region body = {};
};

/// Reads a module's functions. Throws IrError with the line.
std::vector<Func> parse_module(std::string_view text);

/// The element type of "f32", "i1", "ui8", ...; nothing for one that there is not here.
std::optional<DType> element_type(std::string_view name);
/// The name of an element type; throws IrError for keys.
std::string element_name(DType dtype);

}  // namespace lockstep::exchange::mlir
