#include "cli/use/answers/run_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/phone_time.h"
#include "cli/use/by_neuron.h"
#include "cli/use/memory.h"
#include "cli/use/streaming.h"
#include "engine/batching/batcher.h"
#include "engine/scoring/logprobs.h"

namespace troika::cli {
namespace {

using nlohmann::ordered_json;

// Says how many answers are under way at once. A pass has rows for no more of them, and each of
// them needs memory for whatever serves it.
constexpr int kMostUnderWay = 64;

// What an answer was, and what is told of what served it.
struct Ended {
  engine::Generated answer;
  ordered_json draft;
  std::optional<double> mean_logprob;  // none where answers are not compared
  engine::Constraint::Statistics masks;
};

struct Outcome {
  std::vector<Ended> answers;
  engine::BatcherStatistics statistics;
  double seconds = 0.0;

  size_t n_tokens() const {
    size_t n = 0;
    for (const Ended& one : answers) n += one.answer.tokens.size();
    return n;
  }
  double tokens_per_s() const { return ratio(static_cast<double>(n_tokens()), seconds); }
};

// What serves one answer alone, from its beginning to its end.
struct Helpers {
  int number = 0;  // of the answer
  std::shared_ptr<engine::Constraint> constraint;
  std::unique_ptr<draft::Drafter> drafter;
  // Null where answers are not compared.
  std::unique_ptr<engine::LogprobRecorder> recorder;
  std::vector<engine::TokenLogprobs> logprobs;
  int n_shown = 0;  // counts tokens of whose text something was shown
};

// Returns the mean log likelihood of the tokens of an answer that are shown. An answer without any
// comes last.
double mean_of(const engine::Generated& answer, const Helpers& helpers) {
  std::span<const engine::TokenLogprobs> tokens = helpers.logprobs;
  if (answer.stop == engine::Stop::kEnd && !tokens.empty())
    tokens = tokens.first(tokens.size() - 1);
  // What belongs to the stop string alone is not shown.
  if (answer.stop == engine::Stop::kString)
    tokens = tokens.first(std::min(tokens.size(), static_cast<size_t>(helpers.n_shown)));
  return tokens.empty() ? -std::numeric_limits<double>::infinity() : engine::mean_logprob(tokens);
}

engine::Constraint::Statistics masks_of(const Outcome& outcome) {
  engine::Constraint::Statistics sum;
  for (const Ended& one : outcome.answers) {
    sum.n_masks += one.masks.n_masks;
    sum.sum_us += one.masks.sum_us;
    sum.longest_us = std::max(sum.longest_us, one.masks.longest_us);
  }
  return sum;
}

// Computes all answers, some at a time, and shows each as soon as it and all before it have ended.
class Together {
 public:
  Together(engine::Engine& engine, const EngineFlags& flags, const DraftFlags& draft,
           const AnswersRequest& request)
      : engine_(engine),
        flags_(flags),
        draft_(draft),
        request_(request),
        batcher_(engine),
        ended_(static_cast<size_t>(request.n_answers)) {
    batcher_.watch(request.watch);
  }

  Outcome run() {
    const Clock& clock = engine_.machine().clock();
    begin_some();
    const double start_us = clock.now_us();
    bool has_more = true;
    while (has_more) {
      has_more = batcher_.step();
      has_more = take_ended() || has_more;
    }
    Outcome outcome;
    outcome.seconds = (clock.now_us() - start_us) / kUsPerS;
    outcome.statistics = batcher_.statistics();
    for (std::optional<Ended>& one : ended_) outcome.answers.push_back(std::move(*one));
    return outcome;
  }

 private:
  void begin_some() {
    while (n_begun_ < request_.n_answers && std::ssize(under_way_) < kMostUnderWay) begin();
  }
  void begin();
  // Returns whether others have begun in place of those that have ended.
  bool take_ended();
  void end(Helpers& own);
  void show_next();

