#pragma once

#include <lockstep/lockstep.h>

// A layout of two dense layers.
namespace lockstep::tests {

/// Two dense layers, "in" and "out", cut as Megatron cuts them: the first by its units, the second by what it reads.
inline const LayoutMap megatron = {
    {"in/kernel", sharded("model", 1)}, {"in/bias", sharded("model")}, {"out/kernel", sharded("model")}};

}  // namespace lockstep::tests
