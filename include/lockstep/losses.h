#pragma once

// All losses. Each takes predictions, targets and weights of any leading shape (`weighted` in weighted.h) and gives a
// Weighted: sum and weight, never a mean. Rows of weight 0 may hold anything, NaN too. Operands are computed with in at
// least float32. docs/losses.md has them beside those of Keras, Optax and PyTorch.
#include <lockstep/losses_classification.h>
#include <lockstep/losses_regression.h>
#include <lockstep/losses_sequence.h>
#include <lockstep/losses_similarity.h>
#include <lockstep/weighted.h>
