#include "prepare/plan/choose_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes_text.h"
#include "base/error.h"
#include "plan/attention/attention_plan.h"
#include "plan/cuts/cuts.h"
#include "plan/device.h"
#include "prepare/hot_neurons.h"
#include "prepare/lane_limits.h"
#include "prepare/layouts/layout_loader.h"
#include "prepare/memory.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/one_lane.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "weights/content_key.h"

namespace troika::prepare {
namespace {

// Refuses attention that finds scales of its own as it runs, where those are to be fixed. A plan
// that is made here for ‹attention› query has fixed ones by now; one from a file may have none.
void check_fixed_scales(const Options& options, const plan::Plan& plan) {
  using plan::AttentionForm;
  if (!options.lanes.is_strict_npu) return;
  const AttentionForm form = plan.attention.form;
  const std::string& file = options.plan.file;
  if (form == AttentionForm::kSparse || form == AttentionForm::kInt8) {
    throw UsageError(fmt::format(
        "‹strict-npu› allows only scales that are fixed beforehand, and {}‹attention› "
        "{} finds its own as it runs. Leave one of them out, or use ‹attention› query, "
        "whose scales 'troika tune' finds.",
        file.empty() ? "" : fmt::format("by {} ", file), plan::attention_form_name(form)));
  }
  if (form != AttentionForm::kQuery || plan.attention.n_buckets > 0 || file.empty()) return;
  throw UsageError(fmt::format(
      "‹strict-npu› allows only scales that are fixed beforehand, and by {} the estimate of "
      "‹attention› query finds its own as it runs. Make the plan again with ‹strict-npu›, or "
      "leave it out.",
      file));
}

// Compares the content that a plan was tuned with. The key has the time of the file's last change,
// so a copy of the same content differs too, and a difference is no reason to refuse the plan.
std::string note_of_content(const Options& options, const std::optional<plan::Tuned>& tuned,
                            const gguf::File& model) {
  if (!tuned || tuned->model_key == fmt::format("{:016x}", weights::content_key(model))) return {};
  return fmt::format(
      "{} was tuned with another content of this model, or the model's file was copied or changed "
      "since; if its weights are others, what was measured does not hold, and 'troika tune' "
      "measures again",
      options.plan.file);
}

// Refuses lengths that no prompt has.
void check_lengths(const std::vector<plan::LengthCut>& asked, int context) {
  for (const plan::LengthCut& length : asked) {
    if (length.n_tokens <= context) continue;
    throw UsageError(fmt::format(
        "‹length› {} is for prompts of {} tokens, and the context holds {}. Name a length within "
        "it, or a longer ‹context›.",
        plan::shares_text(length.tokens), length.n_tokens, context));
  }
}

// Refuses a form that the model's blocks cannot have, or whose side files may not be read, before
// what that form needs is looked for.
void check_form(const Options& options, const OpenedModel& model, plan::FfnPlan ffn) {
  ffn.form = options.ffn.form.value_or(ffn.form);
  check_neuron_blocks(model.blueprint, ffn);
  check_side_files(options, ffn);
}

plan::Plan plan_of_file(const Options& options, const OpenedModel& model, std::string* note) {
  plan::PlanFile saved = load_plan(options.plan.file, plan_identity(model.file));
  check_is_here(options.plan.file, saved.plan);
  *note = note_of_content(options, saved.tuned, model.file);
  plan::Plan plan = std::move(saved.plan);
  if (options.plan.is_read_as_steps) put_on_one_lane(&plan);
  Options all = options;
  check_form(options, model, plan.ffn);
  all.ffn.predictor = asked_predictor(options, model.file, plan.ffn.thresholds);
  all.ffn.hot = asked_hot(options, model, plan.ffn);
  apply_chunk_options(all, &plan);
  if (options.plan.is_read_as_steps) {
    plan.prefill = plan::Prefill::kSame;
    plan.prefill_reason = "a text is read as steps are computed";
    plan.attention = {};
    plan.context = std::max(plan.context, options.memory.context);
  }
  plan::check_attention(plan);  // cuts were added
  plan::check_head_shares(plan.attention, model.blueprint.n_layers, model.blueprint.n_heads);
  cache::check_head_length(plan.kv_type, model.blueprint.head_dim);
  return plan;
}

plan::Plan plan_here(const Options& options, const OpenedModel& model, std::string* note) {
  if (options.plan.exact) return *options.plan.exact;
  if (!options.plan.file.empty()) return plan_of_file(options, model, note);
  return make_plan(options, model.blueprint, model.weights, model.memory);
}

// Lets neurons be read as the plan's gates allow, and refuses what the options make of it.
void settle_reads(const Options& options, ChosenPlan* chosen) {
  plan::Plan& plan = chosen->plan;
  if (plan::read_once_without_gates(&plan)) {
    chosen->note += chosen->note.empty() ? "" : "; ";
    chosen->note +=
        "neurons are read once, and not twice as the plan says: their gates are in memory here, "
        "and its forecast does not hold";
  }
  (void)neuron_reads(options.ffn, plan);
}

// Says that a budget counts on memory that is not free; empty: it does not.
std::string note_of_free_memory(const Options& options, const plan::Ledger& ledger,
                                const MemoryFigures& memory) {
  if (options.memory.limit_bytes == 0 || ledger.total_bytes() <= memory.usable_bytes()) return {};
  return fmt::format(
      "‹memory› {} lets this program take {}, and {} {} for it: the system may end it or let it "
      "wait for pages, so give less ‹memory›",
      bytes_text(options.memory.limit_bytes), bytes_text(ledger.total_bytes()),
      memory.is_of_cgroup ? "the limit of the cgroup leaves" : "this machine has",
      bytes_text(memory.usable_bytes()));
}

}  // namespace

ChosenPlan choose_plan(const Options& options, const OpenedModel& model) {
  Options all = options;
  if (options.plan.file.empty()) {  // so that a plan that is made counts its memory
    const plan::Plan* const begun = options.plan.exact  ? &*options.plan.exact
                                    : options.plan.base ? &*options.plan.base
                                                        : nullptr;
    const plan::FfnPlan ffn = begun != nullptr ? begun->ffn : plan::FfnPlan();
    check_form(options, model, ffn);
    all.ffn.predictor = asked_predictor(options, model.file, ffn.thresholds);
    all.ffn.hot = asked_hot(options, model, ffn);
  }
  ChosenPlan chosen;
  chosen.plan = plan_here(all, model, &chosen.note);
  check_fixed_scales(options, chosen.plan);
  (void)apply_layouts(options, &chosen.plan);  // so that the ledger counts what will be packed
  chosen.has_left_base = leaves_base(all, model.blueprint, model.weights, model.memory);
  check_hot(chosen.plan, model.blueprint);
  check_lane_limits(model.blueprint, model.weights, chosen.plan, options.plan.file);
  check_lengths(options.lanes.lengths, chosen.plan.context);
  choose_predictor(options, model.file, &chosen.plan);
  settle_reads(options, &chosen);
  Options reckoned = options;
  // A plan from a file keeps its context, whatever the options name, and weights leave it room.
  if (!options.plan.file.empty()) reckoned.memory.context = chosen.plan.context;
  chosen.ledger =
      expected_memory(reckoned, model.blueprint, model.weights, chosen.plan, model.memory);
  const std::string about_memory = note_of_free_memory(options, chosen.ledger, model.memory);
  if (!about_memory.empty()) {
    chosen.note += (chosen.note.empty() ? "" : "; ") + about_memory;
  }
  return chosen;
}

}  // namespace troika::prepare
