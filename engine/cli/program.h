#pragma once

namespace lockstep::cli {

/// What `lockstep` does with its words: 0, 1 where it failed or found a difference, 2 where the words cannot be meant.
int run_program(int argc, char** argv);

}  // namespace lockstep::cli
