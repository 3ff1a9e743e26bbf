// The time of a pass for each number of rows, measured while running.
#pragma once

#include <utility>
#include <vector>

namespace troika::draft {

class WidthCosts {
 public:
  explicit WidthCosts(int most_width);

  // Takes over a time that was measured earlier, in quiet.
  void begin_with(int width, double ms);
  // Learns that a pass of `width` rows took `ms`.
  void learn(int width, double ms);
  // Estimates the time of a width: between measured widths along a line, beyond them at the slope
  // of the last two. Returns 0 where nothing is known.
  double ms(int width) const;
  // Returns the measured widths, with what is believed of them now.
  std::vector<std::pair<int, double>> measured() const;
  // Returns the largest measured width; estimates of wider passes mean little. A width whose only
  // pass took surprisingly long does not count.
  int widest_measured() const { return widest_; }

 private:
  struct Entry {
    double ms = 0.0;
    double first_ms = 0.0;  // the time of the first pass
    int n_measured = 0;
    int n_since = 0;  // counts passes of other widths since the last one
  };
  int measured_below(int width) const;  // returns the next smaller measured width, or 0
  std::vector<Entry> entries_;          // by width
  int widest_ = 0;
};

}  // namespace troika::draft
