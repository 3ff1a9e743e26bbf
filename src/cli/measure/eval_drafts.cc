#include "cli/measure/eval_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "cli/use/drafting.h"

namespace troika::cli {
namespace {

using measure::DraftScore;

constexpr const char* kAllSettings[] = {"lookup",
                                        "lookup+reuse",
                                        "lookup+calibrated",
                                        "lookup+reuse+calibrated",
                                        "sam",
                                        "sam+reuse",
                                        "sam+calibrated",
                                        "sam+reuse+calibrated",
                                        "sam+history",
                                        "sam+reuse+calibrated+history"};

std::vector<measure::DraftSetting> settings_of(const ContextTaskFlags& flags, int width) {
  std::vector<measure::DraftSetting> settings = {{"none", {}}};
  settings[0].draft.kind = "none";
  const auto add = [&](const std::string& name, const std::string& kind, int coverage) {
    engine::DraftOptions draft;
    draft.kind = kind;
    draft.coverage = coverage;
    draft.fixed_width = width;
    settings.push_back({name, draft});
  };
  if (!flags.coverages.empty()) {
    for (const int coverage : flags.coverages) {
      add(fmt::format("{} %", coverage), coverage > 0 ? "sam+reuse+calibrated" : "sam+reuse",
          coverage);
    }
  } else if (!flags.drafts.empty()) {
    for (const std::string& kind : flags.drafts) add(kind, kind, 100);
  } else {
    for (const char* kind : kAllSettings) add(kind, kind, 100);
  }
  return settings;
}

nlohmann::ordered_json score_json(const DraftScore& counted, const DraftScore& timed) {
  const draft::Statistics& s = counted.statistics;
  nlohmann::ordered_json json = {
      {"draft", counted.setting},
      {"kind", counted.kind},
      {"tasks", counted.n_tasks},
      {"different", counted.n_different + timed.n_different},
      {"prompt_tokens", counted.n_prompt},
      {"tokens", counted.n_tokens},
      {"verifications", s.n_verifications},
      {"tokens_per_verification", s.n_verifications > 0 ? s.tokens_per_verification() : 1.0},
      {"mean_draft", counted.mean_draft()},
      {"drafts_by_tokens", s.n_of_draft_nodes},
      {"verifications_by_accepted", s.n_of_accepted},
      {"ms_per_token", timed.ms_per_token()},
      {"total_ms_per_token", timed.total_ms_per_token()},
      {"draft_ms_per_step",
       ratio(timed.statistics.draft_ms, static_cast<double>(timed.statistics.n_verifications))},
      {"calibration_ms_per_prompt_token", timed.calibration_ms_per_prompt_token()},
      {"prefill_ms_per_prompt_token",
       ratio(timed.prefill_ms - timed.calibration_ms, static_cast<double>(timed.n_prompt))}};
  json["sources"] = sources_json(s);
  return json;
}

std::string sources_text(const draft::Statistics& statistics) {
  std::string text;
  for (const draft::Statistics::OfSource& source : statistics.sources) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", source.name,
                        100.0 * ratio(static_cast<double>(source.n_accepted),
                                      static_cast<double>(statistics.n_accepted)));
  }
  return text;
}

void print_table(const std::vector<DraftScore>& counted, const std::vector<DraftScore>& timed) {
  print(
      "kind      drafts                    tokens a pass   draft  ms a token  with prompt  "
      "accepted from\n");
  for (size_t i = 0; i < counted.size(); ++i) {
    const DraftScore& score = counted[i];
    print(fmt::format(
        "{:<9} {:<26} {:>12.2f} {:>7.1f} {:>11.3f} {:>12.3f}  {}\n", score.kind, score.setting,
        score.statistics.n_verifications > 0 ? score.statistics.tokens_per_verification() : 1.0,
        score.mean_draft(), timed[i].ms_per_token(), timed[i].total_ms_per_token(),
        sources_text(score.statistics)));
  }
}

// Prints what it costs to cover more of the prompt, over the whole set, and what it gives.
void print_curve(const std::vector<DraftScore>& counted, const std::vector<DraftScore>& timed,
                 double share) {
  print("coverage  tokens a pass  ms a prompt token  of the prompt  with prompt, ms a token\n");
  for (size_t i = 0; i < counted.size(); ++i) {
    if (counted[i].kind != measure::kAllKinds || counted[i].setting == "none") continue;
    const DraftScore& t = timed[i];
    print(fmt::format(
        "{:>8} {:>14.3f} {:>18.4f} {:>13.1f}% {:>24.4f}\n", t.setting,
        counted[i].statistics.tokens_per_verification(), t.calibration_ms_per_prompt_token(),
        100.0 * ratio(t.calibration_ms, t.prefill_ms - t.calibration_ms), t.total_ms_per_token()));
  }
  print(fmt::format("At full coverage the head adds {:.1f} % to the operations of a prompt.\n",
                    100.0 * share));
}

}  // namespace

