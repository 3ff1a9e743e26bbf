#include "server/llama/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "server/calls/turn.h"
#include "server/llama/settings.h"
#include "server/llama/text_tools.h"
#include "server/openai/usage.h"
#include "server/refusals.h"

namespace troika::server {
namespace {

constexpr size_t kMostNames = 100;
constexpr size_t kMostNameBytes = 4096;

const char* stop_type(engine::Stop stop) {
  switch (stop) {
    case engine::Stop::kEnd:
      return "eos";
    case engine::Stop::kString:
      return "word";
    default:
      return "limit";
  }
}

// Returns only the fields that the list names; "a/b" names the field b of the object a.
Json chosen(const Json& whole, const std::vector<std::string>& names) {
  if (names.empty()) return whole;
  Json few = Json::object();
  for (const std::string& name : names) {
    const Json* at = &whole;
    for (size_t begin = 0; at != nullptr && begin <= name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      const std::string part = name.substr(begin, end - begin);
      at = at->is_object() && at->contains(part) ? &(*at)[part] : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) few[name] = *at;
  }
  return few;
}

Json with_id(const Likelihood& one, Likelihoods which, const text::Tokenizer& tokenizer) {
  Json json = {{"id", one.token}};
  json.update(likelihood_json(one, tokenizer));
  if (which == Likelihoods::kOfModel) return json;
  json.erase("logprob");
  json["prob"] = std::exp(one.logprob);
  return json;
}

class LlamaWriter : public Writer {
 public:
  LlamaWriter(const Context& context, const std::shared_ptr<http::Exchange>& exchange,
              const Wanted& wanted, std::vector<std::string> fields, bool is_list,
              bool shows_tokens)
      : tokenizer_(context.tokenizer()),
        model_(context.options().model_name),
        exchange_(exchange),
        events_(exchange),
        settings_(settings_json(wanted)),
        fields_(std::move(fields)),
        is_stream_(wanted.is_stream),
        is_list_(is_list),
        shows_tokens_(shows_tokens),
        has_probabilities_(wanted.n_logprobs >= 0),
        likelihoods_(wanted.likelihoods),
        messages_(static_cast<size_t>(wanted.n_answers())) {
    for (const auto& prompt : wanted.prompts) prompts_.push_back(text_of(prompt, tokenizer_));
  }

