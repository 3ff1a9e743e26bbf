#include "tune/attention/tune_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "attention/choose/head_ratios.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "measure/evaluate.h"
#include "plan/json_fields.h"
#include "tune/attention/attention_statistics.h"
#include "tune/proof/text_parts.h"
#include "tune/timing.h"

namespace troika::tune {
namespace {

using nlohmann::ordered_json;
using plan::AttentionForm;
using plan::JsonFields;
using plan::PromptAttention;

constexpr const char* kRuleNames[] = {"weight", "kept-mass", "importance", "equal"};
constexpr int kLongestWindow = 4096;
constexpr int kShortestWindow = 2 * PromptAttention::kUsualFrom;
constexpr size_t kMostTextWindows = 8;
// A head is left out from half of this window on, to find out how much it matters.
constexpr int kImportanceWindow = 2 * PromptAttention::kLeastFrom;
constexpr size_t kImportanceWindows = 2;
// Counts passes over a window: those that the first window of each text takes, and those that are
// timed.
constexpr double kPassesOfWindow = 6, kTimedPasses = 4;
constexpr size_t kTileStride = 2;     // looks at each such tile of a calibration text
constexpr double kShareDigits = 1e4;  // the precision of shares in plans
constexpr double kLeastShare = 1e-4;  // lets no head keep nothing
constexpr double kWorstNll = 1e6;
// A head is diffuse, and keeps all, where the worst tenth of its queries keep less of their weight
// than this.
constexpr double kLeastWorst = 0.5;
constexpr double kMostScale = 1e30;
constexpr double kNotAll = 1 - 1 / kShareDigits;

// Says of each layer whether its heads choose positions. Those that see a window see all of it.
std::vector<bool> choosing_layers(const model::Blueprint& blueprint) {
  std::vector<bool> chooses(static_cast<size_t>(blueprint.n_layers), false);
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kAttention) continue;
    chooses[static_cast<size_t>(op.layer)] = op.window == 0;
  }
  return chooses;
}

double rounded(double share) {
  return std::clamp(std::round(kShareDigits * share) / kShareDigits, kLeastShare, 1.0);
}

class AttentionTuner {
 public:
  AttentionTuner(const AttentionRequest& request, CalibrationState* state)
      : request_(request), state_(*state) {
    result_.window = std::min(kLongestWindow, request.trained_context);
    result_.window -= result_.window % plan::kAttentionTile;
    while (seconds_of(result_.window) > request.seconds && result_.window >= 2 * kShortestWindow) {
      result_.window /= 2;
    }
  }

  AttentionTuning run() {
    PromptAttention& attention = result_.attention;
    if (const std::string why = why_not(); !why.empty()) {
      attention.reason = "full: " + why;
      return result_;
    }
    PromptAttention sparse;
    for (PromptAttention& candidate : candidates()) {
      sparse = std::move(candidate);
      result_.loss = loss_of(sparse);
      if (!result_.loss || is_proven(*result_.loss)) break;
    }
    attention = sparse;
    attention.form = AttentionForm::kFull;
    if (!result_.loss) {
      attention.reason = fmt::format(
          "full: half of the text has no more than {} tokens, and what is lost shows behind them",
          sparse.from);
      return result_;
    }
    const std::string figure = fmt::format(
        "{} of perplexity over {} tokens of {} behind the first {}", loss_text(*result_.loss),
        result_.loss->n_tokens, request_.text_name, sparse.from);
    if (!is_proven(*result_.loss)) {
      attention.reason =
          fmt::format("full: sparse costs {}, and {} % are allowed, {} % with two errors", figure,
                      100 * kMostLoss, 100 * kMostDoubtfulLoss);
      return result_;
    }
    result_.gain = gain_of(sparse);
    if (result_.gain < kClearlyFaster) {
      attention.reason = fmt::format("full: sparse was {:.2f} times as fast with prompts of {}",
                                     result_.gain, result_.window);
      return result_;
    }
    attention.form = AttentionForm::kSparse;
    attention.reason =
        fmt::format("sparse: {}; {:.2f} times as fast with prompts of {}; by {}", figure,
                    result_.gain, result_.window, share_rule_name(request_.rule));
    return result_;
  }

