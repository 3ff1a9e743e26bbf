#include "tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/utc.h"
#include "machines/devices.h"
#include "model/architecture.h"
#include "plan/int8_json.h"
#include "plan/json_fields.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/saved_plan.h"
#include "tune/calibrate.h"
#include "tune/calibration_state.h"
#include "tune/choose_plan.h"
#include "tune/findings.h"
#include "tune/kept_plan.h"
#include "tune/proof/held_out.h"
#include "tune/proof/text_parts.h"
#include "tune/timing.h"
#include "weights/content_key.h"

namespace troika::tune {
namespace {

using nlohmann::ordered_json;
using plan::Int8Method;
using plan::JsonFields;
using plan::Prefill;

constexpr int kWindow = HeldOut::kWindow;
// Leaves room for more than the longest prompt: for steps of many rows.
constexpr int kContextBeside = 144;
// These are shares of the time that may be taken.
constexpr double kPatience = 0.02;  // the share for prompts of one length of one candidate
constexpr double kProfiling = 0.15;
constexpr double kProving = 0.25;
constexpr double kCalibrating = 0.2;
constexpr double kAttending = 0.35;
// These say how many passes over a part of the text are expected.
constexpr double kProvingPasses = 4.5, kCalibratingPasses = 5;
constexpr size_t kMostWindows = 8;
// A candidate that is so much slower than the best in its first runs is not timed again.
constexpr double kHopeless = 0.85;
// Lists the percentages of inputs whose outliers are ignored, the least work first.
constexpr int kPrunes[] = {plan::Int8Plan::kDefaultOutlierPrune, 50};
constexpr const char* kFirst = "first";
constexpr const char* kSecond = "second";
constexpr const char* kAgain = "again";

class Tuner {
 public:
  Tuner(const TuneRequest& request, const measure::StageFunction& stage)
      : request_(request),
        stage_(stage),
        file_(gguf::File::open(request.options.model.file)),
        blueprint_(model::read(file_)),
        weights_(file_, blueprint_),
        options_(request.options),
        keeps_lanes_(request.keeps_lanes && options_.lanes.n_threads == 0 &&
                     options_.lanes.cores.empty()) {
    const int longest = *std::max_element(request.prompts.begin(), request.prompts.end());
    if (const int most = std::max(kWindow, blueprint_.trained_context); longest > most) {
      throw UsageError(fmt::format(
          "‹prompts› {}: the model was trained on {} tokens of context; ask for {} or less.",
          longest, blueprint_.trained_context, most));
    }
    options_.memory.context = std::max(longest, kWindow) + kContextBeside;
    // The name has the model's key, so that whatever options a run had that was cut off, its file
    // goes when a plan is kept.
    const auto model_key = static_cast<uint32_t>(weights::content_key(file_));
    state_ = std::make_unique<tune::CalibrationState>(
        request.folder, identity(), fmt::format("tuning-{:08x}", model_key), request.is_anew);
    result_.n_found_earlier = state_->n_found_earlier();
  }

  Tuning run() {
    // The beginning is written before any time is spent: a folder that cannot be written is told at
    // once.
    result_.begun = finding("begun", [] { return ordered_json{{"when", utc_now()}}; }).text("when");
    time_precisions();
    if (wants_int8()) prove_int8();
    add_structure();
    choose();
    finish();
    if (request_.keep) request_.keep(result_.file);
    state_->remove_all();
    return std::move(result_);
  }

 private:
  // Returns everything that findings depend on. Whether the machine is busy decides about lanes.
  std::string identity() const {
    const prepare::Options& options = request_.options;
    return fmt::format("{}\n{:016x}\n{}\n{:016x}\n{} {} {} {} {}\n{}\n{} {} {} {}",
                       program_name(kernels::choose(detect_cpu_features(), options.kernels)),
                       weights::content_key(file_), prepare::plan_identity(file_).machine,
                       hash_of(request_.text), options.lanes.n_threads,
                       plan::lanes_text(options.lanes.cores), asked_name(),
                       tensor::type_name(options.memory.kv_type), request_.seconds,
                       fmt::join(request_.prompts, ","), request_.attention_share,
                       share_rule_name(request_.share_rule), request_.most_loss, keeps_lanes_);
  }

