#include <lockstep/backend/communicator.h>

namespace lockstep::backend {

Communicator::~Communicator() = default;

}  // namespace lockstep::backend
