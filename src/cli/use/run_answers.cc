#include "cli/use/run_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

struct Outcome {
  std::vector<engine::Generated> answers;
  engine::BatcherStatistics statistics;
  double seconds = 0.0;

  size_t n_tokens() const {
    size_t n = 0;
    for (const engine::Generated& g : answers) n += g.tokens.size();
    return n;
  }
  double tokens_per_s() const { return ratio(static_cast<double>(n_tokens()), seconds); }
};

// What serves one answer alone.
struct Helpers {
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

engine::Constraint::Statistics masks_of(const std::vector<Helpers>& helpers) {
  engine::Constraint::Statistics sum;
  for (const Helpers& one : helpers) {
    if (one.constraint == nullptr) continue;
    const engine::Constraint::Statistics& s = one.constraint->statistics();
    sum.n_masks += s.n_masks;
    sum.sum_us += s.sum_us;
    sum.longest_us = std::max(sum.longest_us, s.longest_us);
  }
  return sum;
}

// Computes all answers, and shows each as soon as it and all before it have ended.
Outcome run_all(engine::Engine& engine, const AnswersRequest& request,
                std::vector<Helpers>& helpers) {
  engine::Batcher batcher(engine);
  batcher.watch(request.watch);
  for (int i = 0; i < request.n_answers; ++i) {
    engine::AnswerRequest one;
    one.prompt = request.prompt;
    one.sampler = request.sampler;
    one.sampler.seed += static_cast<uint64_t>(i);
    one.options = request.options;
    Helpers& own = helpers[static_cast<size_t>(i)];
    one.options.drafter = own.drafter.get();
    one.mask = own.constraint.get();
    if (request.is_best) {
      own.recorder = std::make_unique<engine::LogprobRecorder>(one.prompt.size(), 0, one.mask);
      one.mask = own.recorder.get();
      one.sink = [&own](std::string_view, int n_shown) { own.n_shown = n_shown; };
      one.options.on_token = [&own](engine::Token token, bool) {
        own.logprobs.push_back(own.recorder->take(token));
      };
    }
    batcher.submit(std::move(one));
  }
  Outcome outcome;
  const Clock& clock = engine.machine().clock();
  const double start_us = clock.now_us();
  const auto show_ended = [&] {
    auto next = static_cast<int>(outcome.answers.size());
    for (; next < request.n_answers && batcher.is_done(next); ++next) {
      outcome.answers.push_back(batcher.take(next));
      if (request.is_json || request.is_best) continue;
      print(fmt::format("{}--- answer {}, seed {}\n{}\n", next > 0 ? "\n" : "", next + 1,
                        request.sampler.seed + static_cast<uint64_t>(next),
                        outcome.answers.back().text));
    }
  };
  while (batcher.step()) show_ended();
  show_ended();
  outcome.seconds = (clock.now_us() - start_us) / kUsPerS;
  outcome.statistics = batcher.statistics();
  return outcome;
}

// Returns the answers' numbers, the most likely answer first.
std::vector<size_t> compare(const Outcome& outcome, const std::vector<Helpers>& helpers) {
  std::vector<double> means;
  for (size_t i = 0; i < outcome.answers.size(); ++i) {
    means.push_back(mean_of(outcome.answers[i], helpers[i]));
  }
  return engine::best_first(means);
}

void print_best(const Outcome& outcome, const std::vector<Helpers>& helpers, uint64_t seed) {
  const std::vector<size_t> order = compare(outcome, helpers);
  print(outcome.answers[order.front()].text + "\n");
  for (const size_t i : order) {
    note(fmt::format("{} answer {}, seed {}: mean log-probability {:.4f}, {} tokens\n",
                     i == order.front() ? "\nbest      " : "          ", i + 1, seed + i,
                     mean_of(outcome.answers[i], helpers[i]), outcome.answers[i].tokens.size()));
  }
}

ordered_json to_json(const Outcome& outcome, const engine::Engine& engine, const PhoneTime& phone,
                     uint64_t seed, const DraftFlags& draft, const std::vector<Helpers>& helpers) {
  ordered_json json;
  if (helpers.front().recorder != nullptr) json["best"] = compare(outcome, helpers).front();
  json["answers"] = ordered_json::array();
  for (size_t i = 0; i < outcome.answers.size(); ++i) {
    const engine::Generated& g = outcome.answers[i];
    json["answers"].push_back({{"text", g.text},
                               {"seed", seed + i},
                               {"stop", engine::stop_name(g.stop)},
                               {"tokens", g.tokens},
                               {"prompt_tokens", g.n_prompt},
                               {"computed_tokens", g.n_computed},
                               {"draft", draft_json(draft, helpers[i].drafter.get())}});
    if (helpers[i].recorder == nullptr) continue;
    json["answers"].back()["mean_logprob"] = mean_of(g, helpers[i]);
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
  std::vector<Helpers> helpers;
  for (int i = 0; i < request.n_answers; ++i) {
    DraftFlags of_one = draft;
    Helpers one;
    if (request.grammar != nullptr) {
      one.constraint = std::make_shared<engine::Constraint>(request.grammar, request.prompt.size());
      of_one.options.constraint = one.constraint;
    }
    one.drafter = of_one.make(engine, flags.checked());
    helpers.push_back(std::move(one));
  }
  const PhoneTime phone(engine);
  const Outcome outcome = run_all(engine, request, helpers);
  if (request.is_json) {
    ordered_json json = to_json(outcome, engine, phone, request.sampler.seed, draft, helpers);
    if (grammar.is_given()) json["grammar"] = grammar.json(masks_of(helpers));
    print_json(json);
  } else {
    if (request.is_best) print_best(outcome, helpers, request.sampler.seed);
    print_summary(outcome, engine, phone);
    if (grammar.is_given()) note(grammar.text(masks_of(helpers)));
  }
  const auto cut =
      std::find_if(outcome.answers.begin(), outcome.answers.end(), [](const engine::Generated& g) {
        return g.stop == engine::Stop::kLength || g.stop == engine::Stop::kContext;
      });
  if (grammar.is_given() && cut != outcome.answers.end()) grammar.note_cut(cut->stop);
  for (const engine::Generated& g : outcome.answers) history.keep(request.prompt, g.tokens);
}

}  // namespace troika::cli
