// A model's chat template: it makes the text of the prompt out of a conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "jinja/limits.h"

namespace troika::jinja {

struct Template;

// Says that the template itself refused the conversation, with a message of its own.
class RaisedByTemplate : public Error {
 public:
  explicit RaisedByTemplate(const std::string& message)
      : Error("The chat template refuses this conversation: " + message), message_(message) {}
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  // Further variables, as the text of a JSON object such as {"enable_thinking": false}; may be
  // empty. They win over the other variables.
  std::string extra_json;
};

class ChatTemplate {
 public:
  // Throws an Error that names the line if `source` is no template.
  explicit ChatTemplate(const std::string& source, Limits limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Renders a context: an object with messages, tools, add_generation_prompt, bos_token and
  // whatever else the template asks for. Throws RaisedByTemplate, or another Error where the
  // template fails or exceeds its limits. Several threads may call it at once.
  std::string render(const nlohmann::ordered_json& context) const;

  // Renders the usual context. `tools` may be null, which leaves the variable undefined.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     const ChatOptions& options) const;

  // Fixes what strftime_now reads, in seconds since 1970; without this call it reads the clock of
  // the machine. It is for tests.
  void set_time(int64_t now_s) { now_s_ = now_s; }

 private:
  std::unique_ptr<const Template> tree_;
  Limits limits_;
  int64_t now_s_ = -1;
};

}  // namespace troika::jinja
