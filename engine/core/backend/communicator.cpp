#include <lockstep/backend/communicator.h>

namespace lockstep {

Communicator::~Communicator() = default;

}  // namespace lockstep
