#include "engine/cli/report_page.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/cli/commands.h"
#include "engine/cli/curves.h"
#include "engine/cli/run_folder.h"

namespace lockstep::cli {
namespace {

/// Names of what is plotted: all numbers but the step and the epoch, of any run, in order.
std::vector<std::string> metrics_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    for (const RecordTable* table : {&run.metrics, &run.speed}) {
      for (const std::string& column : table->columns) {
        const bool is_place = column == "step" || column == "epoch";
        if (!is_place && std::ranges::find(names, column) == names.end()) names.push_back(column);
      }
    }
  }
  return names;
}

std::string name_of(const RunRecord& run) {
  const std::filesystem::path folder = run.folder.lexically_normal();
  return folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
}

Curve curve_of(const RecordTable& table, const std::string& metric, const std::string& name) {
  Curve curve{name, {}, numbers_of(table, metric)};
  for (const std::optional<double>& step : numbers_of(table, "step")) curve.x.push_back(step.value_or(0));
  return curve;
}

std::string plot_of(const std::vector<RunRecord>& runs, const std::string& metric) {
  std::vector<Curve> curves;
  for (const RunRecord& run : runs) {
    if (const RecordTable* table = run.table_with(metric)) curves.push_back(curve_of(*table, metric, name_of(run)));
  }
  return plot_svg(metric, curves);
}

std::optional<double> last_value(const RunRecord& run, const std::string& metric) {
  const RecordTable* table = run.table_with(metric);
  if (table == nullptr) return std::nullopt;
  const std::vector<std::optional<double>> values = numbers_of(*table, metric);
  const auto last = std::find_if(values.rbegin(), values.rend(), [](const auto& value) { return value.has_value(); });
  return last == values.rend() ? std::nullopt : *last;
}

std::string cell(const std::string& text, const char* tag = "td") {
  return fmt::format("<{0}>{1}</{0}>", tag, escaped(text));
}
std::string cell(std::optional<double> value) { return cell(value ? fmt::format("{:.6g}", *value) : std::string()); }

/// Last values, with mean and deviation (of a sample, by n - 1) where there are several runs.
std::string value_table(const std::vector<RunRecord>& runs, const std::vector<std::string>& metrics) {
  std::string html = "<table><tr><th>last value</th>";
  for (const RunRecord& run : runs) html += cell(name_of(run), "th");
  const bool are_several = runs.size() > 1;
  html += are_several ? "<th>mean</th><th>deviation</th></tr>\n" : "</tr>\n";
  for (const std::string& metric : metrics) {
    html += "<tr>" + cell(metric, "th");
    std::vector<double> values;
    for (const RunRecord& run : runs) {
      const std::optional<double> value = last_value(run, metric);
      if (value) values.push_back(*value);
      html += cell(value);
    }
    if (are_several && !values.empty()) {
      const auto n = static_cast<double>(values.size());
      double mean = 0, squares = 0;
      for (const double value : values) mean += value / n;
      for (const double value : values) squares += (value - mean) * (value - mean);
      html += cell(mean) + cell(n > 1 ? std::optional(std::sqrt(squares / (n - 1))) : std::nullopt);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string manifest_table(const std::vector<RunRecord>& runs) {
  std::set<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const auto& [key, value] : run.manifest) keys.insert(key);
  }
  std::string html = "<table><tr><th>manifest</th>";
  for (const RunRecord& run : runs) html += cell(name_of(run), "th");
  html += "</tr>\n";
  std::size_t shown = 0;
  for (const std::string& key : keys) {
    std::set<std::string> values;
    std::string row = "<tr>" + cell(key, "th");
    for (const RunRecord& run : runs) {
      const auto found = run.manifest.find(key);
      const std::string value = found == run.manifest.end() ? "" : found->second;
      values.insert(value);
      row += cell(value);
    }
    if (runs.size() > 1 && values.size() == 1) continue;
    html += row + "</tr>\n";
    ++shown;
  }
  return shown == 0 ? std::string("<p>The manifests do not differ.</p>\n") : html + "</table>\n";
}

void write_page(const std::filesystem::path& path, const std::string& text) {
  if (write_text(path, text)) return;
  throw DataError(path.string() + " cannot be written; free the disk, or name another file in --out");
}

}  // namespace

std::string curves_svg(const RunRecord& run) {
  std::string plots;
  double y = 0;
  for (const std::string& metric : metrics_of({run})) {
    plots += fmt::format("<g transform=\"translate(0,{})\">\n{}</g>\n", y, plot_of({run}, metric));
    y += 320;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {0}\" width=\"640\" height=\"{0}\">\n{1}</svg>\n",
      std::max(y, 1.0), plots);
}

std::string report_html(const std::vector<RunRecord>& runs) {
  const std::vector<std::string> metrics = metrics_of(runs);
  std::string title;
  for (const RunRecord& run : runs) title += (title.empty() ? "" : ", ") + name_of(run);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>\n"
      "body {{ font-family: sans-serif; margin: 2em; }} table {{ border-collapse: collapse; margin: 1em 0; }}\n"
      "td, th {{ border: 1px solid #ccc; padding: 3px 8px; text-align: left; font-size: 13px; }}\n"
      "</style></head><body>\n<h1>{0}</h1>\n",
      escaped(title));
  for (const std::string& metric : metrics) html += "<div>" + plot_of(runs, metric) + "</div>\n";
  return html + value_table(runs, metrics) + manifest_table(runs) + "</body></html>\n";
}

std::vector<std::filesystem::path> write_reports(const ReportArguments& arguments) {
  std::vector<RunRecord> runs;
  for (const std::filesystem::path& folder : arguments.runs) runs.push_back(read_run(folder));
  std::vector<std::filesystem::path> written = {arguments.out.empty() ? arguments.runs.front() / "report.html"
                                                                      : arguments.out};
  write_page(written[0], report_html(runs));
  for (const RunRecord& run : runs) {
    written.push_back(run.folder / "curves.svg");
    write_page(written.back(), curves_svg(run));
  }
  return written;
}

int report(const ReportArguments& arguments) {
  for (const std::filesystem::path& path : write_reports(arguments)) fmt::print("{}\n", path.string());
  return success;
}

}  // namespace lockstep::cli
