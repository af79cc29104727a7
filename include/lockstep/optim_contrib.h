#pragma once

// The component optim_contrib: rarely used optimizers.

#include <lockstep/optim_contrib/optimizers.h>
#include <lockstep/optim_contrib/projections.h>
#include <lockstep/optim_contrib/second_order.h>
