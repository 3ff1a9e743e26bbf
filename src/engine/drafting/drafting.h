// Which drafts an answer is generated with, by the names that people use.
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
  // "none"; sources joined by "+": "lookup", "sam", "reuse" (of rejected drafts, D4), "calibrated"
  // (by the prompt's logits, D2), "history" (D5); "context", which is the sources of them that pay;
  // or "model:FILE": a smaller model with the same vocabulary.
  std::string kind = "context";
  // Percent of the prompt's positions whose logits are used, where "calibrated" is wanted, and by
  // "context" if not 0.
  int coverage = kUsualCoverage;
  // Answers to the same task before; where there are any, every kind but "none" and a model takes
  // "history" too.
  std::shared_ptr<const draft::Texts> history;
  // What the answer is held to: every kind but "none" drafts the text that must come, and no other.
  std::shared_ptr<Constraint> constraint;
  int fixed_width = 0;  // 0: as wide as pays; else always so many rows in a pass

  // The coverage with the least time on the tasks that docs/drafts.md is about.
  static constexpr int kUsualCoverage = 0;
};

// Null for "none", and where the machine only takes time and computes nothing. `options` are those
// that the engine was made with. Throws UsageError for a kind that is not known, and Error for a
// draft model that does not fit. The engine must outlive the drafter.
std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const prepare::Options& options,
                                             const DraftOptions& draft);

}  // namespace troika::engine
