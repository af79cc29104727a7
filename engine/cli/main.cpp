#include "engine/cli/program.h"

int main(int argc, char** argv) { return lockstep::cli::run_program(argc, argv); }
