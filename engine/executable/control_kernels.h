#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/executable/walker.h"
#include "engine/ir/control_flow.h"

// scan, while_loop and cond as kernels that walk through the executables of their bodies. The memory of the bodies is
// part of the kernel's scratch, so a call allocates nothing and its memory is planned with the program around it.
namespace lockstep::executable {

using namespace backend;

class BoundBody;

/// One call's operands and memory: `shared` is the same for all devices, `own` is one device's.
struct ControlArguments {
  std::span<const ArrayView> inputs;
  std::span<const ArrayView> outputs;
  std::byte* shared = nullptr;
  std::byte* own = nullptr;
};

/// A sub-function, lowered.
struct Body {
  std::string label;  ///< As the attribute that it came from.
  std::shared_ptr<const Executable> executable;
};

class ControlKernel : public Kernel {
 public:
  /// Runs alone. Where `together`, use `walk_together` instead.
  void run(const KernelArguments& arguments) const final { run(arguments, nullptr); }
  void run(const KernelArguments& arguments, Recorder* recorder) const;
  std::size_t scratch_bytes() const final;
  /// Every device of the crew calls this at the same step. The last output is a block of `shared_bytes()` bytes.
  void walk_together(const KernelArguments& arguments, Crew& crew) const;

  /// Whether a body needs all devices: it has maps or collectives.
  bool is_together() const { return together_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  int devices() const;
  const std::vector<Body>& bodies() const { return bodies_; }
  /// How often a run goes through the bodies, where that is known; else 1.
  virtual std::int64_t trips() const { return 1; }
  /// Whether that depends on data.
  virtual bool is_open_ended() const { return false; }
  /// Whether a run goes through one body alone.
  virtual bool chooses() const { return false; }
  /// What stands behind the op's name in a printed plan.
  virtual std::string describe() const { return {}; }

 protected:
  ControlKernel(std::vector<Body> bodies, bool together);
  virtual void walk(const ControlArguments& arguments, Crew& crew) const = 0;

  const Executable& body(std::size_t i) const { return *bodies_[i].executable; }
  /// One device's memory for body i.
  std::byte* own_memory(const ControlArguments& arguments, std::size_t i) const;
  /// Memory of `shared` beside what the bodies need: its offset.
  std::size_t reserve_shared(std::size_t nbytes);

 private:
  std::vector<Body> bodies_;
  bool together_;
  std::size_t shared_bytes_ = 0;
  std::size_t own_bytes_ = 0;
};

/// Loops with carries. A carry is updated where it lies if its body says that this is safe; else two places take turns.
class LoopKernel : public ControlKernel {
 public:
  bool may_share(int input, int output) const final;

 protected:
  /// Of the last body, the first results are the next carries, which stand behind `consts` in its arguments; the first
  /// ones are the kernel's operands from `first_carry` on.
  LoopKernel(std::vector<Body> bodies, bool together, std::size_t consts, std::size_t carries, std::size_t first_carry);

  std::size_t consts() const { return consts_; }
  std::size_t carries() const { return carries_.size(); }
  std::size_t first_carry() const { return first_carry_; }

  /// Before the first iteration, of which there will be an odd number where that is known.
  void start(BoundBody& body, const ControlArguments& arguments, bool odd) const;
  /// Behind each iteration: results that are moved, and the places of the next carries.
  void advance(BoundBody& body, const ControlArguments& arguments, Crew& crew) const;
  /// The final carries to the outputs.
  void finish(BoundBody& body, const ControlArguments& arguments, Crew& crew) const;

 private:
  struct Carry {
    std::size_t nbytes = 0;
    bool fixed = false;     ///< The body gives it back as it came.
    bool in_place = false;  ///< The body may write it where it reads it.
    std::size_t spare = 0;  ///< Otherwise the offset in `shared` of its second place.
  };

  std::size_t consts_;
  std::size_t first_carry_;
  std::vector<Carry> carries_;
};

class ScanKernel final : public LoopKernel {
 public:
  ScanKernel(const ir::Scan& scan, std::shared_ptr<const Executable> body, bool together);
  std::int64_t trips() const override { return length_; }
  std::string describe() const override;

 private:
  void walk(const ControlArguments& arguments, Crew& crew) const override;

  std::int64_t length_;
  bool reverse_;
  std::vector<std::size_t> x_bytes_;  ///< Of one iteration.
  std::vector<std::size_t> y_bytes_;
};

class WhileKernel final : public LoopKernel {
 public:
  WhileKernel(const ir::WhileLoop& loop, std::shared_ptr<const Executable> cond, std::shared_ptr<const Executable> body,
              bool together);
  bool is_open_ended() const override { return true; }

 private:
  void walk(const ControlArguments& arguments, Crew& crew) const override;

  std::size_t cond_consts_;
  std::size_t flag_;  ///< Offset in `shared`: the predicate, and behind it what all devices go by.
};

class CondKernel final : public ControlKernel {
 public:
  CondKernel(std::vector<Body> branches, bool together) : ControlKernel(std::move(branches), together) {}
  bool chooses() const override { return true; }

 private:
  void walk(const ControlArguments& arguments, Crew& crew) const override;
};

}  // namespace lockstep::executable
