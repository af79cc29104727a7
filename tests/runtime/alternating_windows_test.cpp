#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ops/reference_backend.h"
#include "tests/runtime/values.h"
#include "tests/support/drawn_cases.h"
#include "tests/support/mapped_program.h"
#include "tests/support/permissive_backend.h"
#include "tests/support/run_compiled.h"
#include "tests/support/thread_processes.h"

// Sums that processes make where the others read them: windows take turns from call to call, and one meeting a call is all
// that keeps a process from writing what another one still reads.
namespace lockstep::tests {
namespace {

using ir::Value;
using Hook = std::function<void()>;

/// tanh, in front of which a process does something else: it sleeps, or fails.
class HookedTanh final : public backend::Backend {
 public:
  explicit HookedTanh(std::shared_ptr<Hook> hook) : hook_(std::move(hook)) {}
  std::string_view name() const override { return "hooked"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    if (request.op != ops::primitives::tanh().name) return nullptr;
    return std::make_unique<HookedKernel>(ops::reference_backend()->make_kernel(request), hook_);
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override {
    return nullptr;
  }

 private:
  class HookedKernel final : public backend::Kernel {
   public:
    HookedKernel(std::unique_ptr<backend::Kernel> inner, std::shared_ptr<Hook> hook)
        : inner_(std::move(inner)), hook_(std::move(hook)) {}
    void run(const backend::KernelArguments& arguments) const override {
      (*hook_)();
      inner_->run(arguments);
    }

   private:
    std::unique_ptr<backend::Kernel> inner_;
    std::shared_ptr<Hook> hook_;
  };

  std::shared_ptr<Hook> hook_;
};

Value product_along(const Value& x, const Value& y, std::int64_t of_x, std::int64_t of_y) {
  using Pairs = std::vector<std::vector<std::int64_t>>;
  return ops::apply_one(ops::primitives::dot_general(), {x, y},
                        {{"contract", Pairs{{of_x}, {of_y}}}, {"batch", Pairs{{}, {}}}});
}

/// A step over weights of those widths: their gradients are summed over the shards, and each is read where it is added up.
ir::FunctionPtr step_of(const std::vector<std::int64_t>& widths) {
  MapSpec spec{ir::AxisSizes({{"batch", 4}}), 1, {{"batch", ""}}, {}};
  std::vector<ArrayType> types = {{DType::float32, Shape{8, 8}, {}}};
  for (const std::int64_t width : widths) {
    types.push_back({DType::float32, Shape{8, width}, {}});
    spec.in.push_back({"", ""});
    spec.out.push_back({"", ""});
  }
  return mapped(types, spec, [](ir::Builder&, std::span<const Value> x) {
    const Value rows = ops::tanh(x[0]);
    Values results;
    for (std::size_t i = 1; i < x.size(); ++i) {
      const Value made = product_along(rows, ops::pvary(x[i], {"batch"}), 1, 0);
      const Value sum = ops::psum(product_along(rows, ops::cos(made), 0, 0), {"batch"});
      results.push_back(x[i] - ops::tanh(sum) * 0.5);
    }
    return results;
  });
}

/// A sum that goes in pieces: nothing here reads it.
ir::FunctionPtr sum_in_pieces() {
  const MapSpec spec{ir::AxisSizes({{"batch", 4}}), 1, {{"batch", ""}}, {{"", ""}}};
  const ArrayType type{DType::float32, Shape{4, 70001}, {}};
  return mapped({type}, spec,
                [](ir::Builder&, std::span<const Value> x) { return Values{ops::psum(ops::sin(x[0]), {"batch"})}; });
}

ir::FunctionPtr without_others() {
  return make_function({{DType::float32, Shape{64}, {}}},
                       [](ir::Builder&, std::span<const Value> x) { return Values{ops::cos(x[0]) * x[0]}; });
}

/// Functions of one program, with arguments and what one process makes of them.
struct Case {
  ir::FunctionPtr function;
  std::vector<std::vector<eval::HostArray>> arguments;
  std::vector<Bytes> expected;
};

constexpr std::size_t arguments_each = 3;

/// Less than what all processes add up for themselves, more than that, in pieces, and nothing to add up.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const ir::FunctionPtr& f :
         {step_of({3, 700, 40}), step_of({5, 2100, 1, 9000}), sum_in_pieces(), without_others()}) {
      Case& it = made.emplace_back(Case{f, {}, {}});
      for (std::uint64_t seed = 0; seed < arguments_each; ++seed) {
        it.arguments.push_back(random_host_arrays(f->input_types(), seed));
        it.expected.push_back(evaluated(f, it.arguments.back()));
      }
    }
    return made;
  }();
  return all;
}

