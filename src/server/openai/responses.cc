#include "server/openai/responses.h"

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

// Refuses likelihoods. What else may be included is about tools that this server has not.
void refuse_logprobs(Fields& fields) {
  constexpr const char* kWhy = "this interface tells no likelihoods, /v1/chat/completions does";
  if (fields.whole("top_logprobs", 0, 0, kMostLogprobs) > 0) fields.refuse("top_logprobs", kWhy);
  const Json* const include = fields.find("include");
  if (include == nullptr) return;
  if (!include->is_array()) fields.fail("include", "must be a list");
  for (const Json& one : *include) {
    if (one == "message.output_text.logprobs") fields.refuse("include", kWhy);
  }
}

}  // namespace

void serve_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body) {
  context.chat();
  Fields fields(body);
  const Conversation conversation = read_responses(fields);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  wanted.most_tokens =
      static_cast<int>(fields.whole("max_output_tokens", -1, 1, std::numeric_limits<int>::max()));
  if (wanted.n_returned != 1) fields.fail("n", "must be 1 in this interface");
  const std::optional<AnswerForm> form = read_text_form(fields);
  refuse_memory(fields);
  refuse_logprobs(fields);
  fields.finish();
  const Answers::MakeReader make_reader = prepare_turn(context, conversation, form, &wanted);
  auto writer = std::make_unique<ResponseWriter>(context.options().model_name, exchange,
                                                 wanted.is_stream, echo_text(body, wanted));
  context.start(exchange, wanted, std::move(writer), make_reader);
}

}  // namespace troika::server
