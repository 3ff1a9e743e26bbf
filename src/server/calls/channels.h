// Answers in channels, as gpt-oss writes them: messages with a header each, of which some are
// thoughts, some calls, and the last one is for the person.
#pragma once

#include <string>
#include <vector>

#include "engine/chat.h"
#include "grammar/pool.h"
#include "server/deltas.h"

namespace troika::server {

// Whether the template writes answers so.
bool has_channels(const engine::ChatFormat& chat);

// What the assistant's words begin with.
std::string words_header();

// A tool's name and what its arguments may be.
struct ChannelCall {
  std::string name;
  grammar::Expr arguments;
};

// What an answer may be: thoughts, then words or one of the calls, of which either may be none.
grammar::Expr channels_expr(grammar::Pool* pool, grammar::Expr words,
                            const std::vector<ChannelCall>& calls);

class ChannelReader : public Reader {
 public:
  // `has_calls`: what goes to a function is a call. `is_in_words`: the prompt has begun the words.
  ChannelReader(bool has_calls, bool is_in_words)
      : has_calls_(has_calls), is_in_body_(is_in_words) {}

  std::vector<Delta> push(std::string_view text) override;
  std::vector<Delta> finish() override;

 private:
  bool read_header(std::vector<Delta>* deltas);
  bool read_body(std::vector<Delta>* deltas);

  bool has_calls_;
  bool is_in_body_;
  Delta::Kind kind_ = Delta::Kind::kText;  // of the body
  std::string held_;
};

}  // namespace troika::server
