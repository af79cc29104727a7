#pragma once

#include <functional>
#include <map>
#include <string>

// What a program that is timed says and hears, as peers/protocol.py describes it. The standard library alone: LibTorch's
// program is built apart from Lockstep.
namespace lockstep::benches {

/// Versions by what they are of.
using Versions = std::map<std::string, std::string>;

/// Makes five steps, each of which returns its loss; writes the losses, how long the first took and when it was made, by
/// how much resident memory has grown at most since it was `memory_before` MiB, the versions and the C++ compiler's.
void make_first_steps(const std::function<double()>& step, double memory_before, Versions versions);

/// For each number of seconds read makes steps for that long, and writes how long one takes.
void make_timed_steps(const std::function<double()>& step);

}  // namespace lockstep::benches
