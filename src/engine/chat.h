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
  // Throws Error where the file has no chat template or one that does not parse.
  explicit ChatFormat(const Engine& engine);
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
