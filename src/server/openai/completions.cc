#include "server/openai/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "server/calls/turn.h"
#include "server/llama/text_tools.h"
#include "server/openai/usage.h"
#include "server/refusals.h"
#include "text/utf8.h"

namespace troika::server {
namespace {

// The texts of the prompts, which answers repeat if the client asks for it.
struct Echo {
  std::vector<std::string> texts;  // if empty, nothing is repeated
  int n_each = 1;
  std::string of(int answer) const {
    return texts.empty() ? "" : texts[static_cast<size_t>(answer / n_each)];
  }
  size_t n_bytes() const {
    size_t n = 0;
    for (const std::string& text : texts) n += text.size();
    return n;
  }
};

// Counts characters by their first bytes, as a token may end within a character.
size_t characters_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Returns the name of a token: its text, or what OpenAI writes for bytes that
// are no whole characters, e.g. "bytes:\\xe4". They would all be written alike in JSON.
std::string name_of(std::string_view piece) {
  if (text::replace_invalid_utf8(piece) == piece) return std::string(piece);
  std::string name = "bytes:";
  for (const char c : piece) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

// Returns {"tokens": [...], "token_logprobs": [...], "top_logprobs": [...], "text_offset": [...]}.
// `offset` counts the characters of the text in front of the tokens.
Json old_logprobs(const std::vector<TokenLogprobs>& tokens, const text::Tokenizer& tokenizer,
                  size_t offset) {
  Json json = {{"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
  for (const TokenLogprobs& token : tokens) {
    const std::string piece(tokenizer.piece(token.taken.token, true));
    Json top = Json::object();
    for (const Likelihood& other : token.top) {
      // Where two tokens have one name, the likelier one keeps it.
      top.emplace(name_of(tokenizer.piece(other.token, true)), other.logprob);
    }
    json["tokens"].push_back(name_of(piece));
    json["token_logprobs"].push_back(token.taken.logprob);
    json["top_logprobs"].push_back(top);
    json["text_offset"].push_back(offset);
    offset += characters_of(piece);
  }
  return json;
}

class CompletionWriter : public Writer {
 public:
  CompletionWriter(const Context& context, const std::shared_ptr<http::Exchange>& exchange,
                   const Wanted& wanted, Echo echo)
      : context_(context),
        exchange_(exchange),
        events_(exchange),
        is_stream_(wanted.is_stream),
        has_usage_(wanted.wants_usage),
        has_logprobs_(wanted.n_logprobs >= 0),
        n_each_(wanted.n_returned),
        echo_(std::move(echo)),
        held_(exchange->hold(echo_.n_bytes())),
        messages_(static_cast<size_t>(wanted.n_returned) * wanted.prompts.size()),
        n_characters_(messages_.size(), 0) {}

  void begin() override {
    if (is_stream_) events_.begin();
    for (size_t i = 0; is_stream_ && i < messages_.size(); ++i) {
      const std::string text = echo_.of(static_cast<int>(i));
      if (!text.empty()) send(static_cast<int>(i), text, nullptr, nullptr);
    }
  }
  void write(int answer, const Delta& delta) override {
    if (!is_stream_) {
      messages_[static_cast<size_t>(answer)].add(delta);
      return;
    }
    size_t& n_characters = n_characters_[static_cast<size_t>(answer)];
    Json chunk = chunk_of(answer, delta.text, logprobs_of(delta.logprobs, n_characters), nullptr);
    if (delta.timings) chunk["timings"] = timings_json(*delta.timings);
    events_.event(chunk);
    n_characters += characters_of(delta.text);
  }
  void progress(int answer, const PromptRead& progress) override {
    Json chunk = chunk_of(answer, "", nullptr, nullptr);
    chunk["prompt_progress"] = progress_json(progress.prompt);
    if (progress.timings) chunk["timings"] = timings_json(*progress.timings);
    events_.event(chunk);
  }
  void end(int answer, const Ending& ending) override {
    usage_.add(ending.generated, answer / n_each_);
    messages_[static_cast<size_t>(answer)].ending = ending;
    if (is_stream_) send(answer, "", nullptr, finish_reason(ending));
  }
  void leave_out(int prompt, const engine::Generated& generated) override {
    usage_.add(generated, prompt);
  }
  void finish() override {
    if (is_stream_) {
      finish_stream();
      return;
    }
    Json body = heading();
    body["choices"] = Json::array();
    for (size_t i = 0; i < messages_.size(); ++i) {
      const WholeAnswer& message = messages_[i];
      const std::string text = echo_.of(static_cast<int>(i)) + message.text;
      body["choices"].push_back(choice(static_cast<int>(i), text, logprobs_of(message.logprobs, 0),
                                       finish_reason(message.ending)));
    }
    body["usage"] = usage_.json();
    body["timings"] = Usage::timings(messages_.front().ending.generated);
    http::Response response;
    response.body = dump(body);
    exchange_->reply(response);
  }
  void fail(const Failure& failure) override {
    if (is_stream_) {
      events_.fail(failure);
    } else {
      exchange_->reply(failure_response(failure));
    }
  }
  void ping(double seconds) override { events_.ping(seconds); }

 private:
  Json heading() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", context_.options().model_name},
            {"system_fingerprint", "build-" TROIKA_VERSION}};
  }
  Json logprobs_of(const std::vector<TokenLogprobs>& tokens, size_t offset) const {
    return has_logprobs_ ? old_logprobs(tokens, context_.tokenizer(), offset) : Json(nullptr);
  }
  static Json choice(int answer, const std::string& text, const Json& logprobs,
                     const Json& reason) {
    return {{"text", text}, {"index", answer}, {"logprobs", logprobs}, {"finish_reason", reason}};
  }
  Json chunk_of(int answer, const std::string& text, const Json& logprobs,
                const Json& reason) const {
    Json chunk = heading();
    chunk["choices"] = Json::array({choice(answer, text, logprobs, reason)});
    if (has_usage_) chunk["usage"] = nullptr;
    return chunk;
  }
  void send(int answer, const std::string& text, const Json& logprobs, const Json& reason) {
    events_.event(chunk_of(answer, text, logprobs, reason));
  }
  void finish_stream() {
    if (has_usage_) {
      Json chunk = heading();
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_.json();
      events_.event(chunk);
    }
    events_.line("data: [DONE]\n\n");
    events_.end();
  }

  const Context& context_;
  std::shared_ptr<http::Exchange> exchange_;
  EventStream events_;
  const std::string id_ = random_id("cmpl-");
  const int64_t created_ = std::time(nullptr);
  const bool is_stream_, has_usage_, has_logprobs_;
  const int n_each_;  // counts answers to each prompt
  const Echo echo_;
  const std::shared_ptr<const http::HeldBytes> held_;  // counts the echo
  std::vector<WholeAnswer> messages_;
  std::vector<size_t> n_characters_;  // counts the characters of each answer that were streamed
  Usage usage_;
};

bool is_tokens(const Json& json) { return json.is_array() && !json.empty() && json[0].is_number(); }

// Reads one prompt, which is a text or a list of tokens, or a list of prompts. The number of
// answers to each is known by now.
std::vector<std::vector<engine::Token>> read_prompts(Context& context, Fields& fields,
                                                     const Wanted& wanted) {
  const Json* const prompt = fields.find("prompt");
  if (prompt == nullptr) fields.fail("prompt", "is missing");
  const text::Tokenizer& tokenizer = context.tokenizer();
  const auto read_one = [&](const Json& one) -> std::vector<engine::Token> {
    if (one.is_string()) {
      return context.encode_prompt(one.get_ref<const std::string&>());
    }
    if (is_tokens(one)) {
      context.check_tokens(one.size());
      return tokens_from(tokenizer, one, "prompt");
    }
    fields.fail("prompt", "must be a text, tokens, or a list of texts or of tokens");
  };
  if (!prompt->is_array() || is_tokens(*prompt)) return {read_one(*prompt)};
  if (prompt->empty() || prompt->size() > kMostAnswers) {
    fields.fail("prompt", "must hold at least one text and at most 128");
  }
  context.check_prompts(*prompt, wanted);
  std::vector<std::vector<engine::Token>> prompts;
  for (const Json& one : *prompt) prompts.push_back(read_one(one));
  return prompts;
}

void read_best_of(Fields& fields, Wanted* wanted) {
  const int64_t best_of = fields.whole("best_of", wanted->n_returned, 1, kMostAnswers);
  if (best_of < wanted->n_returned) fields.fail("best_of", "must be at least n");
  if (best_of > wanted->n_returned && wanted->is_stream) {
    fields.fail("best_of", "cannot be streamed: the best answer is known at the end alone");
  }
  wanted->n_computed = static_cast<int>(best_of);
}

}  // namespace

void serve_completions(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                       const Json& body) {
  Fields fields(body);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  constexpr int kUsualTokens = 16;  // as OpenAI's interface has it
  wanted.most_tokens = static_cast<int>(
      fields.whole("max_tokens", kUsualTokens, -1, std::numeric_limits<int>::max()));
  wanted.n_logprobs = static_cast<int>(fields.whole("logprobs", -1, 0, kMostLogprobs));
  read_best_of(fields, &wanted);
  wanted.prompts = read_prompts(context, fields, wanted);
  context.check_lengths(wanted);
  const std::optional<AnswerForm> form = read_form(fields);
  if (form) wanted.grammar = context.grammars().compile(form->text, form->format);
  fields.refuse("suffix", "this server fills no gaps in texts");
  Echo echo{{}, wanted.n_returned};
  if (fields.flag("echo")) {
    if (wanted.n_logprobs >= 0) {
      fields.fail(
          "echo",
          "cannot be asked for together with logprobs: this server does not tell how likely "
          "the tokens of a prompt are");
    }
    for (const auto& prompt : wanted.prompts) {
      echo.texts.push_back(context.tokenizer().decode(prompt));
    }
  }
  fields.finish();
  auto writer = std::make_unique<CompletionWriter>(context, exchange, wanted, std::move(echo));
  context.start(exchange, wanted, std::move(writer),
                [] { return std::make_unique<PlainReader>(); });
}

}  // namespace troika::server
