#include "measure/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <map>

#include "base/error.h"
#include "engine/chat.h"
#include "engine/generate.h"
#include "engine/memory/context_room.h"

namespace troika::measure {
namespace {

// Adds up losses over windows, and the characters of the windows' tokens.
class Sums {
 public:
  explicit Sums(const text::Tokenizer& tokenizer, std::vector<double>* losses = nullptr)
      : tokenizer_(tokenizer), losses_(losses) {}

  // Adds a window, in which all tokens behind the first n_given are predicted.
  void add_window(engine::Session& session, std::span<const cache::Token> tokens,
                  size_t n_given = 1) {
    if (tokens.size() <= n_given) {
      is_context_short_ = static_cast<size_t>(session.context()) <= n_given;
      return;
    }
    predict(session, tokens, n_given, [&](const Prediction& prediction) {
      nll_ += prediction.nll;
      if (losses_ != nullptr) losses_->push_back(prediction.nll);
    });
    n_tokens_ += tokens.size() - n_given;
    for (const char c : tokenizer_.decode(tokens.subspan(n_given))) {
      n_chars_ += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }
  }

  Perplexity result() const {
    if (n_tokens_ == 0 && is_context_short_) {
      throw Error(
          "A window of the context's length has no token that could be predicted. Ask for "
          "a longer ‹context›.");
    }
    if (n_tokens_ == 0) {
      throw Error("The text has no token that could be predicted. Give a longer text.");
    }
    Perplexity p;
    p.n_tokens = n_tokens_;
    p.nll = nll_ / static_cast<double>(n_tokens_);
    p.perplexity = std::exp(p.nll);
    p.bits_per_char = nll_ / std::log(2.0) / static_cast<double>(std::max<size_t>(n_chars_, 1));
    return p;
  }

