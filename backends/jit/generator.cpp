#include "backends/jit/generator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <xbyak/xbyak.h>

#include "backends/jit/array_steps.h"
#include "backends/jit/registers.h"
#include "backends/jit/rounding.h"

namespace lockstep::backend::jit {
namespace {

class Generator final : public MachineCode, private ArraySteps {
 public:
  Generator(const Loop& loop, bool wide) : ArraySteps(loop, wide) {
    write();
    setProtectModeRE();
    entry_ = getCode<void (*)(std::int64_t*)>();
  }

  void run(std::int64_t* numbers) const override { entry_(numbers); }
  bool may_share(std::size_t operand, std::size_t result) const override { return plan_.may_share(operand, result); }
  std::span<const std::byte> code() const override { return std::as_bytes(std::span(getCode(), getSize())); }

 private:
  // ---- the whole function

  void write() {
    number_bases();
    push(rbp);
    mov(rbp, rsp);
    for (const Reg64& r : {rbx, r12, r13, r14, r15}) push(r);
    and_(rsp, -static_cast<int>(vector_bytes));
    sub(rsp, 0x7FFFFFFF);
    const std::size_t frame = getSize() - 4;
    mov(length_, number(0));
    load_fixed(false);
    write_rows();
    lea(rsp, ptr[rbp - 40]);
    for (const Reg64& r : {r15, r14, r13, r12, rbx}) pop(r);
    pop(rbp);
    vzeroupper();
    ret();
    write_rare_parts();
    const int slots = plan_.fixed_slots() + spill_slots_ + scratch_slots;
    rewrite(frame, static_cast<std::uint64_t>(slots) * vector_bytes, 4);
    write_pool();
  }

  void write_rows() {
    Label row, whole, tail, next, end;
    L(row);
    load_bases();
    load_fixed(true);
    xor_(index_, index_);
    mov(count_, length_);
    and_(count_, -lanes_);
    jz(tail, T_NEAR);
    align(32);
    L(whole);
    write_body(false);
    add(index_, lanes_);
    cmp(index_, count_);
    jb(whole, T_NEAR);
    L(tail);
    cmp(index_, length_);
    jae(next, T_NEAR);
    set_tail_mask();
    write_body(true);
    L(next);
    dec(number(8));
    jz(end, T_NEAR);
    for (std::size_t k = 0; k < arrays(); ++k) {
      mov(scratch_, number(number_of(arrays() + k)));
      add(number(number_of(k)), scratch_);
    }
    jmp(row, T_NEAR);
    L(end);
  }

  /// What stays for all rows, or for one, into registers or slots.
  void load_fixed(bool of_row) {
    for (const int value : plan_.fixed()) {
      const Home& home = plan_.fixed_home(value);
      if (of_row && home.operand >= 0) load_uniform(home);
      if (!of_row && home.constant >= 0 && home.reg >= 0) vmovups(vector(home.reg), in_memory(home));
    }
  }

  void load_uniform(const Home& home) {
    const auto array = static_cast<std::size_t>(home.operand);
    const int reg = home.reg >= 0 ? home.reg : 0;
    mov(scratch_, number(number_of(array)));
    if (access(array).element == Element::word) {
      vbroadcastss(vector(reg), dword[scratch_]);
    } else {
      if (access(array).element == Element::byte) {
        movzx(eax, byte[scratch_]);
        neg(eax);
        sbb(eax, eax);
      } else {
        movzx(eax, word[scratch_]);
        shl(eax, 16);
      }
      if (home.mask >= 0) return kmovw(mask_register(home), eax);
      vmovd(xmm0, eax);
      vpbroadcastd(vector(reg), xmm0);
    }
    if (home.reg < 0) vmovups(slot(home.slot), vector(reg));
  }

  // ---- the steps

  void write_body(bool is_tail) {
    is_tail_ = is_tail;
    Allocator allocator(plan_, [this](int reg, int at) { vmovups(slot(at), vector(reg)); });
    allocator_ = &allocator;
    const std::vector<int>& order = plan_.order();
    for (std::size_t p = 0; p < order.size(); ++p) {
      const int value = order[p];
      const Step& step = loop_.code[value];
      allocator.begin(static_cast<int>(p), step);
      write_step(value, step);
      for (std::size_t r = 0; r < loop_.values.size(); ++r) {
        if (loop_.values[r] == value && !plan_.is_late(value)) store(r, value);
      }
      allocator.end(value);
    }
    allocator.begin(static_cast<int>(order.size()), {});
    for (std::size_t r = 0; r < loop_.values.size(); ++r) {
      if (plan_.is_late(loop_.values[r])) store(r, loop_.values[r]);
    }
    give_temporaries_back();
    spill_slots_ = std::max(spill_slots_, allocator.slots());
    allocator_ = nullptr;
  }

