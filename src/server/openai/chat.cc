#include "server/openai/chat.h"

#include <ctime>

#include "server/calls/turn.h"
#include "server/llama/settings.h"
#include "server/openai/read_responses.h"
#include "server/openai/usage.h"
#include "server/refusals.h"

namespace troika::server {
namespace {

// The fields with which all objects of one request begin.
struct Heading {
  std::string id = random_id("chatcmpl-");
  int64_t created = std::time(nullptr);
  std::string model;

  Json json(const char* object) const {
    return {{"id", id},
            {"object", object},
            {"created", created},
            {"model", model},
            {"system_fingerprint", "build-" TROIKA_VERSION}};
  }
};

class ChatStream : public Writer {
 public:
  ChatStream(const Context& context, const std::shared_ptr<http::Exchange>& exchange,
             const Wanted& wanted)
      : events_(exchange),
        tokenizer_(context.tokenizer()),
        n_answers_(wanted.n_returned),
        has_logprobs_(wanted.n_logprobs >= 0),
        has_usage_(wanted.wants_usage),
        n_calls_(static_cast<size_t>(wanted.n_returned), 0) {
    heading_.model = context.options().model_name;
    if (wanted.shows_prompt) verbose_ = verbose_json(wanted, tokenizer_);
  }

  void begin() override {
    events_.begin();
    for (int i = 0; i < n_answers_; ++i) {
      send(i, {{"role", "assistant"}, {"content", nullptr}}, nullptr, nullptr);
    }
  }
  void write(int answer, const Delta& delta) override {
    Json json;
    int& n_calls = n_calls_[static_cast<size_t>(answer)];
    switch (delta.kind) {
      case Delta::Kind::kText:
        json = {{"content", delta.text}};
        break;
      case Delta::Kind::kThought:
        json = {{"reasoning_content", delta.text}};
        break;
      case Delta::Kind::kCall:
        json = {{"tool_calls",
                 Json::array({{{"index", n_calls++},
                               {"id", delta.id},
                               {"type", "function"},
                               {"function", {{"name", delta.text}, {"arguments", ""}}}}})}};
        break;
      case Delta::Kind::kArguments:
        json = {{"tool_calls", Json::array({{{"index", n_calls - 1},
                                             {"function", {{"arguments", delta.text}}}}})}};
        break;
    }
    const Json logprobs = has_logprobs_ ? logprobs_json(delta.logprobs, tokenizer_) : Json(nullptr);
    send(answer, json, logprobs, nullptr,
         delta.timings ? timings_json(*delta.timings) : Json(nullptr));
  }
  void progress(int answer, const PromptRead& progress) override {
    Json chunk = chunk_of(answer, Json::object(), nullptr, nullptr);
    chunk["prompt_progress"] = progress_json(progress.prompt);
    if (progress.timings) chunk["timings"] = timings_json(*progress.timings);
    events_.event(chunk);
  }
  void end(int answer, const Ending& ending) override {
    usage_.add(ending.generated, 0);
    timings_ = Usage::timings(ending.generated);
    Json chunk = chunk_of(answer, Json::object(), nullptr, finish_reason(ending));
    if (!has_usage_) chunk["timings"] = timings_;
    if (!verbose_.is_null()) chunk["__verbose"] = verbose_;
    events_.event(chunk);
  }
  void finish() override {
    if (has_usage_) {
      Json chunk = heading_.json("chat.completion.chunk");
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_.json();
      chunk["timings"] = timings_;
      events_.event(chunk);
    }
    events_.line("data: [DONE]\n\n");
    events_.end();
  }
  void fail(const Failure& failure) override { events_.fail(failure); }
  void ping(double seconds) override { events_.ping(seconds); }

 private:
  Json chunk_of(int answer, const Json& delta, const Json& logprobs, const Json& reason) const {
    Json chunk = heading_.json("chat.completion.chunk");
    chunk["choices"] = Json::array(
        {{{"index", answer}, {"delta", delta}, {"logprobs", logprobs}, {"finish_reason", reason}}});
    if (has_usage_) chunk["usage"] = nullptr;
    return chunk;
  }
  void send(int answer, const Json& delta, const Json& logprobs, const Json& reason,
            const Json& timings = nullptr) {
    Json chunk = chunk_of(answer, delta, logprobs, reason);
    if (!timings.is_null()) chunk["timings"] = timings;
    events_.event(chunk);
  }

  EventStream events_;
  const text::Tokenizer& tokenizer_;
  Heading heading_;
  const int n_answers_;
  const bool has_logprobs_, has_usage_;
  std::vector<int> n_calls_;  // by answer
  Usage usage_;
  Json timings_;  // the timings of the answer that ended last
  Json verbose_;  // null: nobody asks for it
};

class ChatWhole : public Writer {
 public:
  ChatWhole(const Context& context, std::shared_ptr<http::Exchange> exchange, const Wanted& wanted)
      : exchange_(std::move(exchange)),
        tokenizer_(context.tokenizer()),
        has_logprobs_(wanted.n_logprobs >= 0),
        messages_(static_cast<size_t>(wanted.n_returned)) {
    heading_.model = context.options().model_name;
    if (wanted.shows_prompt) verbose_ = verbose_json(wanted, tokenizer_);
  }

