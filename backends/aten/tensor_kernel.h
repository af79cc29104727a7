#pragma once

#include <memory>
#include <string>
#include <utility>

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <lockstep/backend/backend.h>

#include "backends/cpu/function_kernel.h"

namespace lockstep::backend::aten {

/// Throws a BackendError of the library that has loaded this module.
[[noreturn]] void fail(const std::string& text);

/// ATen sets a thread's OpenMP width at the thread's first parallel region. This makes it do so now, and sets the width that
/// was there again.
void keep_thread_settings();

/// Calls ATen for a kernel of that op: without its autograd, its errors as ours.
template <class Call>
void call_tensor_library(const std::string& op, const Call& call) {
  keep_thread_settings();
  const c10::InferenceMode no_autograd;
  try {
    call();
  } catch (const c10::Error& error) {
    fail("aten kernel of " + op + ": " + error.what_without_backtrace());
  }
}

/// A kernel made of a function `run(const KernelArguments&)` that calls ATen, by call_tensor_library.
template <class Run>
std::unique_ptr<Kernel> make_tensor_kernel(const KernelRequest& request, Run run, cpu::Promises promises = {}) {
  return cpu::make_function_kernel(
      [op = std::string(request.op), run = std::move(run)](const KernelArguments& arguments) {
        call_tensor_library(op, [&] { run(arguments); });
      },
      promises);
}

}  // namespace lockstep::backend::aten
