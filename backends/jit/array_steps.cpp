#include "backends/jit/array_steps.h"

namespace lockstep::backend::jit {

Source ArraySteps::source(int value) {
  Source result;
  const Home& home = allocator_->home(value);
  if (home.reg >= 0) {
    result.vector = vector(home.reg);
  } else {
    result.in_memory = true;
    result.address = in_memory(home);
  }
  return result;
}

int ArraySteps::in_register(int value) {
  if (const int reg = allocator_->home(value).reg; reg >= 0) return reg;
  const int reg = allocator_->take();
  vmovups(vector(reg), in_memory(allocator_->home(value)));
  if (plan_.is_fixed(value)) {
    temporaries_.push_back(reg);
  } else {
    allocator_->own(reg, value);
  }
  return reg;
}

Xbyak::Xmm ArraySteps::result(int value, const Step& step) {
  allocator_->release(step);
  give_temporaries_back();
  const int reg = allocator_->take();
  allocator_->own(reg, value);
  return vector(reg);
}

void ArraySteps::give_temporaries_back() {
  for (const int reg : temporaries_) allocator_->give_back(reg);
  temporaries_.clear();
}

Xbyak::Opmask ArraySteps::mask_for(int value) {
  const bool stays = plan_.may_be_in_mask_register(value) && allocator_->own_mask(value) >= 0;
  return stays ? mask_register(allocator_->home(value)) : k1;
}

void ArraySteps::finish_mask(int value, const Step& step, const Opmask& mask) {
  if (allocator_->home(value).mask < 0) return vpmovm2d(result(value, step), mask);
  allocator_->release(step);
  give_temporaries_back();
}

void ArraySteps::load(int value, const Step& step) {
  const Reg64 from = base(step.bits);
  const Element kind = access(step.bits).element;
  if (kind == Element::byte) return load_mask(value, step, from);
  const Xmm to = result(value, step);
  if (kind == Element::bfloat16) return load_bfloat16(to, from);
  if (!is_tail_) return vmovups(to, element(from, kind));
  if (wide_) return vmovups(to | k7 | T_z, element(from, kind));
  vmaskmovps(to, ymm15, element(from, kind));
}

void ArraySteps::load_bfloat16(const Xmm& to, const Reg64& from) {
  if (!is_tail_) {
    vpmovzxwd(to, element(from, Element::bfloat16));
  } else if (wide_) {
    vpmovzxwd(to | k7 | T_z, element(from, Element::bfloat16));
  } else {
    vpxor(Xmm(to.getIdx()), Xmm(to.getIdx()), Xmm(to.getIdx()));
    vmovups(ptr[rsp], Xmm(to.getIdx()));
    copy_rest([&](int i) { movzx(second_scratch_.cvt32(), word[from + index_ * 2 + 2 * i]); },
              [&](int i) { mov(word[rsp + 2 * i], second_scratch_.cvt16()); });
    vpmovzxwd(to, ptr[rsp]);
  }
  vpslld(to, to, 16);
}

void ArraySteps::load_mask(int value, const Step& step, const Reg64& from) {
  const int reg = allocator_->take();
  const Xmm bytes = vector(reg);
  if (wide_) {
    const Xmm low(reg);
    if (is_tail_) {
      vmovdqu8(low | k7 | T_z, element(from, Element::byte));
    } else {
      vmovups(low, element(from, Element::byte));
    }
    const Opmask mask = mask_for(value);
    vptestmb(mask, low, low);
    allocator_->give_back(reg);
    return finish_mask(value, step, mask);
  }
  if (is_tail_) {
    mov(qword[rsp], 0);
    copy_rest([&](int i) { mov(second_scratch_.cvt8(), byte[from + index_ + i]); },
              [&](int i) { mov(byte[rsp + i], second_scratch_.cvt8()); });
    vpmovzxbd(bytes, ptr[rsp]);
  } else {
    vpmovzxbd(bytes, element(from, Element::byte));
  }
  const int zero = allocator_->take();
  vpxor(vector(zero), vector(zero), vector(zero));
  vpcmpgtd(bytes, bytes, vector(zero));
  allocator_->give_back(zero);
  allocator_->own(reg, value);
}

void ArraySteps::store(std::size_t result, int value) {
  const std::size_t array = loop_.operands.size() + result;
  if (const Home& home = allocator_->home(value); home.mask >= 0) return store_mask(base(array), mask_register(home));
  const int reg = in_register(value);
  if (access(array).written != Access::Written::once) return add_to_memory(array, reg);
  const Reg64 to = base(array);
  const Xmm from = vector(reg);
  const Element kind = access(array).element;
  if (kind == Element::byte) return store_mask(to, from);
  if (loop_.code[loop_.values[result]].op == Op::round_bfloat16) return store_rounded(to, from);
  if (kind == Element::bfloat16) return store_bfloat16(to, from);
  if (!is_tail_) return vmovups(element(to, kind), from);
  if (wide_) return vmovups(element(to, kind) | k7, from);
  vmaskmovps(element(to, kind), ymm15, from);
}

void ArraySteps::add_to_memory(std::size_t array, int reg) {
  const Reg64 to = base(array);
  Address sums = element(to, Element::word);
  if (access(array).written == Access::Written::added_to_lanes) {
    mov(second_scratch_, index_);
    and_(second_scratch_, static_cast<int>(sum_lanes) - 1);
    sums = ptr[to + second_scratch_ * 4];
  }
  allocator_->pin(reg);
  const int other = allocator_->take();
  const Xmm sum = vector(other);
  if (!is_tail_) {
    vmovups(sum, sums);
    vaddps(sum, sum, vector(reg));
    vmovups(sums, sum);
  } else if (wide_) {
    vmovups(sum | k7 | T_z, sums);
    vaddps(sum, sum, vector(reg));
    vmovups(sums | k7, sum);
  } else {
    vmaskmovps(sum, ymm15, sums);
    vaddps(sum, sum, vector(reg));
    vmaskmovps(sums, ymm15, sum);
  }
  allocator_->give_back(other);
}

void ArraySteps::store_mask(const Reg64& to, const Xmm& from) {
  const int reg = allocator_->take();
  const Xmm bytes = vector(reg);
  if (wide_) {
    vpsrld(bytes, from, 31);
    if (is_tail_) {
      vpmovdb(element(to, Element::byte) | k7, bytes);
    } else {
      vpmovdb(element(to, Element::byte), bytes);
    }
  } else {
    const Xmm low(reg);
    vpsrld(bytes, from, 31);
    const int high = allocator_->take();
    vextracti128(Xmm(high), Xbyak::Ymm(reg), 1);
    vpackssdw(low, low, Xmm(high));
    vpacksswb(low, low, low);
    allocator_->give_back(high);
    if (is_tail_) {
      vmovq(qword[rsp], low);
      copy_rest([&](int i) { mov(second_scratch_.cvt8(), byte[rsp + i]); },
                [&](int i) { mov(byte[to + index_ + i], second_scratch_.cvt8()); });
    } else {
      vmovq(ptr[to + index_], low);
    }
  }
  allocator_->give_back(reg);
}

void ArraySteps::store_mask(const Reg64& to, const Opmask& from) {
  const int reg = allocator_->take();
  const Xmm bytes(reg);
  vmovdqu8(bytes | from | T_z, ptr[rip + ones_]);
  if (is_tail_) {
    vmovdqu8(element(to, Element::byte) | k7, bytes);
  } else {
    vmovups(element(to, Element::byte), bytes);
  }
  allocator_->give_back(reg);
}

void ArraySteps::store_rounded(const Reg64& to, const Xmm& from) {
  const Address there = element(to, Element::bfloat16);
  const Xbyak::Ymm narrow(from.getIdx());
  if (is_tail_) {
    vmovdqu16(there | k7, narrow);
  } else {
    vmovups(there, narrow);
  }
}

void ArraySteps::store_bfloat16(const Reg64& to, const Xmm& from) {
  const int reg = allocator_->take();
  const Xmm high = vector(reg);
  vpsrld(high, from, 16);
  const Address there = element(to, Element::bfloat16);
  if (wide_) {
    if (is_tail_) {
      vpmovdw(there | k7, high);
    } else {
      vpmovdw(there, high);
    }
  } else {
    const Xmm low(reg);
    const int other = allocator_->take();
    vextracti128(Xmm(other), Xbyak::Ymm(reg), 1);
    vpackusdw(low, low, Xmm(other));
    allocator_->give_back(other);
    if (is_tail_) {
      vmovups(ptr[rsp], low);
      copy_rest([&](int i) { movzx(second_scratch_.cvt32(), word[rsp + 2 * i]); },
                [&](int i) { mov(word[to + index_ * 2 + 2 * i], second_scratch_.cvt16()); });
    } else {
      vmovups(there, low);
    }
  }
  allocator_->give_back(reg);
}

}  // namespace lockstep::backend::jit
