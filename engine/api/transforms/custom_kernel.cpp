#include "engine/api/transforms/custom_kernel.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "engine/trace/trace.h"

namespace lockstep {

CustomOpError::~CustomOpError() = default;

KernelCall::KernelCall(std::string_view op, std::span<const ArrayView> operands, std::span<const ArrayView> results,
                       int mapped_dims)
    : op_(op), operands_(operands), results_(results), mapped_dims_(mapped_dims) {}

std::size_t KernelCall::operands() const { return operands_.size(); }
std::size_t KernelCall::results() const { return results_.size(); }
const Shape& KernelCall::operand_shape(std::size_t i) const { return at(operands_, i, "operand").shape; }
const Shape& KernelCall::result_shape(std::size_t i) const { return at(results_, i, "result").shape; }
DType KernelCall::operand_dtype(std::size_t i) const { return at(operands_, i, "operand").dtype; }
DType KernelCall::result_dtype(std::size_t i) const { return at(results_, i, "result").dtype; }
const void* KernelCall::operand_data(std::size_t i, DType wanted) const {
  return data(operands_, i, "operand", wanted);
}
void* KernelCall::result_data(std::size_t i, DType wanted) const { return data(results_, i, "result", wanted); }
std::size_t KernelCall::operand_size(std::size_t i) const {
  return static_cast<std::size_t>(operands_[i].shape.size());
}
std::size_t KernelCall::result_size(std::size_t i) const { return static_cast<std::size_t>(results_[i].shape.size()); }

const ArrayView& KernelCall::at(std::span<const ArrayView> views, std::size_t i, std::string_view role) const {
  if (i < views.size()) return views[i];
  throw ValueError(fmt::format("{}: the kernel asks for {} {}, but there are {}", op_, role, i, views.size()));
}

void* KernelCall::data(std::span<const ArrayView> views, std::size_t i, std::string_view role, DType wanted) const {
  const ArrayView& view = at(views, i, role);
  const bool is_bits = is_narrow_float(view.dtype);
  if (view.dtype != wanted && !(is_bits && wanted == DType::uint16)) {
    throw DtypeError(fmt::format("{}: the kernel takes {} {} for {}, but it is {}", op_, role, i,
                                 lockstep::name(wanted), lockstep::name(view.dtype)));
  }
  return view.data;
}

namespace api {

namespace {

/// A row-major view of example `number` of the mapped dimensions; `marks[level]`: whether the memory has them.
class Examples {
 public:
  Examples(const ir::CustomCall& call, std::span<const ArrayType> types, bool are_results) : sizes_(call.sizes) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      Shape shape = types[i].shape;
      std::vector<bool> marks;
      for (const auto& mapped : call.mapped) {
        marks.push_back(are_results || mapped[i] != 0);
        if (marks.back()) shape = shape.erase(0);
      }
      one_.push_back({types[i].dtype, shape, {}});
      marks_.push_back(std::move(marks));
    }
  }

  std::vector<ArrayView> views(std::span<const ArrayView> all, std::int64_t number) const {
    std::vector<ArrayView> views;
    for (std::size_t i = 0; i < one_.size(); ++i) {
      std::int64_t index = 0;
      std::int64_t step = 1;
      std::int64_t rest = number;
      for (std::size_t level = sizes_.size(); level-- > 0;) {
        if (marks_[i][level]) {
          index += rest % sizes_[level] * step;
          step *= sizes_[level];
        }
        rest /= sizes_[level];
      }
      auto* start = static_cast<std::byte*>(all[i].data);
      if (start != nullptr) start += index * one_[i].nbytes();
      views.push_back(contiguous_view(start, one_[i].dtype, one_[i].shape));
    }
    return views;
  }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<ArrayType> one_;
  std::vector<std::vector<bool>> marks_;
};

std::vector<ArrayView> views_of(std::span<const ArrayType> types, std::span<const ArrayView> memory) {
  std::vector<ArrayView> views;
  for (std::size_t i = 0; i < types.size(); ++i) {
    views.push_back(contiguous_view(memory[i].data, types[i].dtype, types[i].shape));
  }
  return views;
}

std::span<const std::byte> bytes_of(const ArrayView& view) {
  return {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.shape.size()) * size_of(view.dtype)};
}

