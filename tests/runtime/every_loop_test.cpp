#include <doctest/doctest.h>

#include "tests/support/mapped_program.h"
#include "tests/support/op_functions.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"

// Every sample of the loops and branches, compiled, against eval.
namespace lockstep::tests {
namespace {

/// The sample's equation in a map over its mesh, operands and results cut along a new dimension for each axis.
ir::FunctionPtr mapped_sample(const ir::Primitive& op, const ir::Sample& sample, int devices) {
  MapSpec spec{sample.axes, devices, {}, {}};
  std::vector<ArrayType> types;
  const auto leading = [&](const ArrayType& local) {
    std::vector<std::string> layout;
    for (const auto& axis : sample.axes.axes()) {
      if (local.varying.contains(axis.name)) layout.push_back(axis.name);
    }
    return layout;
  };
  const auto layout_of = [&](const ArrayType& local) {
    std::vector<std::string> layout = leading(local);
    layout.resize(layout.size() + static_cast<std::size_t>(local.shape.rank()));
    return layout;
  };
  for (const ArrayType& local : input_types(sample)) {
    spec.in.push_back(layout_of(local));
    types.push_back(whole_type(local, sample.axes));
  }
  for (const ArrayType& local : output_types(op, sample)) spec.out.push_back(layout_of(local));
  return mapped(types, spec, [&](ir::Builder&, std::span<const ir::Value> in) {
    std::vector<ir::Value> operands;
    const std::vector<ArrayType> local = input_types(sample);
    for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(ops::reshape(in[i], local[i].shape));
    std::vector<ir::Value> results = ops::apply(op, operands, sample.attrs);
    for (ir::Value& v : results) {
      for (std::size_t k = leading(v.type()).size(); k > 0; --k) v = ops::reshape(v, v.shape().insert(0, 1));
    }
    return results;
  });
}

ir::FunctionPtr plain_sample(const ir::Primitive& op, const ir::Sample& sample) {
  return make_function(input_types(sample),
                       [&](ir::Builder&, std::span<const ir::Value> in) { return ops::apply(op, in, sample.attrs); });
}

}  // namespace

TEST_CASE("every sample of every loop, compiled, gives eval's bits") {
  for (const auto* op : {&ops::primitives::scan(), &ops::primitives::while_loop(), &ops::primitives::cond()}) {
    CAPTURE(op->name);
    std::uint64_t seed = 0;
    for (const ir::Sample& sample : op->samples()) {
      std::vector<eval::HostArray> arguments;
      for (const ir::SampleInput& input : sample.inputs) {
        const ir::ReferenceArray array = draw(input, sample.axes, ++seed);
        arguments.push_back(eval::host_array(array.type, ir::reference_to_bytes(array), *ops::reference_backend()));
      }
      for (const int devices : {1, 2}) {
        CAPTURE(seed);
        CAPTURE(devices);
        const ir::FunctionPtr f = sample.axes.empty() ? plain_sample(*op, sample) : mapped_sample(*op, sample, devices);
        const Bytes expected = evaluated(f, arguments);
        for (const auto& backend : {ops::reference_backend(), permissive_backend()}) {
          for (const bool optimize : {false, true}) CHECK(compiled(f, arguments, backend, 2, optimize) == expected);
        }
      }
    }
  }
}

}  // namespace lockstep::tests
