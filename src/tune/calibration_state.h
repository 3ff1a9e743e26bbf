// Keeps what the passes of a calibration, or of tuning, have found out, so that one that was cut
// off goes on where it stopped.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/json_fields.h"

namespace troika::tune {

class CalibrationState {
 public:
  // Makes the folder where it is missing; an empty name keeps nothing. The identity says which
  // calibration it is: each has a file of its own, KIND-KEY.json. `is_anew` removes what an earlier
  // one found out. Throws Error where the file that is there cannot be understood.
  CalibrationState(const std::string& folder, const std::string& identity,
                   const std::string& kind = "calibration", bool is_anew = false);

  // Returns what the pass of this name found out: from the file, or by running it. A result that
  // was just found also goes through text, so that both ways give the same.
  nlohmann::json finding(const std::string& pass,
                         const std::function<nlohmann::ordered_json()>& run);
  // Returns the same as fields; where one of them is wrong, the error says how to get rid of the
  // file.
  plan::JsonFields fields(const std::string& pass,
                          const std::function<nlohmann::ordered_json()>& run);
  size_t n_found_earlier() const { return n_found_earlier_; }

  // Empty where nothing is kept.
  const std::string& path() const { return path_; }
  // Removes the file when all passes are done.
  void remove();
  // Removes all files of this kind, also those of runs that were cut off and had other options.
  void remove_all();

 private:
  void load();
  // Says how to get rid of this file alone; empty where nothing is kept.
  std::string advice() const;

  const std::string kind_;
  std::string path_;
  std::string text_;  // the object of all findings, by the name of their pass
  size_t n_found_earlier_ = 0;
};

}  // namespace troika::tune
