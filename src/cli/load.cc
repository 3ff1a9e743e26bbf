#include "cli/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/flags/idle_flags.h"
#include "cli/output.h"
#include "cli/tune/kept_plan.h"
#include "machines/heads_here.h"
#include "model/known.h"

namespace troika::cli {
void refuse_known_name(const prepare::Options& options) {
  if (!prepare::is_here(options)) return;
  const std::string& model = options.model.file;
  const auto known = model::known_models();
  const bool is_known =
      std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.name == model; });
  std::error_code ignored;
  if (!is_known || std::filesystem::exists(model, ignored)) return;
  throw UsageError(fmt::format(
      "{0} is a name of 'troika synth --list', a shape without weights: 'troika bench' and 'troika "
      "plan' tell its times on a phone (--machine). Give a file to compute here; 'troika synth "
      "--like {0} {0}.gguf' writes one of random weights.",
      model));
}

void note_pre(const text::Tokenizer& tokenizer) {
  const std::string words = text::note_on_pre(tokenizer.vocabulary());
  if (!words.empty()) note("note: " + with_flags(words) + "\n");
}

std::unique_ptr<engine::Engine> load(const EngineFlags& flags) {
  prepare::Options options = flags.checked();
  refuse_known_name(options);
  if (flags.uses_kept_plan()) {
    options.plan.base = kept_plan(flags, &options.prompts);
    options.plan.may_leave_base = true;
  }
  std::unique_ptr<engine::Engine> engine;
  {
    Progress bar("measuring weights");  // its line ends before the notes begin
    options.progress = bar.function();
    engine = std::make_unique<engine::Engine>(options);
  }
  options.progress = nullptr;
  if (engine->start().has_left_plan) {
    note(
        "note: the tuned plan is not used: memory has no room for all weights, which it wants "
        "there; blocks of them are read while others compute (see --memory)\n");
  }
  if (engine->has_values()) note_pre(engine->tokenizer());
  if (!engine->loaded().note.empty()) note("note: " + with_flags(engine->loaded().note) + "\n");
  if (const plan::PromptAttention& attention = engine->plan().attention; attention.is_untuned()) {
    note(fmt::format(
        "note: sparse attention is not tuned for this model: it keeps what weighs {:g} "
        "times the mean, as was found on SmolLM2-135M, and all in block 0. 'troika tune' "
        "measures what that loses here\n",
        attention.above));
  }
  // More threads than cores take turns, and whoever waits for the others waits for their turns.
  if (prepare::is_here(options) && options.lanes.n_threads > usable_cores()) {
    note(fmt::format("note: --threads {} are more than the {} cores of this process, and slower\n",
                     options.lanes.n_threads, usable_cores()));
  }
  for (const std::string& sentence : idle_flags(flags, options, *engine))
    note("note: " + sentence + "\n");
  for (const std::string& sentence : broken_rules(flags, *engine)) {
    note("note: " + with_flags(sentence) + "\n");
  }
  const int trained = engine->blueprint().trained_context;
  const int context = engine->plan().context;
  if (context > trained) {
    note(
        fmt::format("note: the model was trained on {} tokens of context; beyond them its text "
                    "gets worse\n",
                    trained));
  }
  return engine;
}

std::string attention_text(const plan::Plan& plan) {
  const plan::PromptAttention& attention = plan.attention;
  const char* const form = plan::attention_form_name(attention.form);
  if (!attention.is_sparse()) return fmt::format("attention {}", form);
  if (attention.is_by_weight()) {
    const auto& shares = attention.head_shares;
    const auto n_full = std::count_if(shares.begin(), shares.end(), [](float s) { return s >= 1; });
    return fmt::format("attention {}: positions above {:.4g} times the mean weight, from {} on; {}",
                       form, attention.above, attention.from,
                       attention.is_untuned()
                           ? "block 0 full, not tuned"
                           : fmt::format("{} of {} heads full", n_full, shares.size()));
  }
  std::string text = fmt::format("attention {}: {:.4g} % of the positions from {} on", form,
                                 100 * attention.share, attention.from);
  if (!attention.head_shares.empty()) text += ", by head";
  if (attention.n_buckets > 0) {
    text += fmt::format("; {} {} of fixed scales", attention.n_buckets,
                        attention.n_buckets == 1 ? "pair" : "pairs");
  }
  if (attention.has_head_lanes()) {
    const bool is_unordered =
        attention.head_stage == plan::HeadStage::kOrdered && !machines::orders_heads(plan);
    const plan::HeadStage stage = is_unordered ? plan::HeadStage::kFused : attention.head_stage;
    text += fmt::format("; heads {}: estimate on lane {}, selection on {}, exact part on {}",
                        plan::head_stage_name(stage), attention.head_lanes[0],
                        attention.head_lanes[1], attention.head_lanes[2]);
  }
  return text;
}

std::string prefill_text(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  std::string text = plan::prefill_name(plan.prefill);
  if (plan.prefill == plan::Prefill::kInt8) {
    text += fmt::format(" {}, {}", plan::int8_method_name(plan.int8.method),
                        plan::int8_method_text(plan.int8.method));
    if (plan::has_shadow(plan.int8.method)) {
      text += fmt::format(" for {} % of the products", 100 - plan.int8.outlier_prune);
    }
  }
  if (!plan.prefill_reason.empty())
    text += fmt::format(" ({})", terminal_text(plan.prefill_reason));
  if (const size_t bytes = engine.weights().packed_bytes(); bytes > 0) {
    text += fmt::format(", {} packed in {:.2f} s", bytes_text(bytes), engine.loaded().pack_seconds);
  }
  if (plan.attention.is_sparse()) text += "; " + attention_text(plan);
  return text;
}

}  // namespace troika::cli
