#include "engine/core/error_kinds.h"

#include <typeinfo>

namespace lockstep {

namespace {

template <class... Kinds>
void throw_kind(const Error& error, const std::string& text) {
  ((typeid(error) == typeid(Kinds) ? throw Kinds(text) : void()), ...);
}

}  // namespace

void throw_alike(const Error& error, const std::string& text) {
  throw_kind<Error, ShapeError, DtypeError, AggregationError, TraceError, StateError, MeshError, DataError,
             CheckpointError, CommunicatorError, BackendError, IrError, CheckError, KeyReuseError, ValueError>(error,
                                                                                                               text);
  throw;
}

}  // namespace lockstep