  void begin() override {
    if (is_stream_) events_.begin();
  }
  void progress(int answer, const PromptRead& progress) override {
    Json event = {{"index", answer}, {"content", ""}, {"tokens", Json::array()}, {"stop", false}};
    event["prompt_progress"] = progress_json(progress.prompt);
    if (progress.timings) event["timings"] = timings_json(*progress.timings);
    events_.event(event);
  }
  void write(int answer, const Delta& delta) override {
    WholeAnswer& message = messages_[static_cast<size_t>(answer)];
    if (!is_stream_) return message.add(delta);
    message.text += delta.text;
    if (delta.text.empty() && delta.tokens.empty() && delta.logprobs.empty()) return;
    Json event = {
        {"index", answer}, {"content", delta.text}, {"tokens", delta.tokens}, {"stop", false}};
    if (has_probabilities_) event["completion_probabilities"] = probabilities(delta.logprobs);
    if (delta.timings) event["timings"] = timings_json(*delta.timings);
    events_.event(event);
  }
  void end(int answer, const Ending& ending) override {
    messages_[static_cast<size_t>(answer)].ending = ending;
    if (is_stream_) events_.event(chosen(whole(static_cast<size_t>(answer)), fields_));
  }
  void finish() override {
    if (is_stream_) {
      events_.end();
      return;
    }
    Json body = Json::array();
    for (size_t i = 0; i < messages_.size(); ++i) body.push_back(chosen(whole(i), fields_));
    http::Response response;
    response.body = dump(is_list_ ? body : body[0]);
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
  Json probabilities(const std::vector<TokenLogprobs>& tokens) const {
    Json list = Json::array();
    const char* const top = likelihoods_ == Likelihoods::kOfModel ? "top_logprobs" : "top_probs";
    for (const TokenLogprobs& token : tokens) {
      Json one = with_id(token.taken, likelihoods_, tokenizer_);
      one[top] = Json::array();
      for (const Likelihood& other : token.top) {
        one[top].push_back(with_id(other, likelihoods_, tokenizer_));
      }
      list.push_back(one);
    }
    return list;
  }
  Json whole(size_t answer) const {
    const WholeAnswer& message = messages_[answer];
    const engine::Generated& g = message.ending.generated;
    const size_t n_each = messages_.size() / prompts_.size();
    Json json = {{"index", answer},
                 {"content", is_stream_ ? "" : message.text},
                 {"tokens", shows_tokens_ && !is_stream_ ? Json(g.tokens) : Json::array()},
                 {"stop", true},
                 {"model", model_},
                 {"tokens_predicted", g.tokens.size()},
                 {"tokens_evaluated", g.n_prompt},
                 {"tokens_cached", g.n_prompt - g.n_computed},
                 {"generation_settings", settings_},
                 {"prompt", prompts_[answer / n_each]},
                 {"has_new_line", message.text.find('\n') != std::string::npos},
                 {"truncated", false},
                 {"stop_type", stop_type(g.stop)},
                 {"stopping_word", message.ending.stop},
                 {"timings", Usage::timings(g)}};
    if (has_probabilities_ && !is_stream_) {
      json["completion_probabilities"] = probabilities(message.logprobs);
    }
    return json;
  }

  const text::Tokenizer& tokenizer_;
  const std::string model_;
  std::shared_ptr<http::Exchange> exchange_;
  EventStream events_;
  const Json settings_;
  const std::vector<std::string> fields_;
  const bool is_stream_, is_list_, shows_tokens_, has_probabilities_;
  const Likelihoods likelihoods_;
  std::vector<std::string> prompts_;
  std::vector<WholeAnswer> messages_;
};

// Reads a prompt: a text, {"prompt_string": a text}, or a list of tokens and texts that follow each
// other.
std::vector<engine::Token> prompt_from(Context& context, Fields& fields, const Json& json) {
  const text::Tokenizer& tokenizer = context.tokenizer();
  if (json.is_string()) {
    return context.encode_prompt(json.get_ref<const std::string&>());
  }
  if (json.is_object()) {
    Fields object(json, "prompt.");
    const std::string text = object.text("prompt_string");
    object.refuse("multimodal_data", "this server reads texts only");
    object.finish();
    return context.encode_prompt(text);
  }
  if (!json.is_array()) fields.fail("prompt", "must be a text, tokens, or a list of prompts");
  context.check_bytes(text_bytes(json));
  const auto is_empty = [](const Json& one) {
    return one.is_string() && one.get_ref<const std::string&>().empty();
  };
  const auto n_empty = static_cast<size_t>(std::count_if(json.begin(), json.end(), is_empty));
  const bool has_text =
      std::any_of(json.begin(), json.end(), [](const Json& one) { return one.is_string(); });
  context.check_tokens(json.size() - n_empty, has_text ? "at least " : "");
  std::vector<engine::Token> tokens;
  for (const Json& one : json) {
    if (!one.is_string()) {
      tokens.push_back(token_from(tokenizer, one, "prompt"));
    } else if (!is_empty(one) || &one == &json.front()) {  // there it may be the begin token
      const auto more = context.encode_prompt(one.get_ref<const std::string&>(), tokens.empty());
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  return tokens;
}

// Says whether the value is one prompt. A list is one prompt if it holds a token.
bool is_one_prompt(const Json& prompt) {
  return !prompt.is_array() ||
         std::any_of(prompt.begin(), prompt.end(), [](const Json& one) { return one.is_number(); });
}

// Reads the names of an answer's fields. They are looked up by the thread that computes and stay
// until the answer ends, so there are no more of them, and they are no longer, than an answer could
// have.
std::vector<std::string> names_from(Fields& fields, const std::string& field) {
  const Json* const list = fields.find(field);
  if (list == nullptr) return {};
  if (!list->is_array() || list->size() > kMostNames) {
    fields.fail(field, fmt::format("must be a list of at most {} names", kMostNames));
  }
  std::vector<std::string> names;
  size_t n_bytes = 0;
  for (const Json& one : *list) {
    if (!one.is_string()) fields.fail(field, "must be a list of names");
    names.push_back(one.get<std::string>());
    n_bytes += names.back().size();
    if (n_bytes <= kMostNameBytes) continue;
    fields.fail(field, fmt::format("must have names of {} bytes together at most", kMostNameBytes));
  }
  return names;
}

void read_llama_prompts(Context& context, Fields& fields, Wanted* wanted) {
  const Json* const prompt = fields.find("prompt");
  if (prompt == nullptr) fields.fail("prompt", "is missing");
  if (is_one_prompt(*prompt)) {
    wanted->prompts = {prompt_from(context, fields, *prompt)};
    return;
  }
  if (prompt->empty() || prompt->size() > kMostAnswers) {
    fields.fail("prompt", "must hold at least one prompt and at most 128");
  }
  context.check_prompts(*prompt, *wanted);
  for (const Json& one : *prompt) wanted->prompts.push_back(prompt_from(context, fields, one));
}

}  // namespace

void serve_completion(Context& context, const std::shared_ptr<http::Exchange>& exchange,
                      const Json& body) {
  Fields fields(body);
  Wanted wanted;
  read_sampling(fields, context.tokenizer(), context.sampler(), &wanted);
  read_llama_prompts(context, fields, &wanted);
  context.check_lengths(wanted);
  const int64_t most = fields.whole("max_tokens", -1, -1, std::numeric_limits<int>::max());
  wanted.most_tokens =
      static_cast<int>(fields.whole("n_predict", most, -1, std::numeric_limits<int>::max()));
  const int64_t n_likely = fields.whole("n_probs", 0, 0, kMostLogprobs);
  if (n_likely > 0) wanted.n_logprobs = static_cast<int>(n_likely);
  wanted.wants_tokens = wanted.is_stream;
  const bool shows_tokens = fields.flag("return_tokens");
  if (fields.flag("post_sampling_probs")) wanted.likelihoods = Likelihoods::kOfChoice;
  fields.ignore("backend_sampling");  // where tokens are chosen changes none
  fields.refuse("lora", "this server knows no LoRA adapters");
  const std::optional<AnswerForm> form = read_form(fields);
  if (form) wanted.grammar = context.grammars().compile(form->text, form->format);
  std::vector<std::string> names = names_from(fields, "response_fields");
  const bool is_list = !is_one_prompt(body["prompt"]) || wanted.n_returned > 1;
  fields.finish();
  auto writer = std::make_unique<LlamaWriter>(context, exchange, wanted, std::move(names), is_list,
                                              shows_tokens);
  context.start(exchange, wanted, std::move(writer),
                [] { return std::make_unique<PlainReader>(); });
}

}  // namespace troika::server
