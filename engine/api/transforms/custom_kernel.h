#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/custom_op.h>

#include "engine/core/error_kinds.h"
#include "engine/ir/custom_op.h"

namespace lockstep::api {

/// What `body` returns; what it throws is thrown again behind the name `op`: errors of the library in their kind, all
/// others as CustomOpError.
template <class Body>
auto naming(const std::string& op, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string text = error.what();
    throw_alike(error, text.starts_with(op) ? text : op + ": " + text);
  } catch (const std::exception& error) {
    throw CustomOpError(op + ": " + error.what());
  } catch (...) {
    throw CustomOpError(op + ": threw what is no std::exception");
  }
}

/// Runs the kernel or the callback of `options` on a request's types.
std::unique_ptr<backend::Kernel> make_custom_kernel(std::shared_ptr<const CustomOpOptions> options,
                                                    const ir::CustomOp& op, const backend::KernelRequest& request);

/// The callback on concrete arrays, no trace being open while it runs. Throws where results are not of these types.
std::vector<Array> call_back(const CustomOpOptions& options, std::span<const Array> operands,
                             std::span<const ArrayType> results);

}  // namespace lockstep::api
