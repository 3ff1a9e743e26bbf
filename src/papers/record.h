// What was changed of the virtual phone after its test rows had been seen, and what that did to the
// figures (V3): phones/record.json. A prediction is a first one only once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "papers/test_rows.h"

namespace troika::papers {

enum class ChangeKind {
  kFirst,       // the first prediction
  kAssumption,  // another assumption, after a look at test rows
  kCorrection,  // a fault mended: a law that did not hold, a row that was left out
};

// Medians in percent and counts, by name: "values", "all", "kept", "orderings", ...
using RecordedFigures = std::map<std::string, double>;

struct Change {
  std::string date;
  ChangeKind kind = ChangeKind::kCorrection;
  std::string what, reason;
  std::map<std::string, RecordedFigures> figures;  // of each report that it moved, after it
};

// In the order in which they were made. Throws Error that names file and entry.
std::vector<Change> read_record(const std::string& phones);

RecordedFigures figures_of(const TestReport& report);
RecordedFigures figures_of(const MicroReport& report);

// Sentences for people: the first prediction of a report, and how often it was changed since.
std::string record_text(const std::vector<Change>& record, const std::string& report);
// "values 30.2 %, all 31.3 %, 170 of 183 orderings".
std::string figures_text(const RecordedFigures& figures);

}  // namespace troika::papers
