// The published figures of the five papers as data, which phones are fitted to and checked against.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troika::plan {

// Names the papers as their files are called.
inline constexpr const char* kPapers[] = {"llm.npu", "heterollm", "shadowattn", "sd.npu",
                                          "powerinfer-2"};

struct PublishedValue {
  std::string name;  // empty where a row has one value
  std::string unit;
  std::optional<double> value;   // none where only a range is printed
  double low = 0.0, high = 0.0;  // the ends of the range; without one, both are the value
  std::string bound;             // "most", "least", or empty
};

struct PublishedRow {
  std::string id, paper, what, configuration, where, text, use, note;
  std::vector<PublishedValue> values;
};

// Reads all rows of the folder `published`, file by file. Throws Error that names file and row.
std::vector<PublishedRow> read_published(const std::string& folder);

// Reads not_simulated.json of the folder, which says why rows marked test are not simulated.
// Returns the reasons by the rows' ids. Throws Error.
std::map<std::string, std::string> read_reasons(const std::string& folder);

const PublishedRow* find_row(const std::vector<PublishedRow>& rows, std::string_view id);

// Returns a row's value of this name. Throws Error where there is none, or only a range is printed.
double number_of(const PublishedRow& row, std::string_view value);

}  // namespace troika::plan
