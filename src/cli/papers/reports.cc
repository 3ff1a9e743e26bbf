#include "cli/papers/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/column_width.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

using papers::MicroReport;
using papers::MicroRow;
using papers::Split;
using papers::TestKind;
using papers::TestSubject;

const char* split_name(Split split) {
  switch (split) {
    case Split::kFit:
      return "fit";
    case Split::kHeldOut:
      return "held-out";
    case Split::kTaken:
      return "taken";
    case Split::kNone:
      break;
  }
  return "-";
}

std::string published_text(const plan::PublishedValue& value) {
  if (!value.value && value.low == 0.0 && value.high == 0.0) return "no number";
  const char* sign = value.bound == "most" ? "<= " : value.bound == "least" ? ">= " : "";
  if (value.value) return fmt::format("{}{:.6g}", sign, *value.value);
  return fmt::format("{:.6g} to {:.6g}", value.low, value.high);
}

nlohmann::ordered_json to_json(const MicroRow& row) {
  nlohmann::ordered_json json;
  json["id"] = row.row->id;
  json["paper"] = row.row->paper;
  json["where"] = row.row->where;
  json["name"] = row.value->name.empty() ? row.row->what
                                         : fmt::format("{}, {}", row.row->what, row.value->name);
  json["unit"] = row.value->unit;
  json["use"] = row.row->use;
  // A row that is a constant counts as fitted.
  json["split"] = row.split == Split::kTaken  ? nlohmann::ordered_json("fit")
                  : row.split == Split::kNone ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json(split_name(row.split));
  json["published"] =
      row.value->value ? nlohmann::ordered_json(*row.value->value) : nlohmann::ordered_json();
  json["published_range"] = row.value->value
                                ? nlohmann::ordered_json()
                                : nlohmann::ordered_json::array({row.value->low, row.value->high});
  json["simulated"] =
      row.simulated ? nlohmann::ordered_json(*row.simulated) : nlohmann::ordered_json();
  json["measured"] = nullptr;
  json["interval"] = nullptr;
  json["inputs"] = row.inputs;
  json["error"] = row.error() ? nlohmann::ordered_json(*row.error()) : nlohmann::ordered_json();
  json["is_taken"] = row.split == Split::kTaken;
  json["group"] = row.group;
  return json;
}

// Returns a share as "+4.2 %". What rounds to nothing has no sign.
std::string signed_percent(double share) {
  const std::string text = fmt::format("{:+.1f} %", 100.0 * share);
  return text.substr(1) == "0.0 %" ? "0.0 %" : text;
}

// Returns the row's id, and behind it the value's name where it has one.
std::string name_of(const MicroRow& row) {
  return row.value->name.empty() ? row.row->id : row.row->id + " " + row.value->name;
}

std::string worst_text(const MicroReport& report, Split split) {
  const MicroRow* worst = report.worst(split);
  if (worst == nullptr) return "none";
  return fmt::format("{} {}", name_of(*worst), signed_percent(*worst->error()));
}

nlohmann::ordered_json to_json(const papers::TestRow& row) {
  nlohmann::ordered_json json = to_json(row.base);
  constexpr const char* kKinds[] = {"value", "ratio", "range"};
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  json["kind"] = kKinds[static_cast<size_t>(row.kind)];
  json["part"] = papers::subject_name(row.part);
  json["measured"] = or_null(row.measured);
  if (row.interval) json["interval"] = {row.interval->first, row.interval->second};
  json["error"] = or_null(row.base.simulated ? row.error() : std::nullopt);
  if (row.highest) json["simulated_range"] = {*row.base.simulated, *row.highest};
  json["reason"] =
      row.reason.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.reason);
  return json;
}

constexpr const char* kTestRow = "  {:<{}} {:>14} {:>16} {:>8} {:<9} {:>8}  {}\n";

void print_test_row(const papers::TestRow& row, size_t name_width) {
  const MicroRow& base = row.base;
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const std::string simulated = !base.simulated ? "-"
                                : row.highest
                                    ? number(*base.simulated) + " to " + number(*row.highest)
                                    : number(*base.simulated);
  std::string remark = base.inputs;
  if (!row.reason.empty()) {
    remark += fmt::format("{}not counted: {}", remark.empty() ? "" : "; ", row.reason);
  }
  print(fmt::format(kTestRow, name_of(base), name_width, published_text(*base.value), simulated,
                    row.measured ? number(*row.measured) : "-", base.value->unit,
                    row.error() ? signed_percent(*row.error()) : "-", remark));
}

void print_median(const char* what, int n, double error) {
  if (n > 0) print(fmt::format("  {:<18} {:>4} {:>8.1f} %\n", what, n, 100.0 * error));
}

void print_orderings(const papers::TestReport& report) {
  const papers::OrderingCount close = report.count_orderings(papers::Figured::kClose);
  const papers::OrderingCount clear = report.count_orderings(papers::Figured::kClear);
  const papers::OrderingCount bare = report.count_orderings(papers::Figured::kNoFigure);
  print(
      fmt::format("\norderings: {} of {} kept where figures differ by twice or more, {} of {} "
                  "where they differ "
                  "by less, {} of {} that are held as sentences without figures\n",
                  clear.n_kept, clear.n, close.n_kept, close.n, bare.n_kept, bare.n));
  for (const papers::Ordering& ordering : report.orderings) {
    if (ordering.is_kept) continue;
    const char* how = ordering.figured == papers::Figured::kClose      ? ", close"
                      : ordering.figured == papers::Figured::kNoFigure ? ", without figures"
                                                                       : "";
    print(fmt::format("  not kept{}: {}\n", how, ordering.text));
  }
}

}  // namespace