  void write_step(int value, const Step& step) {
    using G = Xbyak::CodeGenerator;
    switch (step.op) {
      case Op::load:
        return load(value, step);
      case Op::constant:
        return;
      case Op::add:
        return binary(value, step, &G::vaddps);
      case Op::sub:
        return binary(value, step, &G::vsubps);
      case Op::mul:
        return binary(value, step, &G::vmulps);
      case Op::div:
        return binary(value, step, &G::vdivps);
      case Op::min:
        return binary(value, step, &G::vminps);
      case Op::max:
        return binary(value, step, &G::vmaxps);
      case Op::bit_and:
        return binary(value, step, &G::vandps);
      case Op::bit_or:
        return binary(value, step, &G::vorps);
      case Op::bit_xor:
        return binary(value, step, &G::vxorps);
      case Op::int_add:
        return binary(value, step, &G::vpaddd);
      case Op::int_sub:
        return binary(value, step, &G::vpsubd);
      case Op::int_mul:
        return binary(value, step, &G::vpmulld);
      case Op::shift_left:
        return binary(value, step, &G::vpsllvd);
      case Op::shift_right:
        return binary(value, step, &G::vpsrlvd);
      case Op::shift_sign:
        return binary(value, step, &G::vpsravd);
      case Op::sqrt:
        return unary(value, step, &G::vsqrtps);
      case Op::to_int:
        return unary(value, step, &G::vcvttps2dq);
      case Op::to_float:
        return unary(value, step, &G::vcvtdq2ps);
      case Op::round:
        return rounding(value, step, 8);
      case Op::floor:
        return rounding(value, step, 9);
      case Op::ceil:
        return rounding(value, step, 10);
      case Op::equal:
        return comparison(value, step, 0x00);
      case Op::not_equal:
        return comparison(value, step, 0x04);
      case Op::less:
        return comparison(value, step, 0x11);
      case Op::less_equal:
        return comparison(value, step, 0x12);
      case Op::int_equal:
      case Op::int_greater:
        return comparison(value, step, 0);
      case Op::fma:
        return fused_multiply_add(value, step);
      case Op::select:
        return select(value, step);
      case Op::round_bfloat16:
        return round_bfloat16(value, step);
      case Op::widen_bfloat16:
        return widen_bfloat16(value, step);
    }
  }

  template <class X, class Y>
  void binary(int value, const Step& step, void (Xbyak::CodeGenerator::*write)(const Xmm&, const X&, const Y&)) {
    const Xmm a = vector(in_register(step.a));
    const Source b = source(step.b);
    const Xmm to = result(value, step);
    (this->*write)(to, a, b.operand());
  }

  template <class X>
  void unary(int value, const Step& step, void (Xbyak::CodeGenerator::*write)(const Xmm&, const X&)) {
    const Source a = source(step.a);
    const Xmm to = result(value, step);
    (this->*write)(to, a.operand());
  }

  void rounding(int value, const Step& step, std::uint8_t mode) {
    const Source a = source(step.a);
    const Xmm to = result(value, step);
    if (wide_) {
      vrndscaleps(to, a.operand(), mode);
    } else {
      vroundps(to, a.operand(), mode);
    }
  }

  void comparison(int value, const Step& step, std::uint8_t relation) {
    const Xmm a = vector(in_register(step.a));
    const Source b = source(step.b);
    if (!wide_) {
      const Xmm to = result(value, step);
      if (step.op == Op::int_equal) return vpcmpeqd(to, a, b.operand());
      if (step.op == Op::int_greater) return vpcmpgtd(to, a, b.operand());
      return vcmpps(to, a, b.operand(), relation);
    }
    const Opmask mask = mask_for(value);
    if (step.op == Op::int_equal) {
      vpcmpeqd(mask, a, b.operand());
    } else if (step.op == Op::int_greater) {
      vpcmpgtd(mask, a, b.operand());
    } else {
      vcmpps(mask, a, b.operand(), relation);
    }
    finish_mask(value, step, mask);
  }

