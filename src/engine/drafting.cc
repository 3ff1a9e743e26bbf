#include "engine/drafting.h"

#include <fmt/format.h>

#include "base/error.h"
#include "draft/lookup.h"
#include "draft/reuse.h"
#include "draft/sam.h"
#include "engine/draft_model.h"

namespace troika::engine {
namespace {

constexpr std::string_view kModel = "model:";
// A draft model says how sure it is, so a few tokens are enough for a start.
constexpr int kWidthOfModel = 16;

using Sources = std::vector<std::unique_ptr<draft::Source>>;

Sources make_sources(Engine& engine, const Options& options, const DraftOptions& draft) {
  Sources sources;
  if (draft.kind == "lookup") {
    sources.push_back(std::make_unique<draft::LookupSource>());
  } else if (draft.kind == "sam" || draft.kind == "context") {
    sources.push_back(std::make_unique<draft::SamSource>());
    if (draft.kind == "context" && draft.has_reuse) {
      sources.push_back(std::make_unique<draft::ReuseSource>());
    }
  } else if (draft.kind.starts_with(kModel)) {
    sources.push_back(
        std::make_unique<DraftModel>(engine, options, draft.kind.substr(kModel.size())));
  } else {
    throw UsageError(fmt::format(
        "'{}' is no kind of draft. Known are none, lookup, sam, context, and model:FILE.",
        draft.kind));
  }
  return sources;
}

}  // namespace

std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const Options& options,
                                             const DraftOptions& draft) {
  if (draft.kind == "none" || !engine.has_values()) return nullptr;
  draft::DrafterOptions how;
  if (draft.fixed_width < 0 || draft.fixed_width > draft::kMostWidth) {
    throw UsageError(
        fmt::format("--draft-width {} makes no sense; use 1 to {}, or 0 for what pays.",
                    draft.fixed_width, draft::kMostWidth));
  }
  how.n_vocab = engine.blueprint().n_vocab;
  if (draft.kind.starts_with(kModel)) how.most_width = kWidthOfModel;
  if (draft.fixed_width > 0) {
    how.most_width = draft.fixed_width;
    how.is_fixed = true;
  }
  return std::make_unique<draft::Drafter>(make_sources(engine, options, draft), how);
}

}  // namespace troika::engine
