#include "server/anthropic/messages.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json_marks.h"
#include "base/os_error.h"
#include "server/anthropic/read_messages.h"
#include "server/blocks.h"
#include "server/calls/turn.h"
#include "server/refusals.h"

namespace troika::server {
namespace {

Json block_json(const Block& block, bool is_whole) {
  const std::string text = is_whole ? block.text : "";
  switch (block.kind) {
    case Block::Kind::kText:
      return {{"type", "text"}, {"text", text}};
    case Block::Kind::kThought:
      return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
    case Block::Kind::kCall:
      break;
  }
  Json input = Json::object();
  if (is_whole) {
    if (nests_deeper(block.text, kMostNested)) {
      throw Error(
          fmt::format("The model nested the arguments of its call {} more than {} times, "
                      "and no answer in one piece holds that. Stream it, or give the tool "
                      "a schema of fewer levels.",
                      troika::quoted(block.name), kMostNested));
    }
    input = Json::parse(block.text, nullptr, false);
    // An answer that was cut may end within its arguments.
    if (!input.is_object()) input = Json::object();
  }
  return {{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", input}};
}

const char* stop_reason(const Ending& ending) {
  switch (ending.generated.stop) {
    case engine::Stop::kLength:
      return "max_tokens";
    case engine::Stop::kContext:
      return "model_context_window_exceeded";
    case engine::Stop::kString:
      return "stop_sequence";
    default:
      return ending.n_calls > 0 ? "tool_use" : "end_turn";
  }
}

Json usage_json(int n_input, int n_cached, size_t n_output) {
  return {{"input_tokens", n_input - n_cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", n_cached},
          {"output_tokens", n_output}};
}

Json usage_of(const engine::Generated& g) {
  return usage_json(g.n_prompt, g.n_prompt - g.n_computed, g.tokens.size());
}

Json stop_sequence(const Ending& ending) {
  return ending.stop.empty() ? Json(nullptr) : Json(ending.stop);
}

// Writes an answer as one object, or as events.
class MessageWriter : public BlockWriter {
 public:
  MessageWriter(const Context& context, const std::shared_ptr<http::Exchange>& exchange,
                const Wanted& wanted)
      : model_(context.options().model_name),
        n_prompt_(static_cast<int>(wanted.prompts.front().size())),
        is_stream_(wanted.is_stream),
        exchange_(exchange),
        events_(exchange) {}

  void begin() override {
    if (!is_stream_) return;
    events_.begin();
    Json message = heading();
    message["usage"] = usage_json(n_prompt_, 0, 0);
    send("message_start", {{"message", message}});
  }
  // Sends the progress in a "ping", which clients of this interface know as a sign of life.
  void progress(int, const PromptRead& progress) override {
    send("ping", {{"prompt_progress", progress_json(progress.prompt)}});
  }
  void open_block() override {
    send("content_block_start",
         {{"index", index()}, {"content_block", block_json(blocks().back(), false)}});
  }
  void grow_block(const Delta& grown) override {
    const std::string& text = grown.text;
    Json delta;
    switch (blocks().back().kind) {
      case Block::Kind::kText:
        delta = {{"type", "text_delta"}, {"text", text}};
        break;
      case Block::Kind::kThought:
        delta = {{"type", "thinking_delta"}, {"thinking", text}};
        break;
      case Block::Kind::kCall:
        delta = {{"type", "input_json_delta"}, {"partial_json", text}};
        break;
    }
    Json event = {{"index", index()}, {"delta", delta}};
    if (timings()) event["timings"] = timings_json(*timings());
    send("content_block_delta", event);
  }
  void close_block() override { send("content_block_stop", {{"index", index()}}); }
  void finish() override {
    if (is_stream_) {
      send("message_delta",
           {{"delta",
             {{"stop_reason", stop_reason(ending())}, {"stop_sequence", stop_sequence(ending())}}},
            {"usage", usage_of(ending().generated)}});
      send("message_stop", Json::object());
      events_.end();
      return;
    }
    Json message = heading();
    for (const Block& block : blocks()) message["content"].push_back(block_json(block, true));
    message["stop_reason"] = stop_reason(ending());
    message["stop_sequence"] = stop_sequence(ending());
    message["usage"] = usage_of(ending().generated);
    http::Response response;
    response.body = dump(message);
    exchange_->reply(response);
  }
  void fail(const Failure& failure) override {
    if (!is_stream_) {
      exchange_->reply(refusal_response("/v1/messages", Refused(failure.status(), failure.why)));
      return;
    }
    send("error",
         {{"error",
           {{"type", error_type(failure.status())}, {"message", for_clients(failure.why)}}}});
    events_.end();
  }
  void ping(double seconds) override {
    events_.ping(seconds, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  }

 private:
  int index() const { return static_cast<int>(blocks().size()) - 1; }
  Json heading() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }
  void send(const char* type, const Json& more) {
    if (!is_stream_) return;
    Json event = {{"type", type}};
    event.update(more);
    events_.event(event, type);
  }

  const std::string id_ = random_id("msg_");
  const std::string model_;
  const int n_prompt_;
  const bool is_stream_;
  std::shared_ptr<http::Exchange> exchange_;
  EventStream events_;
};

// Reads the form of the answer from "output_config", if the request asks for one.
std::optional<AnswerForm> read_output_form(Fields& fields) {
  const Json* const given = fields.find("output_config");
  if (given == nullptr) return std::nullopt;
  Fields config(*given, "output_config.");
  config.ignore("effort");
  config.ignore("task_budget");
  const Json* const format = config.find("format");
  config.finish();
  if (format == nullptr) return std::nullopt;
  Fields wish(*format, "output_config.format.");
  if (wish.text("type") != "json_schema") wish.fail("type", "must be json_schema");
  const Json* const schema = wish.find("schema");
  if (schema == nullptr) wish.fail("schema", "is missing");
  wish.finish();
  return AnswerForm{grammar::Format::kJsonSchema, dump(*schema)};
}

void ignore_wishes(Fields& fields) {
  ignore_remarks(fields);
  for (const char* const name : {"cache_control", "context_management", "inference_geo", "speed"}) {
    fields.ignore(name);
  }
  fields.refuse("container", "this server runs no programs");
  fields.refuse("mcp_servers", "this server calls no other servers");
}

}  // namespace

void serve_messages(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                    const Json& body) {
  context.chat();
  context.check_conversation(body, "messages");
  Fields fields(body);
  const Conversation conversation = read_messages(fields);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  if (!wanted.stops.empty()) fields.fail("stop", "is called stop_sequences in this interface");
  wanted.stops = read_stops(fields, "stop_sequences");
  if (fields.find("max_tokens") == nullptr) fields.fail("max_tokens", "is missing");
  wanted.most_tokens =
      static_cast<int>(fields.whole("max_tokens", 1, 1, std::numeric_limits<int>::max()));
  if (wanted.n_returned != 1) fields.fail("n", "must be 1 in this interface");
  const std::optional<AnswerForm> form = read_output_form(fields);
  ignore_wishes(fields);
  fields.finish();
  const Answers::MakeReader make_reader = prepare_turn(context, conversation, form, &wanted);
  auto writer = std::make_unique<MessageWriter>(context, exchange, wanted);
  context.start(exchange, wanted, std::move(writer), make_reader);
}

void serve_count_tokens(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                        const Json& body) {
  context.chat();
  context.check_conversation(body, "messages");
  Fields fields(body);
  const Conversation conversation = read_messages(fields);
  read_output_form(fields);  // makes no difference to the prompt
  ignore_wishes(fields);
  fields.finish();
  http::Response response;
  response.body =
      dump({{"input_tokens", prompt_of(context, conversation, Context::check_counted).size()}});
  exchange->reply(response);
}

}  // namespace troika::server
