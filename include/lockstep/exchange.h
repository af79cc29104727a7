#pragma once

// Weights, functions and programs that come from other libraries and go to them.

#include <lockstep/exported_function.h>
#include <lockstep/key_map.h>
#include <lockstep/stablehlo.h>
#include <lockstep/weight_files.h>