std::vector<measure::ContextTask> read_context_tasks(const std::string& path, int most) {
  std::vector<measure::ContextTask> tasks;
  for_each_object(path, read_text(path), [&](size_t line, const nlohmann::json& object) {
    measure::ContextTask task;
    task.where = fmt::format("{}:{}", path, line);
    task.kind = object.contains("kind") ? string_of(object, "kind", path, line) : "task";
    const auto messages = object.find("messages");
    if (messages == object.end()) {
      task.prompt = string_of(object, "prompt", path, line);
    } else {
      if (!messages->is_array() || messages->empty()) {
        throw_bad_line(path, line, "'messages' is no list of messages");
      }
      for (const nlohmann::json& message : *messages) {
        if (!message.is_object()) throw_bad_line(path, line, "a message is no JSON object");
        task.messages.push_back(
            {string_of(message, "role", path, line), string_of(message, "content", path, line)});
      }
    }
    tasks.push_back(std::move(task));
  });
  if (most > 0 && tasks.size() > static_cast<size_t>(most)) tasks.resize(static_cast<size_t>(most));
  if (tasks.empty()) throw Error(fmt::format("{} holds no task.", path));
  return tasks;
}

void ContextTaskFlags::add_to(Command& command) {
  command.before([this] {
    for (std::string& kind : drafts) kind = with_model_path(kind);
  });
  command
      .add_option("--cag", file,
                  "A JSONL file of tasks with their context (scripts/cag_tasks.py): what drafts "
                  "give on each kind of them")
      ->names_file();
  Option* kinds = command.add_option("--drafts", drafts, "With --cag: only these kinds of drafts")
                      ->delimiter(',');
  command
      .add_option("--coverages", coverages,
                  "With --cag: calibrated drafts over these percents of the prompt's positions")
      ->delimiter(',')
      ->excludes(kinds);
  command
      .add_option("--draft-width", width,
                  "With --cag: tokens are counted with N rows in a pass, times taken with as "
                  "many as pay")
      ->capture_default_str();
  command.add_option("--answer", most_tokens, "With --cag: most tokens of an answer")
      ->capture_default_str()
      ->check(at_least(2));
}

void eval_drafts(const ContextTaskFlags& flags, const prepare::Options& options,
                 engine::Session& session, int most_tasks, bool is_json) {
  const std::vector<measure::ContextTask> tasks = read_context_tasks(flags.file, most_tasks);
  const bool has_chats =
      std::any_of(tasks.begin(), tasks.end(),
                  [](const measure::ContextTask& task) { return !task.messages.empty(); });
  if (!flags.chat_template.empty() && !has_chats) {
    note(fmt::format("note: --template does nothing here: no task of {} has messages\n",
                     flags.file));
  }
  const measure::DraftEvaluation how = {flags.most_tokens, &options, flags.chat_template};
  const auto measured = [&](const char* title, int width) {
    Progress bar(title);
    return measure::evaluate_drafts(session, tasks, settings_of(flags, width), how, bar.function());
  };
  const std::vector<DraftScore> counted = measured("tokens", flags.width);
  const std::vector<DraftScore> timed = measured("times", 0);
  const double share = measure::head_share(session.engine());
  int n_different = 0;
  for (const auto* scores : {&counted, &timed}) {
    for (const DraftScore& score : *scores) {
      n_different += score.kind == measure::kAllKinds ? score.n_different : 0;
    }
  }
  if (is_json) {
    nlohmann::ordered_json json = {
        {"width", flags.width}, {"head_share", share}, {"different", n_different}};
    json["scores"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < counted.size(); ++i) {
      json["scores"].push_back(score_json(counted[i], timed[i]));
    }
    print_json(json);
  } else if (!flags.coverages.empty()) {
    print_curve(counted, timed, share);
  } else {
    print_table(counted, timed);
  }
  if (n_different > 0) {
    throw Error(fmt::format("{} answers with drafts differ from those without.", n_different));
  }
  note(fmt::format("{} tasks: all answers with drafts are those without.\n", tasks.size()));
}

}  // namespace troika::cli
