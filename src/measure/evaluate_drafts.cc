#include "measure/evaluate_drafts.h"

#include <algorithm>

#include "base/error.h"
#include "draft/history.h"
#include "engine/generate.h"
#include "measure/evaluate.h"
#include "measure/work.h"
#include "model/limits.h"

namespace troika::measure {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0.0; }

void add_counts(const std::vector<int64_t>& from, std::vector<int64_t>* to) {
  to->resize(std::max(to->size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
}

void add_statistics(const draft::Statistics& from, draft::Statistics* to) {
  to->n_verifications += from.n_verifications;
  to->n_with_draft += from.n_with_draft;
  to->n_tokens += from.n_tokens;
  to->n_verified += from.n_verified;
  to->n_accepted += from.n_accepted;
  to->draft_ms += from.draft_ms;
  to->pass_ms += from.pass_ms;
  add_counts(from.n_of_draft_nodes, &to->n_of_draft_nodes);
  add_counts(from.n_of_accepted, &to->n_of_accepted);
  if (to->sources.empty()) {
    to->sources = from.sources;
    return;
  }
  for (size_t i = 0; i < from.sources.size(); ++i) {
    to->sources[i].n_verified += from.sources[i].n_verified;
    to->sources[i].n_accepted += from.sources[i].n_accepted;
  }
}

void add_score(const DraftScore& from, DraftScore* to) {
  to->n_tasks += from.n_tasks;
  to->n_different += from.n_different;
  to->n_prompt += from.n_prompt;
  to->n_tokens += from.n_tokens;
  to->n_of_steps += from.n_of_steps;
  to->prefill_ms += from.prefill_ms;
  to->calibration_ms += from.calibration_ms;
  to->decode_ms += from.decode_ms;
  add_statistics(from.statistics, &to->statistics);
}

// One setting and its drafter, while the tasks of a kind pass by.
struct DraftRunner {
  DraftScore score;
  std::shared_ptr<draft::Texts> history;  // the answers so far, where the setting uses them
  std::unique_ptr<draft::Drafter> drafter;
};

std::vector<cache::Token> answer(engine::Session& session, std::span<const cache::Token> prompt,
                                 const DraftEvaluation& how, DraftRunner* runner) {
  engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  engine::Sampler sampler(greedy);
  engine::GenerateOptions options;
  options.most_tokens = how.most_tokens;
  options.drafter = runner->drafter.get();
  session.truncate(0);  // so nothing of the prompt is known from the setting before
  const engine::Generated g = engine::generate(session, prompt, sampler, options, {});
  DraftScore& score = runner->score;
  ++score.n_tasks;
  score.n_prompt += g.n_prompt;
  score.n_tokens += static_cast<int64_t>(g.tokens.size());
  score.n_of_steps += tokens_of_steps(g);
  score.prefill_ms += 1e3 * g.prefill_seconds;
  score.calibration_ms += 1e3 * g.calibration_seconds;
  score.decode_ms += 1e3 * g.decode_seconds;
  if (runner->history) runner->history->push_back(draft::history_text(prompt, g.tokens));
  return g.tokens;
}

std::vector<std::vector<cache::Token>> prompts_of(const engine::Engine& engine,
                                                  const std::vector<ContextTask>& tasks,
                                                  const DraftEvaluation& how) {
  std::unique_ptr<engine::ChatFormat> chat;
  std::vector<std::vector<cache::Token>> prompts;
  prompts.reserve(tasks.size());
  for (const ContextTask& task : tasks) {
    if (!task.messages.empty() && chat == nullptr) {
      chat = std::make_unique<engine::ChatFormat>(engine, how.chat_template);
    }
    prompts.push_back(task.messages.empty() ? engine.tokenizer().encode(task.prompt)
                                            : chat->prompt(task.messages));
  }
  return prompts;
}

}  // namespace

int64_t tokens_of_steps(const engine::Generated& answer) {
  const bool has_end = answer.stop == engine::Stop::kEnd;
  const auto n_found = static_cast<int64_t>(answer.tokens.size()) + (has_end ? 1 : 0);
  return std::max<int64_t>(n_found - 1, 0);
}

double DraftScore::ms_per_token() const {
  return ratio(decode_ms, static_cast<double>(n_of_steps));
}

double DraftScore::total_ms_per_token() const {
  return ratio(prefill_ms + decode_ms, static_cast<double>(n_tokens));
}

double DraftScore::calibration_ms_per_prompt_token() const {
  return ratio(calibration_ms, static_cast<double>(n_prompt));
}

double DraftScore::mean_draft() const {
  return ratio(static_cast<double>(statistics.n_verified),
               static_cast<double>(statistics.n_with_draft));
}

int context_for(const engine::Engine& engine, const std::vector<ContextTask>& tasks,
                const DraftEvaluation& how) {
  size_t longest = 0;
  for (const auto& prompt : prompts_of(engine, tasks, how)) {
    longest = std::max(longest, prompt.size());
  }
  return static_cast<int>(
      std::min<size_t>(longest + static_cast<size_t>(how.most_tokens), model::kMostContext));
}

std::vector<DraftScore> evaluate_drafts(engine::Session& session,
                                        const std::vector<ContextTask>& tasks,
                                        const std::vector<DraftSetting>& settings,
                                        const DraftEvaluation& how,
                                        const ProgressFunction& progress) {
  engine::Engine& engine = session.engine();
  const std::vector<std::vector<cache::Token>> prompts = prompts_of(engine, tasks, how);
  std::vector<std::string> kinds;
  std::vector<TaskRoom> rooms;
  rooms.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ContextTask& task = tasks[i];
    check_kind(task.kind, task.where);
    if (std::find(kinds.begin(), kinds.end(), task.kind) == kinds.end()) kinds.push_back(task.kind);
    rooms.push_back({prompts[i].size(), static_cast<size_t>(how.most_tokens), task.where});
  }
  check_room(session, rooms);
  std::vector<DraftScore> scores, all(settings.size());
  uint64_t n_done = 0;
  for (const std::string& kind : kinds) {
    std::vector<DraftRunner> runners(settings.size());
    for (size_t s = 0; s < settings.size(); ++s) {
      runners[s].score.setting = settings[s].name;
      runners[s].score.kind = kind;
      engine::DraftOptions draft = settings[s].draft;
      if (draft.kind.find("history") != std::string::npos) {
        draft.history = runners[s].history = std::make_shared<draft::Texts>();
      }
      runners[s].drafter = engine::make_drafter(engine, *how.engine_options, draft);
    }
    for (size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].kind != kind) continue;
      std::vector<cache::Token> plain;
      for (size_t s = 0; s < settings.size(); ++s) {
        const std::vector<cache::Token> tokens = answer(session, prompts[t], how, &runners[s]);
        if (s == 0) plain = tokens;
        runners[s].score.n_different += tokens != plain;
      }
      if (progress) progress(++n_done, tasks.size());
    }
    for (size_t s = 0; s < settings.size(); ++s) {
      if (runners[s].drafter) runners[s].score.statistics = runners[s].drafter->statistics();
      scores.push_back(runners[s].score);
      add_score(scores.back(), &all[s]);
    }
  }
  for (size_t s = 0; s < settings.size(); ++s) {
    all[s].setting = settings[s].name;
    all[s].kind = kAllKinds;
    scores.push_back(all[s]);
  }
  return scores;
}

double head_share(const engine::Engine& engine) {
  const Work work = count_work(engine.blueprint(), engine.weights());
  return work.head_per_output / work.body_per_token;
}

}  // namespace troika::measure
