#pragma once

// All layers: functions of a Scope and an input. docs/layers.md has them beside those of Keras, Flax and PyTorch.
#include <lockstep/layers_attention.h>
#include <lockstep/layers_convolution.h>
#include <lockstep/layers_dense.h>
#include <lockstep/layers_normalization.h>
#include <lockstep/layers_pooling.h>
#include <lockstep/layers_preprocessing.h>
#include <lockstep/layers_recurrent.h>
#include <lockstep/layers_regularization.h>
#include <lockstep/ops.h>