 private:
  // Returns about how long it takes to measure with one window.
  double seconds_of(int window) const {
    return request_.seconds_per_token * window * (kPassesOfWindow + kTimedPasses);
  }

  // Says why sparse attention is out of question, or cannot be measured; empty: it can.
  std::string why_not() const {
    const plan::Plan& plan = request_.plan;
    if (!plan::shares_keys(plan.prefill)) {
      return fmt::format("prompts in {} attend as steps do", plan::prefill_name(plan.prefill));
    }
    if (request_.options.lanes.is_strict_npu) {
      return "‹strict-npu› allows only scales that are fixed beforehand";
    }
    for (const plan::PlannedLane& lane : plan.lanes) {
      if (lane.is_device()) return "devices compute attention over all positions only";
    }
    if (plan.chunk() % plan::kAttentionTile != 0) {
      return fmt::format("chunks of {} divide tiles of {} tokens", plan.chunk(),
                         plan::kAttentionTile);
    }
    if (result_.window < kShortestWindow) {
      return fmt::format("the model was trained on {} tokens, and prompts of {} gain by it",
                         request_.trained_context, kShortestWindow);
    }
    if (const double least = seconds_of(result_.window); least > request_.seconds) {
      return fmt::format(
          "to measure sparse attention takes about {:.0f} s, and {:.0f} s of ‹seconds› are for it",
          least, request_.seconds);
    }
    return "";
  }

  JsonFields finding(const std::string& name, const std::function<ordered_json()>& run) {
    return state_.fields(name, run);
  }

  size_t n_windows() {
    const JsonFields found = finding("attention windows", [&] {
      const double of_window = request_.seconds_per_token * result_.window * kPassesOfWindow;
      const double n = request_.seconds / of_window - kTimedPasses / kPassesOfWindow;
      return ordered_json{
          {"n", std::clamp<size_t>(static_cast<size_t>(std::max(n, 1.0)), 1, kMostTextWindows)}};
    });
    return static_cast<size_t>(found.integer("n", 1, kMostTextWindows));
  }

  plan::Plan plan_with(const PromptAttention& attention, int context) const {
    plan::Plan plan = request_.plan;
    plan.attention = attention;
    plan.context = context;
    plan.reuse_granule = std::lcm(plan.reuse_granule, plan::kAttentionTile);
    return plan;
  }

  prepare::Options options_with(const plan::Plan& plan) const {
    prepare::Options options = request_.options;
    options.plan.exact = plan;
    return options;
  }

  // Returns what is tried, the candidate that keeps least first.
  std::vector<PromptAttention> candidates() {
    PromptAttention sparse;
    sparse.form = AttentionForm::kSparse;
    sparse.share = request_.share;
    sparse.head_scales = scales();
    if (request_.rule != ShareRule::kWeight) {
      sparse.above = 0.0;
      sparse.head_shares = shares();
      return {sparse};
    }
    const JsonFields found = finding("attention shares weight", [&] {
      const Seen& seen = look();
      ordered_json json;
      for (size_t i = 0; i < kTriedAbove.size(); ++i) {
        json[fmt::format("above {}", kTriedAbove[i])] = as_json(by_weight(seen, i));
      }
      return json;
    });
    std::vector<PromptAttention> candidates;
    for (const double above : kTriedAbove) {
      sparse.above = above;
      sparse.head_shares = floats_of(found, fmt::format("above {}", above));
      candidates.push_back(sparse);
    }
    return candidates;
  }

