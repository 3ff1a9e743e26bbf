// Gives runs the numbers that their paper prints, and rows that are asked for together, by the
// names of phones/simulated. Code knows the names, and neither rows nor figures.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/phones/simulated.h"

namespace troika::papers {

class Given {
 public:
  // Reads the paper's file of `phones`/simulated, and published values that it names. Throws Error.
  Given(const std::string& phones, const std::string& paper);

  bool has(const std::string& name) const { return numbers_.count(name) > 0; }
  // Each of these throws Error where nothing has that name, or it has another form.
  double number(const std::string& name) const;
  // Returns a percentage as a share, 0 to 1.
  double share(const std::string& name) const;
  int count(const std::string& name) const;
  const std::vector<double>& numbers(const std::string& name) const;
  std::vector<int> counts(const std::string& name) const;
  // Returns ids of published rows.
  const std::vector<std::string>& rows(const std::string& name) const;

  // Returns what a list says why the row does not count. Empty: it counts.
  std::string why_not_counted(std::string_view id) const;

 private:
  std::string path_;
  std::map<std::string, std::vector<double>> numbers_;
  std::vector<plan::RowList> lists_;
};

}  // namespace troika::papers
