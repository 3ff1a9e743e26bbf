// What a pass takes for each number of rows, measured while running.
#pragma once

#include <utility>
#include <vector>

namespace troika::draft {

class WidthCosts {
 public:
  explicit WidthCosts(int most_width);

  // So it was measured before, in quiet.
  void begin_with(int width, double ms);
  // A pass of so many rows took so long.
  void learn(int width, double ms);
  // An estimate for each width; between measured ones along a line, beyond them at the slope of the
  // last two. 0 where nothing is known.
  double ms(int width) const;
  // Those that were measured, with what is believed of them now.
  std::vector<std::pair<int, double>> measured() const;
  // Estimates of wider passes mean little. One pass that took surprisingly long does not count.
  int widest_measured() const { return widest_; }

 private:
  struct Entry {
    double ms = 0.0;
    double first_ms = 0.0;  // what the first pass took
    int n_measured = 0;
    int n_since = 0;  // passes of other widths since then
  };
  int measured_below(int width) const;  // the next one that is, or 0
  std::vector<Entry> entries_;          // by width
  int widest_ = 0;
};

}  // namespace troika::draft
