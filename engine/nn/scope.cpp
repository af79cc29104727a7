#include <utility>

#include <lockstep/error.h>
#include <lockstep/model.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>

#include "engine/nn/precision_in_use.h"
#include "engine/nn/scope_frame.h"

namespace lockstep {
namespace {

std::string path_below(const std::string& path, std::string_view name) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    throw StateError("[scope] '" + std::string(name) + "' below '" + path +
                     "' is no name; give a non-empty name without '/'");
  }
  return path.empty() ? std::string(name) : path + "/" + std::string(name);
}

/// The value in its variable's type. A model run in another float dtype than it declares (check_one_meaning takes
/// float64) may still compute in the declared one, and `init` only asks what is declared.
Array in_type_of(const detail::Declared& variable, const Array& value, const std::string& path, std::string_view doing,
                 bool is_init) {
  const ArrayType old = variable.old_value.type();
  if (value.shape() == old.shape && value.dtype() == old.dtype) return value;
  const bool other_float = is_float(value.dtype()) && is_float(old.dtype) && value.shape() == old.shape;
  if (other_float && (is_init || old.dtype != variable.spec.dtype)) return convert(value, old.dtype);
  throw StateError("[" + std::string(doing) + "] '" + path + "' is " + to_string(ArrayType{old.dtype, old.shape, {}}) +
                   ", the value given is " + to_string(value.type()) + "; convert or reshape it");
}

/// Draws in float32 and rounds: a draw of 16 bits has other numbers, and few of them.
Initializer drawn_wide(const Initializer& initializer) {
  return [initializer](const Array& key, const Shape& shape, DType dtype) {
    return convert(initializer(key, shape, float32), dtype);
  };
}

}  // namespace

Scope::Scope(std::shared_ptr<detail::ScopeFrame> frame, std::string path)
    : frame_(std::move(frame)), path_(std::move(path)), place_(path_.empty() ? nullptr : detail::enter_layer(path_)) {}

Scope Scope::operator[](std::string_view name) const {
  Scope child(frame_, path_below(path_, name));
  child.precision_ = precision_;
  return child;
}

Scope Scope::in(std::shared_ptr<detail::ScopeFrame> frame) const {
  Scope there(std::move(frame), path_);
  there.precision_ = precision_;
  return there;
}

Scope Scope::with_precision(const PrecisionPolicy& policy) const {
  Scope scope = *this;
  scope.precision_ = std::make_shared<detail::PrecisionInUse>(detail::PrecisionInUse{policy});
  return scope;
}

Array Scope::in_compute_dtype(const Array& x) const {
  if (precision_ == nullptr || !is_float(x.dtype())) return x;
  const PrecisionDTypes dtypes = precision_->of_layer(path_);
  return detail::held(frame_, "scope").is_widened(dtypes.param) ? x : convert(x, dtypes.compute);
}

Array Scope::trainable(std::string_view name, const VariableSpec& spec) const {
  detail::ScopeFrame& frame = detail::held(frame_, "scope");
  const std::string path = path_below(path_, name);
  VariableSpec kept = spec;
  DType given = spec.dtype;
  if (precision_ != nullptr && is_float(spec.dtype)) {
    const PrecisionDTypes dtypes = precision_->of_variable(path);
    kept.dtype = dtypes.param;
    if (size_of(dtypes.param) < size_of(float32)) kept.initializer = drawn_wide(spec.initializer);
    given = spec.cast ? dtypes.compute : dtypes.param;
  }
  Array value = frame.declare(path, kept, true).now();
  detail::touch_layer(place_);
  const bool is_cast = precision_ != nullptr && is_float(spec.dtype) && !frame.is_widened(kept.dtype);
  return is_cast ? convert(value, given) : value;
}

Array Scope::non_trainable(std::string_view name, const VariableSpec& spec) const {
  Array value = detail::held(frame_, "scope").declare(path_below(path_, name), spec, false).now();
  detail::touch_layer(place_);
  return value;
}

void Scope::assign(std::string_view name, const Array& value) const {
  const std::string path = path_below(path_, name);
  const detail::Declared& variable = detail::held(frame_, "scope").find_assignable(path, "assign");
  if (variable.spec.aggregation == Aggregation::sum) {
    throw AggregationError("[assign] '" + path +
                           "' declares aggregation=sum, which adds what each replica contributes; a whole value summed "
                           "over replicas would count the old value once per replica. Write accumulate(\"" +
                           std::string(name) + "\", contribution) instead of assign(old + contribution)");
  }
  detail::held(frame_, "scope").assign(path, in_type_of(variable, value, path, "assign", is_init()));
}

void Scope::accumulate(std::string_view name, const Array& contribution) const {
  const std::string path = path_below(path_, name);
  const detail::Declared& variable = detail::held(frame_, "scope").find_assignable(path, "accumulate");
  if (variable.spec.aggregation != Aggregation::sum) {
    throw AggregationError("[accumulate] '" + path +
                           "' declares aggregation=" + std::string(lockstep::name(variable.spec.aggregation)) +
                           "; declare it sum, or assign its new value");
  }
  const Array given = in_type_of(variable, contribution, path, "accumulate", is_init());
  detail::held(frame_, "scope").accumulate(path, convert(given, detail::sum_dtype(given.dtype())));
}

Array Scope::next_key() const { return detail::held(frame_, "scope").next_key(path_, nullptr); }
Array Scope::next_key(const Array& x) const { return detail::held(frame_, "scope").next_key(path_, &x); }

bool Scope::is_init() const { return detail::held(frame_, "scope").mode() == detail::ScopeFrame::Mode::init; }
bool Scope::training() const { return detail::held(frame_, "scope").training(); }
Array Scope::rows() const { return detail::held(frame_, "scope").rows(nullptr); }
Array Scope::rows(const Array& x) const { return detail::held(frame_, "scope").rows(&x); }
Array Scope::mean_over_rows(const Array& x) const {
  const Array weights = rows(x);
  if (detail::held(frame_, "scope").is_one_row(x)) return x;
  if (x.ndim() == 0 || (weights.has_value() && weights.dim(0) != x.dim(0))) {
    throw ShapeError("[mean_over_rows '" + path_ + "'] x is " + to_string(x.type()) +
                     (weights.has_value() ? ", the batch has " + std::to_string(weights.dim(0)) + " rows" : "") +
                     "; give an array whose first dimension is the batch's");
  }
  if (!weights.has_value()) return mean(x, Axes{0});
  const Array average = detail::mean_of_real_rows(x, weights).mean;
  return is_inexact(x.dtype()) ? convert(average, x.dtype()) : average;
}
const AxisSet& Scope::batch_axes() const { return detail::held(frame_, "scope").batch_axes(); }

random::Placement Scope::over_batch() const { return placement(nullptr); }
random::Placement Scope::over_batch(const Array& x) const { return placement(&x); }

random::Placement Scope::placement(const Array* x) const {
  if (batch_axes().empty() || detail::held(frame_, "scope").maps_rows(x)) return random::same_on_all;
  return {.cut = random::Cut{.dim = 0, .axes = batch_axes()}};
}

NamedScope Scope::named() const { return NamedScope::at(path_); }

template class detail::OutOfLine<std::optional<Layout>>;

Scope::Scope(const Scope& other) = default;
Scope::Scope(Scope&& other) noexcept = default;
Scope& Scope::operator=(const Scope& other) = default;
Scope& Scope::operator=(Scope&& other) noexcept = default;
Scope::~Scope() = default;

}  // namespace lockstep
