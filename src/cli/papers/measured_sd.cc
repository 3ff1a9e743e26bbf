#include "cli/papers/measured_sd.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/measure/eval_drafts.h"
#include "cli/output.h"
#include "engine/engine.h"

namespace troika::cli {
namespace {

using measure::DraftScore;

constexpr int kCountedWidth = 16;
constexpr int kMostTokens = 64;  // limits the tokens of an answer
constexpr const char* kPlain = "none";
constexpr const char* kOurs = "reuse+calibrated";

struct Base {
  const char* name;   // how the paper calls the drafter
  const char* draft;  // how this program calls it
};
constexpr Base kBases[] = {{"PLD", "lookup"}, {"SAM", "sam"}};

std::string model_kind(const std::string& draft_model) { return "model:" + draft_model; }

std::vector<measure::DraftSetting> settings(int width, const std::string& draft_model) {
  std::vector<measure::DraftSetting> all = {{kPlain, {}}};
  all[0].draft.kind = kPlain;
  for (const Base& base : kBases) {
    for (const std::string& kind :
         {std::string(base.draft), fmt::format("{}+{}", base.draft, kOurs)}) {
      engine::DraftOptions draft;
      draft.kind = kind;
      draft.coverage = 100;
      draft.fixed_width = width;
      all.push_back({kind, draft});
    }
  }
  if (!draft_model.empty()) {
    engine::DraftOptions draft;
    draft.kind = model_kind(draft_model);
    draft.fixed_width = width;
    all.push_back({draft.kind, draft});
  }
  return all;
}

const DraftScore& score_of(const std::vector<DraftScore>& scores, const std::string& kind,
                           const std::string& setting) {
  for (const DraftScore& score : scores) {
    if (score.kind == kind && score.setting == setting) return score;
  }
  throw Error(fmt::format("There is no score of '{}' on '{}'.", setting, kind));
}

std::vector<std::string> kinds_of(const MeasuredSd& measured) {
  std::vector<std::string> kinds;
  for (const DraftScore& score : measured.timed) {
    if (score.setting == kPlain) kinds.push_back(score.kind);
  }
  return kinds;
}

double tokens_of(const MeasuredSd& measured, const std::string& kind, const std::string& setting) {
  return score_of(measured.counted, kind, setting).statistics.tokens_per_verification();
}

}  // namespace

MeasuredSd measure_sd(const std::string& model, const std::string& tasks,
                      const std::string& draft_model) {
  MeasuredSd measured;
  measured.draft_model = draft_model;
  measured.model = model;
  measured.tasks = tasks;
  const std::vector<measure::ContextTask> all = read_context_tasks(tasks, 0);
  measured.n_tasks = static_cast<int>(all.size());
  prepare::Options options;
  options.model.file = model;
  const measure::DraftEvaluation how = {kMostTokens, &options};
  auto engine = std::make_unique<engine::Engine>(options);
  if (const int needed = measure::context_for(*engine, all, how); needed > engine->plan().context) {
    options.memory.context = needed;
    engine.reset();  // so that memory never holds both
    engine = std::make_unique<engine::Engine>(options);
  }
  engine::Session session(*engine);
  const auto evaluate = [&](const char* title, int width) {
    Progress bar(title);
    return measure::evaluate_drafts(session, all, settings(width, draft_model), how,
                                    bar.function());
  };
  measured.counted = evaluate("tokens", kCountedWidth);
  measured.timed = evaluate("times", 0);
  for (const auto* scores : {&measured.counted, &measured.timed}) {
    for (const DraftScore& score : *scores) {
      if (score.n_different > 0) {
        throw Error(fmt::format("{} answers with drafts '{}' differ from those without.",
                                score.n_different, score.setting));
      }
    }
  }
  return measured;
}

void print_measured_sd(const MeasuredSd& m, const plan::PublishedRow& published) {
  print(fmt::format(
      "\nthis machine: {}, {} tasks of {}; all answers with drafts are those without\n\n"
      "ms a token of the answer (form of Table 3)\n"
      "                          with the prompt                    steps alone\n"
      "  kind            plain      +SD     ours          plain      +SD     ours\n",
      m.model, m.n_tasks, m.tasks));
  const std::string ours = fmt::format("sam+{}", kOurs);
  for (const std::string& kind : kinds_of(m)) {
    const DraftScore& plain = score_of(m.timed, kind, kPlain);
    const DraftScore& sam = score_of(m.timed, kind, "sam");
    const DraftScore& all = score_of(m.timed, kind, ours);
    print(fmt::format("  {:<10} {:>10.3f} {:>8.3f} {:>8.3f}     {:>10.3f} {:>8.3f} {:>8.3f}\n",
                      kind, plain.total_ms_per_token(), sam.total_ms_per_token(),
                      all.total_ms_per_token(), plain.ms_per_token(), sam.ms_per_token(),
                      all.ms_per_token()));
    if (m.draft_model.empty()) continue;
    const DraftScore& model = score_of(m.timed, kind, model_kind(m.draft_model));
    print(fmt::format("  {:<10} {:>28.3f} {:>32.3f}\n", "  by model", model.total_ms_per_token(),
                      model.ms_per_token()));
  }
  print(
      "  +SD: the suffix automaton alone. ours: with reuse, and calibration over the whole "
      "prompt.\n"
      "  The columns +G have no form here: one copy of the weights serves prompts and steps, so "
      "no\n"
      "  graph is loaded between them.\n\n"
      "tokens of a verification (form of Table 4)\n"
      "  kind            PLD   +ours                SAM   +ours\n");
  for (const std::string& kind : kinds_of(m)) {
    std::string line = fmt::format("  {:<10}", kind);
    for (const Base& base : kBases) {
      const double alone = tokens_of(m, kind, base.draft);
      const double with = tokens_of(m, kind, fmt::format("{}+{}", base.draft, kOurs));
      // An answer of one token needs no verification.
      line += alone > 0.0
                  ? fmt::format(" {:>8.2f} {:>7.2f} (x{:.2f})    ", alone, with, with / alone)
                  : fmt::format(" {:>8} {:>7} {:<10}", "-", "-", "");
    }
    if (!m.draft_model.empty()) {
      line += fmt::format(" {:>8.2f} by the draft model",
                          tokens_of(m, kind, model_kind(m.draft_model)));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    print(line + "\n");
  }
  print(fmt::format("  published, all models and tasks, {}: {}\n", published.what, published.text));
}

nlohmann::ordered_json measured_sd_json(const MeasuredSd& m) {
  nlohmann::ordered_json json = {{"model", m.model}, {"tasks", m.tasks}, {"n_tasks", m.n_tasks}};
  if (!m.draft_model.empty()) json["draft_model"] = m.draft_model;
  json["scores"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < m.timed.size(); ++i) {
    const DraftScore& timed = m.timed[i];
    const bool is_plain = timed.setting == kPlain;
    json["scores"].push_back(
        {{"kind", timed.kind},
         {"draft", timed.setting},
         {"ms_per_token", timed.ms_per_token()},
         {"total_ms_per_token", timed.total_ms_per_token()},
         {"tokens_per_verification",
          is_plain ? 1.0 : m.counted[i].statistics.tokens_per_verification()}});
  }
  return json;
}

}  // namespace troika::cli
