#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/weighted.h>

// Losses of numbers. Targets are converted to the predictions' dtype, at least float32 of floats; integers are numbers
// too. Each is a mean over the elements of the rows that count; weights: `weighted` in weighted.h. All throw ShapeError
// unless predictions and targets have one shape, and DtypeError for complex numbers, which mean_absolute_error alone takes.
namespace lockstep {

/// The mean of (predictions - targets)^2.
LOCKSTEP_API Weighted mean_squared_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                         const Array& weight = {});
/// The mean of |predictions - targets|, with derivative 0 where they are equal.
LOCKSTEP_API Weighted mean_absolute_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                          const Array& weight = {});
/// 100 |predictions - targets| / max(|targets|, 1e-7).
LOCKSTEP_API Weighted mean_absolute_percentage_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                                     const Array& weight = {});
/// (log(1 + predictions) - log(1 + targets))^2, of what is below 0 as of 0.
LOCKSTEP_API Weighted mean_squared_logarithmic_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                                     const Array& weight = {});
/// Of the error e: e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2). Throws ValueError unless delta is above 0.
/// Huber 1964.
LOCKSTEP_API Weighted huber(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight = {},
                            double delta = 1.0);
/// log(cosh(predictions - targets)), exact for small and for large errors; its derivative is their tanh.
LOCKSTEP_API Weighted log_cosh(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight = {});
/// Of e = targets - predictions: q e from 0 on, (q - 1) e below; predictions become the q-th quantile. Throws
/// ValueError unless q is in (0, 1). Koenker and Bassett 1978.
LOCKSTEP_API Weighted quantile_loss(const ArrayOperand& predictions, const ArrayOperand& targets, double q,
                                    const Array& weight = {});

/// Options of poisson.
struct PoissonOptions {
  bool log_rate = false;  ///< Predictions are logarithms of rates: exp(x) - y x.
  double epsilon = 1e-7;  ///< Added to rates under the logarithm. Not negative.
};
/// rate - y log(rate + epsilon): the negative logarithm of Poisson's probability of counts y, without what predictions
/// do not change.
LOCKSTEP_API Weighted poisson(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight = {},
                              const PoissonOptions& options = {});
/// (log(v) + (mean - targets)^2 / v) / 2, v = max(variance, epsilon), which passes no derivative below epsilon. Means,
/// variances and targets of one shape. Throws ValueError unless epsilon is above 0. Nix and Weigend 1994.
LOCKSTEP_API Weighted gaussian_negative_log_likelihood(const ArrayOperand& mean, const ArrayOperand& variance,
                                                       const ArrayOperand& targets, const Array& weight = {},
                                                       double epsilon = 1e-6);

}  // namespace lockstep
