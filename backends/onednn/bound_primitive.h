#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/types.h>

#include "backends/onednn/library.h"

namespace lockstep::backend::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// The one engine of this process.
const dnnl::engine& cpu_engine();

dnnl::memory::data_type data_type(DType dtype);

/// Attributes of every primitive: scratch by the caller, no hidden down-conversion.
dnnl::primitive_attr attributes();

/// Whether oneDNN has no code of its own for this processor and would run a plain loop.
bool is_reference(const dnnl::primitive_desc_base& description);

/// A primitive with its arguments, to be run at any addresses by several threads at once.
class BoundPrimitive {
 public:
  /// An index of oneDNN's (DNNL_ARG_SRC, ...) and what lies there.
  using Argument = std::pair<int, dnnl::memory::desc>;

  BoundPrimitive(const dnnl::primitive_desc_base& description, dnnl::primitive primitive,
                 std::vector<Argument> arguments);
  ~BoundPrimitive();
  BoundPrimitive(const BoundPrimitive&) = delete;
  BoundPrimitive& operator=(const BoundPrimitive&) = delete;

  /// `addresses` in the order of the arguments; `scratch` of scratch_bytes(). Throws BackendError where oneDNN fails.
  void run(std::initializer_list<const void*> addresses, void* scratch) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  static constexpr std::size_t most_arguments = 4;

  /// Memory objects, which only one thread at a time may point somewhere.
  struct Arguments {
    std::array<dnnl::memory, most_arguments> memory;
    std::array<dnnl_exec_arg_t, most_arguments> list;
  };

  std::unique_ptr<Arguments> make_arguments() const;
  std::unique_ptr<Arguments> take() const;
  void put_back(std::unique_ptr<Arguments> arguments) const;

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  std::size_t scratch_bytes_;
  /// Those in nobody's use, at most one a slot; more are made where more threads than cores run it.
  mutable std::array<std::atomic<Arguments*>, 8> idle_{};
};

}  // namespace lockstep::backend::onednn
