#pragma once

#include <cstddef>
#include <vector>

#include <xbyak/xbyak.h>

#include "backends/jit/frame.h"
#include "backends/jit/registers.h"

namespace lockstep::backend::jit {

/// What an instruction reads: a register, or memory of a vector's size.
struct Source {
  bool in_memory = false;
  Xbyak::Xmm vector{0};
  Xbyak::Address address{0, false, Xbyak::RegExp()};
  const Xbyak::Operand& operand() const { return in_memory ? static_cast<const Xbyak::Operand&>(address) : vector; }
};

/// How a loop's body comes by its values: which registers they have, and how a vector of them is read from an array and
/// written to one, whole or what is left of a row.
class ArraySteps : protected CodeFrame {
 protected:
  using Opmask = Xbyak::Opmask;
  using CodeFrame::CodeFrame;

  /// Where the value can be read from; a slot or a constant where it is in no register.
  Source source(int value);
  int in_register(int value);
  /// The register of the step's result, which may be one that an operand has left.
  Xmm result(int value, const Step& step);
  void give_temporaries_back();

  static Opmask mask_register(const Home& home) { return Opmask(home.mask + 2); }
  /// A mask made in the register given becomes a value: it stays there where that will do and one is free.
  Opmask mask_for(int value);
  void finish_mask(int value, const Step& step, const Opmask& mask);

  void load(int value, const Step& step);
  void store(std::size_t result, int value);

  bool is_tail_ = false;
  Allocator* allocator_ = nullptr;  // while a body is written
  std::vector<int> temporaries_;    // registers with constants, for one step

 private:
  void load_bfloat16(const Xmm& to, const Reg64& from);
  void load_mask(int value, const Step& step, const Reg64& from);
  void add_to_memory(std::size_t array, int reg);
  void store_mask(const Reg64& to, const Xmm& from);
  void store_mask(const Reg64& to, const Opmask& from);
  /// Of what round_bfloat16 gives.
  void store_rounded(const Reg64& to, const Xmm& from);
  /// Of floats that are rounded already.
  void store_bfloat16(const Reg64& to, const Xmm& from);
};

}  // namespace lockstep::backend::jit