 private:
  const text::Tokenizer& tokenizer_;
  std::vector<double>* losses_;  // gets the loss of each token; may be null
  double nll_ = 0.0;
  size_t n_tokens_ = 0;
  size_t n_chars_ = 0;
  bool is_context_short_ = false;  // says that no text would have been long enough
};

// Says whether windows begin with BOS: they do where the model has such a token.
bool begins_with_bos(const text::Tokenizer& tokenizer) {
  return tokenizer.vocabulary().add_bos && tokenizer.bos() != text::kNoToken;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::string first_line(const std::string& trimmed) { return trimmed.substr(0, trimmed.find('\n')); }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Says whether a character is ASCII punctuation. All others belong to words.
bool is_punctuation(char c) {
  return c > ' ' && c < '\x7f' && std::isalnum(static_cast<unsigned char>(c)) == 0;
}

// Returns the first word without the punctuation around it.
std::string first_word(const std::string& text) {
  std::string word = trimmed(text);
  word.erase(std::find_if(word.begin(), word.end(), is_space), word.end());
  while (!word.empty() && is_punctuation(word.back())) word.pop_back();
  word.erase(word.begin(), std::find_if_not(word.begin(), word.end(), is_punctuation));
  return word;
}

// Says whether more text would change nothing about the first word.
bool has_whole_word(const std::string& text) {
  const auto begin = std::find_if_not(text.begin(), text.end(), is_space);
  return std::find_if(begin, text.end(), is_space) != text.end();
}

// Returns the part of an answer that is judged.
std::string judged(const std::string& text, const TaskOptions& how) {
  if (how.first_word_only) return first_word(text);
  if (how.first_line_only) return trimmed(first_line(trimmed(text)));
  return trimmed(text);
}

// Counts the tokens that a right answer may have beyond those of its text: for white space around
// it, and for its end.
constexpr size_t kMoreTokens = 8;

// Says whether the greedy answer to the task is the expected one.
bool answers(engine::Session& session, std::span<const cache::Token> prompt, const EvalTask& task,
             const TaskOptions& how) {
  engine::SamplerOptions sampling;
  sampling.temperature = 0.0f;
  engine::Sampler greedy(sampling);
  engine::GenerateOptions options;
  // A right answer needs no more tokens than it has bytes, and a few more.
  options.most_tokens =
      static_cast<int>(std::min<size_t>(task.answer.size() + kMoreTokens, INT32_MAX));
  std::string written;
  std::atomic<bool> is_enough{false};
  options.cancel = &is_enough;
  const std::string text =
      engine::generate(session, prompt, greedy, options, [&](std::string_view fragment, int) {
        written += fragment;
        is_enough = how.first_word_only && has_whole_word(written);
      }).text;
  return judged(text, how) == judged(task.answer, how);
}

}  // namespace

std::vector<std::vector<cache::Token>> windows_of_text(const text::Tokenizer& tokenizer,
                                                       const std::string& text, size_t n_tokens) {
  const std::vector<cache::Token> tokens =
      tokenizer.encode(text, {.add_special = false, .parse_special = false});
  std::vector<std::vector<cache::Token>> windows;
  for (size_t begin = 0; begin < tokens.size();) {
    std::vector<cache::Token> window;
    window.reserve(n_tokens + 1);
    if (begins_with_bos(tokenizer)) window.push_back(tokenizer.bos());
    const size_t n = std::min(tokens.size() - begin, std::max<size_t>(n_tokens - window.size(), 1));
    for (size_t i = begin; i < begin + n; ++i) window.push_back(tokens[i]);
    begin += n;
    windows.push_back(std::move(window));
  }
  return windows;
}

double log_sum_of(const kernels::Table& kernels, std::span<const float> logits,
                  std::vector<float>* room) {
  const float best = *std::max_element(logits.begin(), logits.end());
  room->resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) (*room)[i] = logits[i] - best;
  kernels.exp(room->data(), room->data(), logits.size());
  double sum = 0.0;
  for (const float part : *room) sum += part;
  const double log_sum = best + std::log(sum);
  if (std::isnan(log_sum)) engine::throw_no_numbers();
  return log_sum;
}

void predict(engine::Session& session, std::span<const cache::Token> tokens, size_t n_given,
             const PredictionSink& sink) {
  if (tokens.size() <= n_given) return;
  std::vector<float> room;
  session.truncate(0);
  session.evaluate(tokens.first(tokens.size() - 1), [&](int index, std::span<const float> row) {
    const size_t predicted = static_cast<size_t>(index) + 1;
    if (predicted < n_given) return;
    const double log_sum = log_sum_of(session.engine().kernels().table, row, &room);
    sink({row, log_sum, log_sum - row[static_cast<size_t>(tokens[predicted])]});
  });
}

Perplexity perplexity_of_documents(engine::Session& session,
                                   const std::vector<std::string>& documents,
                                   const ProgressFunction& progress) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  const auto context = static_cast<size_t>(session.context());
  size_t n_cut_documents = 0, n_cut_tokens = 0;
  Sums sums(tokenizer);
  for (size_t i = 0; i < documents.size(); ++i) {
    std::vector<cache::Token> tokens = tokenizer.encode(documents[i]);
    if (tokens.size() > context) {
      ++n_cut_documents;
      n_cut_tokens += tokens.size() - context;
      tokens.resize(context);
    }
    sums.add_window(session, tokens);
    if (progress) progress(i + 1, documents.size());
  }
  Perplexity p = sums.result();
  p.n_cut_documents = n_cut_documents;
  p.n_cut_tokens = n_cut_tokens;
  return p;
}

Perplexity perplexity_of_text(engine::Session& session, const std::string& text,
                              const ProgressFunction& progress, std::vector<double>* losses) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  const std::vector<std::vector<cache::Token>> windows =
      windows_of_text(tokenizer, text, static_cast<size_t>(session.context()));
  size_t n_all = 0, n_done = 0;
  for (const std::vector<cache::Token>& window : windows) n_all += window.size();
  Sums sums(tokenizer, losses);
  for (const std::vector<cache::Token>& window : windows) {
    sums.add_window(session, window);
    n_done += window.size();
    if (progress) progress(n_done, n_all);
  }
  return sums.result();
}