class CustomKernel final : public backend::Kernel {
 public:
  CustomKernel(std::shared_ptr<const CustomOpOptions> options, const ir::CustomOp& op,
               const backend::KernelRequest& request)
      : options_(std::move(options)),
        text_(op.text()),
        call_(ir::CustomCall::of(request.attrs, request.inputs.size())),
        inputs_(request.inputs.begin(), request.inputs.end()),
        outputs_(request.outputs.begin(), request.outputs.end()),
        of_operands_(call_, inputs_, false),
        of_results_(call_, outputs_, true) {
    for (const std::int64_t size : call_.sizes) examples_ *= size;
  }

  void run(const backend::KernelArguments& arguments) const override {
    naming(text_, [&] {
      if (op().mapping() == ir::CustomOp::Mapping::at_once || call_.sizes.empty()) {
        run_once(views_of(inputs_, arguments.inputs), views_of(outputs_, arguments.outputs),
                 static_cast<int>(call_.sizes.size()));
        return;
      }
      for (std::int64_t i = 0; i < examples_; ++i) {
        run_once(of_operands_.views(arguments.inputs, i), of_results_.views(arguments.outputs, i), 0);
      }
    });
  }

 private:
  const ir::CustomOp& op() const { return *call_.op; }

  void run_once(const std::vector<ArrayView>& operands, const std::vector<ArrayView>& results, int mapped) const {
    if (options_->kernel) {
      options_->kernel(KernelCall(text_, operands, results, mapped));
      return;
    }
    const tracing::NoTrace none;
    std::vector<Array> arrays;
    for (const ArrayView& view : operands) arrays.push_back(from_bytes({view.dtype, view.shape, {}}, bytes_of(view)));
    std::vector<ArrayType> types;
    for (const ArrayView& view : results) types.push_back({view.dtype, view.shape, {}});
    const std::vector<Array> given = call_back(*options_, arrays, types);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::vector<std::byte> bytes = given[i].to_bytes();
      if (!bytes.empty()) std::memcpy(results[i].data, bytes.data(), bytes.size());
    }
  }

  std::shared_ptr<const CustomOpOptions> options_;
  std::string text_;
  ir::CustomCall call_;
  std::vector<ArrayType> inputs_;
  std::vector<ArrayType> outputs_;
  Examples of_operands_;
  Examples of_results_;
  std::int64_t examples_ = 1;
};

}  // namespace

std::unique_ptr<backend::Kernel> make_custom_kernel(std::shared_ptr<const CustomOpOptions> options,
                                                    const ir::CustomOp& op, const backend::KernelRequest& request) {
  return std::make_unique<CustomKernel>(std::move(options), op, request);
}

std::vector<Array> call_back(const CustomOpOptions& options, std::span<const Array> operands,
                             std::span<const ArrayType> results) {
  const tracing::NoTrace none;
  std::vector<Array> given = options.callback(operands);
  if (given.size() != results.size()) {
    throw ValueError(
        fmt::format("the callback returned {} arrays where {} are declared", given.size(), results.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].has_value()) throw ValueError(fmt::format("result {} of the callback is an empty Array", i));
    const std::string text = fmt::format("result {} of the callback is {} where {} is declared", i,
                                         to_string(given[i].type()), to_string(results[i]));
    if (given[i].dtype() != results[i].dtype) throw DtypeError(text + "; convert it");
    if (!(given[i].shape() == results[i].shape)) throw ShapeError(text + "; reshape it, or declare another type");
  }
  return given;
}

}  // namespace api

}  // namespace lockstep
