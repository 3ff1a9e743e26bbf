// What the passes of a calibration, or of tuning, have found out, kept so that one that was cut off
// goes on where it stood.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace troika::tune {

class CalibrationState {
 public:
  // The folder is made where it is missing; an empty one keeps nothing. The identity says of what
  // calibration it is: another one has a file of its own, KIND-KEY.json. Throws Error where the
  // file that is there cannot be understood.
  CalibrationState(const std::string& folder, const std::string& identity,
                   const std::string& kind = "calibration");

  // What the pass of this name found out: from the file, or by running it. Always by way of text,
  // so that it does not matter which.
  nlohmann::json finding(const std::string& pass,
                         const std::function<nlohmann::ordered_json()>& run);
  size_t n_found_earlier() const { return n_found_earlier_; }

  // Empty where nothing is kept.
  const std::string& path() const { return path_; }
  // All passes are done: the file is needed no longer.
  void remove();

 private:
  void load();

  std::string path_;
  std::string text_;  // the object of all findings, by name of their pass
  size_t n_found_earlier_ = 0;
};

}  // namespace troika::tune