/// One process, with all functions compiled for it.
class Caller {
 public:
  Caller(const std::shared_ptr<Processes>& processes, std::int64_t bucket_bytes) {
    compile::Options options;
    options.backends = {std::make_shared<HookedTanh>(hook_), permissive_backend()};
    options.processes = processes;
    options.bucket_bytes = bucket_bytes;
    options.verify = true;
    for (const Case& it : cases()) executables_.push_back(compile::lower(it.function, options));
  }

  const executable::Executable& executable(std::size_t function) const { return *executables_.at(function); }
  /// Whether the call gives what one process gives. The arguments are the call's own, to write results over.
  bool call(
      std::size_t function, std::size_t arguments, const Hook& hook = [] {}) {
    *hook_ = hook;
    const Case& it = cases().at(function);
    const std::vector<bool> donated(it.arguments.at(arguments).size(), true);
    return bytes_of(runtime::run(executable(function), copies(it.arguments.at(arguments)), donated)) ==
           it.expected.at(arguments);
  }

 private:
  static std::vector<eval::HostArray> copies(const std::vector<eval::HostArray>& arrays) {
    std::vector<eval::HostArray> result;
    for (const eval::HostArray& array : arrays) {
      eval::HostArray copy{array.type, ops::reference_backend()->allocate(eval::host_bytes(array).size(), Device{})};
      std::ranges::copy(eval::host_bytes(array), static_cast<std::byte*>(copy.buffer->data()));
      result.push_back(std::move(copy));
    }
    return result;
  }

  std::shared_ptr<Hook> hook_ = std::make_shared<Hook>([] {});
  std::vector<std::shared_ptr<const executable::Executable>> executables_;
};

/// Does something at one of the moments of a call.
Hook at_moment(int moment, const Hook& work) {
  return [count = std::make_shared<int>(0), moment, work] {
    if ((*count)++ == moment) work();
  };
}

void with_windows(int count, const std::function<void(const std::shared_ptr<Processes>&)>& body) {
  run_processes(
      count, body, [](int) { return ProcessOptions{.time_limit = 20}; }, true);
}

/// How often the functions of two programs that are called in turn reach tanh.
constexpr int moments = 14;
/// Those that are tried are so far apart.
int moments_apart() { return moments / drawn_cases(moments); }

}  // namespace

TEST_CASE("functions whose sums have other sizes take windows in turn, processes being late now and then" *
          drawn_suite) {
  cases();
  for (const std::int64_t bucket_bytes : {0, 100}) {
    for (const int count : {1, 2, 4}) {
      CAPTURE(bucket_bytes);
      CAPTURE(count);
      const int calls = drawn_cases(60);
      std::atomic<int> right = 0;
      with_windows(count, [&](const std::shared_ptr<Processes>& processes) {
        Caller caller(processes, bucket_bytes);
        std::mt19937_64 order(7), own(static_cast<std::uint64_t>(processes->rank()));
        for (int i = 0; i < calls; ++i) {
          const std::size_t function = order() % cases().size(), arguments = order() % arguments_each;
          const auto sleep = [&] { std::this_thread::sleep_for(std::chrono::microseconds(own() % 700)); };
          if (own() % 3 == 0) sleep();
          if (caller.call(function, arguments, at_moment(static_cast<int>(own() % moments), sleep))) ++right;
        }
      });
      CHECK(right == calls * count);
    }
  }
}

