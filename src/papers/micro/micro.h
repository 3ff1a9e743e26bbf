// Compares the published microbenchmarks with the virtual phone (V2): how each row is simulated,
// which constants it may set, and which rows are held back. docs/virtual-phone.md explains it.
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
  plan::Phone phone;        // the 8 Gen 3, on which almost all of it was measured
  plan::Phone phone_8gen2;  // the 8 Gen 2, whose memory is scaled from the 8 Gen 3
  std::map<std::string, plan::Stack> stacks;  // by name
  std::vector<plan::PublishedRow> published;
  std::map<std::string, std::string> reasons;  // tells why rows are not simulated, by their ids
  // Holds the microbenchmarks, in the order in which they must be fitted.
  plan::SimulatedFile micro;
};
// Throws Error.
PhoneFolder read_phone_folder(const std::string& path);

enum class Split { kFit, kHeldOut, kTaken, kNone };

struct MicroRow {
  const plan::PublishedRow* row;
  const plan::PublishedValue* value;
  std::string group;           // names the group of rows that share constants
  Split split = Split::kNone;  // kTaken: the constant is the row, so an error would say nothing
  std::optional<double> simulated = std::nullopt;  // in the row's unit
  std::string inputs = {};                         // says what was simulated, or why nothing was
  // Returns the error relative to the published value, or to the nearest end of its range. It is 0
  // inside a range and within a bound.
  std::optional<double> error() const;
};

struct MicroReport {
  std::vector<MicroRow> rows;  // has every number of every row marked calibrate
  // Counts fitted constants, those of groups with as many constants as rows included.
  int n_fitted_constants = 0;
  // Returns the median of |error| over the rows of a split.
  double median_error(Split split) const;
  int count(Split split) const;
  const MicroRow* worst(Split split) const;
};

MicroReport simulate_micro(const PhoneFolder& folder);

// Fits the constants of every group, in `folder`, to its rows of the split kFit, and says so in the
// constants' sources. Returns for each file the names of the constants that were fitted.
std::map<std::string, std::vector<std::string>> fit_micro(PhoneFolder& folder);
// Fits the constants and writes the files.
void write_fitted(PhoneFolder& folder);

// Decides which values of a group are held back: the first third in the order of the FNV-1a hash of
// "id" or "id/name". Returns indices into `names`.
std::vector<size_t> held_out(const std::vector<std::string>& names);

}  // namespace troika::papers
