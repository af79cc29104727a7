#pragma once

// The component scientific: solvers, minimization, differential equations, signals, polynomials.

#include <lockstep/scientific/minimize.h>
#include <lockstep/scientific/odeint.h>
#include <lockstep/scientific/polynomials.h>
#include <lockstep/scientific/signal.h>
#include <lockstep/scientific/solvers.h>
