// The published microbenchmarks against the virtual phone (V2): which row is simulated how, which
// constants it may set, and which rows are held back. docs/virtual-phone.md is the text to it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/phones/phone.h"
#include "plan/phones/published.h"
#include "plan/phones/simulated.h"

namespace troika::papers {

struct PhoneFolder {
  std::string path;
  plan::Phone phone;                          // the 8 Gen 3, on which almost all of it was measured
  plan::Phone phone_8gen2;                    // its memory scaled from that one
  std::map<std::string, plan::Stack> stacks;  // by name
  std::vector<plan::PublishedRow> published;
  std::map<std::string, std::string> reasons;  // why rows are not simulated, by their ids
  plan::SimulatedFile micro;  // the microbenchmarks, in the order in which they must be fitted
};
// Throws Error.
PhoneFolder read_phone_folder(const std::string& path);

enum class Split { kFit, kHeldOut, kTaken, kNone };

struct MicroRow {
  const plan::PublishedRow* row;
  const plan::PublishedValue* value;
  std::string group;           // of rows that share constants
  Split split = Split::kNone;  // kTaken: the constant is the row, so an error would say nothing
  std::optional<double> simulated = std::nullopt;  // in the row's unit
  std::string inputs = {};                         // what was simulated, or why nothing was
  // Relative to the published value, or to the nearest end of its range; 0 inside, and within a
  // bound.
  std::optional<double> error() const;
};

struct MicroReport {
  std::vector<MicroRow> rows;  // every number of every row marked calibrate
  int n_fitted_constants = 0;  // those of groups with as many constants as rows counted too
  // The median of |error| over the rows of that split.
  double median_error(Split split) const;
  int count(Split split) const;
  const MicroRow* worst(Split split) const;
};

MicroReport simulate_micro(const PhoneFolder& folder);

// Fits the constants of every group to its rows of the split kFit, in `folder`, and says so in
// their sources. Returns for each file the names of the constants that were fitted.
std::map<std::string, std::vector<std::string>> fit_micro(PhoneFolder& folder);
// Fits and writes the files.
void write_fitted(PhoneFolder& folder);

// Decides which values of a group are held back: in the order of the FNV-1a hash of "id" or
// "id/name", the first third. Indices into `names`.
std::vector<size_t> held_out(const std::vector<std::string>& names);

}  // namespace troika::papers
