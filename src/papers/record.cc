#include "papers/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "plan/json_fields.h"
#include "plan/phones/published.h"

namespace troika::papers {
namespace {

constexpr const char* kKindNames[] = {"first", "assumption", "correction"};
constexpr const char* kReportsOfNoPaper[] = {"micro", "baselines"};
constexpr const char* kFigures[] = {"fit",    "held-out", "values", "ratios",
                                    "ranges", "all",      "kept",   "orderings"};
constexpr double kMostFigure = 1e6;

RecordedFigures read_figures(const plan::JsonFields& json) {
  RecordedFigures figures;
  for (const char* name : kFigures) {
    if (json.has(name)) figures[name] = json.number(name, 0.0, kMostFigure);
  }
  return figures;
}

bool is_of(const Change& change, const std::string& report) {
  return change.figures.count(report) != 0;
}

}  // namespace

std::vector<Change> read_record(const std::string& phones) {
  const std::string path = phones + "/record.json";
  const std::optional<std::string> text = read_whole_file(path);
  if (!text) {
    throw Error(fmt::format("{} cannot be opened. Give the folder of phones by ‹phones›.", path));
  }
  const plan::JsonFields file = plan::JsonFields::parse(*text, path);
  std::vector<Change> record;
  file.each("changes", [&](const plan::JsonFields& json) {
    Change change;
    change.date = json.text("date");
    change.kind = static_cast<ChangeKind>(json.one_of("kind", kKindNames));
    change.what = json.text("what");
    change.reason = json.text("reason");
    const plan::JsonFields figures = json.object("figures");
    const auto read_report = [&](const char* report) {
      if (figures.has(report)) change.figures[report] = read_figures(figures.object(report));
    };
    for (const char* report : kReportsOfNoPaper) read_report(report);
    for (const char* paper : plan::kPapers) read_report(paper);
    record.push_back(std::move(change));
  });
  return record;
}

RecordedFigures figures_of(const TestReport& report) {
  const OrderingCount count = report.count_orderings();
  RecordedFigures figures = {
      {"all", 100.0 * report.median_error()}, {"kept", count.n_kept}, {"orderings", count.n}};
  for (const auto& [kind, name] :
       {std::pair(TestKind::kValue, "values"), std::pair(TestKind::kRatio, "ratios"),
        std::pair(TestKind::kRange, "ranges")}) {
    if (report.count(kind) > 0) figures[name] = 100.0 * report.median_error(kind);
  }
  return figures;
}

RecordedFigures figures_of(const MicroReport& report) {
  if (report.count(Split::kFit) == 0) return {{"all", 100.0 * report.median_error(Split::kNone)}};
  return {{"fit", 100.0 * report.median_error(Split::kFit)},
          {"held-out", 100.0 * report.median_error(Split::kHeldOut)}};
}

std::string figures_text(const RecordedFigures& figures) {
  std::string text;
  for (const char* name : kFigures) {
    const auto at = figures.find(name);
    if (at == figures.end() || at->first == "kept" || at->first == "orderings") continue;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", name, at->second);
  }
  const auto kept = figures.find("kept");
  const auto n = figures.find("orderings");
  if (kept != figures.end() && n != figures.end() && n->second > 0) {
    text += fmt::format(", {:.0f} of {:.0f} orderings", kept->second, n->second);
  }
  return text;
}

std::string record_text(const std::vector<Change>& record, const std::string& report) {
  const auto count = [&](ChangeKind kind) {
    return std::count_if(record.begin(), record.end(), [&](const Change& change) {
      return change.kind == kind && is_of(change, report);
    });
  };
  const auto first = std::find_if(record.begin(), record.end(), [&](const Change& change) {
    return change.kind == ChangeKind::kFirst && is_of(change, report);
  });
  if (first == record.end()) return {};
  return fmt::format(
      "first prediction, {}: {}\nsince then: {} assumptions changed after a look at test rows, {} "
      "faults mended (phones/record.json)\n",
      first->date, figures_text(first->figures.at(report)), count(ChangeKind::kAssumption),
      count(ChangeKind::kCorrection));
}

std::string overview_text(const std::vector<Overview>& reports, const std::vector<Change>& record) {
  constexpr const char* kRow = "{:<12} {:>6}  {:<{}}  {}\n";
  constexpr std::string_view kNow = "median errors now";
  size_t width = kNow.size();
  for (const Overview& overview : reports) {
    width = std::max(width, figures_text(overview.figures).size());
  }
  std::string text = fmt::format(kRow, "report", "values", kNow, width, "as first predicted");
  for (const Overview& overview : reports) {
    std::string first = "-";
    for (const Change& change : record) {
      if (change.kind != ChangeKind::kFirst || !is_of(change, overview.report)) continue;
      first =
          fmt::format("{}, on {}", figures_text(change.figures.at(overview.report)), change.date);
    }
    text += fmt::format(kRow, overview.report, overview.n_values, figures_text(overview.figures),
                        width, first);
  }
  text += "\nchanged since, with what each report came to behind it:\n";
  for (const Change& change : record) {
    if (change.kind == ChangeKind::kFirst) continue;
    text += fmt::format("  {} {}: {}\n      why: {}\n", change.date,
                        change.kind == ChangeKind::kAssumption ? "assumption" : "mended",
                        change.what, change.reason);
    for (const auto& [report, figures] : change.figures) {
      text += fmt::format("      {}: {}\n", report, figures_text(figures));
    }
  }
  return text;
}

}  // namespace troika::papers
