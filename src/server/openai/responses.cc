#include "server/openai/responses.h"

#include <ctime>
#include <limits>

#include "server/blocks.h"
#include "server/openai/read_responses.h"
#include "server/openai/usage.h"
#include "server/refusals.h"

namespace troika::server {
namespace {

Json part_json(const Block& block) {
  if (block.kind == Block::Kind::kThought)
    return {{"type", "reasoning_text"}, {"text", block.text}};
  return {{"type", "output_text"},
          {"text", block.text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

// Returns a block as an item of the output.
Json item_json(const Block& block, const std::string& id, const char* status, bool has_parts) {
  const Json parts = has_parts ? Json::array({part_json(block)}) : Json::array();
  switch (block.kind) {
    case Block::Kind::kText:
      return {{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", parts}};
    case Block::Kind::kThought:
      return {{"id", id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", Json::array()},
              {"content", parts}};
    case Block::Kind::kCall:
      break;
  }
  return {{"id", id},           {"type", "function_call"},
          {"status", status},   {"call_id", block.id},
          {"name", block.name}, {"arguments", block.text}};
}

const char* id_prefix(Block::Kind kind) {
  if (kind == Block::Kind::kText) return "msg_";
  return kind == Block::Kind::kThought ? "rs_" : "fc_";
}

Json response_usage(const Ending& ending) {
  const engine::Generated& g = ending.generated;
  return {{"input_tokens", g.n_prompt},
          {"input_tokens_details",
           {{"cached_tokens", g.n_prompt - g.n_computed}, {"cache_write_tokens", 0}}},
          {"output_tokens", g.tokens.size()},
          {"output_tokens_details", {{"reasoning_tokens", ending.n_thought_tokens}}},
          {"total_tokens", static_cast<size_t>(g.n_prompt) + g.tokens.size()}};
}

// Returns the fields of its request that a response repeats.
Json echo_of(const Json& body, const Wanted& wanted) {
  const auto given = [&](const char* name, const Json& otherwise) {
    return body.contains(name) ? body[name] : otherwise;
  };
  Json echo = {{"instructions", given("instructions", nullptr)},
               {"max_output_tokens", given("max_output_tokens", nullptr)},
               {"metadata", given("metadata", Json::object())},
               {"parallel_tool_calls", given("parallel_tool_calls", true)},
               {"previous_response_id", nullptr},
               {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
               {"temperature", wanted.sampler.temperature},
               {"text", given("text", {{"format", {{"type", "text"}}}})},
               {"tool_choice", given("tool_choice", "auto")},
               {"tools", given("tools", Json::array())},
               {"top_p", wanted.sampler.top_p},
               {"truncation", "disabled"}};
  if (body.contains("user")) echo["user"] = body["user"];
  return echo;
}

class ResponseWriter : public BlockWriter {
 public:
  ResponseWriter(const Context& context, const std::shared_ptr<http::Exchange>& exchange,
                 const Wanted& wanted, Json echo)
      : model_(context.options().model_name),
        is_stream_(wanted.is_stream),
        echo_(std::move(echo)),
        exchange_(exchange),
        events_(exchange) {}

  void begin() override {
    if (!is_stream_) return;
    events_.begin();
    send("response.created", {{"response", response("in_progress")}});
    send("response.in_progress", {{"response", response("in_progress")}});
  }
  void progress(int, const Progress& progress) override {
    send("response.in_progress", {{"response", response("in_progress")},
                                  {"prompt_progress", progress_json(progress.prompt)}});
  }
  void open_block() override {
    const Block& block = blocks().back();
    ids_.push_back(random_id(id_prefix(block.kind)));
    send(
        "response.output_item.added",
        {{"output_index", index()}, {"item", item_json(block, ids_.back(), "in_progress", false)}});
    if (block.kind != Block::Kind::kCall)
      send_part("response.content_part.added", part_json(block));
  }
  void grow_block(const std::string& text) override {
    Json delta = {{"item_id", ids_.back()}, {"output_index", index()}};
    const Block::Kind kind = blocks().back().kind;
    if (kind != Block::Kind::kCall) delta["content_index"] = 0;
    delta["delta"] = text;
    if (kind == Block::Kind::kText) delta["logprobs"] = Json::array();
    if (timings()) delta["timings"] = timings_json(*timings());
    send(delta_name(kind, ".delta"), delta);
  }
  void close_block() override {
    const Block& block = blocks().back();
    Json done = {{"item_id", ids_.back()}, {"output_index", index()}};
    if (block.kind == Block::Kind::kCall) {
      done["arguments"] = block.text;
    } else {
      done["content_index"] = 0;
      done["text"] = block.text;
      if (block.kind == Block::Kind::kText) done["logprobs"] = Json::array();
    }
    send(delta_name(block.kind, ".done"), done);
    if (block.kind != Block::Kind::kCall) send_part("response.content_part.done", part_json(block));
    send("response.output_item.done",
         {{"output_index", index()},
          {"item", item_json(block, ids_.back(), status_of(blocks().size() - 1), true)}});
  }
  void finish() override {
    Json json = response(is_cut() ? "incomplete" : "completed");
    for (size_t i = 0; i < blocks().size(); ++i) {
      json["output"].push_back(item_json(blocks()[i], ids_[i], status_of(i), true));
    }
    if (is_cut()) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["usage"] = response_usage(ending());
    if (is_stream_) {
      Json event = {{"response", json}};
      if (timings()) event["timings"] = Usage::timings(ending().generated);
      send(is_cut() ? "response.incomplete" : "response.completed", event);
      events_.end();
      return;
    }
    http::Response whole;
    whole.body = dump(json);
    exchange_->reply(whole);
  }
  void fail(const std::string& why) override {
    if (!is_stream_) {
      exchange_->reply(failure_response(why));
      return;
    }
    Json json = response("failed");
    json["error"] = {{"code", "server_error"}, {"message", why}};
    send("response.failed", {{"response", json}});
    events_.end();
  }
  void ping(double seconds) override { events_.ping(seconds); }

 private:
  static std::string delta_name(Block::Kind kind, const char* end) {
    const char* const begin = kind == Block::Kind::kText      ? "response.output_text"
                              : kind == Block::Kind::kThought ? "response.reasoning_text"
                                                              : "response.function_call_arguments";
    return std::string(begin) + end;
  }
  int index() const { return static_cast<int>(blocks().size()) - 1; }
  // Says whether the answer has ended before the model was done with it.
  bool is_cut() const {
    const engine::Stop stop = ending().generated.stop;
    return has_ended() && (stop == engine::Stop::kLength || stop == engine::Stop::kContext);
  }
  // Returns the state of a block that is closed: the cut goes through the last one.
  const char* status_of(size_t block) const {
    return is_cut() && block + 1 == blocks().size() ? "incomplete" : "completed";
  }
  Json response(const char* status) const {
    Json json = {{"id", id_},
                 {"object", "response"},
                 {"created_at", created_},
                 {"status", status},
                 {"background", false},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", model_},
                 {"output", Json::array()}};
    json.update(echo_);
    return json;
  }
  void send_part(const char* type, const Json& part) {
    send(type, {{"item_id", ids_.back()},
                {"output_index", index()},
                {"content_index", 0},
                {"part", part}});
  }
  void send(const std::string& type, const Json& more) {
    if (!is_stream_) return;
    Json event = {{"type", type}, {"sequence_number", n_sent_++}};
    event.update(more);
    events_.event(event, type);
  }

  const std::string id_ = random_id("resp_");
  const int64_t created_ = std::time(nullptr);
  const std::string model_;
  const bool is_stream_;
  const Json echo_;
  std::shared_ptr<http::Exchange> exchange_;
  EventStream events_;
  std::vector<std::string> ids_;  // of items
  int n_sent_ = 0;
};

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
  auto writer = std::make_unique<ResponseWriter>(context, exchange, wanted, echo_of(body, wanted));
  context.start(exchange, wanted, std::move(writer), make_reader);
}

}  // namespace troika::server