  // Returns shares as plans keep them. Their mean is what was asked for but for rounding; heads
  // that see a window have it too, and choose nothing.
  std::vector<float> shares() {
    if (request_.rule == ShareRule::kEqual) return {};
    const bool by_mass = request_.rule == ShareRule::kKeptMass;
    return floats_of(
        finding(
            fmt::format("attention shares {} {}", share_rule_name(request_.rule), request_.share),
            [&] {
              const std::vector<double> found = by_mass ? by_kept_mass(look()) : by_importance();
              return ordered_json{{"shares", as_json(found)}};
            }),
        "shares");
  }

  static ordered_json as_json(const std::vector<double>& shares) {
    ordered_json list = ordered_json::array();
    for (const double share : shares) list.push_back(rounded(share));
    return list;
  }
  static std::vector<float> floats_of(const JsonFields& fields, const std::string& name,
                                      double most = 1.0) {
    std::vector<float> shares;
    for (const double share : fields.positives(name.c_str(), most)) {
      shares.push_back(static_cast<float>(share));
    }
    return shares;
  }

  // What heads of keys keep, (n_layers * n_kv_heads), whether they choose, and how many heads share
  // each of them.
  struct Seen {
    std::vector<KeptMass> by_share;
    std::vector<std::array<KeptByWeight, kTriedAbove.size()>> by_weight;
    std::vector<bool> chooses;
    size_t n_group = 1;
    std::vector<float> scales;
  };

  // Returns what heads attend to on the calibration text, which runs once.
  const Seen& look() {
    if (!seen_) seen_ = look_now();
    return *seen_;
  }

  // Returns the scales of each head's queries and keys (S4).
  std::vector<float> scales() {
    return floats_of(finding("attention scales of seen heads",
                             [&] {
                               ordered_json list = ordered_json::array();
                               for (const float scale : look().scales) list.push_back(scale);
                               return ordered_json{{"scales", std::move(list)}};
                             }),
                     "scales", kMostScale);
  }

  Seen look_now() {
    plan::Plan plan = plan_with({}, result_.window);
    plan.lanes = {{{}, plan.n_threads()}};  // one lane shows whole tensors
    plan.placements.clear();
    plan.cuts.clear();
    plan.lengths.clear();
    engine::Engine engine(options_with(plan));
    AttentionStatistics statistics(engine.kernels().table, engine.blueprint(),
                                   PromptAttention::kUsualFrom, kTileStride);
    engine::Session session(engine);
    session.watch({.inputs = &statistics});
    measure::perplexity_of_text(
        session, beginning_of_text(engine.tokenizer(), request_.calibration, n_tokens()),
        request_.stage("what heads attend to"));
    const auto n_kv_heads = static_cast<size_t>(engine.blueprint().n_kv_heads);
    std::vector<bool> chooses;
    for (const bool of_layer : choosing_layers(engine.blueprint())) {
      chooses.insert(chooses.end(), n_kv_heads, of_layer);
    }
    return {statistics.mean_kept(), statistics.kept_by_weight(), std::move(chooses),
            static_cast<size_t>(engine.blueprint().n_heads) / n_kv_heads, statistics.head_scales()};
  }

  // Returns a share for each head of queries, of those for the heads of keys.
  static std::vector<double> for_queries(const std::vector<double>& of_keys, size_t n_group) {
    std::vector<double> shares;
    for (const double share : of_keys) shares.insert(shares.end(), n_group, share);
    return shares;
  }

  // Returns shares of the heads of keys by what they keep. Heads that keep everything are a part of
  // the mean, which is that of the heads that choose; the others have it, and it says nothing
  // there. Where those that keep everything are more than the mean, all others have the least.
  std::vector<double> by_kept_mass(const Seen& seen, const std::vector<bool>& keeps_all) const {
    std::vector<double> shares(seen.chooses.size(), request_.share);
    std::vector<std::vector<double>> kept;
    double left = 0;
    for (size_t head = 0; head < shares.size(); ++head) {
      if (!seen.chooses[head]) continue;
      left += request_.share;
      if (keeps_all[head]) {
        shares[head] = 1.0;
        left -= 1.0;
      } else {
        kept.emplace_back(seen.by_share[head].begin(), seen.by_share[head].end());
      }
    }
    if (kept.empty()) return shares;
    const double mean =
        std::clamp(left / static_cast<double>(kept.size()), kKeptShares.front(), 1.0);
    const std::vector<double> divided = attention::shares_by_kept_mass(kKeptShares, kept, mean);
    size_t next = 0;
    for (size_t head = 0; head < shares.size(); ++head) {
      if (seen.chooses[head] && !keeps_all[head]) shares[head] = divided[next++];
    }
    return shares;
  }

