#include "server/openai/responses.h"

#include <algorithm>
#include <limits>

#include "server/openai/read_responses.h"
#include "server/openai/response_writer.h"

namespace troika::server {
namespace {

void refuse_memory(Fields& fields) {
  fields.refuse("previous_response_id",
                "this server keeps no responses: send the conversation with each request");
  fields.refuse("conversation", "this server keeps none: send it with each request");
  fields.refuse("background", "an answer ends with its request");
  fields.refuse("prompt", "this server keeps no prompts");
  if (fields.text("truncation", "disabled") != "disabled") {
    fields.fail("truncation", "must be disabled: this server cuts no prompt");
  }
  for (const char* const name : {"max_tool_calls", "client_metadata"}) {
    fields.ignore(name);
  }
}

// Reads whether likelihoods are wanted. What else may be included is about tools that this server
// has not.
void read_included(Fields& fields, Wanted* wanted) {
  constexpr const char* kLikelihoods = "message.output_text.logprobs";
  bool is_wanted = false;
  if (const Json* const include = fields.find("include"); include != nullptr) {
    if (!include->is_array()) fields.fail("include", "must be a list");
    is_wanted = std::find(include->begin(), include->end(), kLikelihoods) != include->end();
  }
  const int64_t n_top = fields.whole("top_logprobs", 0, 0, kMostLogprobs);
  if (n_top > 0 && !is_wanted) {
    fields.fail("top_logprobs", std::string("needs \"include\": [\"") + kLikelihoods + "\"]");
  }
  if (is_wanted) {
    wanted->n_logprobs = static_cast<int>(n_top);
    wanted->repeats_at_end = true;
  }
}

}  // namespace

void serve_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body) {
  context.chat();
  context.check_conversation(body, "input");
  Fields fields(body);
  const Conversation conversation = read_responses(fields);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  wanted.most_tokens =
      static_cast<int>(fields.whole("max_output_tokens", -1, 1, std::numeric_limits<int>::max()));
  if (wanted.n_returned != 1) fields.fail("n", "must be 1 in this interface");
  const std::optional<AnswerForm> form = read_text_form(fields);
  refuse_memory(fields);
  read_included(fields, &wanted);
  fields.finish();
  const Answers::MakeReader make_reader = prepare_turn(context, conversation, form, &wanted);
  const text::Tokenizer* const tokenizer = wanted.n_logprobs >= 0 ? &context.tokenizer() : nullptr;
  auto writer = std::make_unique<ResponseWriter>(
      context.options().model_name, exchange, wanted.is_stream, echo_text(body, wanted), tokenizer);
  context.start(exchange, wanted, std::move(writer), make_reader);
}

}  // namespace troika::server
