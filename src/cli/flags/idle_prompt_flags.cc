// Looks at flags of this machine's prompts that do nothing.
#include <fmt/format.h>

#include <string_view>

#include "cli/flags/idle_parts.h"
#include "machines/heads_here.h"
#include "prepare/int8/outlier_channels.h"

namespace troika::cli {
namespace {

// Lists the flags that concern prompts in int8 only.
constexpr const char* kOfInt8[] = {"--int8",          "--int8-weights", "--weight-outliers",
                                   "--outlier-prune", "--packed",       "--strict-npu",
                                   "--layouts"};

// Says why an option of sparse attention changes nothing; empty: it does change something.
std::string idle_attention(const plan::Plan& plan, std::string_view option) {
  const plan::PromptAttention& attention = plan.attention;
  const char* const form = plan::attention_form_name(attention.form);
  if (!attention.is_sparse()) {
    return option == "--attention" ? "" : "prompts attend to all positions (see --attention)";
  }
  const bool is_of_query = option == "--attention-lanes" || option == "--attention-heads" ||
                           option == "--attention-buckets";
  if (is_of_query && attention.form != plan::AttentionForm::kQuery) {
    return fmt::format("it is for --attention query, and here it is {}", form);
  }
  if (option == "--attention-heads" && !attention.has_head_lanes()) {
    return "heads are no tasks of their own (see --attention-lanes)";
  }
  if (option == "--attention-heads" && attention.head_stage == plan::HeadStage::kOrdered &&
      !machines::orders_heads(plan)) {
    return fmt::format("{}, and heads go as with 'fused'",
                       plan.lanes.size() == 1
                           ? "one lane has no order of heads to plan"
                           : "in lock step (see --order) no order of heads is planned");
  }
  if (option == "--attention-share" && attention.form == plan::AttentionForm::kInt8) {
    return "--attention int8 sees all positions";
  }
  if (option == "--attention-share" && attention.is_by_weight()) {
    return "--attention-above says what is kept, by weight";
  }
  if (option == "--attention-above" && !attention.is_by_weight()) {
    return attention.form == plan::AttentionForm::kInt8 ? "--attention int8 sees all positions"
                                                        : fmt::format("{} goes by shares", form);
  }
  if (plan.context > attention.from) return "";
  return fmt::format("the context holds {} tokens, and tokens before position {} attend to all",
                     plan.context, attention.from);
}

// Says for which methods and scales int8 prompts need a copy of every weight, however many are
// allowed; empty: they need none.
std::string needs_all_copies(const plan::Int8Plan& int8) {
  if (int8.method == plan::Int8Method::kSmooth || int8.method == plan::Int8Method::kGroup) {
    return fmt::format("--int8 {}", plan::int8_method_name(int8.method));
  }
  if (int8.weight_scales == plan::WeightScales::kRow) return "";
  return fmt::format("--int8-weights {}", plan::weight_scales_name(int8.weight_scales));
}

// Says which flags for prompts in int8 do nothing.
void say_of_int8(const plan::Plan& plan, const Say& say) {
  if (plan.prefill != plan::Prefill::kInt8) {
    const std::string why =
        fmt::format("prompts are computed in {}, not in int8", plan::prefill_name(plan.prefill));
    for (const char* name : kOfInt8) {
      const bool fixes_estimate = plan.attention.n_buckets > 0;
      if (fixes_estimate && std::string_view(name) == "--strict-npu") continue;
      say(name, why);
    }
    return;
  }
  if (!plan::has_shadow(plan.int8.method)) {
    say("--outlier-prune", fmt::format("the method {} takes outliers out of {}",
                                       plan::int8_method_name(plan.int8.method),
                                       prepare::takes_outliers_out(plan, plan.int8.method)
                                           ? "every product, however little they matter"
                                           : "none"));
  }
  if (plan.int8.weight_scales != plan::WeightScales::kInt4) {
    say("--weight-outliers", fmt::format("weights have 8 bits (--int8-weights {})",
                                         plan::weight_scales_name(plan.int8.weight_scales)));
  }
  const std::string copying = needs_all_copies(plan.int8);
  if (copying.empty()) return;
  const std::string why = fmt::format(
      "{} computes prompts from copies of all weights, however many bytes they take; with --int8 "
      "token and --int8-weights row it counts",
      copying);
  say("--packed", why);
  say("--layouts", why);
}

}  // namespace

void say_of_prompts(const plan::Plan& plan, const Say& say) {
  for (const char* name :
       {"--attention", "--attention-share", "--attention-from", "--attention-above",
        "--attention-lanes", "--attention-heads", "--attention-buckets"}) {
    if (const std::string why = idle_attention(plan, name); !why.empty()) say(name, why);
  }
  say_of_int8(plan, say);
}

}  // namespace troika::cli
