// Shows drafts as options, as figures and as colours.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/drafting/drafting.h"
#include "engine/generate.h"

namespace troika::cli {

// Returns a kind of drafts as the engine takes it: FILE of model:FILE may be a name on a hub, which
// becomes a path.
std::string with_model_path(const std::string& kind);

struct DraftFlags {
  engine::DraftOptions options;
  std::string history;  // names the task whose answers are kept
  // Says that many answers are computed, each with a drafter of its own: no other model drafts, and
  // there is no history. Is set before add_to().
  bool is_for_many = false;

  void add_to(Command& command);
  // Returns null where nothing is to be drafted. `engine_options` are those of the engine.
  std::unique_ptr<draft::Drafter> make(engine::Engine& engine,
                                       const prepare::Options& engine_options) const;
  // Returns the files from which is drafted. Throws Error where a history has no folder.
  std::vector<std::string> files_read() const;

 private:
  // Throws UsageError for a draft model beside several answers, before it is downloaded.
  void refuse_model_for_many(const Command& command) const;
  // Says which of the options cannot have an effect beside the others.
  void note_idle(const Command& command) const;
};

// Holds the answers of earlier runs of a task, and keeps this run's.
class TaskHistory {
 public:
  // `name` is a file, or a word that a file of the cache folder is named after; empty: nothing is
  // kept. Throws Error.
  TaskHistory(const std::string& name, const engine::Engine& engine);
  // Returns null where nothing is kept.
  std::shared_ptr<const draft::Texts> texts() const { return texts_; }
  void keep(std::span<const draft::Token> prompt, std::span<const draft::Token> answer) const;

 private:
  std::unique_ptr<draft::HistoryFile> file_;
  std::shared_ptr<const draft::Texts> texts_;
};

// Returns a / b, or 0 where there is nothing to divide by.
inline double ratio(double a, double b) { return b > 0 ? a / b : 0.0; }

// Returns a list: what each source guessed, and its share of the right guesses.
nlohmann::ordered_json sources_json(const draft::Statistics& statistics);
// Returns {"kind", "tokens_per_verification", ...}; null without drafts.
nlohmann::ordered_json draft_json(const DraftFlags& flags, const draft::Drafter* drafter);
// Returns one line, and with `is_long` a small table behind it. Says whose time drafting took where
// that of passes is a phone's.
std::string draft_text(const DraftFlags& flags, const draft::Drafter& drafter, bool is_long,
                       bool is_modelled = false);

// Colours the text of accepted guesses.
class DraftColours {
 public:
  // `options` must live as long as the text streams.
  DraftColours(bool is_on, engine::GenerateOptions* options);
  std::string coloured(std::string_view fragment) const;

 private:
  bool is_on_;
  bool is_drafted_ = false;
};

}  // namespace troika::cli
