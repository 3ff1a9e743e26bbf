#include "cli/use/drafting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "cli/column_width.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/use/models.h"
#include "draft/history.h"
#include "engine/engine.h"

namespace troika::cli {
namespace {

// Returns "1: 12, 2: 3": what occurred, and how often.
std::string histogram_text(const std::vector<int64_t>& counts) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", i, counts[i]);
  }
  return text;
}

constexpr std::string_view kModel = "model:";

// Says whether a kind of draft may look at the logits of a prompt.
bool looks_at_logits(const std::string& kind) {
  return !kind.starts_with(kModel) && (kind.find("context") != std::string::npos ||
                                       kind.find("calibrated") != std::string::npos);
}

}  // namespace

std::string with_model_path(const std::string& kind) {
  if (!kind.starts_with(kModel)) return kind;
  return std::string(kModel) + model_path(kind.substr(kModel.size()));
}

void DraftFlags::add_to(Command& command) {
  command.begin_group(kDraftGroup);
  command.before([this, &command] {
    note_idle(command);
    refuse_model_for_many(command);
    options.kind = with_model_path(options.kind);
  });
  command
      .add_option("--draft", options.kind,
                  fmt::format("Guess the next tokens and verify them together, which never changes "
                              "the text: none, lookup, sam, {}; or sources joined by '+', of "
                              "lookup, sam, reuse, calibrated{}",
                              is_for_many ? "or context"
                                          : "context, or model:FILE (a smaller model, also by "
                                            "name, in what is left of --memory)",
                              is_for_many ? "" : " and history"))
      ->capture_default_str();
  command
      .add_option("--calibrate-drafts", options.coverage,
                  "Percent of the prompt's positions whose logits help to guess")
      ->capture_default_str();
  if (!is_for_many) {
    command.add_option("--history", history,
                       "Guess from earlier answers to the same task, and keep this one: a file, or "
                       "a name for one in the cache folder");
  }
  command.add_option("--draft-width", options.fixed_width,
                     "Always verify N tokens together; 0: as many as pay");
  command.end_group();
}

void DraftFlags::note_idle(const Command& command) const {
  const auto say = [&](const char* name, const std::string& why) {
    if (command.is_given(name)) note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  if (options.kind == "none") {
    for (const char* name : {"--draft-width", "--calibrate-drafts", "--show-drafts"}) {
      say(name, "--draft none guesses nothing");
    }
  } else if (!looks_at_logits(options.kind)) {
    say("--calibrate-drafts",
        fmt::format("--draft {} does not look at the prompt's logits", options.kind));
  }
  const bool is_from_history =
      !options.kind.starts_with(kModel) && options.kind.find("history") != std::string::npos;
  if (is_from_history && history.empty()) {
    note(fmt::format("note: history in --draft {} guesses nothing here: {}\n", options.kind,
                     is_for_many ? "a server has no earlier answers to a task"
                                 : "--history names the earlier answers, and is missing"));
  }
  if (options.kind == "none" || options.kind.starts_with(kModel)) {
    if (command.is_given("--history")) {
      note(
          fmt::format("note: --history only keeps this answer: --draft {} does not guess from "
                      "earlier ones\n",
                      options.kind.substr(0, options.kind.find(':'))));
    }
  }
}

void DraftFlags::refuse_model_for_many(const Command& command) const {
  if (!options.kind.starts_with(kModel)) return;
  constexpr const char* kReason = "A draft model drafts for one answer at a time.";
  if (is_for_many) {
    throw UsageError(
        fmt::format("{} A server takes --draft context, sam, lookup or none.", kReason));
  }
  if (!command.is_given("--answers") && !command.is_given("--best")) return;
  throw UsageError(
      fmt::format("{} With --answers and --best use --draft context or none.", kReason));
}

std::unique_ptr<draft::Drafter> DraftFlags::make(engine::Engine& engine,
                                                 const prepare::Options& engine_options) const {
  return engine::make_drafter(engine, engine_options, options);
}

namespace {

// Returns the path of a history. A word is the name of a task; other texts are paths.
std::string history_path(const std::string& name) {
  const bool is_word = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  return is_word ? fmt::format("{}/history-{}.bin", cache_folder(), name) : name;
}

}  // namespace

std::vector<std::string> DraftFlags::files_read() const {
  std::vector<std::string> files;
  if (!history.empty()) files.push_back(history_path(history));
  if (options.kind.starts_with(kModel)) files.push_back(options.kind.substr(kModel.size()));
  return files;
}

TaskHistory::TaskHistory(const std::string& name, const engine::Engine& engine) {
  if (name.empty()) return;
  const std::string path = history_path(name);
  // Where an answer could not be kept, that is told before it is computed.
  if (path != name) check_kept_file(path);
  const std::vector<std::string>& tokens = engine.tokenizer().vocabulary().tokens;
  file_ = std::make_unique<draft::HistoryFile>(path, draft::identity_of_tokens(tokens),
                                               static_cast<int>(tokens.size()));
  std::string problem;
  texts_ = std::make_shared<draft::Texts>(file_->read(&problem));
  if (!problem.empty()) note(problem + "\n");
}

void TaskHistory::keep(std::span<const draft::Token> prompt,
                       std::span<const draft::Token> answer) const {
  if (file_ == nullptr || answer.empty()) return;
  std::error_code ignored;
  const bool is_new = !std::filesystem::exists(file_->path(), ignored);
  file_->append(draft::history_text(prompt, answer));
  if (!is_new) return;
  note(fmt::format("{} ({}): keeps answers, from which later ones are guessed\n", file_->path(),
                   bytes_text(std::filesystem::file_size(file_->path()))));
}

DraftColours::DraftColours(bool is_on, engine::GenerateOptions* options) : is_on_(is_on) {
  if (!is_on) return;
  options->on_token = [this](draft::Token, bool is_drafted) { is_drafted_ = is_drafted; };
}

std::string DraftColours::coloured(std::string_view fragment) const {
  if (!is_on_ || !is_drafted_) return std::string(fragment);
  return fmt::format("\x1b[32m{}\x1b[0m", fragment);
}

nlohmann::ordered_json sources_json(const draft::Statistics& statistics) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const draft::Statistics::OfSource& source : statistics.sources) {
    json.push_back({{"name", source.name},
                    {"drafted", source.n_verified},
                    {"accepted", source.n_accepted},
                    {"share", ratio(static_cast<double>(source.n_accepted),
                                    static_cast<double>(statistics.n_accepted))}});
  }
  return json;
}

