// Estimates how long a part of a prompt takes, by its rows and by how much of the text stands
// before it: each row attends to all of that.
#pragma once

namespace troika::engine {

// The rows of one pass, of all its texts.
class PassRows {
 public:
  // Adds n rows behind n_before tokens of their text.
  void add(int n, int n_before) {
    n_ += n;
    thousands_of_pairs_ += 1e-3 * n * n_before;
  }
  int n() const { return n_; }
  double thousands_of_pairs() const { return thousands_of_pairs_; }

 private:
  int n_ = 0;
  double thousands_of_pairs_ = 0.0;  // of a row and a token before it, which it attends to
};

class PartCosts {
 public:
  // Learns that a part of n_rows rows, behind n_before tokens of its text, took `ms`.
  void learn(int n_rows, int n_before, double ms);
  // Learns that a pass took `ms` which had rows of other texts beside a part, all computed alike.
  void learn(const PassRows& rows, double ms);
  // Returns 0 where nothing is known.
  double ms(int n_rows, int n_before) const;
  // Returns the most rows, a multiple of `smallest` and at most `most`, that are expected to end
  // within `most_ms`, or else `smallest`. Nothing is known of a part more than twice as long as any
  // part before, so it returns no such part.
  int rows_within(double most_ms, int n_before, int smallest, int most) const;

 private:
  double row_ms_ = 0.0;       // what each row of a part would take at the start of a text
  double thousand_ms_ = 0.0;  // what a row takes longer for each thousand tokens before it
  int widest_ = 0;            // the most rows of any part so far
};

}  // namespace troika::engine
