#include "jinja/chat_template.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "jinja/evaluator.h"
#include "jinja/syntax/ast.h"
#include "jinja/values/json_read.h"

namespace troika::jinja {

ChatTemplate::ChatTemplate(const std::string& source, Limits limits)
    : tree_(std::make_unique<const Template>(parse(source))), limits_(limits) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& context) const {
  if (!context.is_object()) {
    throw Error("A chat template is given its variables as a JSON object, not as " +
                std::string(context.type_name()) + ".");
  }
  Runtime rt(limits_, now_s_ >= 0 ? now_s_ : static_cast<int64_t>(std::time(nullptr)));
  Evaluator evaluator(*tree_, rt);
  return evaluator.render(from_json_value(rt, context));
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& tools,
                                 const ChatOptions& options) const {
  nlohmann::ordered_json context;
  context["messages"] = messages;
  if (!tools.is_null()) {
    context["tools"] = tools;
  }
  context["add_generation_prompt"] = options.add_generation_prompt;
  context["bos_token"] = options.bos_token;
  context["eos_token"] = options.eos_token;
  if (!options.extra_json.empty()) {
    const auto extra = nlohmann::ordered_json::parse(options.extra_json, nullptr, false);
    if (!extra.is_object()) {
      throw Error("The further variables of the chat template are no JSON object: " +
                  options.extra_json.substr(0, 200));
    }
    for (const auto& [name, value] : extra.items()) {
      context[name] = value;
    }
  }
  return render(context);
}

}  // namespace troika::jinja
