#include "server/context.h"

#include <fmt/format.h>

#include <ctime>
#include <random>
#include <utility>

#include "server/calls/channels.h"
#include "server/calls/completed_template.h"
#include "server/given_text.h"

namespace troika::server {
namespace {

// Limits the likelihoods that are told together. In JSON one takes some 60 bytes, as values of JSON
// until then some 500.
constexpr int64_t kMostGathered = int64_t{1} << 18;

[[noreturn]] void refuse_length(const char* how, size_t n_tokens, int n_context) {
  Refused refused(400,
                  fmt::format("The prompt has {}{} tokens, but the context of this server holds "
                              "{}, with the answer. Shorten the prompt, or start the server with "
                              "a larger context.",
                              how, n_tokens, n_context),
                  "prompt", "context_length_exceeded");
  refused.type = "exceed_context_size_error";
  refused.details = {{"n_prompt_tokens", n_tokens}, {"n_ctx", n_context}};
  throw Refused(refused);
}

text::SpecialMatcher control_tokens_of(const text::Tokenizer& tokenizer) {
  std::vector<std::pair<std::string, text::Token>> names;
  for (text::Token token = 0; token < tokenizer.n_tokens(); ++token) {
    if (!tokenizer.is_control(token)) continue;
    names.emplace_back(tokenizer.piece(token, /*render_special=*/true), token);
  }
  return text::SpecialMatcher(std::move(names));
}

// Makes nothing where the file has no template for requests with tools, or one that is none: the
// template of all other requests knows tools too, or is told of them in words.
void make_tool_style(const engine::Engine& engine, std::optional<ChatStyle>* style) {
  const std::string& source = engine.tokenizer().vocabulary().tool_template;
  if (source.empty()) return;
  try {
    style->emplace(engine, source);
  } catch (const Error&) {
    style->reset();
  }
}

}  // namespace

ChatStyle::ChatStyle(const engine::Engine& engine, const std::string& source)
    : format(engine, completed_template(source)),
      calls(find_shape(format)),
      thoughts(find_thought_marks(format)),
      has_channels(server::has_channels(format)) {}

Context::Context(engine::Engine& engine, ServiceOptions options)
    : engine_(engine),
      options_(std::move(options)),
      started_s_(std::time(nullptr)),
      control_tokens_(control_tokens_of(engine.tokenizer())),
      grammars_(engine.tokenizer()),
      worker_(engine, options_.n_parallel, options_.n_queue, options_.keep) {
  try {
    const std::string& own = tokenizer().vocabulary().chat_template;
    if (options_.chat_template.empty() && own.empty()) {
      throw Error(
          "Its file has no chat template; who starts the server can give one: ‹template› FILE.");
    }
    chat_.emplace(engine, options_.chat_template.empty() ? own : options_.chat_template);
    if (options_.chat_template.empty()) make_tool_style(engine, &tool_chat_);
  } catch (const Error& error) {
    if (!options_.chat_template.empty()) throw;
    chat_problem_ = error.what();
  }
  for (const std::string& text : options_.forced_texts) {
    forced_.push_back(tokenizer().encode(text, {.add_special = false, .parse_special = true}));
  }
}

// The slow desk stops first, as its work wakes the worker, which is destroyed before the desk.
Context::~Context() { slow_desk_.stop(); }

const ChatStyle& Context::chat(bool has_tools) const {
  if (has_tools && tool_chat_) return *tool_chat_;
  if (chat_) return *chat_;
  throw Refused(400, fmt::format("This model cannot be talked with, only be continued, as by "
                                 "/v1/completions. {}",
                                 chat_problem_));
}

engine::SamplerOptions Context::sampler() const {
  engine::SamplerOptions sampler = options_.sampler;
  if (options_.has_seed) return sampler;
  std::random_device device;
  sampler.seed = (static_cast<uint64_t>(device()) << 32 | device()) >> 1;
  return sampler;
}

void Context::check_number(int64_t n_answers) const {
  const int n_most = options_.n_parallel + options_.n_queue;
  if (n_answers <= n_most) return;
  throw Refused(400, fmt::format("The request asks for {} answers; this server computes or keeps "
                                 "waiting at most {}.",
                                 n_answers, n_most));
}

void Context::check_prompts(const Json& prompts, const Wanted& wanted) const {
  check_number(std::ssize(prompts) * wanted.n_computed);
  const size_t n_bytes = text_bytes(prompts);
  if (n_bytes <= kMostCountedBytes) return;
  throw Refused(400,
                fmt::format("The prompts are {} bytes long together; at most {} are read of "
                            "several prompts. Send them in several requests.",
                            n_bytes, kMostCountedBytes),
                "prompt");
}

void Context::check(const Wanted& wanted) const {
  if (wanted.ignores_end && wanted.grammar != nullptr) {
    throw Refused(400,
                  "Nothing may follow the end of what a grammar, a schema or a tool describes. "
                  "Leave ignore_eos out, or these.",
                  "ignore_eos");
  }
  check_number(wanted.n_answers());
  check_lengths(wanted);
  (void)most_tokens(wanted);  // refuses more likelihoods than are told together
}

// Returns how many tokens each answer may have; -1: as many as the context holds. Likelihoods that
// are told together stay in memory until then and are written in one piece, so that who says no
// number gets no more tokens than they allow. Throws Refused where more are asked for.
int Context::most_tokens(const Wanted& wanted) const {
  if (!wanted.gathers_likelihoods()) return wanted.most_tokens;
  const int64_t n_each = int64_t{wanted.n_logprobs + 1} * wanted.n_answers();
  const int64_t n_most = kMostGathered / n_each;
  if (n_most >= n_context()) return wanted.most_tokens;
  if (wanted.most_tokens < 0) return static_cast<int>(n_most);
  if (wanted.most_tokens <= n_most) return wanted.most_tokens;
  throw Refused(
      400, fmt::format("The request asks for the likelihoods of {} tokens in each of {} answers, "
                       "{} for a token; an answer that is told as a whole holds {}, so {} "
                       "tokens here. Ask for fewer tokens, answers or likelihoods, or for a "
                       "stream.",
                       wanted.most_tokens, wanted.n_answers(), wanted.n_logprobs + 1, kMostGathered,
                       n_most));
}

void Context::check_lengths(const Wanted& wanted) const {
  for (const auto& prompt : wanted.prompts) {
    if (prompt.empty()) {
      throw Refused(400, "The prompt is empty. Give at least one token.", "prompt");
    }
    check_tokens(prompt.size());
  }
}

void Context::check_tokens(size_t n_tokens, const char* how) const {
  if (n_tokens >= static_cast<size_t>(n_context())) refuse_length(how, n_tokens, n_context());
}

void Context::check_bytes(size_t n_bytes) const {
  check_tokens(tokenizer().least_tokens(n_bytes), "at least ");
}

void Context::check_messages(size_t n_messages, const std::string& what,
                             const std::string& field) const {
  if (n_messages < static_cast<size_t>(n_context())) return;
  Refused refused(400,
                  fmt::format("The conversation has {} {}, and the context of this server holds {} "
                              "tokens, with the answer. Send fewer, or start the server with a "
                              "larger context.",
                              n_messages, what, n_context()),
                  field, "context_length_exceeded");
  refused.type = "exceed_context_size_error";
  refused.details = {{"n_ctx", n_context()}};
  throw Refused(refused);
}

void Context::check_conversation(const Json& body, const std::string& field) const {
  const auto size_of = [](const Json& object, const std::string& name) {
    const auto list = object.is_object() ? object.find(name) : object.end();
    return list != object.end() && list->is_array() ? list->size() : 0;
  };
  const std::string what = field == "input" ? "items" : field;
  size_t n = size_of(body, field);
  check_messages(n, what, field);
  check_messages(size_of(body, "tools"), "tools", "tools");
  if (n == 0) return;
  for (const Json& one : body[field]) {
    for (const char* const name : {"content", "tool_calls", "output"}) n += size_of(one, name);
  }
  check_messages(n, what + " and parts of them", field);
}

void Context::check_counted(size_t n_bytes) {
  if (n_bytes <= kMostCountedBytes) return;
  throw Refused(400, fmt::format("The text is {} bytes long; at most {} are read without an "
                                 "answer. Send it in parts.",
                                 n_bytes, kMostCountedBytes));
}

std::vector<engine::Token> Context::encode_prompt(std::string_view text, bool add_special) const {
  check_bytes(text.size());
  return tokenizer().encode(text, {.add_special = add_special, .parse_special = true});
}

std::shared_ptr<Job> Context::make_job(const std::shared_ptr<http::Exchange>& exchange,
                                       const Wanted& wanted, int index) {
  auto job = std::make_shared<Job>();
  job->exchange = exchange;
  job->index = index;
  job->prompt = wanted.prompts[static_cast<size_t>(index / wanted.n_computed)];
  job->sampler = wanted.sampler;
  job->sampler.seed += static_cast<uint64_t>(index % wanted.n_computed);
  job->options.most_tokens = most_tokens(wanted);
  job->options.stops = wanted.stops;
  job->options.ignore_end = wanted.ignores_end;
  job->options.shows_control = wanted.shows_control;
  std::shared_ptr<engine::Constraint> constraint;
  if (!forced_.empty()) {
    const std::vector<engine::Token>& text = forced_[n_forced_.fetch_add(1) % forced_.size()];
    job->mask = std::make_shared<GivenText>(job->prompt.size(), text, tokenizer().ends());
  } else if (wanted.grammar != nullptr) {
    const auto elsewhere = [this, exchange](std::function<void()> work) {
      const auto then = [this, work = std::move(work)] {
        work();
        worker_.look_again();
      };
      slow_desk_.post(exchange, then, Desk::Place::kFront);
    };
    constraint =
        std::make_shared<engine::Constraint>(wanted.grammar, job->prompt.size(), elsewhere);
    job->mask = constraint;
  }
  if (wanted.n_logprobs >= 0 || wanted.n_computed > wanted.n_returned) {
    job->recorder = std::make_unique<LogprobRecorder>(
        job->prompt.size(), std::max(wanted.n_logprobs, 0), job->mask.get(), wanted.likelihoods);
  }
  if (options_.make_drafter) {
    job->make_drafter = [this, constraint] { return options_.make_drafter(constraint); };
  }
  return job;
}

void Context::start(const std::shared_ptr<http::Exchange>& exchange, const Wanted& wanted,
                    std::unique_ptr<Writer> writer, const Answers::MakeReader& make_reader) {
  check(wanted);
  const auto answers = std::make_shared<Answers>(wanted, std::move(writer), make_reader);
  if (wanted.gathers_likelihoods()) {
    answers->finish_by([this, exchange](std::function<void()> work) {
      slow_desk_.post(exchange, std::move(work), Desk::Place::kFront);
    });
  }
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < wanted.n_answers(); ++i) {
    jobs.push_back(make_job(exchange, wanted, i));
    jobs.back()->reply = answers;
  }
  if (wanted.is_stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.emplace_back(exchange.get(), answers);
  }
  if (worker_.submit(jobs, [&] { answers->writer().begin(); })) return;
  if (!forced_.empty()) n_forced_ -= jobs.size();  // the next request gets these texts
  throw Refused::for_now(fmt::format("The server computes {} answers and lets {} wait; there is no "
                                     "room for more now. Try again later.",
                                     options_.n_parallel, options_.n_queue),
                         worker_.seconds_until_room());
}

void Context::forget(const http::Exchange* exchange) {
  worker_.cancel(exchange);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(live_, [&](const auto& entry) { return entry.first == exchange; });
}

void Context::tick() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(live_, [&](const auto& entry) {
    const std::shared_ptr<Answers> answers = entry.second.lock();
    if (answers == nullptr) return true;
    if (options_.ping_seconds > 0) answers->writer().ping(options_.ping_seconds);
    return false;
  });
}

}  // namespace troika::server
