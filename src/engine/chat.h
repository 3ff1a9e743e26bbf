// Conversations as the model was trained to see them: its chat template around the messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace troika::engine {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class ChatFormat {
 public:
  // With the template of the model file, or `source` where that is not empty. Throws Error where
  // there is none, or it does not parse.
  explicit ChatFormat(const Engine& engine, const std::string& source = "");
  ~ChatFormat();

  // The tokens after which the model writes its answer. Special tokens in the messages are text.
  std::vector<cache::Token> prompt(const std::vector<Message>& messages) const;
  // The same before tokenization.
  std::string text(const std::vector<Message>& messages) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troika::engine
