#pragma once

#include <stdexcept>
#include <string>

#include <lockstep/export.h>

namespace lockstep {

/// Base of everything Lockstep throws. The text says which op or variable path, what was given, what was expected, what to
/// write instead, and behind it where: ` (at model.cpp:42, in layer "encoder/dense")`: the program's own call of a function
/// with an Array, and the Scope or NamedScope in which the error was made. Making one writes out what stands in the buffers
/// of standard output: an error that nobody catches loses nothing of it.
class LOCKSTEP_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text);
  explicit Error(const char* text);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;
};

/// Shapes, ranks or axes that do not fit an op or a variable.
class LOCKSTEP_API ShapeError : public Error {
 public:
  using Error::Error;
  ~ShapeError() override;
};

/// A dtype an op, a conversion or a declaration does not take.
class LOCKSTEP_API DtypeError : public Error {
 public:
  using Error::Error;
  ~DtypeError() override;
};

/// An aggregation that its dtype forbids, or a replicated value combined against its declaration.
class LOCKSTEP_API AggregationError : public Error {
 public:
  using Error::Error;
  ~AggregationError() override;
};

/// Misuse of traced values: a leaked tracer, a C++ branch on data, a derivative that does not exist.
class LOCKSTEP_API TraceError : public Error {
 public:
  using Error::Error;
  ~TraceError() override;
};

/// Variables, trees and model state: missing, surplus or misshapen leaves, creation outside `init`.
class LOCKSTEP_API StateError : public Error {
 public:
  using Error::Error;
  ~StateError() override;
};

/// Meshes, axes, shard counts, varying types and layouts.
class LOCKSTEP_API MeshError : public Error {
 public:
  using Error::Error;
  ~MeshError() override;
};

/// Data sets and batches.
class LOCKSTEP_API DataError : public Error {
 public:
  using Error::Error;
  ~DataError() override;
};

/// Saved runs that cannot be written, read or trusted.
class LOCKSTEP_API CheckpointError : public Error {
 public:
  using Error::Error;
  ~CheckpointError() override;
};

/// Processes that cannot reach each other or disagree.
class LOCKSTEP_API CommunicatorError : public Error {
 public:
  using Error::Error;
  ~CommunicatorError() override;
};

/// An op without a kernel on the device, or a device that cannot do what is asked.
class LOCKSTEP_API BackendError : public Error {
 public:
  using Error::Error;
  ~BackendError() override;
};

/// IR that breaks the rules of `verify`, or text that `parse` does not understand.
class LOCKSTEP_API IrError : public Error {
 public:
  using Error::Error;
  ~IrError() override;
};

/// A predicate of error_if that held.
class LOCKSTEP_API CheckError : public Error {
 public:
  using Error::Error;
  ~CheckError() override;
};

/// A random key that is used a second time.
class LOCKSTEP_API KeyReuseError : public Error {
 public:
  using Error::Error;
  ~KeyReuseError() override;
};

/// An argument outside its range that none of the kinds above covers.
class LOCKSTEP_API ValueError : public Error {
 public:
  using Error::Error;
  ~ValueError() override;
};

}  // namespace lockstep
