#pragma once

#include <string>
#include <vector>

#include "engine/cli/run_record.h"

namespace lockstep::cli {

/// Plots of a run's metrics one below the other, as one SVG picture.
std::string curves_svg(const RunRecord& run);

/// A page that needs no other file and no network: a plot for each metric with a line for each run, a table of the last
/// values with mean and deviation over the runs, and what differs in their manifests (of one run: its manifest).
std::string report_html(const std::vector<RunRecord>& runs);

}  // namespace lockstep::cli
