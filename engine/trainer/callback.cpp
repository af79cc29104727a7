#include <utility>

#include <lockstep/callbacks.h>

namespace lockstep {

void Requests::stop(std::string reason, bool save) {
  if (!is_stop_) stop_ = std::move(reason);
  is_stop_ = true;
  saves_at_end_ = saves_at_end_ && save;
}

Callback::~Callback() = default;
void Callback::reset() {}
void Callback::on_check(const std::vector<std::string>&) {}
void Callback::on_begin(const StepReport&, const Tree&) {}
void Callback::on_resume(const StepReport&, const Tree&, Requests&) {}
void Callback::on_update(std::int64_t, const Tree&) {}
void Callback::on_step(const StepReport&, const Tree&, Requests&) {}
void Callback::on_validation(const StepReport&, const Tree&, Requests&) {}
void Callback::on_epoch(const StepReport&, const Tree&, Requests&) {}
void Callback::on_end(const StepReport&, const Tree&, Requests&) {}
void Callback::close() {}
std::string Callback::monitored() const { return {}; }
std::int64_t Callback::every() const { return 0; }
bool Callback::judges_steps() const { return false; }
bool Callback::may_discard() const { return false; }
bool Callback::accepts(const StepReport&, Requests&) { return true; }
std::string Callback::name() const { return {}; }
Tree Callback::saved_state(const Tree&) const { return {}; }
void Callback::restore(const Tree&) {}

void Requests::set_hyperparameter(std::string name, double value) { hyperparameters_[std::move(name)] = value; }
void Requests::replace(std::string path, Tree values) { replaced_[std::move(path)] = std::move(values); }

template class detail::OutOfLine<std::map<std::string, double>>;
template class detail::OutOfLine<std::map<std::string, Tree>>;

std::optional<std::string> Requests::stop_reason() const {
  return is_stop_ ? std::optional<std::string>(stop_) : std::nullopt;
}

}  // namespace lockstep