  JsonFields finding(const std::string& name, const std::function<ordered_json()>& run) {
    return state_->fields(name, run);
  }

  // Returns the precision of prompts that was asked for; none: the best is chosen.
  const std::optional<Prefill>& asked() const { return request_.options.prompts.prefill; }
  std::string asked_name() const { return asked() ? plan::prefill_name(*asked()) : "auto"; }
  bool is_free() const { return !asked(); }

  plan::Plan plan_of(std::optional<Prefill> precision) const {
    prepare::Options options = options_;
    options.prompts.prefill = precision;
    return prepare::make_plan(options, blueprint_, weights_);
  }

  // Returns the best times of a plan in this turn and those before it: other programs may have
  // slowed down one of them.
  std::vector<PromptTime> times_of(const std::string& turn, const std::string& name,
                                   const plan::Plan& plan) {
    const bool with_step = turn == kAgain;
    std::vector<int> lengths = request_.prompts;
    if (with_step) lengths.push_back(1);
    const JsonFields found = finding(turn + " " + name, [&] {
      return to_json(time_plan(options_, plan, request_.prompts, with_step,
                               {.patience_s = kPatience * request_.seconds},
                               stage_("speed of " + name)));
    });
    std::vector<PromptTime>& best = best_times_[name];
    return best = best_of(best, read_times(found, lengths));
  }

  size_t add(const std::string& name, const plan::Plan& plan) {
    result_.candidates.push_back({name, plan, times_of(kFirst, name, plan)});
    return result_.candidates.size() - 1;
  }

  // Times prompts in the usual precision, in bf16 and in q8 where that is not the usual one, and in
  // int8 with one scale for each token.
  void time_precisions() {
    const plan::Plan usual = plan_of(std::nullopt);
    add(plan::prefill_name(usual.prefill), usual);
    const auto try_also = [&](Prefill precision) {
      if (precision == usual.prefill || !(is_free() || asked() == precision)) return;
      add(plan::prefill_name(precision), plan_of(precision));
    };
    if (!is_free() && asked() != Prefill::kInt8) {
      try_also(*asked());
      return;
    }
    if (usual.activations == plan::Activations::kF32) return;  // someone wants it exact
    try_also(Prefill::kBf16);
    try_also(Prefill::kQ8);
    int8_times_ = times_of(kFirst, "int8 token", plan_of(Prefill::kInt8));
  }

  // Says whether int8 is faster. What is not faster need not be proven.
  bool wants_int8() {
    if (int8_times_.empty()) {
      result_.int8_reason = fmt::format("prompts in {} were asked for", asked_name());
      return false;
    }
    const auto gain_of = [&] {
      const TriedPlan& safe = result_.candidates[best_so_far()];
      return prompts_as_fast(int8_times_, plan_of(Prefill::kInt8), safe.times, safe.plan);
    };
    double gain = gain_of();
    if (gain < kClearlyFaster && asked() != Prefill::kInt8) {
      // Both get another turn: the best of more turns would be the shorter time by chance alone.
      TriedPlan& safe = result_.candidates[best_so_far()];
      safe.times = times_of(kSecond, safe.name, safe.plan);
      int8_times_ = times_of(kSecond, "int8 token", plan_of(Prefill::kInt8));
      gain = gain_of();
    }
    if (gain >= kClearlyFaster || asked() == Prefill::kInt8) return true;
    result_.int8_reason = fmt::format(
        "not int8: it was {:.2f} times as fast here as the fastest safe precision, "
        "which is not worth its loss",
        gain);
    return false;
  }

  // Returns how many windows of text n_passes passes can read in a share of the time, as fast as
  // the usual class is.
  size_t n_windows(double share, double n_passes, size_t least) const {
    const PromptTime longest = longest_of(result_.usual().times);
    const double window_s = 1e-3 * longest.ms / longest.n_tokens * kWindow;
    const double n = share * request_.seconds / (n_passes * window_s);
    return static_cast<size_t>(
        std::clamp(n, static_cast<double>(least), static_cast<double>(kMostWindows)));
  }

