// Which drafts an answer is generated with, by names that people use.
#pragma once

#include <memory>
#include <string>

#include "draft/drafter.h"
#include "draft/history_file.h"
#include "engine/constrain/constraint.h"
#include "engine/engine.h"
#include "prepare/options.h"

namespace troika::engine {

struct DraftOptions {
  // "none", or sources joined by "+", each once: "lookup", "sam", "reuse" (of rejected drafts, D4),
  // "calibrated" (by the prompt's logits, D2), "history" (D5) and "context" (those of the former
  // that pay), or "model:FILE" (a smaller model with the same vocabulary).
  std::string kind = "context";
  // The percentage of the prompt's positions whose logits are used by "calibrated", and by
  // "context" where it is not 0.
  int coverage = kUsualCoverage;
  // Earlier answers to the same task. Where there are any, every kind but "none" and a model uses
  // "history", too.
  std::shared_ptr<const draft::Texts> history = nullptr;
  // The constraint that the answer is held to. Where there is one, every kind but "none" drafts the
  // text that must come, and nothing that is forbidden.
  std::shared_ptr<Constraint> constraint = nullptr;
  int fixed_width = 0;  // 0: a pass is as wide as pays; else it always has this number of rows

  // Is the coverage that took the least time on the tasks of docs/drafts.md.
  static constexpr int kUsualCoverage = 0;
};

// Makes a drafter. Returns null for "none", and where the machine only takes modelled time.
// `options` are those that the engine was made with. Throws UsageError for an unknown kind, a
// source that stands twice, numbers out of range and a draft model on a phone, and Error for a
// draft model that does not fit. The engine must outlive the drafter.
std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const prepare::Options& options,
                                             const DraftOptions& draft);

}  // namespace troika::engine
