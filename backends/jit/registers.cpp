#include "backends/jit/registers.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::backend::jit {

namespace {

std::array<int, 3> operands_of(const Step& step) { return {step.a, step.b, step.c}; }

}  // namespace

Liveness::Liveness(const Loop& loop, int vectors, int masks)
    : loop_(loop),
      vectors_(vectors),
      masks_(masks),
      needed_(loop.code.steps().size()),
      position_(needed_.size(), -1),
      uses_(needed_.size()),
      homes_(needed_.size()),
      may_be_in_mask_register_(needed_.size(), true) {
  put_in_order();
  note_uses();
  find_homes();
}

bool Liveness::is_fixed(int value) const {
  const Step& step = loop_.code[value];
  return step.op == Op::constant || (step.op == Op::load && loop_.operands[step.bits].uniform);
}

void Liveness::put_in_order() {
  for (const int v : loop_.values) needed_[static_cast<std::size_t>(v)] = true;
  for (std::size_t i = needed_.size(); i-- > 0;) {
    if (!needed_[i]) continue;
    for (const int v : operands_of(loop_.code.steps()[i])) {
      if (v >= 0) needed_[static_cast<std::size_t>(v)] = true;
    }
  }
  const auto place = [&](int v) {
    if (is_fixed(v) || position_[static_cast<std::size_t>(v)] >= 0) return;
    position_[static_cast<std::size_t>(v)] = static_cast<int>(order_.size());
    order_.push_back(v);
  };
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    const Step& step = loop_.code.steps()[i];
    if (!needed_[i] || step.op == Op::load) continue;
    for (const int v : operands_of(step)) {
      if (v >= 0 && loop_.code[v].op == Op::load) place(v);
    }
    place(static_cast<int>(i));
  }
  for (const int v : loop_.values) place(v);
}

void Liveness::note_uses() {
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const Step& step = loop_.code[order_[p]];
    for (const int v : operands_of(step)) {
      if (v < 0) continue;
      uses_[static_cast<std::size_t>(v)].push_back(static_cast<int>(p));
      if (step.op != Op::select || v != step.a || v == step.b || v == step.c) {
        may_be_in_mask_register_[static_cast<std::size_t>(v)] = false;
      }
    }
  }
  for (std::size_t r = 0; r < loop_.values.size(); ++r) {
    const auto v = static_cast<std::size_t>(loop_.values[r]);
    if (loop_.results[r].element != Element::byte) may_be_in_mask_register_[v] = false;
    if (!is_late(loop_.values[r])) continue;
    may_be_in_mask_register_[v] = false;
    uses_[v].push_back(static_cast<int>(order_.size()));
  }
}

int Liveness::next_use(int value, int position) const {
  const std::vector<int>& uses = uses_[static_cast<std::size_t>(value)];
  const auto next = std::upper_bound(uses.begin(), uses.end(), position);
  return next == uses.end() ? never : *next;
}

bool Liveness::is_late(int value) const {
  const Op op = loop_.code[value].op;
  return op == Op::load || op == Op::constant;
}

/// The most values that are alive at once.
int Liveness::pressure() const {
  std::vector<int> change(order_.size() + 2, 0);
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const std::vector<int>& uses = uses_[static_cast<std::size_t>(order_[p])];
    ++change[p];
    --change[static_cast<std::size_t>(uses.empty() ? static_cast<int>(p) : uses.back()) + 1];
  }
  int alive = 0;
  int most = 0;
  for (const int c : change) most = std::max(most, alive += c);
  return most;
}

/// Registers that the steps can spare go to the constants and uniform operands that are read most.
void Liveness::find_homes() {
  int spare_masks = masks_ / 2;  // the others are for what a body computes
  for (std::size_t v = 0; v < needed_.size(); ++v) {
    const int value = static_cast<int>(v);
    if (!needed_[v] || !is_fixed(value)) continue;
    fixed_.push_back(value);
    const Step& step = loop_.code[value];
    if (step.op == Op::constant) {
      homes_[v].constant = static_cast<int>(pool_.size());
      pool_.push_back(step.bits);
    } else {
      homes_[v].operand = static_cast<int>(step.bits);
      const bool is_mask = loop_.operands[step.bits].element == Element::byte && may_be_in_mask_register(value);
      if (is_mask && spare_masks-- > 0) {
        homes_[v].mask = --masks_;
      } else {
        homes_[v].slot = fixed_slots_++;
      }
    }
  }
  std::vector<int> by_uses = fixed_;
  std::erase_if(by_uses, [&](int v) { return fixed_home(v).mask >= 0; });
  std::ranges::stable_sort(by_uses, [&](int a, int b) {
    return uses_[static_cast<std::size_t>(a)].size() > uses_[static_cast<std::size_t>(b)].size();
  });
  constexpr int temporaries = 4;
  int spare = vectors_ - pressure() - temporaries;
  for (const int v : by_uses) {
    if (spare-- <= 0) break;
    homes_[static_cast<std::size_t>(v)].reg = --vectors_;
  }
}