  // Returns how much of each half is run. It is found out once: when it is asked again, time has
  // passed.
  size_t windows(const char* half) {
    const JsonFields found = finding("windows", [&] {
      return ordered_json{{"held out", n_windows(kProving, kProvingPasses, HeldOut::kLeastWindows)},
                          {"calibration", n_windows(kCalibrating, kCalibratingPasses, 1)}};
    });
    return static_cast<size_t>(found.integer(half, 1, kMostWindows));
  }

  // Returns what a class predicts of the half that is held out, where `usual` is null or has as
  // much.
  std::vector<WindowLosses> held_out(const std::string& name, const plan::Plan& plan,
                                     const HeldOut::Enough& is_enough,
                                     const std::vector<WindowLosses>* usual) {
    const JsonFields found = finding("held out " + name, [&] {
      if (held_out_ == nullptr) {
        exact_ = plan_of(Prefill::kBf16);
        held_out_text_ = halves(request_.text).second;
        held_out_ = std::make_unique<HeldOut>(options_, exact_, held_out_text_, windows("held out"),
                                              stage_);
      }
      return to_json(held_out_->read(name, plan, is_enough));
    });
    return read_windows(found, usual);
  }

  // Returns limits and outliers, found on the other half.
  plan::Int8Plan calibrated() {
    const size_t n_tokens = kWindow * windows("calibration");
    const JsonFields found = finding("calibration", [&] {
      tune::CalibrateOptions how;
      how.engine = options_;
      how.engine.prompts.prefill.reset();
      how.text = halves(request_.text).first;
      how.text_name = request_.text_name;
      how.most_tokens = n_tokens;
      how.is_brief = true;
      how.folder = request_.folder;
      how.progress = stage_("outliers");
      return ordered_json{{"int8", plan::to_json(tune::calibrate(how).int8)}};
    });
    return plan::read_int8(found.object("int8"));
  }

  // Returns what the usual class predicts of all windows.
  std::vector<WindowLosses> held_out_of_usual() {
    return held_out("the usual class", result_.usual().plan, nullptr, nullptr);
  }

  // Says whether the held-out text has the tokens without which no method is proven, whatever it
  // loses.
  bool can_prove() {
    size_t n_tokens = 0;
    for (const WindowLosses& window : held_out_of_usual()) n_tokens += window.nll.size();
    return n_tokens >= kLeastProofTokens;
  }

  // Says whether this method loses little enough on the half that is held out.
  bool is_good(Int8Method method, int outlier_prune, plan::Plan* plan) {
    plan->int8.method = method;
    plan->int8.outlier_prune = outlier_prune;
    const std::vector<WindowLosses> usual = held_out_of_usual();
    const std::string name = plan::has_shadow(method)
                                 ? fmt::format("int8 {}, {} % of the inputs without outliers",
                                               plan::int8_method_name(method), outlier_prune)
                                 : fmt::format("int8 {}", plan::int8_method_name(method));
    const auto verdict = [&](const std::vector<WindowLosses>& windows) {
      return verdict_of(loss_between(usual, windows), request_.most_loss);
    };
    const auto is_enough = [&](const std::vector<WindowLosses>& windows) {
      return verdict(windows) != LossVerdict::kUnsure;
    };
    const std::vector<WindowLosses> found = held_out(name, *plan, is_enough, &usual);
    result_.tried.push_back({method, outlier_prune, loss_between(usual, found)});
    return verdict(found) == LossVerdict::kLittle;
  }

  // Says whether the text is too short to prove what a method loses.
  bool is_short(const TriedMethod& tried) const {
    return is_too_short(tried.loss, request_.most_loss);
  }

  static std::string untried(bool tries_others) {
    if (tries_others) return "";
    return fmt::format("; {} held-out tokens are needed to prove another method",
                       kLeastProofTokens);
  }

