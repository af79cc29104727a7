#include <lockstep/communicator.h>

namespace lockstep {

Communicator::~Communicator() = default;

}  // namespace lockstep
