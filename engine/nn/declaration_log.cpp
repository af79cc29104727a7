#include <utility>

#include <lockstep/model.h>

namespace lockstep::detail {
namespace {

DeclarationLog*& innermost() {
  thread_local DeclarationLog* log = nullptr;
  return log;
}

}  // namespace

struct DeclarationLog::Lists {
  std::vector<DeclaredAggregation> found;
  std::vector<DeclaredLayout> layouts;
  std::vector<AssignedState> assigned;
};

DeclarationLog::DeclarationLog() : lists_(Owned<Lists>::make()), outer_(std::exchange(innermost(), this)) {}

const std::vector<DeclaredAggregation>& DeclarationLog::found() const { return lists_->found; }
const std::vector<DeclaredLayout>& DeclarationLog::layouts() const { return lists_->layouts; }
const std::vector<AssignedState>& DeclarationLog::assigned() const { return lists_->assigned; }

DeclarationLog::~DeclarationLog() { innermost() = outer_; }

void DeclarationLog::note(DeclaredAggregation declared) {
  if (innermost() != nullptr) innermost()->lists_->found.push_back(std::move(declared));
}

void DeclarationLog::note(DeclaredLayout declared) {
  if (innermost() != nullptr) innermost()->lists_->layouts.push_back(std::move(declared));
}

void DeclarationLog::note(AssignedState assigned) {
  if (innermost() != nullptr) innermost()->lists_->assigned.push_back(std::move(assigned));
}

}  // namespace lockstep::detail