  // Tries a scale for each token. If that loses too much, it tries outliers in float beside, too,
  // and then how many of them may be ignored. Where only a proven method is taken, no other one is
  // tried on a text that is too short to prove any.
  void prove_int8() {
    plan::Plan plan = plan_of(Prefill::kInt8);
    bool is_found = is_good(Int8Method::kToken, 100, &plan);
    size_t taken = 0;
    const bool tries_others = !is_found && (!is_free() || can_prove());
    if (tries_others) {
      plan.int8 = calibrated();
      is_found = is_good(Int8Method::kTokenShadow, 0, &plan);
      taken = 1;
      for (size_t i = 0; is_found && taken == 1 && i < std::size(kPrunes); ++i) {
        if (is_good(Int8Method::kTokenShadow, kPrunes[i], &plan)) taken = result_.tried.size() - 1;
      }
    }
    if (!is_found) {
      const auto least = std::min_element(result_.tried.begin(), result_.tried.end(),
                                          [](const TriedMethod& a, const TriedMethod& b) {
                                            return a.loss.expected.share < b.loss.expected.share;
                                          });
      taken = static_cast<size_t>(least - result_.tried.begin());
    }
    const TriedMethod& tried = result_.tried[taken];
    const std::string figure =
        fmt::format("{} of perplexity over {} tokens of {} against {}", loss_text(tried.loss),
                    tried.loss.text.n_tokens, request_.text_name, result_.usual().name);
    if (!is_found && is_free()) {
      result_.int8_reason = is_short(tried)
                                ? fmt::format("not int8: {}, and {} held-out tokens are needed",
                                              figure, kLeastProofTokens)
                                : fmt::format("not int8: {}, and {:g} % are allowed{}", figure,
                                              100 * request_.most_loss, untried(tries_others));
      return;
    }
    plan.int8.method = tried.method;
    plan.int8.outlier_prune =
        plan::has_shadow(tried.method) ? tried.outlier_prune : plan::Int8Plan::kDefaultOutlierPrune;
    result_.int8_reason =
        fmt::format("{}: {}, {}", plan::int8_method_text(tried.method), figure,
                    is_found ? fmt::format("at most {:g} % are allowed", 100 * request_.most_loss)
                    : is_short(tried) ? "too few tokens to be taken unasked"
                                      : "more than is taken unasked");
    plan.prefill_reason = "tuned: " + result_.int8_reason;
    int8_ = add(fmt::format("int8 {}", plan::int8_method_name(tried.method)), plan);
  }

  // Adds the precision that is best so far, with lanes, chunk and arrangements chosen by the
  // profile.
  void add_structure() {
    const TriedPlan before = result_.candidates[best_so_far()];
    const JsonFields found = finding("structure of " + before.name, [&] {
      tune::ChooseRequest request;
      request.options = options_;
      if (keeps_lanes_) request.options.lanes.n_threads = usable_cores();
      request.keeps_profile = !request_.keeps_lanes;
      request.like = &before.plan;
      request.prompts = request_.prompts;
      // Counts the machines that are profiled: one lane of all cores, of half of them, ..., of one
      // core, and perhaps a lane for each core.
      const double n_sets = std::log2(usable_cores()) + 2;
      request.budget_s = kProfiling * request_.seconds / n_sets;
      const tune::PlanChoice choice = tune::choose_plan(request, stage_);
      const tune::PlanCandidate& best = choice.candidates[choice.best];
      return ordered_json{
          {"name", best.name},
          {"plan", plan::to_json({prepare::plan_identity(file_), best.plan, std::nullopt})}};
    });
    const plan::Plan plan = plan::plan_from_json(found.text("plan"), state_->path()).plan;
    const bool is_same = plan.lanes.size() == 1 && plan.arrangements.empty() &&
                         plan.n_threads() == before.plan.n_threads() &&
                         plan.chunk() == before.plan.chunk();
    if (!is_same) {
      add(fmt::format("{}, {}, chunks of {}", before.name, found.text("name"), plan.chunk()), plan);
    }
  }

  // Returns a candidate in the precision that was asked for, however fast the others are, than
  // which no other one is clearly faster.
  size_t best_so_far() const {
    std::vector<size_t> allowed;
    for (size_t i = 0; i < result_.candidates.size(); ++i) {
      const plan::Prefill prefill = result_.candidates[i].plan.prefill;
      if (result_.candidates[i].is_out) continue;
      if (is_free() || asked() == prefill) allowed.push_back(i);
    }
    size_t best = allowed.empty() ? 0 : allowed.front();
    for (const size_t i : allowed) {
      if (gain(result_.candidates[i], result_.candidates[best]) >= kClearlyFaster) best = i;
    }
    return best;
  }

