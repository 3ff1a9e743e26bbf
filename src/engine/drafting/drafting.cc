#include "engine/drafting/drafting.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "draft/calibrated.h"
#include "draft/history.h"
#include "draft/lookup.h"
#include "draft/reuse.h"
#include "draft/sam.h"
#include "engine/drafting/draft_model.h"

namespace troika::engine {
namespace {

constexpr std::string_view kModel = "model:";
constexpr std::string_view kCalibrated = "calibrated";
constexpr std::string_view kHistory = "history";
// Is the width with which drafts of a model begin. A draft model says how sure it is, so a few
// tokens are enough.
constexpr int kWidthOfModel = 16;

using Sources = std::vector<std::unique_ptr<draft::Source>>;

std::unique_ptr<draft::Source> make_source(std::string_view name, const DraftOptions& draft) {
  if (name == "lookup") return std::make_unique<draft::LookupSource>();
  if (name == "sam") return std::make_unique<draft::SamSource>();
  if (name == "reuse") return std::make_unique<draft::ReuseSource>();
  if (name == kCalibrated) return std::make_unique<draft::CalibratedSource>();
  if (name == kHistory) {
    return std::make_unique<draft::HistorySource>(
        draft.history ? draft.history : std::make_shared<const draft::Texts>());
  }
  throw UsageError(
      fmt::format("'{}' is no kind of draft. Known are none, context, lookup, sam, reuse, "
                  "calibrated and history, several of the last five joined by '+', and "
                  "model:FILE.",
                  draft.kind));
}

// Returns the kinds, where sources take the place of "context" and the history.
std::string spelt_out(const DraftOptions& draft) {
  if (draft.kind.starts_with(kModel)) return draft.kind;
  std::string names = draft.kind;
  if (names == "context") names = draft.coverage > 0 ? "sam+reuse+calibrated" : "sam+reuse";
  if (draft.history && names.find(kHistory) == std::string::npos) names += "+history";
  return names;
}

// Refuses a draft model beside a phone: it computes on this machine, outside the phone's clock.
void refuse_model_on_phone(const Engine& engine, const DraftOptions& draft) {
  if (!draft.kind.starts_with(kModel) || engine.phone().machine == nullptr) return;
  throw UsageError(
      "A draft model computes on this machine, so what it takes would be missing from the time and "
      "the energy of the phone. With ‹machine› use ‹draft› context, sam, lookup or none.");
}

Sources make_sources(Engine& engine, const prepare::Options& options, const DraftOptions& draft) {
  Sources sources;
  if (draft.constraint) sources.push_back(std::make_unique<ForcedSource>(draft.constraint));
  if (draft.kind.starts_with(kModel)) {
    sources.push_back(
        std::make_unique<DraftModel>(engine, options, draft.kind.substr(kModel.size())));
    return sources;
  }
  const std::string names = spelt_out(draft);
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('+', begin), names.size());
    sources.push_back(make_source(std::string_view(names).substr(begin, end - begin), draft));
    begin = end + 1;
  }
  return sources;
}

}  // namespace

std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const prepare::Options& options,
                                             const DraftOptions& draft) {
  if (draft.kind == "none" || !engine.has_values()) return nullptr;
  refuse_model_on_phone(engine, draft);
  draft::DrafterOptions how;
  if (draft.fixed_width < 0 || draft.fixed_width > draft::kMostWidth) {
    throw UsageError(
        fmt::format("‹draft-width› {} makes no sense; use 1 to {}, or 0 for what pays.",
                    draft.fixed_width, draft::kMostWidth));
  }
  if (draft.coverage < 0 || draft.coverage > 100) {
    throw UsageError(
        fmt::format("‹calibrate-drafts› {} makes no sense; use 0 to 100 percent.", draft.coverage));
  }
  how.n_vocab = engine.blueprint().n_vocab;
  how.rules = draft.constraint;
  how.most_text = engine.plan().context;
  for (const plan::StepCost& cost : engine.plan().step_costs) {
    how.costs_ms.emplace_back(cost.n_rows, cost.ms);
  }
  const std::string names = spelt_out(draft);
  if (!names.starts_with(kModel) && names.find(kCalibrated) != std::string::npos) {
    how.coverage = draft.coverage;
  }
  if (draft.kind.starts_with(kModel)) how.most_width = kWidthOfModel;
  if (draft.fixed_width > 0) {
    how.most_width = draft.fixed_width;
    how.is_fixed = true;
  }
  return std::make_unique<draft::Drafter>(make_sources(engine, options, draft), how);
}

}  // namespace troika::engine
