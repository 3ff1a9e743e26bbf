// Readers find in the text of an answer what it means: thoughts, calls of tools, and words.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/calls/marked_json.h"
#include "server/calls/pairs.h"
#include "server/calls/shape.h"
#include "server/deltas.h"

namespace troika::server {

// Finds calls in a text. Text that only looks like the beginning of a call stays text.
class CallReader : public Reader {
 public:
  // Such a function returns the kinds of values that a tool's argument may have. It is called where
  // arguments are pairs.
  using KindsOf = std::function<ValueKinds(const std::string& name, const std::string& key)>;

  explicit CallReader(
      CallShape shape, KindsOf kinds = [](const auto&, const auto&) { return ValueKinds{}; })
      : shape_(std::move(shape)),
        trigger_(shape_.trigger()),
        ending_(shape_.ending()),
        kinds_of_(std::move(kinds)) {}

  std::vector<Delta> push(std::string_view text) override;
  std::vector<Delta> finish() override;
  bool is_in_call() const override {
    return state_ == State::kArguments || state_ == State::kPairs || state_ == State::kMarked;
  }

 private:
  enum class State : uint8_t { kText, kName, kArguments, kPairs, kMarked, kBehind };
  bool read_text(std::vector<Delta>* deltas);
  bool read_name(std::vector<Delta>* deltas);
  bool read_arguments(std::vector<Delta>* deltas);
  bool read_pairs(std::vector<Delta>* deltas);
  bool read_marked(std::vector<Delta>* deltas);
  bool read_behind();
  void flush(std::vector<Delta>* deltas);

  const CallShape shape_;
  const std::string trigger_, ending_;
  const KindsOf kinds_of_;
  State state_ = State::kText;
  std::string held_;  // text that is not understood yet
  std::string read_;  // text of a call that may still turn out to be words
  std::string name_;  // the tool's name in the last call
  int n_pairs_ = 0;   // counts pairs of the last call
  int n_calls_ = 0;
  int depth_ = 0;  // counts open brackets in the arguments
  bool is_string_ = false, is_escaped_ = false;
  MarkedJson marked_{""};
};

// Takes thoughts from the beginning of a text. Another reader reads the rest.
class ThoughtReader : public Reader {
 public:
  // `is_thinking` says that the prompt has opened the thoughts already.
  ThoughtReader(ThoughtMarks marks, bool is_thinking, std::unique_ptr<Reader> inner)
      : marks_(std::move(marks)),
        state_(is_thinking ? State::kThought : State::kBegin),
        inner_(std::move(inner)) {}

  std::vector<Delta> push(std::string_view text) override;
  std::vector<Delta> finish() override;
  bool is_in_call() const override { return inner_->is_in_call(); }

 private:
  enum class State : uint8_t { kBegin, kThought, kBetween, kAnswer };
  const ThoughtMarks marks_;
  State state_;
  std::string held_;
  std::unique_ptr<Reader> inner_;
};

}  // namespace troika::server
