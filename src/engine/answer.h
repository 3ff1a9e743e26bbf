// The text of one answer while it comes: which part of it is shown, and when it ends.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/session.h"
#include "text/stream.h"

namespace troika::engine {

enum class Stop : uint8_t {
  kEnd,      // the model ended its answer
  kLength,   // the wanted number of tokens was reached
  kString,   // one of the stop strings came
  kContext,  // the context is full
  kCancelled,
};

const char* stop_name(Stop stop);

// How far a prompt has been read.
struct PromptProgress {
  int n_prompt = 0;
  int n_known = 0;  // counts the prompt's tokens that were known from before
  int n_read = 0;   // counts the prompt's tokens that were read, the known ones among them
  double seconds = 0.0;
};

struct GenerateOptions {
  int most_tokens = -1;  // -1: the answer ends when the model ends it or the context is full
  std::vector<std::string> stops;  // the text ends before the first of them
  bool ignore_end = false;         // goes on after the model's end token
  bool shows_control = false;      // the text contains the names of control tokens, too
  const std::atomic<bool>* cancel = nullptr;
  // While this is set, a batcher takes no step of the answer, and other answers go on. May be null.
  const std::atomic<bool>* pause = nullptr;
  // Guesses what comes, so that one pass verifies several tokens; the tokens stay the same. May be
  // null, and must outlive the answer.
  draft::Drafter* drafter = nullptr;
  // Is told each token before its text is shown; `is_drafted`: the token was guessed.
  std::function<void(Token token, bool is_drafted)> on_token{};
  // Is told by a batcher when the prompt begins, and whenever more of it is read.
  std::function<void(const PromptProgress& progress)> on_prompt{};
};

struct Generated {
  std::string text;
  std::vector<Token> tokens;
  Stop stop = Stop::kLength;
  std::string stop_string;  // the stop string that ended the answer, if one did
  int n_prompt = 0;         // counts tokens of the prompt
  int n_computed = 0;       // counts the prompt's tokens that were not known from before
  double prefill_seconds = 0;
  // The part of `prefill_seconds` spent on logits of the prompt's positions (D2).
  double calibration_seconds = 0;
  double decode_seconds = 0;  // the time of all tokens but the first
  int n_steps = 0;  // counts passes after the prefill: each gives a token, or more with drafts
  std::vector<double> step_ms;  // the time from the end of the pass before to that of each of these

  double prefill_tokens_per_s() const;
  double decode_tokens_per_s() const;
};

// Gets the text in whole characters of UTF-8. `n_shown` counts the answer's tokens from the first
// on up to the last of whose text something has come, this text included.
using TextSink = std::function<void(std::string_view text, int n_shown)>;

class Answer {
 public:
  // Takes its times from the clock of the engine's machine, so that those on a phone are the
  // phone's. All arguments must outlive the answer; the sink may be empty.
  Answer(const Engine& engine, const GenerateOptions& options, const TextSink& sink);

  // Returns what is known of the answer so far. Whoever reads the prompt fills in what concerns the
  // prompt.
  Generated& result() { return result_; }
  // Says whether the answer must stop before another token is sampled. Once it must, it has ended.
  bool must_stop(const Session& session);
  void cancel();
  // Returns how many tokens the next step may give.
  int most_in_a_step() const;
  // Says whether the answer ends behind this token.
  bool is_end(Token token) const { return tokenizer_.is_end(token) && !options_.ignore_end; }
  // Takes over the tokens that a step has appended to the history, of which the first n_drafted
  // were guessed, and cuts the history behind the answer's end, as if nothing had come behind it.
  void take(Session& session, const Session::Stepped& step);
  // Returns the answer with the rest of its text, which waited for more. Called once.
  Generated finish();

 private:
  bool take_one(Token token, bool is_drafted);
  void show(const std::string& fragment);

  const Clock& clock_;
  const text::Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  const TextSink& sink_;
  text::TextStream stream_;
  Generated result_;
  bool goes_on_ = true;
  double first_token_us_, last_step_us_;
};

}  // namespace troika::engine