Perplexity perplexity_of_second_halves(engine::Session& session, const std::string& text,
                                       const ProgressFunction& progress) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  std::vector<cache::Token> tokens = tokenizer.encode(text);
  const auto context = static_cast<size_t>(session.context());
  if (tokens.size() < context) {
    throw Error(
        fmt::format("The text has {} tokens, and a window has {}: give a longer text, or a shorter "
                    "‹context›.",
                    tokens.size(), context));
  }
  Sums sums(tokenizer);
  for (size_t begin = 0; begin + context <= tokens.size(); begin += context) {
    // BOS takes the place of the window's first token, as in llama-perplexity; it does not stand
    // before it.
    if (begins_with_bos(tokenizer)) tokens[begin] = tokenizer.bos();
    sums.add_window(session, std::span(tokens).subspan(begin, context), context / 2 + 1);
    if (progress) progress(begin + context, tokens.size());
  }
  return sums.result();
}

void check_room(const engine::Session& session, const std::vector<TaskRoom>& tasks) {
  const TaskRoom* most = nullptr;
  size_t n_too_long = 0;
  for (const TaskRoom& task : tasks) {
    if (task.n_prompt + task.n_answer <= static_cast<size_t>(session.context())) continue;
    ++n_too_long;
    if (most == nullptr || task.n_prompt + task.n_answer > most->n_prompt + most->n_answer) {
      most = &task;
    }
  }
  if (most == nullptr) return;
  const size_t n_wanted = most->n_prompt + most->n_answer;
  throw Error(fmt::format(
      "{}{}the prompt has {} tokens and its answer may have {}, but {}{}. Shorten it, or {}.",
      most->where, most->where.empty() ? "" : ": ", most->n_prompt, most->n_answer,
      engine::context_held(session.engine()),
      n_too_long > 1 ? fmt::format(", which is too little for {} tasks", n_too_long) : "",
      engine::advised_context(session.engine(), n_wanted, 0)));
}

void check_kind(const std::string& kind, const std::string& where) {
  if (kind != kAllKinds) return;
  throw Error(
      fmt::format("{}{}the kind \"{}\" has the name of all kinds together. Give it another name.",
                  where, where.empty() ? "" : ": ", kind));
}

std::vector<TaskScore> score_tasks(engine::Session& session, const std::vector<EvalTask>& tasks,
                                   const TaskOptions& how, const ProgressFunction& progress) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  TaskScore all{kAllKinds, 0, 0};
  std::map<std::string, TaskScore> by_kind;
  std::unique_ptr<engine::ChatFormat> chat;
  if (how.use_chat) {
    chat = std::make_unique<engine::ChatFormat>(session.engine(), how.chat_template);
  }
  std::vector<std::vector<cache::Token>> prompts;
  std::vector<TaskRoom> rooms;
  prompts.reserve(tasks.size());
  rooms.reserve(tasks.size());
  for (const EvalTask& task : tasks) {
    check_kind(task.kind, task.where);
    prompts.push_back(how.use_chat ? chat->prompt({{"user", task.prompt}})
                                   : tokenizer.encode(task.prompt));
    const size_t n_answer =
        tokenizer.encode(task.answer, {.add_special = false, .parse_special = false}).size();
    rooms.push_back({prompts.back().size(), n_answer + kMoreTokens, task.where});
  }
  check_room(session, rooms);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const EvalTask& task = tasks[i];
    const bool right = answers(session, prompts[i], task, how);
    TaskScore& kind = by_kind[task.kind];
    kind.kind = task.kind;
    for (TaskScore* score : {&all, &kind}) {
      ++score->n;
      score->n_right += right;
    }
    if (progress) progress(static_cast<uint64_t>(all.n), tasks.size());
  }
  std::vector<TaskScore> scores = {all};
  for (const auto& [name, score] : by_kind) {
    if (!name.empty()) scores.push_back(score);
  }
  return scores;
}

}  // namespace troika::measure
