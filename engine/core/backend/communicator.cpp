#include <lockstep/backend/communicator.h>

namespace lockstep::backend {

Transfer::~Transfer() = default;
Communicator::~Communicator() = default;

}  // namespace lockstep::backend
