#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "backends/jit/code.h"

namespace lockstep::backend::jit {

/// Where a value is; fields that say nothing are -1.
struct Home {
  int reg = -1;
  int mask = -1;      ///< A mask register.
  int slot = -1;      ///< Of the frame.
  int constant = -1;  ///< Index into the pool.
  int operand = -1;   ///< Of a uniform operand, read once a row.
};

/// The order of a loop's steps, and what is known of its values beforehand.
class Liveness {
 public:
  /// `vectors` and `masks` registers are there to be used.
  Liveness(const Loop& loop, int vectors, int masks);

  /// What is computed for each vector: loads stand right before their first use.
  const std::vector<int>& order() const { return order_; }
  int position(int value) const { return position_[static_cast<std::size_t>(value)]; }
  /// The first place in the order behind `position` where the value is used; `never` where there is none.
  static constexpr int never = std::numeric_limits<int>::max();
  int next_use(int value, int position) const;
  /// Constants and uniform operands: values that keep their home.
  const std::vector<int>& fixed() const { return fixed_; }
  const Home& fixed_home(int value) const { return homes_[static_cast<std::size_t>(value)]; }
  bool is_fixed(int value) const;
  const std::vector<std::uint32_t>& pool() const { return pool_; }
  /// Whether this mask is only what selects choose by and what results are written from, which a mask register will do for.
  bool may_be_in_mask_register(int value) const { return may_be_in_mask_register_[static_cast<std::size_t>(value)]; }
  /// A result that no step computes is written behind all of them.
  bool is_late(int value) const;
  bool may_share(std::size_t operand, std::size_t result) const;
  /// Registers 0 .. vectors() - 1 and mask registers 0 .. masks() - 1 are not fixed.
  int vectors() const { return vectors_; }
  int masks() const { return masks_; }
  int fixed_slots() const { return fixed_slots_; }

 private:
  void put_in_order();
  void note_uses();
  void find_homes();
  int pressure() const;
  int load_of(std::size_t operand) const;

  const Loop& loop_;
  int vectors_;
  int masks_;
  int fixed_slots_ = 0;
  std::vector<bool> needed_;
  std::vector<int> order_;
  std::vector<int> position_;  // by step; -1 where it is not in the order
  std::vector<std::vector<int>> uses_;
  std::vector<int> fixed_;
  std::vector<Home> homes_;
  std::vector<std::uint32_t> pool_;
  std::vector<bool> may_be_in_mask_register_;
};

/// Register allocation on a straight line: step after step, and where no register is free the value that is needed last
/// makes room (Belady 1966).
class Allocator {
 public:
  using Spill = std::function<void(int reg, int slot)>;
  Allocator(const Liveness& plan, Spill spill);

  /// Before a step: what it reads stays where it is.
  void begin(int position, const Step& step);
  Home& home(int value) { return homes_[static_cast<std::size_t>(value)]; }
  /// A register of nobody's, until it is given back or a value's.
  int take();
  void give_back(int reg);
  /// Leaves the register to its value during this step.
  void pin(int reg);
  /// A register that `release` has just freed.
  int take_again(int reg);
  void own(int reg, int value);
  /// A mask register for a value, or -1.
  int own_mask(int value);
  /// After the operands were read: registers of those that nothing needs any more.
  void release(const Step& step);
  /// After the step.
  void end(int value);
  int slots() const { return most_slots_; }

 private:
  static constexpr int nobody = -1;
  static constexpr int taken = -2;

  void free_registers(int value);

  const Liveness& plan_;
  Spill spill_;
  int position_ = 0;
  std::vector<Home> homes_;
  std::vector<int> owner_;  // by register
  std::vector<bool> pinned_;
  std::vector<bool> mask_taken_;
  std::vector<bool> slot_taken_;
  std::vector<int> dying_slots_;
  int most_slots_ = 0;
};

}  // namespace lockstep::backend::jit
