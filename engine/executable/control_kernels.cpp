#include "engine/executable/control_kernels.h"

#include <algorithm>

#include "engine/executable/bound_body.h"

namespace lockstep::executable {

// ---- memory --------------------------------------------------------------------------------------------------------

ControlKernel::ControlKernel(std::vector<Body> bodies, bool together)
    : bodies_(std::move(bodies)), together_(together) {
  // One body runs at a time, but each keeps addresses of its own.
  for (const Body& it : bodies_) {
    shared_bytes_ = std::max(shared_bytes_, BoundBody::shared_bytes(*it.executable));
    own_bytes_ += BoundBody::own_bytes(*it.executable);
  }
}

std::size_t ControlKernel::reserve_shared(std::size_t nbytes) {
  return std::exchange(shared_bytes_, shared_bytes_ + whole_lines(nbytes));
}

std::byte* ControlKernel::own_memory(const ControlArguments& arguments, std::size_t i) const {
  std::byte* memory = arguments.own;
  for (std::size_t k = 0; k < i; ++k) memory += BoundBody::own_bytes(body(k));
  return memory;
}

std::size_t ControlKernel::scratch_bytes() const { return together_ ? own_bytes_ : shared_bytes_ + own_bytes_; }

int ControlKernel::devices() const {
  int devices = 1;
  for (const Body& it : bodies_) devices = std::max(devices, it.executable->devices);
  return devices;
}

void ControlKernel::run(const KernelArguments& arguments, Recorder* recorder) const {
  Alone crew(recorder);
  auto* memory = static_cast<std::byte*>(arguments.scratch);
  walk({arguments.inputs, arguments.outputs, memory, memory + shared_bytes_}, crew);
}

void ControlKernel::walk_together(const KernelArguments& arguments, Crew& crew) const {
  const auto outputs = arguments.outputs.first(arguments.outputs.size() - 1);
  walk({arguments.inputs, outputs, static_cast<std::byte*>(arguments.outputs.back().data),
        static_cast<std::byte*>(arguments.scratch)},
       crew);
}

namespace {

std::byte* view_data(const ArrayView& view) { return static_cast<std::byte*>(view.data); }

}  // namespace

// ---- carries -------------------------------------------------------------------------------------------------------

LoopKernel::LoopKernel(std::vector<Body> bodies, bool together, std::size_t consts, std::size_t carries,
                       std::size_t first_carry)
    : ControlKernel(std::move(bodies), together), consts_(consts), first_carry_(first_carry), carries_(carries) {
  const Executable& last = *this->bodies().back().executable;
  for (std::size_t c = 0; c < carries; ++c) {
    const ResultSource& source = last.results[c];
    const int argument = static_cast<int>(consts + c);
    Carry& carry = carries_[c];
    carry.nbytes = static_cast<std::size_t>(last.result_types[c].nbytes());
    carry.fixed = source.kind == ResultSource::Kind::argument && source.index == argument;
    carry.in_place = source.kind == ResultSource::Kind::fresh && source.donor == argument;
    if (!carry.fixed && !carry.in_place) carry.spare = reserve_shared(carry.nbytes);
  }
}

bool LoopKernel::may_share(int input, int output) const {
  const auto carry = static_cast<std::size_t>(output);
  return carry < carries_.size() && static_cast<std::size_t>(input) == first_carry_ + carry &&
         (carries_[carry].in_place || carries_[carry].fixed);
}

void LoopKernel::start(BoundBody& body, const ControlArguments& arguments, bool odd) const {
  for (std::size_t c = 0; c < carries_.size(); ++c) {
    body.argument(consts_ + c) = view_data(arguments.inputs[first_carry_ + c]);
    const bool to_output = odd || carries_[c].in_place || carries_[c].fixed;
    body.result(c) = to_output ? view_data(arguments.outputs[c]) : arguments.shared + carries_[c].spare;
  }
}

void LoopKernel::advance(BoundBody& body, const ControlArguments& arguments, Crew& crew) const {
  crew.meet();
  const auto is_fixed = [&](std::size_t i) { return i < carries_.size() && carries_[i].fixed; };
  if (body.has_copies()) {
    if (crew.device() == 0 && !crew.has_failed()) body.copy_results(is_fixed);
    crew.meet();
  }
  for (std::size_t c = 0; c < carries_.size(); ++c) {
    const Carry& carry = carries_[c];
    if (carry.fixed) continue;
    std::byte* written = body.result(c);
    std::byte* output = view_data(arguments.outputs[c]);
    body.argument(consts_ + c) = written;
    if (!carry.in_place) body.result(c) = written == output ? arguments.shared + carry.spare : output;
  }
}

void LoopKernel::finish(BoundBody& body, const ControlArguments& arguments, Crew& crew) const {
  if (crew.device() != 0) return;
  for (std::size_t c = 0; c < carries_.size(); ++c) {
    copy_bytes(view_data(arguments.outputs[c]), body.argument(consts_ + c), carries_[c].nbytes);
  }
}

// ---- scan ----------------------------------------------------------------------------------------------------------

ScanKernel::ScanKernel(const ir::Scan& scan, std::shared_ptr<const Executable> body, bool together)
    : LoopKernel({{"body", std::move(body)}}, together, scan.consts, scan.carries, scan.consts),
      length_(scan.length),
      reverse_(scan.reverse) {
  const auto bytes = [&](ir::Var v) { return static_cast<std::size_t>(scan.body->type(v).nbytes()); };
  for (std::size_t i = 0; i < scan.xs(); ++i) {
    x_bytes_.push_back(bytes(scan.body->inputs()[scan.consts + scan.carries + i]));
  }
  for (std::size_t i = 0; i < scan.ys(); ++i) y_bytes_.push_back(bytes(scan.body->outputs()[scan.carries + i]));
}

std::string ScanKernel::describe() const {
  return std::to_string(length_) + " times" + (reverse_ ? " from the end" : "");
}

void ScanKernel::walk(const ControlArguments& arguments, Crew& crew) const {
  BoundBody bound(body(0), arguments.shared, own_memory(arguments, 0));
  for (std::size_t i = 0; i < consts(); ++i) bound.argument(i) = view_data(arguments.inputs[i]);
  start(bound, arguments, length_ % 2 == 1);
  const std::size_t first_x = consts() + carries();
  for (std::int64_t k = 0; k < length_; ++k) {
    const auto at = static_cast<std::size_t>(reverse_ ? length_ - 1 - k : k);
    for (std::size_t i = 0; i < x_bytes_.size(); ++i) {
      bound.argument(first_x + i) = view_data(arguments.inputs[first_x + i]) + at * x_bytes_[i];
    }
    for (std::size_t i = 0; i < y_bytes_.size(); ++i) {
      bound.result(carries() + i) = view_data(arguments.outputs[carries() + i]) + at * y_bytes_[i];
    }
    bound.run(crew);
    advance(bound, arguments, crew);
  }
  finish(bound, arguments, crew);
}

// ---- while_loop ----------------------------------------------------------------------------------------------------

WhileKernel::WhileKernel(const ir::WhileLoop& loop, std::shared_ptr<const Executable> cond,
                         std::shared_ptr<const Executable> body, bool together)
    : LoopKernel({{"cond", std::move(cond)}, {"body", std::move(body)}}, together, loop.body_consts, loop.carries(),
                 loop.cond_consts + loop.body_consts),
      cond_consts_(loop.cond_consts),
      flag_(reserve_shared(2 * sizeof(bool))) {}

void WhileKernel::walk(const ControlArguments& arguments, Crew& crew) const {
  BoundBody test(body(0), arguments.shared, own_memory(arguments, 0));
  BoundBody bound(body(1), arguments.shared, own_memory(arguments, 1));
  for (std::size_t i = 0; i < cond_consts_; ++i) test.argument(i) = view_data(arguments.inputs[i]);
  for (std::size_t i = 0; i < consts(); ++i) bound.argument(i) = view_data(arguments.inputs[cond_consts_ + i]);
  std::byte* predicate = arguments.shared + flag_;
  std::byte* go_on = predicate + sizeof(bool);
  test.result(0) = predicate;
  start(bound, arguments, true);
  for (;;) {
    for (std::size_t c = 0; c < carries(); ++c) test.argument(cond_consts_ + c) = bound.argument(consts() + c);
    test.run(crew);
    crew.meet();
    // Whether to go on is decided by one device: another one may learn of a failure too late and wait for ever.
    if (crew.device() == 0) *go_on = crew.has_failed() ? std::byte{0} : *test.value(0);
    crew.meet();
    if (*go_on == std::byte{0}) break;
    bound.run(crew);
    advance(bound, arguments, crew);
  }
  finish(bound, arguments, crew);
}

// ---- cond ----------------------------------------------------------------------------------------------------------

void CondKernel::walk(const ControlArguments& arguments, Crew& crew) const {
  const auto given = *static_cast<const std::int32_t*>(arguments.inputs[0].data);
  const auto last = static_cast<std::int32_t>(bodies().size()) - 1;
  const auto taken = static_cast<std::size_t>(std::clamp(given, 0, last));
  BoundBody bound(body(taken), arguments.shared, own_memory(arguments, taken));
  for (std::size_t i = 1; i < arguments.inputs.size(); ++i) bound.argument(i - 1) = view_data(arguments.inputs[i]);
  for (std::size_t i = 0; i < arguments.outputs.size(); ++i) bound.result(i) = view_data(arguments.outputs[i]);
  bound.run(crew);
  crew.meet();
  if (crew.device() == 0 && !crew.has_failed()) bound.copy_results([](std::size_t) { return false; });
}

}  // namespace lockstep::executable