  // Compares prompts, and steps where lanes differ: steps take the same time in every precision of
  // prompts.
  static double gain(const TriedPlan& a, const TriedPlan& b) {
    const bool has_same_lanes =
        a.plan.lanes.size() == b.plan.lanes.size() && a.plan.n_threads() == b.plan.n_threads();
    return has_same_lanes ? prompts_as_fast(a.times, a.plan, b.times, b.plan)
                          : times_as_fast(a.times, b.times);
  }

  // Times those candidates once more that may still be the best, and the usual plan, which they are
  // compared with. Meanwhile the machine may have become faster or slower.
  void choose() {
    const std::vector<PromptTime> best = result_.candidates[best_so_far()].times;
    for (size_t i = 0; i < result_.candidates.size(); ++i) {
      TriedPlan& c = result_.candidates[i];
      c.is_out = i > 0 && times_as_fast(c.times, best) < kHopeless;
      if (!c.is_out) c.times = times_of(kAgain, c.name, c.plan);
    }
    result_.chosen = best_so_far();
    const bool is_int8 = result_.best().plan.prefill == plan::Prefill::kInt8;
    if (int8_ == 0 || is_int8) return;
    result_.int8_reason =
        fmt::format("not int8: {} was {:.2f} times as fast as {}", result_.candidates[int8_].name,
                    times_as_fast(prompts_of(result_.candidates[int8_].times),
                                  prompts_of(result_.best().times)),
                    result_.best().name);
  }

  // Makes the plan as it is kept: with a context for this machine's memory, and the cost of drafts.
  void finish() {
    plan::Plan plan = result_.best().plan;
    plan.step_costs = read_costs(finding(
        "steps", [&] { return to_json(time_steps(options_, plan, stage_("cost of drafts"))); }));
    if (plan.prefill != plan::Prefill::kInt8) plan.prefill_reason = "tuned: " + reason();
    plan.attention = tuned_attention(plan);
    prepare::Options options = request_.options;
    options.plan.base = plan;
    plan::PlanFile& file = result_.file;
    file.plan = prepare::make_plan(options, blueprint_, weights_);
    file.made_for = prepare::plan_identity(file_);
    file.tuned = {utc_now(), program_name(kernels::choose(detect_cpu_features())),
                  fmt::format("{:016x}", weights::content_key(file_)),
                  machines::device_identities(file.plan)};
  }

  plan::PromptAttention tuned_attention(const plan::Plan& plan) {
    AttentionRequest request;
    request.options = options_;
    request.plan = plan;
    std::tie(request.calibration, request.held_out) = halves(request_.text);
    request.text_name = request_.text_name;
    request.share = request_.attention_share;
    request.rule = request_.share_rule;
    request.seconds = kAttending * request_.seconds;
    const PromptTime longest = longest_of(result_.best().times);
    request.seconds_per_token = 1e-3 * longest.ms / longest.n_tokens;
    request.trained_context = blueprint_.trained_context;
    request.stage = stage_;
    result_.attention = tune_attention(request, state_.get());
    return result_.attention.attention;
  }

  std::string reason() const {
    if (!is_free()) return result_.int8_reason;
    return fmt::format("measured fastest here of what is safe; {}", result_.int8_reason);
  }

  const TuneRequest& request_;
  const measure::StageFunction& stage_;
  gguf::File file_;
  model::Blueprint blueprint_;
  weights::Store weights_;
  prepare::Options options_;  // the request's, with a context as long as what is measured needs
  bool keeps_lanes_;          // says that the usual ones stay, where none are asked for
  plan::Plan exact_;          // the class that says what the held-out text may go on with
  std::string held_out_text_;
  std::unique_ptr<HeldOut> held_out_;
  std::unique_ptr<tune::CalibrationState> state_;
  size_t int8_ = 0;  // the candidate that was proven; 0: none
  // The times of the simplest method of int8; empty where int8 is out of question.
  std::vector<PromptTime> int8_times_;
  std::map<std::string, std::vector<PromptTime>> best_times_;  // by the name of their plan
  Tuning result_;
};

}  // namespace

Tuning tune(const TuneRequest& request, const measure::StageFunction& stage) {
  return Tuner(request, stage).run();
}

}  // namespace troika::tune