void print_micro_table(const MicroReport& report) {
  constexpr const char* kRow = "  {:<{}} {:>14} {:>10} {:<8} {:>8}  {:<8}  {}\n";
  const size_t width = column_width(report.rows, [](const MicroRow& row) { return name_of(row); });
  print(fmt::format(kRow, "row", width, "published", "simulated", "unit", "error", "split",
                    "what was simulated"));
  std::string group;
  for (const MicroRow& row : report.rows) {
    if (row.group != group) print(fmt::format("\n{}\n", group = row.group));
    print(fmt::format(kRow, name_of(row), width, published_text(*row.value),
                      row.simulated ? fmt::format("{:.4g}", *row.simulated) : "-", row.value->unit,
                      row.error() ? signed_percent(*row.error()) : "-", split_name(row.split),
                      row.inputs));
  }
}

void print_fit_summary(const MicroReport& report) {
  print(fmt::format(
      "\nfitted: {} constants; median error {:.1f} % of the {} values that tell how well (worst "
      "{})\n"
      "held out: {} values, median error {:.1f} % (worst {})\n"
      "taken: {} values, no more than the constants they set, so their errors tell nothing\n",
      report.n_fitted_constants, 100.0 * report.median_error(Split::kFit),
      report.count(Split::kFit), worst_text(report, Split::kFit), report.count(Split::kHeldOut),
      100.0 * report.median_error(Split::kHeldOut), worst_text(report, Split::kHeldOut),
      report.count(Split::kTaken)));
  const auto n_missing = std::count_if(report.rows.begin(), report.rows.end(),
                                       [](const MicroRow& row) { return !row.simulated; });
  print(fmt::format("not simulated: {} values\n", n_missing));
}

void print_test_summary(const MicroReport& report) {
  print(
      fmt::format("\ntests: {} values, median error {:.1f} % (worst {}); none of them was fitted\n",
                  report.count(Split::kNone), 100.0 * report.median_error(Split::kNone),
                  worst_text(report, Split::kNone)));
}

nlohmann::ordered_json report_json(const MicroReport& report) {
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const MicroRow& row : report.rows) json["rows"].push_back(to_json(row));
  return json;
}

void print_report(const papers::TestReport& report, const std::vector<papers::Change>& record,
                  const std::string& name) {
  const size_t width =
      column_width(report.rows, [](const papers::TestRow& row) { return name_of(row.base); });
  print(fmt::format(kTestRow, "row", width, "published", "simulated", "measured", "unit", "error",
                    "what was simulated"));
  std::string group;
  for (const papers::TestRow& row : report.rows) {
    if (row.base.group != group) print(fmt::format("\n{}\n", group = row.base.group));
    print_test_row(row, width);
  }
  print_orderings(report);
  print("medians of the error, nothing of it fitted:\n");
  for (const auto& [kind, what] :
       {std::pair(TestKind::kValue, "values"), std::pair(TestKind::kRatio, "ratios"),
        std::pair(TestKind::kRange, "ranges")}) {
    print_median(what, report.count(kind), report.median_error(kind));
  }
  print_median("all", report.count(), report.median_error());
  print("the same rows by what they tell about:\n");
  for (const TestSubject part : papers::kTestSubjects) {
    print_median(papers::subject_name(part), report.count_of(part), report.median_error_of(part));
  }
  print(papers::record_text(record, name));
  if (report.n_decisions == 0) return;
  print(fmt::format("this machine: {} decisions of what comes next, {:.2f} us each\n",
                    report.n_decisions,
                    report.decision_us / static_cast<double>(report.n_decisions)));
}

nlohmann::ordered_json report_json(const papers::TestReport& report) {
  nlohmann::ordered_json json;
  json["rows"] = nlohmann::ordered_json::array();
  for (const papers::TestRow& row : report.rows) json["rows"].push_back(to_json(row));
  json["orderings"] = nlohmann::ordered_json::array();
  for (const papers::Ordering& ordering : report.orderings) {
    json["orderings"].push_back({{"text", ordering.text},
                                 {"is_kept", ordering.is_kept},
                                 {"is_close", ordering.figured == papers::Figured::kClose},
                                 {"has_figures", ordering.figured != papers::Figured::kNoFigure}});
  }
  json["counts"] = {{"values", report.count(TestKind::kValue)},
                    {"ratios", report.count(TestKind::kRatio)},
                    {"ranges", report.count(TestKind::kRange)},
                    {"all", report.count()}};
  // There is no median of nothing.
  const auto median_of = [](int count, double median) {
    return count > 0 ? nlohmann::ordered_json(median) : nlohmann::ordered_json();
  };
  const auto median_of_kind = [&](TestKind kind) {
    return median_of(report.count(kind), report.median_error(kind));
  };
  json["median_error"] = {{"values", median_of_kind(TestKind::kValue)},
                          {"ratios", median_of_kind(TestKind::kRatio)},
                          {"ranges", median_of_kind(TestKind::kRange)},
                          {"all", median_of(report.count(), report.median_error())}};
  for (const TestSubject part : papers::kTestSubjects) {
    const int count = report.count_of(part);
    json["parts"][papers::subject_name(part)] = {
        {"count", count}, {"median_error", median_of(count, report.median_error_of(part))}};
  }
  json["decision_us"] =
      report.n_decisions > 0
          ? nlohmann::ordered_json(report.decision_us / static_cast<double>(report.n_decisions))
          : nlohmann::ordered_json();
  json["this_machine"] = nullptr;
  return json;
}

}  // namespace troika::cli
