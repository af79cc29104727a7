#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/trainer/event_file.h"
#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {

TensorBoard::TensorBoard(std::filesystem::path folder, std::int64_t every) : folder_(std::move(folder)), every_(every) {
  trainer::check_count("tensor_board", "every", every_);
}
TensorBoard::~TensorBoard() = default;

void TensorBoard::on_begin(const StepReport& report, const Tree&) {
  is_open_ = true;
  if (world()->rank() == 0) file_ = detail::Owned<detail::EventFile>::make(folder_, report.step);
}

void TensorBoard::on_resume(const StepReport& report, const Tree& state, Requests&) {
  if (file_ == nullptr || !(report.is_extra || report.has_extra_validation)) return;
  file_->start(report.step);
  if (!report.is_extra) write(report, state);
}

void TensorBoard::on_step(const StepReport& report, const Tree& state, Requests&) {
  if (file_ != nullptr) write(report, state);
}

void TensorBoard::write(const StepReport& report, const Tree& state) {
  for (const auto& [name, value] : report.logs) file_->scalar(name, value, report.step);
  for (const auto& [name, value] : hyperparameters(state)) file_->scalar(name, value, report.step);
  file_->scalar("epoch", static_cast<double>(report.epoch), report.step);
}

void TensorBoard::close() {
  is_open_ = false;
  if (const auto file = std::move(file_); file != nullptr) file->finish();
}

detail::EventFile* TensorBoard::file(const char* what) {
  if (!is_open_) {
    throw StateError(
        fmt::format("[tensor_board] a {} was given outside of a run; write it from a callback of fit", what));
  }
  return file_.get();
}

void TensorBoard::scalar(const std::string& tag, double value, std::int64_t step) {
  if (detail::EventFile* open = file("scalar")) open->scalar(tag, value, step);
}

void TensorBoard::text(const std::string& tag, const std::string& text, std::int64_t step) {
  if (detail::EventFile* open = file("text")) open->text(tag, text, step);
}

}  // namespace lockstep::callbacks
