#include <lockstep/error.h>

#include "engine/python/bindings.h"

namespace lockstep::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module) {
  // The handler made last is asked first, so kinds come behind what they are kinds of.
  const nb::exception<Error> error(module, "Error", PyExc_RuntimeError);
  const auto kind = [&]<class E>(std::type_identity<E>, const char* name) {
    nb::exception<E>(module, name, error.ptr());
  };
  kind(std::type_identity<ShapeError>(), "ShapeError");
  kind(std::type_identity<DtypeError>(), "DtypeError");
  kind(std::type_identity<AggregationError>(), "AggregationError");
  kind(std::type_identity<TraceError>(), "TraceError");
  kind(std::type_identity<StateError>(), "StateError");
  kind(std::type_identity<MeshError>(), "MeshError");
  kind(std::type_identity<DataError>(), "DataError");
  kind(std::type_identity<CheckpointError>(), "CheckpointError");
  kind(std::type_identity<CommunicatorError>(), "CommunicatorError");
  kind(std::type_identity<BackendError>(), "BackendError");
  kind(std::type_identity<IrError>(), "IrError");
  kind(std::type_identity<CheckError>(), "CheckError");
  kind(std::type_identity<KeyReuseError>(), "KeyReuseError");
  kind(std::type_identity<ValueError>(), "ValueError");
}

}  // namespace lockstep::python