  std::vector<double> by_kept_mass(const Seen& seen) const {
    return for_queries(by_kept_mass(seen, std::vector<bool>(seen.chooses.size(), false)),
                       seen.n_group);
  }

  // Returns shares for a threshold. Heads that are diffuse with it keep everything. The shares of
  // the others count where each query chooses.
  std::vector<double> by_weight(const Seen& seen, size_t threshold) const {
    std::vector<bool> is_diffuse;
    for (const auto& kept : seen.by_weight) {
      is_diffuse.push_back(kept[threshold].worst < kLeastWorst);
    }
    std::vector<double> shares = by_kept_mass(seen, is_diffuse);
    for (size_t head = 0; head < shares.size(); ++head) {
      if (!is_diffuse[head]) shares[head] = std::min(shares[head], kNotAll);
    }
    return for_queries(shares, seen.n_group);
  }

  std::vector<double> by_importance() {
    const model::Blueprint blueprint = engine::Engine(options_with(plan_with({}, 64))).blueprint();
    const auto n_heads = static_cast<size_t>(blueprint.n_heads);
    const auto n_layers = static_cast<size_t>(blueprint.n_layers);
    const std::vector<bool> chooses = choosing_layers(blueprint);
    const double usual = loss_without({}, blueprint);
    std::vector<double> of_heads, of_layers;
    const ProgressFunction progress = request_.stage("what heads matter");
    for (size_t layer = 0; layer < n_layers; ++layer) {
      if (!chooses[layer]) continue;
      std::vector<size_t> all;
      for (size_t head = layer * n_heads; head < (layer + 1) * n_heads; ++head) {
        of_heads.push_back(loss_without({head}, blueprint) - usual);
        all.push_back(head);
      }
      of_layers.push_back(loss_without(all, blueprint) - usual);
      if (progress) progress(layer + 1, n_layers);
    }
    std::vector<double> shares(n_layers * n_heads, request_.share);
    if (of_layers.empty()) return shares;
    const std::vector<double> divided = attention::head_shares(of_heads, of_layers, request_.share);
    size_t next = 0;
    for (size_t head = 0; head < shares.size(); ++head) {
      if (chooses[head / n_heads]) shares[head] = divided[next++];
    }
    return shares;
  }

  // Returns the mean negative log likelihood of the calibration text without these heads.
  double loss_without(const std::vector<size_t>& heads, const model::Blueprint& blueprint) {
    std::string name = "attention without";
    for (const size_t head : heads) name += fmt::format(" {}", head);
    const JsonFields found = finding(name, [&] {
      PromptAttention attention;
      attention.form = AttentionForm::kSparse;
      attention.from = PromptAttention::kLeastFrom;
      attention.head_shares.assign(
          static_cast<size_t>(blueprint.n_layers) * static_cast<size_t>(blueprint.n_heads), 1.0f);
      for (const size_t head : heads) attention.head_shares[head] = plan::kLeftOut;
      const std::vector<double> losses =
          losses_of(plan_with(attention, kImportanceWindow), request_.calibration,
                    kImportanceWindows * kImportanceWindow, nullptr, attention.from);
      const double mean =
          std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
      return ordered_json{{"nll", std::isfinite(mean) ? std::min(mean, kWorstNll) : kWorstNll}};
    });
    return found.number("nll", 0, kWorstNll);
  }

  // Returns how many tokens of each text are run.
  size_t n_tokens() { return n_windows() * static_cast<size_t>(result_.window); }

