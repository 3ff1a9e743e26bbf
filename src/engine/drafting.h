// Which drafts an answer is generated with, by the names that people use.
#pragma once

#include <memory>
#include <string>

#include "draft/drafter.h"
#include "engine/engine.h"
#include "engine/options.h"

namespace troika::engine {

struct DraftOptions {
  // "none", "lookup", "sam", "context" (sam and what else the context gives), or "model:FILE": a
  // smaller model with the same vocabulary.
  std::string kind = "context";
  bool has_reuse = true;  // of rejected drafts (D4), in "context"
  int fixed_width = 0;    // 0: as wide as pays; else always so many rows in a pass
};

// Null for "none", and where the machine only takes time and computes nothing. `options` are those
// that the engine was made with. Throws UsageError for a kind that is not known, and Error for a
// draft model that does not fit. The engine must outlive the drafter.
std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const Options& options,
                                             const DraftOptions& draft);

}  // namespace troika::engine
