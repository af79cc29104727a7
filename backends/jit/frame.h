#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <xbyak/xbyak.h>

#include "backends/jit/code.h"
#include "backends/jit/registers.h"

namespace lockstep::backend::jit {

constexpr std::size_t bytes_of_a_step = 256;  // both bodies, spills and its constant included
constexpr std::size_t bytes_around = 8192;
constexpr std::size_t bytes_of_an_operand = 512;
constexpr std::size_t vector_bytes = 64;
constexpr int scratch_slots = 1;
/// Those that hold addresses.
constexpr std::array<int, 8> base_registers = {Xbyak::Operand::RBX, Xbyak::Operand::R8,  Xbyak::Operand::R9,
                                               Xbyak::Operand::R10, Xbyak::Operand::R11, Xbyak::Operand::R12,
                                               Xbyak::Operand::R13, Xbyak::Operand::R14};

/// Where a loop's machine code has its arrays, constants and slots, and how it names them.
class CodeFrame : protected Xbyak::CodeGenerator {
 protected:
  using Address = Xbyak::Address;
  using Label = Xbyak::Label;
  using Reg64 = Xbyak::Reg64;
  using Xmm = Xbyak::Xmm;

  CodeFrame(const Loop& loop, bool wide)
      : CodeGenerator(bytes_around + loop.code.steps().size() * bytes_of_a_step +
                          (loop.operands.size() + loop.results.size()) * bytes_of_an_operand,
                      Xbyak::DontSetProtectRWE),
        loop_(loop),
        wide_(wide),
        lanes_(wide ? 16 : 8),
        plan_(loop_, wide ? 32 : 15, wide ? 5 : 0) {}

  const Reg64& numbers_ = rdi;
  const Reg64& length_ = rsi;
  const Reg64& index_ = rdx;
  const Reg64& count_ = rcx;  // where the whole vectors end; free in the tail
  const Reg64& scratch_ = rax;
  const Reg64& second_scratch_ = r15;

  /// Xmm names a register of any width: its kind is a field.
  Xmm vector(int r) const { return wide_ ? static_cast<Xmm>(Xbyak::Zmm(r)) : static_cast<Xmm>(Xbyak::Ymm(r)); }

  std::size_t number_of(std::size_t array) const { return 16 + 8 * array; }
  std::size_t arrays() const { return loop_.operands.size() + loop_.results.size(); }
  Address number(std::size_t at) { return qword[numbers_ + static_cast<int>(at)]; }

  /// The register with an array's address; loads it where there were too few.
  Reg64 base(std::size_t array) {
    if (has_base_register(array)) return Reg64(base_registers[static_cast<std::size_t>(base_of_[array])]);
    mov(scratch_, number(number_of(array)));
    return scratch_;
  }

  void number_bases() {
    int next = 0;
    for (std::size_t k = 0; k < arrays(); ++k) base_of_.push_back(access(k).uniform ? -1 : next++);
  }
  bool has_base_register(std::size_t array) const {
    return base_of_[array] >= 0 && static_cast<std::size_t>(base_of_[array]) < base_registers.size();
  }
  const Access& access(std::size_t array) const {
    const std::size_t operands = loop_.operands.size();
    return array < operands ? loop_.operands[array] : loop_.results[array - operands];
  }
  void load_bases() {
    for (std::size_t k = 0; k < arrays(); ++k) {
      if (has_base_register(k)) mov(base(k), number(number_of(k)));
    }
  }

  Address slot(int at) { return ptr[rsp + (at + scratch_slots) * static_cast<int>(vector_bytes)]; }
  Address in_memory(const Home& home) {
    return home.constant >= 0 ? ptr[rip + pool_ + home.constant * static_cast<int>(vector_bytes)] : slot(home.slot);
  }

  Address element(const Reg64& base, Element kind) { return ptr[base + index_ * static_cast<int>(size_of(kind))]; }

  void set_tail_mask() {
    mov(count_, length_);
    sub(count_, index_);
    if (wide_) {
      mov(eax, 1);
      shl(eax, cl);
      dec(eax);
      kmovw(k7, eax);
    } else {
      lea(second_scratch_, ptr[rip + masks_]);
      mov(scratch_, count_);
      shl(scratch_, 2);
      sub(second_scratch_, scratch_);
      vmovups(ymm15, ptr[second_scratch_ + 32]);
    }
  }

  /// One by one what is left of a row, `count_` elements.
  template <class Read, class Write>
  void copy_rest(Read read, Write write) {
    Label done;
    for (int i = 0; i < lanes_ - 1; ++i) {
      cmp(count_, i);
      jbe(done, T_NEAR);
      read(i);
      write(i);
    }
    L(done);
  }

  void write_pool() {
    align(vector_bytes);
    L(pool_);
    for (const std::uint32_t bits : plan_.pool()) {
      for (std::size_t i = 0; i < vector_bytes / 4; ++i) dd(bits);
    }
    L(masks_);
    for (int i = 0; i < 16; ++i) dd(i < 8 ? 0xFFFFFFFFU : 0U);
    L(ones_);
    for (int i = 0; i < 4; ++i) dd(0x01010101U);
    L(least_exponents_);
    for (int i = 0; i < 8; ++i) dd(0x00800080U);
    L(least_exponent_);
    dd(0x00800000U);
  }

  const Loop loop_;
  const bool wide_;
  const int lanes_;
  Liveness plan_;
  std::vector<int> base_of_;  // by array: an index into base_registers, perhaps beyond; -1 where it is uniform
  Label pool_, masks_;
  Label ones_;             // a byte of each lane
  Label least_exponents_;  // of a vector of bfloat16
  Label least_exponent_;   // of a float
};

}  // namespace lockstep::backend::jit