TEST_CASE("what one process of several adds up for all, and where each adds up all") {
  with_windows(4, [](const std::shared_ptr<Processes>& processes) {
    const Caller caller(processes, 0);
    const auto has = [&](std::size_t function, const char* name) {
      return caller.executable(function).print().find(name) != std::string::npos;
    };
    const bool small = has(0, "fold_with_window") && !has(0, "fold_dealt_tiles");
    const bool large = has(1, "take_from_window") && has(1, "fold_dealt_tiles") && !has(1, "fold_with_window");
    const std::string text = small && large ? "" : caller.executable(0).print() + caller.executable(1).print();
    CHECK_MESSAGE(text.empty(), text);
    const std::uint64_t before = processes->collectives();
    Caller calls(processes, 0);
    calls.call(0, 0);
    const std::uint64_t compared = processes->collectives() - before;  // with what is compared before a first call
    calls.call(0, 1);
    CHECK(processes->collectives() - before - compared == 1);
    calls.call(1, 0);
    const std::uint64_t both = processes->collectives();
    calls.call(1, 1);
    CHECK(processes->collectives() - both == 2);
  });
}

TEST_CASE("one process is late at each moment of a call, while another one is ahead by as much as it can be" *
          drawn_suite) {
  cases();
  for (const int count : {2, 4}) {
    std::atomic<int> right = 0;
    const int late_ones = drawn_cases(count), calls = late_ones * ((moments - 1) / moments_apart() + 1) * 4;
    with_windows(count, [&](const std::shared_ptr<Processes>& processes) {
      Caller caller(processes, 0);
      for (int late = 0; late < late_ones; ++late) {
        for (int moment = 0; moment < moments; moment += moments_apart()) {
          const Hook sleep = at_moment(moment, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
          std::size_t arguments = 0;
          for (const std::size_t function : {1, 1, 0, 1}) {
            const bool is_late = processes->rank() == late;
            if (caller.call(function, arguments++ % arguments_each, is_late ? sleep : Hook([] {}))) ++right;
          }
        }
      }
    });
    CHECK(right == calls * count);
  }
}

TEST_CASE("what all processes throw alike at a moment of a call leaves windows that are right in the next ones" *
          drawn_suite) {
  cases();
  for (const int count : {2, 4}) {
    std::atomic<int> right = 0, thrown = 0;
    with_windows(count, [&](const std::shared_ptr<Processes>& processes) {
      Caller caller(processes, 0);
      for (int moment = 0; moment < 8; moment += moments_apart()) {
        const Hook fail = at_moment(moment, [] { throw std::runtime_error("row 7 is bad"); });
        for (const std::size_t function : {1, 0}) {
          if (caller.call(function, 0)) ++right;
          try {
            caller.call(function, 1, fail);
          } catch (const std::runtime_error&) {
            ++thrown;
          }
          if (caller.call(function, 2)) ++right;
          if (caller.call(1 - function, 1)) ++right;
        }
      }
    });
    CHECK(right == (7 / moments_apart() + 1) * 2 * 3 * count);
    CHECK(thrown > 0);
  }
}

TEST_CASE("what one process alone throws at a moment of a call ends the others, at the latest in their next call") {
  cases();
  for (const int count : {2, 4}) {
    for (int moment = 0; moment < 6; ++moment) {
      std::atomic<int> ended = 0;
      with_windows(count, [&](const std::shared_ptr<Processes>& processes) {
        Caller caller(processes, 0);
        caller.call(1, 0);
        const Hook fail = at_moment(moment, [] { throw std::runtime_error("row 7 is bad"); });
        try {
          for (int i = 0; i < 3; ++i) caller.call(1, 1, processes->rank() == 1 ? fail : Hook([] {}));
        } catch (const std::exception& error) {
          ended += std::string(error.what()).find("row 7 is bad") != std::string::npos ? 1 : 0;
        }
      });
      CHECK(ended == count);
    }
  }
}

}  // namespace lockstep::tests