nlohmann::ordered_json draft_json(const DraftFlags& flags, const draft::Drafter* drafter) {
  if (drafter == nullptr) return nullptr;
  const draft::Statistics& s = drafter->statistics();
  const auto n = static_cast<double>(s.n_verifications);
  nlohmann::ordered_json json = {{"kind", flags.options.kind},
                                 {"verifications", s.n_verifications},
                                 {"with_draft", s.n_with_draft},
                                 {"tokens_per_verification", s.tokens_per_verification()},
                                 {"drafted", s.n_verified},
                                 {"accepted", s.n_accepted},
                                 {"draft_ms_per_step", ratio(s.draft_ms, n)},
                                 {"pass_ms_per_step", ratio(s.pass_ms, n)},
                                 {"drafts_by_tokens", s.n_of_draft_nodes},
                                 {"verifications_by_accepted", s.n_of_accepted}};
  json["sources"] = sources_json(s);
  json["ms_by_width"] = nlohmann::ordered_json::object();
  for (const auto& [width, ms] : drafter->costs().measured()) {
    json["ms_by_width"][std::to_string(width)] = ms;
  }
  return json;
}

std::string draft_text(const DraftFlags& flags, const draft::Drafter& drafter, bool is_long,
                       bool is_modelled) {
  const draft::Statistics& s = drafter.statistics();
  const auto n = static_cast<double>(s.n_verifications);
  // The path of a draft model, or a list of sources, is longer than the column, and whoever gave it
  // knows it.
  constexpr size_t kColumn = 10;
  const std::string& kind = flags.options.kind;
  std::string text =
      fmt::format("drafts     {:>{}}   {:.2f} tokens a pass; {} of {} guesses were right\n",
                  kind.starts_with(kModel) ? "model"
                  : kind.size() > kColumn  ? "several"
                                           : kind,
                  kColumn, s.tokens_per_verification(), s.n_accepted, s.n_verified);
  if (!is_long) return text;
  text +=
      fmt::format("           passes {}, with a draft {}, {:.2f} ms each; drafting {:.3f} ms{}\n",
                  s.n_verifications, s.n_with_draft, ratio(s.pass_ms, n), ratio(s.draft_ms, n),
                  is_modelled ? " of this machine, which the phone does not count" : "");
  text += "           passes by right guesses   " + histogram_text(s.n_of_accepted) + "\n";
  text += "           drafts by tokens          " + histogram_text(s.n_of_draft_nodes) + "\n";
  const size_t width = column_width(s.sources, &draft::Statistics::OfSource::name);
  for (const draft::Statistics::OfSource& source : s.sources) {
    text += fmt::format("           {:<{}} {} of {} guesses right\n", source.name, width,
                        source.n_accepted, source.n_verified);
  }
  text += "           ms of a pass by tokens    ";
  for (const auto& [width, ms] : drafter.costs().measured()) {
    text += fmt::format("{}: {:.2f}  ", width, ms);
  }
  return text + "\n";
}

}  // namespace troika::cli
