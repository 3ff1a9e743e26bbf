// Reads phones/record.json: what was changed of the virtual phone after its test rows had been
// seen, and how that moved the figures (V3). A prediction is a first one only once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "papers/test_rows.h"

namespace troika::papers {

enum class ChangeKind {
  kFirst,       // the first prediction
  kAssumption,  // replaces an assumption, after a look at test rows
  kCorrection,  // mends a fault: a law that did not hold, a row that was left out
};

// Medians in percent and counts, by name: "values", "all", "kept", "orderings", ...
using RecordedFigures = std::map<std::string, double>;

struct Change {
  std::string date;
  ChangeKind kind = ChangeKind::kCorrection;
  std::string what, reason;
  // Has the figures of each report that the change moved, after it.
  std::map<std::string, RecordedFigures> figures;
};

// Returns changes in the order in which they were made. Throws Error that names file and entry.
std::vector<Change> read_record(const std::string& phones);

// Has no median of a kind of which there is no row.
RecordedFigures figures_of(const TestReport& report);
RecordedFigures figures_of(const MicroReport& report);

// Returns sentences for people: the first prediction of a report, and how often it was changed
// since.
std::string record_text(const std::vector<Change>& record, const std::string& report);
// Returns a text as "values 30.2 %, all 31.3 %, 170 of 183 orderings".
std::string figures_text(const RecordedFigures& figures);

struct Overview {
  std::string report;
  int n_values = 0;
  RecordedFigures figures;
};
// Returns a table of reports as they are and as first predicted, and what was changed between.
std::string overview_text(const std::vector<Overview>& reports, const std::vector<Change>& record);

}  // namespace troika::papers
