// Knows figures of runs by their names, and puts them beside published rows as the files of
// phones/simulated say.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "papers/test_rows.h"
#include "plan/phones/simulated.h"

namespace troika::papers {

inline constexpr double kPercent = 100.0;

class Figures {
 public:
  using Function = std::function<double(const plan::FigureCall&)>;

  // `arguments` lists what a call may say. The function asks the call for what it needs.
  void add(const std::string& name, std::vector<std::string> arguments, Function function);
  // Adds the published values themselves as figures: "published", and "published quotient" of two.
  void add_published(const TestRows& rows);

  // Throws Error for a figure that is not known, and for arguments that it cannot have.
  double value(const plan::FigureCall& call) const;
  double value(const plan::FigureTerm& term, const std::string& as) const;
  // Returns a value for each term of the row, or what `together` makes of them: a range has two.
  std::vector<double> values(const plan::SimulatedRow& row) const;
  // Returns what the row says of its inputs, with figures in the place of their names.
  std::string inputs(const plan::SimulatedRow& row) const;

 private:
  struct Entry {
    std::vector<std::string> arguments;
    Function function;
  };
  const Entry& find(const std::string& name) const;

  std::map<std::string, Entry> known_;
};

// Adds all rows of a file.
void add_rows(const plan::SimulatedFile& file, const Figures& figures, TestRows* rows);

}  // namespace troika::papers
