// Reads answers in channels, as gpt-oss writes them: messages that each have a header. Some
// messages are thoughts, some are calls, and the last one is for the person.
#pragma once

#include <string>
#include <vector>

#include "engine/chat.h"
#include "grammar/pool.h"
#include "server/deltas.h"

namespace troika::server {

// Says whether the template writes answers in channels.
bool has_channels(const engine::ChatFormat& chat);

// Returns the header of the assistant's words.
std::string words_header();

// A tool's name and what its arguments may be.
struct ChannelCall {
  std::string name;
  grammar::Expr arguments;
};

// Returns what an answer may be: thoughts, then words or one of the calls. There may be no calls,
// or no words.
grammar::Expr channels_expr(grammar::Pool* pool, grammar::Expr words,
                            const std::vector<ChannelCall>& calls);

class ChannelReader : public Reader {
 public:
  // `has_calls` says that messages to functions are calls. `is_in_words` says that the prompt has
  // begun the words.
  ChannelReader(bool has_calls, bool is_in_words)
      : has_calls_(has_calls), is_in_body_(is_in_words) {}

  std::vector<Delta> push(std::string_view text) override;
  std::vector<Delta> finish() override;
  bool is_in_call() const override { return is_in_body_ && kind_ == Delta::Kind::kArguments; }

 private:
  bool read_header(std::vector<Delta>* deltas);
  bool read_body(std::vector<Delta>* deltas);

  bool has_calls_;
  bool is_in_body_;
  Delta::Kind kind_ = Delta::Kind::kText;  // what the body is
  std::string held_;
};

}  // namespace troika::server
