// Whether a source is asked for guesses that takes a part of a pass to guess, as a model does. It
// is asked where its guesses save more time than it takes; else it is asked for a while now and
// then, in case they would by now.
#pragma once

namespace troika::draft {

class Asking {
 public:
  // Decides about a step that would take plain_ms without a draft; 0: nobody knows, so the source
  // is asked.
  void begin_step(double plain_ms);
  bool is_asked() const { return is_asked_; }
  // Is told what the source took that was asked.
  void took(double ms);
  // Is told what the guesses of the source that was asked should save, without the time it took.
  void saves(double ms);

 private:
  bool decide(double plain_ms);

  double ms_ = 0.0;        // what asking takes
  double first_ms_ = 0.0;  // what the first time took
  double saved_ms_ = 0.0;  // what guesses save, in the mean of the steps that asked
  double spent_ms_ = 0.0;  // what asking took since it paid or a trial began
  // Is what the asking in spent_ms_ really took, with the reading of tokens that were not seen in
  // the time before. It makes the next wait longer.
  double trial_cost_ms_ = 0.0;
  double waited_ms_ = 0.0;  // what the steps took that did not ask
  int n_taken_ = 0;
  int n_saved_ = 0;
  bool is_asked_ = true;
};

}  // namespace troika::draft
