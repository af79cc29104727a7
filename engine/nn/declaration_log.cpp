#include <utility>

#include <lockstep/model.h>

namespace lockstep::detail {
namespace {

DeclarationLog*& innermost() {
  thread_local DeclarationLog* log = nullptr;
  return log;
}

}  // namespace

DeclarationLog::DeclarationLog() : outer_(std::exchange(innermost(), this)) {}

DeclarationLog::~DeclarationLog() { innermost() = outer_; }

void DeclarationLog::note(DeclaredAggregation declared) {
  if (innermost() != nullptr) innermost()->found_.push_back(std::move(declared));
}

void DeclarationLog::note(DeclaredLayout declared) {
  if (innermost() != nullptr) innermost()->layouts_.push_back(std::move(declared));
}

void DeclarationLog::note(AssignedState assigned) {
  if (innermost() != nullptr) innermost()->assigned_.push_back(std::move(assigned));
}

}  // namespace lockstep::detail