  engine::Engine& engine_;
  const EngineFlags& flags_;
  const DraftFlags& draft_;
  const AnswersRequest& request_;
  std::vector<std::unique_ptr<Helpers>> under_way_;
  engine::Batcher batcher_;
  std::vector<std::optional<Ended>> ended_;
  int n_begun_ = 0;
  size_t n_shown_ = 0;
};

void Together::begin() {
  under_way_.push_back(std::make_unique<Helpers>());
  Helpers& own = *under_way_.back();
  own.number = n_begun_++;
  DraftFlags of_one = draft_;
  if (request_.grammar != nullptr) {
    own.constraint = std::make_shared<engine::Constraint>(request_.grammar, request_.prompt.size());
    of_one.options.constraint = own.constraint;
  }
  own.drafter = of_one.make(engine_, flags_.checked());
  engine::AnswerRequest one;
  one.prompt = request_.prompt;
  one.sampler = request_.sampler;
  one.sampler.seed += static_cast<uint64_t>(own.number);
  one.options = request_.options;
  one.options.drafter = own.drafter.get();
  one.mask = own.constraint.get();
  if (request_.is_best) {
    own.recorder = std::make_unique<engine::LogprobRecorder>(one.prompt.size(), 0, one.mask);
    one.mask = own.recorder.get();
    one.sink = [&own](std::string_view, int n_shown) { own.n_shown = n_shown; };
    one.options.on_token = [&own](engine::Token token, bool) {
      own.logprobs.push_back(own.recorder->take(token));
    };
  }
  const int number = batcher_.submit(std::move(one));
  TROIKA_ASSERT(number == own.number);
}

void Together::end(Helpers& own) {
  Ended& one = ended_[static_cast<size_t>(own.number)].emplace();
  one.answer = batcher_.take(own.number);
  one.draft = draft_json(draft_, own.drafter.get());
  if (own.recorder != nullptr) one.mean_logprob = mean_of(one.answer, own);
  if (own.constraint != nullptr) one.masks = own.constraint->statistics();
}

bool Together::take_ended() {
  const auto has_ended = [&](const std::unique_ptr<Helpers>& own) {
    if (!batcher_.is_done(own->number)) return false;
    end(*own);
    return true;
  };
  const bool are_some = std::erase_if(under_way_, has_ended) > 0;
  while (n_shown_ < ended_.size() && ended_[n_shown_]) show_next();
  const int n_before = n_begun_;
  if (are_some) begin_some();
  return n_begun_ > n_before;
}

void Together::show_next() {
  const size_t i = n_shown_++;
  if (request_.is_json || request_.is_best) return;
  print(fmt::format("{}--- answer {}, seed {}\n{}\n", i > 0 ? "\n" : "", i + 1,
                    request_.sampler.seed + i, ended_[i]->answer.text));
}

// Returns the answers' numbers, the most likely answer first.
std::vector<size_t> compare(const Outcome& outcome) {
  std::vector<double> means;
  for (const Ended& one : outcome.answers) means.push_back(*one.mean_logprob);
  return engine::best_first(means);
}

void print_best(const Outcome& outcome, uint64_t seed) {
  const std::vector<size_t> order = compare(outcome);
  print(outcome.answers[order.front()].answer.text + "\n");
  for (const size_t i : order) {
    note(fmt::format("{} answer {}, seed {}: mean log-probability {:.4f}, {} tokens\n",
                     i == order.front() ? "\nbest      " : "          ", i + 1, seed + i,
                     *outcome.answers[i].mean_logprob, outcome.answers[i].answer.tokens.size()));
  }
}

ordered_json to_json(const Outcome& outcome, const engine::Engine& engine, const PhoneTime& phone,
                     uint64_t seed) {
  ordered_json json;
  if (outcome.answers.front().mean_logprob) json["best"] = compare(outcome).front();
  json["answers"] = ordered_json::array();
  for (size_t i = 0; i < outcome.answers.size(); ++i) {
    const Ended& one = outcome.answers[i];
    const engine::Generated& g = one.answer;
    json["answers"].push_back({{"text", g.text},
                               {"seed", seed + i},
                               {"stop", engine::stop_name(g.stop)},
                               {"tokens", g.tokens},
                               {"prompt_tokens", g.n_prompt},
                               {"computed_tokens", g.n_computed},
                               {"draft", one.draft}});
    if (one.mean_logprob) json["answers"].back()["mean_logprob"] = *one.mean_logprob;
  }
  const engine::BatcherStatistics& s = outcome.statistics;
  json["context"] = engine.plan().context;
  phone.add_to(json);
  json["load_s"] = engine.start().seconds;
  json["together"] = {
      {"seconds", outcome.seconds},
      {"tokens", outcome.n_tokens()},
      {"tokens_per_s", outcome.tokens_per_s()},
      {"steps", s.n_steps},
      {"rows_per_step", ratio(static_cast<double>(s.n_step_rows), static_cast<double>(s.n_steps))},
      {"most_answers_in_a_step", s.most_together},
      {"prompt_parts", s.n_prompt_parts}};
  add_memory(engine, &json);
  return json;
}

void print_summary(const Outcome& outcome, const engine::Engine& engine, const PhoneTime& phone) {
  const engine::BatcherStatistics& s = outcome.statistics;
  note(fmt::format("\nload       {:8.2f} s   {}, context {} for each, {}\n", engine.start().seconds,
                   tensor::type_name(engine.weights().main_type()), engine.plan().context,
                   engine.plan().workers_text()));
  note(phone.text());
  note(fmt::format(
      "together   {:8.2f} s   {} tokens of {} answers, {:.1f} tokens/s with the prompt\n",
      outcome.seconds, outcome.n_tokens(), outcome.answers.size(), outcome.tokens_per_s()));
  note(fmt::format(
      "passes     {:>10}   {} answers at most and {:.1f} rows in each; the prompt in {} "
      "parts, {} of its tokens computed\n",
      s.n_steps, s.most_together,
      ratio(static_cast<double>(s.n_step_rows), static_cast<double>(s.n_steps)), s.n_prompt_parts,
      s.n_prompt_rows));
  note(by_neuron_text(engine));
  note(streaming_text(engine));
  note(fmt::format("memory     {:>10}   at its peak\n", bytes_text(peak_resident_bytes())));
}

}  // namespace

void run_answers(engine::Engine& engine, const EngineFlags& flags, const DraftFlags& draft,
                 const GrammarFlags& grammar, const AnswersRequest& request,
                 const TaskHistory& history) {
  const PhoneTime phone(engine);
  const Outcome outcome = Together(engine, flags, draft, request).run();
  if (request.is_json) {
    ordered_json json = to_json(outcome, engine, phone, request.sampler.seed);
    if (grammar.is_given()) json["grammar"] = grammar.json(masks_of(outcome));
    print_json(json);
  } else {
    if (request.is_best) print_best(outcome, request.sampler.seed);
    print_summary(outcome, engine, phone);
    if (grammar.is_given()) note(grammar.text(masks_of(outcome)));
  }
  const auto cut =
      std::find_if(outcome.answers.begin(), outcome.answers.end(), [](const Ended& one) {
        const engine::Stop stop = one.answer.stop;
        return stop == engine::Stop::kLength || stop == engine::Stop::kContext;
      });
  if (grammar.is_given() && cut != outcome.answers.end()) grammar.note_cut(cut->answer.stop);
  for (const Ended& one : outcome.answers) history.keep(request.prompt, one.answer.tokens);
}

}  // namespace troika::cli
