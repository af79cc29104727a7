#include <cstdio>
#include <iostream>

#include <lockstep/error.h>

#include "engine/core/current_layer.h"
#include "engine/core/quoting.h"

namespace lockstep {

Error::Error(const std::string& text) : std::runtime_error(place::placed(printable(text, Lines::kept))) {
  // std::terminate writes out no buffers: what the program has printed to a pipe would be lost where nobody catches.
  std::fflush(stdout);
  if (std::cout.rdbuf() != nullptr) std::cout.rdbuf()->pubsync();
}
Error::Error(const char* text) : Error(std::string(text)) {}

// Defined here so that each class has one vtable and type_info in the library.
Error::~Error() = default;
ShapeError::~ShapeError() = default;
DtypeError::~DtypeError() = default;
AggregationError::~AggregationError() = default;
TraceError::~TraceError() = default;
StateError::~StateError() = default;
MeshError::~MeshError() = default;
DataError::~DataError() = default;
CheckpointError::~CheckpointError() = default;
CommunicatorError::~CommunicatorError() = default;
BackendError::~BackendError() = default;
IrError::~IrError() = default;
CheckError::~CheckError() = default;
KeyReuseError::~KeyReuseError() = default;
ValueError::~ValueError() = default;

}  // namespace lockstep
