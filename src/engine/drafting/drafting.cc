#include "engine/drafting/drafting.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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
constexpr std::string_view kContext = "context";
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
      fmt::format("'{}' is no kind of draft. Known are none, or context, lookup, sam, reuse, "
                  "calibrated and history, several of these joined by '+', or model:FILE.",
                  draft.kind));
}

// Returns the sources that a kind joins, where others take the place of "context". An automaton
// that stood twice would learn each text twice and guess nothing else.
std::vector<std::string_view> sources_of(const DraftOptions& draft) {
  std::vector<std::string_view> sources;
  const auto add = [&](std::string_view name) {
    if (std::find(sources.begin(), sources.end(), name) != sources.end()) {
      throw UsageError(fmt::format(
          "'{}' is in ‹draft› {} twice, where context stands for sam and reuse, and for calibrated "
          "with ‹calibrate-drafts›. Leave one of them out.",
          name, draft.kind));
    }
    sources.push_back(name);
  };
  const std::string_view kinds = draft.kind;
  for (size_t begin = 0; begin <= kinds.size();) {
    const size_t end = std::min(kinds.find('+', begin), kinds.size());
    const std::string_view kind = kinds.substr(begin, end - begin);
    begin = end + 1;
    if (kind != kContext) {
      add(kind);
      continue;
    }
    add("sam");
    add("reuse");
    if (draft.coverage > 0) add(kCalibrated);
  }
  const bool has_history = std::find(sources.begin(), sources.end(), kHistory) != sources.end();
  if (draft.history && !has_history) sources.push_back(kHistory);
  return sources;
}

// Refuses a draft model beside a phone: it computes on this machine, outside the phone's clock.
void refuse_model_on_phone(const Engine& engine, const DraftOptions& draft) {
  if (!draft.kind.starts_with(kModel) || engine.phone().machine == nullptr) return;
  throw UsageError(
      "A draft model computes on this machine, so what it takes would be missing from the time and "
      "the energy of the phone. With ‹machine› use ‹draft› context, sam, lookup or none.");
}

void check_numbers(const DraftOptions& draft) {
  if (draft.fixed_width < 0 || draft.fixed_width > draft::kMostWidth) {
    throw UsageError(
        fmt::format("‹draft-width› {} makes no sense; use 1 to {}, or 0 for what pays.",
                    draft.fixed_width, draft::kMostWidth));
  }
  if (draft.coverage < 0 || draft.coverage > 100) {
    throw UsageError(
        fmt::format("‹calibrate-drafts› {} makes no sense; use 0 to 100 percent.", draft.coverage));
  }
}

Sources make_sources(Engine& engine, const prepare::Options& options, const DraftOptions& draft) {
  Sources sources;
  if (draft.constraint) sources.push_back(std::make_unique<ForcedSource>(draft.constraint));
  if (draft.kind.starts_with(kModel)) {
    sources.push_back(
        std::make_unique<DraftModel>(engine, options, draft.kind.substr(kModel.size())));
    return sources;
  }
  for (const std::string_view name : sources_of(draft)) {
    sources.push_back(make_source(name, draft));
  }
  return sources;
}

}  // namespace

std::unique_ptr<draft::Drafter> make_drafter(Engine& engine, const prepare::Options& options,
                                             const DraftOptions& draft) {
  check_numbers(draft);
  if (draft.kind == "none" || !engine.has_values()) return nullptr;
  refuse_model_on_phone(engine, draft);
  draft::DrafterOptions how;
  how.n_vocab = engine.blueprint().n_vocab;
  how.rules = draft.constraint;
  how.most_text = engine.plan().context;
  for (const plan::StepCost& cost : engine.plan().step_costs) {
    how.costs_ms.emplace_back(cost.n_rows, cost.ms);
  }
  Sources sources = make_sources(engine, options, draft);
  const bool looks_at_logits = std::any_of(sources.begin(), sources.end(), [](const auto& source) {
    return source->name() == kCalibrated;
  });
  if (looks_at_logits) how.coverage = draft.coverage;
  if (draft.kind.starts_with(kModel)) how.most_width = kWidthOfModel;
  if (draft.fixed_width > 0) {
    how.most_width = draft.fixed_width;
    how.is_fixed = true;
  }
  return std::make_unique<draft::Drafter>(std::move(sources), how);
}

}  // namespace troika::engine
