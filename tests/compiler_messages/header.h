#pragma once

#include <lockstep/lockstep.h>

// What stands in front of every program in programs.txt.
using namespace lockstep;

struct Plain {  // no tree
  Array w;
};
struct Params {
  Array w, b;
};
LOCKSTEP_TREE(Params, w, b);

inline Array a, b;
