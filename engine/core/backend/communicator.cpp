#include <lockstep/backend/communicator.h>

namespace lockstep::backend {

Transfer::~Transfer() = default;
Communicator::~Communicator() = default;
std::span<std::byte> Communicator::window(int /*process*/, int /*number*/, std::size_t /*bytes*/) { return {}; }

}  // namespace lockstep::backend