  void write(int answer, const Delta& delta) override {
    messages_[static_cast<size_t>(answer)].add(delta);
  }
  void end(int answer, const Ending& ending) override {
    messages_[static_cast<size_t>(answer)].ending = ending;
  }
  void finish() override {
    Json body = heading_.json("chat.completion");
    body["choices"] = Json::array();
    Usage usage;
    for (size_t i = 0; i < messages_.size(); ++i) {
      usage.add(messages_[i].ending.generated, 0);
      body["choices"].push_back(choice(static_cast<int>(i), messages_[i]));
    }
    body["usage"] = usage.json();
    body["timings"] = Usage::timings(messages_.front().ending.generated);
    if (!verbose_.is_null()) body["__verbose"] = verbose_;
    http::Response response;
    response.body = dump(body);
    exchange_->reply(response);
  }
  void fail(const Failure& failure) override { exchange_->reply(failure_response(failure)); }

 private:
  Json choice(int index, const WholeAnswer& message) const {
    Json json = {{"role", "assistant"}, {"content", message.text}, {"refusal", nullptr}};
    if (!message.thought.empty()) json["reasoning_content"] = message.thought;
    if (!message.calls.empty()) {
      if (message.text.empty()) json["content"] = nullptr;
      json["tool_calls"] = Json::array();
      for (const WholeAnswer::Call& call : message.calls) {
        json["tool_calls"].push_back(
            {{"id", call.id},
             {"type", "function"},
             {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
      }
    }
    return {
        {"index", index},
        {"message", json},
        {"logprobs", has_logprobs_ ? logprobs_json(message.logprobs, tokenizer_) : Json(nullptr)},
        {"finish_reason", finish_reason(message.ending)}};
  }

  std::shared_ptr<http::Exchange> exchange_;
  const text::Tokenizer& tokenizer_;
  Heading heading_;
  const bool has_logprobs_;
  Json verbose_;  // null: nobody asks for it
  std::vector<WholeAnswer> messages_;
};

void read_logprobs(Fields& fields, Wanted* wanted) {
  const bool is_wanted = fields.flag("logprobs");
  const int64_t n_top = fields.whole("top_logprobs", 0, 0, kMostLogprobs);
  if (n_top > 0 && !is_wanted) fields.fail("top_logprobs", "needs \"logprobs\": true");
  if (is_wanted) wanted->n_logprobs = static_cast<int>(n_top);
}

void refuse_what_is_no_text(Fields& fields) {
  fields.refuse("audio", "this server speaks nothing, it computes only text");
  fields.refuse("functions", "use tools, which have taken their place");
  fields.refuse("function_call", "use tool_choice, which has taken its place");
  fields.refuse("web_search_options", "this server searches nothing");
  if (const Json* const kinds = fields.find("modalities"); kinds != nullptr) {
    if (*kinds != Json::array({"text"})) fields.fail("modalities", "may be [\"text\"] alone");
  }
}

http::Response count_response(Context& context, const Conversation& conversation) {
  http::Response response;
  response.body =
      dump({{"object", "response.input_tokens"},
            {"input_tokens", prompt_of(context, conversation, Context::check_counted).size()}});
  return response;
}

}  // namespace

// count_chat() and count_responses() look only at the conversation, as the rest of a request makes
// no difference.
void count_chat(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                const Json& body) {
  context.check_conversation(body, "messages");
  Fields fields(body);
  exchange->reply(count_response(context, read_conversation(fields)));
}

void count_responses(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                     const Json& body) {
  context.check_conversation(body, "input");
  Fields fields(body);
  exchange->reply(count_response(context, read_responses(fields)));
}

void serve_chat(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                const Json& body) {
  context.chat();
  context.check_conversation(body, "messages");
  Fields fields(body);
  const Conversation conversation = read_conversation(fields);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  const int64_t most = fields.whole("max_tokens", -1, -1, std::numeric_limits<int>::max());
  wanted.most_tokens = static_cast<int>(
      fields.whole("max_completion_tokens", most, -1, std::numeric_limits<int>::max()));
  read_logprobs(fields, &wanted);
  wanted.shows_prompt = fields.flag("verbose", context.options().shows_prompts);
  const std::optional<AnswerForm> form = read_form(fields);
  refuse_what_is_no_text(fields);
  fields.finish();
  const Answers::MakeReader make_reader = prepare_turn(context, conversation, form, &wanted);
  std::unique_ptr<Writer> writer;
  if (wanted.is_stream) {
    writer = std::make_unique<ChatStream>(context, exchange, wanted);
  } else {
    writer = std::make_unique<ChatWhole>(context, exchange, wanted);
  }
  context.start(exchange, wanted, std::move(writer), make_reader);
}

}  // namespace troika::server