  void select(int value, const Step& step) {
    const Xmm otherwise = vector(in_register(step.c));
    const Source taken = source(step.b);
    if (!wide_) {
      const Xmm mask = vector(in_register(step.a));
      return vblendvps(result(value, step), otherwise, taken.operand(), mask);
    }
    const Home& home = allocator_->home(step.a);
    const Opmask mask = home.mask >= 0 ? mask_register(home) : k1;
    if (home.mask < 0) vpmovd2m(mask, vector(in_register(step.a)));
    vblendmps(result(value, step) | mask, otherwise, taken.operand());
  }

  /// Whether the step alone still needs the operand, once.
  bool dies(int operand, const Step& step, int position) const {
    return !plan_.is_fixed(operand) && plan_.next_use(operand, position) == Liveness::never &&
           (operand == step.a) + (operand == step.b) + (operand == step.c) == 1;
  }

  void fused_multiply_add(int value, const Step& step) {
    const int position = plan_.position(value);
    int a = step.a;
    int b = step.b;
    if (!dies(a, step, position) && dies(b, step, position)) std::swap(a, b);
    const Xmm factor = vector(in_register(a));
    const Xmm other = vector(in_register(b));
    if (!dies(a, step, position) && dies(step.c, step, position)) {
      const Xmm sum = vector(in_register(step.c));
      allocator_->release(step);
      give_temporaries_back();
      allocator_->own(allocator_->take_again(sum.getIdx()), value);
      return vfmadd231ps(sum, factor, other);
    }
    const Source added = source(step.c);
    if (dies(a, step, position)) {
      allocator_->release(step);
      give_temporaries_back();
      allocator_->own(allocator_->take_again(factor.getIdx()), value);
      return vfmadd213ps(factor, other, added.operand());
    }
    // No operand's register is free to be written, so it must be one that is none of theirs.
    const int reg = allocator_->take();
    vmovaps(vector(reg), factor);
    vfmadd213ps(vector(reg), other, added.operand());
    allocator_->release(step);
    give_temporaries_back();
    allocator_->own(reg, value);
  }

  /// Of a vector with denormals, behind the loop: k1 says which they are.
  struct DenormalRounding {
    Label begin, end;
    int from, to;  // registers, perhaps the same
  };

  /// The instruction takes denormals for zero, and they are rare: a jump that is not taken is cheaper than masks.
  void round_bfloat16(int value, const Step& step) {
    const Xmm x = vector(in_register(step.a));
    const Xmm to = result(value, step);
    DenormalRounding rare{{}, {}, x.getIdx(), to.getIdx()};
    vfpclassps(k1, x, 0x20);
    kortestw(k1, k1);
    jnz(rare.begin, T_NEAR);
    vcvtneps2bf16(Xbyak::Ymm(to.getIdx()), x);
    L(rare.end);
    denormal_roundings_.push_back(rare);
  }

  void widen_bfloat16(int value, const Step& step) {
    const Xbyak::Ymm from(in_register(step.a));
    const Xmm to = result(value, step);
    vpmovzxwd(to, from);
    vpslld(to, to, 16);
  }

  /// With the least exponent a denormal's digits are a normal number, which rounds alike; then it is taken away again.
  void write_rare_parts() {
    for (DenormalRounding& rounding : denormal_roundings_) {
      const Xmm x = vector(rounding.from);
      const Xmm to = vector(rounding.to);
      const Xbyak::Ymm narrow(rounding.to);
      L(rounding.begin);
      if (rounding.from != rounding.to) vmovaps(to, x);
      vpord(to | k1, to, ptr_b[rip + least_exponent_]);
      vcvtneps2bf16(narrow, to);
      vpsubw(narrow | k1, narrow, ptr[rip + least_exponents_]);
      jmp(rounding.end, T_NEAR);
    }
  }

  std::vector<DenormalRounding> denormal_roundings_;
  int spill_slots_ = 0;
  void (*entry_)(std::int64_t*) = nullptr;
};

}  // namespace

std::shared_ptr<const MachineCode> generate(const Loop& loop, Isa isa) {
  const bool wide = isa == Isa::avx512;
  return std::make_shared<Generator>(wide && has_bfloat16_rounding() ? loop : round_in_integers(loop), wide);
}

}  // namespace lockstep::backend::jit
