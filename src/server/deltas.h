// What comes of an answer's text, bit by bit: words for a person, thoughts before them, calls of
// tools.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/logprobs.h"

namespace troika::server {

// What an answer has taken so far.
struct Timings {
  int n_cached = 0;    // tokens of the prompt that were known
  int n_computed = 0;  // and those that were not
  double prompt_seconds = 0.0;
  int n_tokens = 0;
  double answer_seconds = 0.0;  // behind the first token
};

struct Delta {
  enum class Kind : uint8_t {
    kText,
    kThought,
    kCall,       // another call begins: its name and id
    kArguments,  // of the last call: more of its JSON text
  };
  Kind kind = Kind::kText;
  std::string text{};  // kCall: the name
  std::string id{};    // of a call
  std::vector<TokenLogprobs> logprobs{};
  std::vector<engine::Token> tokens{};
  std::optional<Timings> timings{};  // where somebody asks for them
};

// One text, as it comes, to what it means.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::vector<Delta> push(std::string_view text) = 0;
  virtual std::vector<Delta> finish() = 0;
};

// All of it is for a person.
class PlainReader : public Reader {
 public:
  std::vector<Delta> push(std::string_view text) override {
    return {{.kind = Delta::Kind::kText, .text = std::string(text)}};
  }
  std::vector<Delta> finish() override { return {}; }
};

}  // namespace troika::server
