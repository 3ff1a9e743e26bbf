// Defines deltas: the pieces of an answer as they come, which are words for a person, thoughts
// before the words, or calls of tools.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/logprobs.h"

namespace troika::server {

// Counts the tokens and the time that an answer has taken so far.
struct Timings {
  int n_cached = 0;    // counts tokens of the prompt that were known
  int n_computed = 0;  // counts tokens of the prompt that were not
  double prompt_seconds = 0.0;
  int n_tokens = 0;
  double answer_seconds = 0.0;  // the time since the first token
};

struct Delta {
  enum class Kind : uint8_t {
    kText,
    kThought,
    kCall,       // begins another call, with its name and id
    kArguments,  // adds to the JSON text of the last call
  };
  Kind kind = Kind::kText;
  std::string text{};  // for kCall the name of the tool
  std::string id{};    // for kCall the id of the call
  std::vector<TokenLogprobs> logprobs{};
  std::vector<engine::Token> tokens{};
  std::optional<Timings> timings{};  // given if the client asks for them
};

// Reads the text of one answer as it comes, and returns what it means.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::vector<Delta> push(std::string_view text) = 0;
  virtual std::vector<Delta> finish() = 0;
  // Says that the text so far ends within the arguments of a call.
  virtual bool is_in_call() const { return false; }
};

// Takes all of the text for words to a person.
class PlainReader : public Reader {
 public:
  std::vector<Delta> push(std::string_view text) override {
    return {{.kind = Delta::Kind::kText, .text = std::string(text)}};
  }
  std::vector<Delta> finish() override { return {}; }
};

}  // namespace troika::server