int Liveness::load_of(std::size_t operand) const {
  for (const int v : order_) {
    const Step& step = loop_.code[v];
    if (step.op == Op::load && step.bits == operand) return v;
  }
  return -1;
}

bool Liveness::may_share(std::size_t operand, std::size_t result) const {
  if (loop_.operands[operand].uniform || loop_.operands[operand].element != loop_.results[result].element) return false;
  const int load = load_of(operand);
  const int value = loop_.values[result];
  return load < 0 || is_late(value) ||
         position_[static_cast<std::size_t>(load)] < position_[static_cast<std::size_t>(value)];
}

Allocator::Allocator(const Liveness& plan, Spill spill)
    : plan_(plan),
      spill_(std::move(spill)),
      owner_(static_cast<std::size_t>(plan.vectors()), nobody),
      pinned_(owner_.size()),
      mask_taken_(static_cast<std::size_t>(plan.masks())) {
  for (const int v : plan.fixed()) {
    if (homes_.size() <= static_cast<std::size_t>(v)) homes_.resize(static_cast<std::size_t>(v) + 1);
    home(v) = plan.fixed_home(v);
  }
  for (const int v : plan.order()) {
    if (homes_.size() <= static_cast<std::size_t>(v)) homes_.resize(static_cast<std::size_t>(v) + 1);
  }
}

void Allocator::begin(int position, const Step& step) {
  position_ = position;
  pinned_.assign(pinned_.size(), false);
  for (const int v : operands_of(step)) {
    if (v >= 0 && home(v).reg >= 0 && home(v).reg < plan_.vectors())
      pinned_[static_cast<std::size_t>(home(v).reg)] = true;
  }
}

int Allocator::take() {
  for (std::size_t r = 0; r < owner_.size(); ++r) {
    if (owner_[r] != nobody) continue;
    owner_[r] = taken;
    return static_cast<int>(r);
  }
  std::size_t victim = owner_.size();
  int latest = -1;
  for (std::size_t r = 0; r < owner_.size(); ++r) {
    if (pinned_[r] || owner_[r] == taken) continue;
    const int next = plan_.next_use(owner_[r], position_);
    if (next > latest) {
      latest = next;
      victim = r;
    }
  }
  Home& out = home(owner_[victim]);
  if (out.slot < 0) {
    const auto free = std::ranges::find(slot_taken_, false);
    out.slot = plan_.fixed_slots() + static_cast<int>(free - slot_taken_.begin());
    if (free == slot_taken_.end()) {
      slot_taken_.push_back(true);
    } else {
      *free = true;
    }
    most_slots_ = std::max(most_slots_, static_cast<int>(slot_taken_.size()));
    spill_(out.reg, out.slot);
  }
  out.reg = -1;
  owner_[victim] = taken;
  return static_cast<int>(victim);
}

void Allocator::give_back(int reg) { owner_[static_cast<std::size_t>(reg)] = nobody; }

void Allocator::pin(int reg) {
  if (reg < plan_.vectors()) pinned_[static_cast<std::size_t>(reg)] = true;
}

int Allocator::take_again(int reg) {
  owner_[static_cast<std::size_t>(reg)] = taken;
  return reg;
}

void Allocator::own(int reg, int value) {
  owner_[static_cast<std::size_t>(reg)] = value;
  pinned_[static_cast<std::size_t>(reg)] = true;
  home(value).reg = reg;
}

int Allocator::own_mask(int value) {
  const auto free = std::ranges::find(mask_taken_, false);
  if (free == mask_taken_.end()) return -1;
  *free = true;
  home(value).mask = static_cast<int>(free - mask_taken_.begin());
  return home(value).mask;
}

void Allocator::free_registers(int value) {
  Home& it = home(value);
  if (plan_.is_fixed(value)) return;
  if (it.reg >= 0) give_back(it.reg);
  if (it.mask >= 0) mask_taken_[static_cast<std::size_t>(it.mask)] = false;
  if (it.slot >= 0) dying_slots_.push_back(it.slot);
  it = {};
}

void Allocator::release(const Step& step) {
  for (const int v : operands_of(step)) {
    if (v >= 0 && plan_.next_use(v, position_) == Liveness::never) free_registers(v);
  }
}

void Allocator::end(int value) {
  if (plan_.next_use(value, position_) == Liveness::never) free_registers(value);
  for (const int s : dying_slots_) slot_taken_[static_cast<std::size_t>(s - plan_.fixed_slots())] = false;
  dying_slots_.clear();
}

}  // namespace lockstep::backend::jit