  // Returns negative log likelihoods of the tokens that positions from `from` on predict.
  std::vector<double> losses_of(const plan::Plan& plan, const std::string& text, size_t n_tokens,
                                const ProgressFunction& progress, int from) {
    engine::Engine engine(options_with(plan));
    engine::Session session(engine);
    std::vector<double> all, losses;
    measure::perplexity_of_text(session, beginning_of_text(engine.tokenizer(), text, n_tokens),
                                progress, &all);
    const size_t n_in_window = static_cast<size_t>(plan.context) - 1;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % n_in_window >= static_cast<size_t>(from)) losses.push_back(all[i]);
    }
    return losses;
  }

  // Returns what sparse attention loses; none where the text is too short.
  std::optional<Loss> loss_of(const PromptAttention& sparse) {
    const JsonFields found = finding(
        fmt::format("attention loss {} {} {}", share_rule_name(request_.rule), sparse.share,
                    sparse.above),
        [&] {
          const auto losses = [&](const PromptAttention& attention, const char* name) {
            return losses_of(plan_with(attention, result_.window), request_.held_out, n_tokens(),
                             request_.stage(name), sparse.from);
          };
          if (full_losses_.empty()) full_losses_ = losses({}, "predictions of full attention");
          if (full_losses_.size() < 2) return ordered_json{{"tokens", 0}};
          const Loss loss =
              loss_between(full_losses_, losses(sparse, "predictions of sparse attention"));
          const bool is_finite = std::isfinite(loss.share) && std::isfinite(loss.error);
          return ordered_json{{"tokens", loss.n_tokens},
                              {"share", is_finite ? std::min(loss.share, kWorstNll) : kWorstNll},
                              {"error", is_finite ? std::min(loss.error, kWorstNll) : 0.0}};
        });
    const auto n_tokens = static_cast<size_t>(found.integer("tokens", 0, INT64_MAX));
    if (n_tokens == 0) return std::nullopt;
    return Loss{n_tokens, found.number("share", -1, kWorstNll),
                found.number("error", 0, kWorstNll)};
  }

  double gain_of(const PromptAttention& sparse) {
    const JsonFields found = finding("attention gain", [&] {
      const auto ms = [&](const PromptAttention& attention, int n_runs, const char* name) {
        // The plan has room for the prompt and for the token that is generated behind it.
        const plan::Plan plan = plan_with(attention, result_.window + plan::kAttentionTile);
        return time_plan(options_with(plan), plan, {result_.window}, false, {.least = n_runs},
                         request_.stage(name))
            .front()
            .ms;
      };
      // Each runs twice, one of them between the other's runs: the machine may become faster or
      // slower meanwhile.
      const double before = ms({}, 1, "speed of full attention");
      const double of_sparse = ms(sparse, 2, "speed of sparse attention");
      const double full = std::min(before, ms({}, 1, "speed of full attention again"));
      return ordered_json{{"gain", full / of_sparse}};
    });
    return found.positive("gain", kWorstNll);
  }

  const AttentionRequest& request_;
  CalibrationState& state_;
  std::optional<Seen> seen_;
  std::vector<double> full_losses_;  // the losses of full attention; empty: not measured yet
  AttentionTuning result_;
};

}  // namespace

const char* share_rule_name(ShareRule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

ShareRule share_rule_from_name(std::string_view name) {
  for (const ShareRule rule :
       {ShareRule::kWeight, ShareRule::kKeptMass, ShareRule::kImportance, ShareRule::kEqual}) {
    if (name == share_rule_name(rule)) return rule;
  }
  throw UsageError(
      fmt::format("'{}' is no rule for the shares of heads. Known are weight (positions go by "
                  "their weight, heads "
                  "that are diffuse keep all), kept-mass (most of the softmax weight is kept), "
                  "importance (by what is lost without a head) and equal.",
                  name));
}

AttentionTuning tune_attention(const AttentionRequest& request, CalibrationState* state) {
  return AttentionTuner(request, state).run();
}

}  // namespace troika::tune
