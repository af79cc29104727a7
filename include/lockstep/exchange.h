#pragma once

// The component exchange: weights and functions of other libraries, StableHLO, TFRecord files.

#include <lockstep/exchange/exported_function.h>
#include <lockstep/exchange/key_map.h>
#include <lockstep/exchange/stablehlo.h>
#include <lockstep/exchange/tfrecord.h>
#include <lockstep/exchange/weight_files.h>
