#include "tune/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "measure/evaluate.h"
#include "model/linear_inputs.h"
#include "plan/int8_json.h"
#include "plan/json_fields.h"
#include "prepare/plan/make_plan.h"
#include "tune/calibration_state.h"
#include "tune/input_statistics.h"
#include "tune/kept_plan.h"
#include "tune/proof/text_parts.h"
#include "weights/content_key.h"

namespace troika::tune {
namespace {

using plan::Int8Method;

constexpr int kPassTokens = 512;  // the size of the chunk that one pass reads
// Lists the shares of the magnitudes that may lie within the limit, fewest outliers first.
constexpr double kQuantiles[] = {0.9999, 0.9995, 0.999, 0.998, 0.995, 0.99, 0.98};
constexpr size_t kBriefStride = 3;  // a brief calibration tries each third quantile
// Is the share of perplexity that a smaller quantile must gain.
constexpr double kWorthwhile = 0.0005;
constexpr double kAlphas[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8};
// A limit is at least this part of the largest magnitude: where nearly all values are zero, a
// quantile says nothing.
constexpr float kLeastPart = 1.0f / 4096;
// Is the limit of inputs that were zero all over the text; whatever comes there later exceeds it.
constexpr float kLimitOfZeros = 1e-6f;
constexpr float kClampOfZeros = 1.0f;
constexpr double kWorst = 1e30;  // stands for a loss that is not finite
constexpr const char* kFloatPass = "float";

std::string weights_name(const prepare::PromptChoice& prompts) {
  const auto scales = prompts.weight_scales.value_or(plan::WeightScales::kRow);
  const std::string name = plan::weight_scales_name(scales);
  if (scales != plan::WeightScales::kInt4) return name;
  return fmt::format("{} {}", name,
                     prompts.weight_outliers.value_or(plan::Int8Plan::kDefaultWeightOutliers));
}

class Calibrator {
 public:
  explicit Calibrator(const CalibrateOptions& options) : options_(options) {
    n_passes_ = 1 + (std::size(kQuantiles) - 1) / stride() + 1 + 1;
    if (options.is_brief) return;
    n_passes_ += 5;
    if (options.alternatives) n_passes_ += 2 + std::size(kAlphas);
  }

  Calibration run() {
    gather();
    choose_quantile();
    count_outliers();
    Calibration result;
    if (options_.is_brief) {
      result.int8 = int8_;
    } else {
      measure_methods();
      result = choose();
    }
    result.n_passes = n_passes_;
    result.n_found_earlier = state_->n_found_earlier();
    state_->remove();
    return result;
  }

 private:
  size_t stride() const { return options_.is_brief ? kBriefStride : 1; }
  // Returns the method that computes all outliers in float: with the scales that lanes need, or
  // that are better.
  Int8Method with_outliers() const {
    return options_.is_brief ? Int8Method::kTokenShadow : Int8Method::kShadow;
  }

  // Gathers statistics of inputs once, in float unless the calibration is brief.
  void gather() {
    prepare::Options options = options_.engine;
    options.prompts.int8.reset();
    options.prompts.attention.reset();
    options.plan.file.clear();
    options.plan.exact.reset();
    if (!options_.is_brief) {
      options.activations = plan::Activations::kF32;
      options.prompts.prefill = plan::Prefill::kF32;
      options.memory.kv_type = tensor::Type::kF32;
    }
    // No bit depends on lanes, and a single one observes in one thread.
    options.lanes.cores.clear();
    options.lanes.placements.clear();
    options.lanes.is_strict_npu = false;
    options.memory.context = kPassTokens;
    engine::Engine engine(options);
    plan_ = engine.plan();
    safe_ = prepare::safe_prefill(options_.engine.activations, options_.engine.kernels,
                                  engine.weights().main_type());
    text_ = beginning_of_text(engine.tokenizer(), options_.text, options_.most_tokens);
    inputs_ = model::linear_inputs(engine.blueprint());
    blueprint_ = engine.blueprint();
    state_ = std::make_unique<CalibrationState>(options_.folder, identity(engine));
    read_findings(finding(kFloatPass, [&] { return observe(engine); }));
  }

  // Returns everything that findings depend on.
  std::string identity(const engine::Engine& engine) const {
    const prepare::Options& options = options_.engine;
    return fmt::format("{:016x} {:016x} {} {} {} {} {}{}", weights::content_key(engine.file()),
                       hash_of(text_), program_name(engine.kernels()),
                       static_cast<int>(options.activations),
                       tensor::type_name(options.memory.kv_type), weights_name(options.prompts),
                       options_.alternatives, options_.is_brief ? " brief" : "");
  }

  nlohmann::ordered_json observe(engine::Engine& engine) {
    InputStatistics statistics(engine.blueprint());
    const measure::Perplexity perplexity = measure(engine, &statistics);
    plan::Int8Plan int8;
    int8.text = options_.text_name;
    int8.n_tokens = perplexity.n_tokens;
    int8.perplexity = perplexity.perplexity;
    nlohmann::ordered_json limits;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      plan::Int8Input input;
      input.weight = inputs_[i].name;
      input.largest = statistics.largest(i);
      input.limit_alone = statistics.best_clamp(i);
      if (input.limit_alone < kLimitOfZeros) input.limit_alone = kClampOfZeros;
      if (options_.alternatives) input.channel_largest = statistics.channel_largest(i);
      nlohmann::ordered_json of_input;
      for (const double quantile : kQuantiles) {
        of_input.push_back(std::max(
            {statistics.quantile(i, quantile), kLeastPart * input.largest, kLimitOfZeros}));
      }
      input.limit = of_input.front();
      limits.push_back({{"by_quantile", std::move(of_input)}});
      int8.inputs.push_back(std::move(input));
    }
    return {{"int8", plan::to_json(int8)}, {"limits", std::move(limits)}};
  }

  void read_findings(const plan::JsonFields& found) {
    int8_ = plan::read_int8(found.object("int8"));
    found.each("limits", [&](const plan::JsonFields& of_input) {
      limits_.push_back(of_input.positives("by_quantile", FLT_MAX));
    });
    const bool fits = limits_.size() == inputs_.size() && int8_.inputs.size() == inputs_.size();
    if (!fits) found.fail("limits", "is not that of this model");
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (int8_.inputs[i].weight != inputs_[i].name) found.fail("int8", "is of another model");
      if (limits_[i].size() != std::size(kQuantiles)) found.fail("limits", "is too short");
    }
  }

  // Runs a pass over the text, unless an earlier calibration has done it.
  plan::JsonFields finding(const std::string& pass,
                           const std::function<nlohmann::ordered_json()>& run) {
    const size_t n_before = n_done_;
    plan::JsonFields found = state_->fields(pass, run);
    n_done_ = n_before + 1;
    return found;
  }

  void set_limits(size_t quantile, plan::Int8Plan* int8) const {
    int8->quantile = kQuantiles[quantile];
    for (size_t i = 0; i < inputs_.size(); ++i) {
      int8->inputs[i].limit = static_cast<float>(limits_[i][quantile]);
    }
  }

  // Chooses the quantile with the fewest outliers that loses nothing worth mentioning against the
  // best.
  void choose_quantile() {
    std::vector<double> losses;
    for (size_t i = 0; i < std::size(kQuantiles); i += stride()) {
      plan::Int8Plan candidate = with(with_outliers(), 0);
      set_limits(i, &candidate);
      losses.push_back(loss_of(candidate));
    }
    const double best = *std::min_element(losses.begin(), losses.end());
    const auto chosen = std::find_if(losses.begin(), losses.end(),
                                     [&](double loss) { return loss <= best + kWorthwhile; });
    set_limits(static_cast<size_t>(chosen - losses.begin()) * stride(), &int8_);
  }

  void count_outliers() {
    const plan::JsonFields found = finding("outliers", [&]() -> nlohmann::ordered_json {
      InputStatistics statistics(blueprint_);
      std::vector<float> limits;
      for (const plan::Int8Input& input : int8_.inputs) limits.push_back(input.limit);
      statistics.count_outliers(std::move(limits));
      const double loss = run_int8(with(with_outliers(), 0), &statistics);
      plan::Int8Plan counted = int8_;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        plan::Int8Input& input = counted.inputs[i];
        input.outliers_per_token = statistics.outliers_per_token(i);
        input.n_outlier_channels = statistics.n_outlier_channels(i);
        input.hot_channels = statistics.hot_channels(i, kHotShare);
      }
      return {{"loss", loss}, {"int8", plan::to_json(counted)}};
    });
    int8_ = plan::read_int8(found.object("int8"));
    if (int8_.inputs.size() != inputs_.size()) found.fail("int8", "is of another model");
    int8_.losses.push_back({plan::int8_method_name(with_outliers()), 0, loss_in(found)});
  }

  void measure_methods() {
    constexpr int kPrune = plan::Int8Plan::kDefaultOutlierPrune;
    add_loss(Int8Method::kToken, 100);
    add_loss(Int8Method::kTokenShadow, kPrune);
    add_loss(Int8Method::kTokenShadow, 0);
    add_loss(Int8Method::kStatic, 100);
    add_loss(Int8Method::kShadow, kPrune);
    if (!options_.alternatives) return;
    add_loss(Int8Method::kSplit, 100);
    add_loss(Int8Method::kGroup, 100);
    double least = INFINITY, best_alpha = 0.5;
    for (const double alpha : kAlphas) {
      plan::Int8Plan candidate = with(Int8Method::kSmooth, 100);
      candidate.smooth_alpha = alpha;
      const double loss = loss_of(candidate);
      if (loss >= least) continue;
      least = loss;
      best_alpha = alpha;
    }
    int8_.smooth_alpha = best_alpha;
    int8_.losses.push_back({plan::int8_method_name(Int8Method::kSmooth), 100, least});
  }

  // Chooses the method with the least work that loses little; where lanes allow no other, one with
  // a scale for each tensor.
  Calibration choose() const {
    constexpr int kPrune = plan::Int8Plan::kDefaultOutlierPrune;
    struct Choice {
      Int8Method method;
      int outlier_prune;
    };
    const std::vector<Choice> choices =
        options_.engine.lanes.is_strict_npu
            ? std::vector<Choice>{{Int8Method::kStatic, 100},
                                  {Int8Method::kShadow, kPrune},
                                  {Int8Method::kShadow, 0}}
            : std::vector<Choice>{{Int8Method::kToken, 100},
                                  {Int8Method::kTokenShadow, kPrune},
                                  {Int8Method::kTokenShadow, 0}};
    Calibration result;
    result.int8 = int8_;
    double least = INFINITY;
    for (const Choice& choice : choices) {
      const double loss = known_loss(choice.method, choice.outlier_prune);
      least = std::min(least, loss);
      if (loss >= kMostInt8Loss) continue;
      result.prefill = plan::Prefill::kInt8;
      result.int8.method = choice.method;
      result.int8.outlier_prune = plan::has_shadow(choice.method) ? choice.outlier_prune : kPrune;
      result.reason = fmt::format("auto: {} loses {:.2f} % of perplexity over {}, below {} %",
                                  plan::int8_method_text(choice.method), 100 * loss, int8_.text,
                                  100 * kMostInt8Loss);
      return result;
    }
    result.prefill = safe_;
    result.reason = fmt::format(
        "auto: not int8, which loses {:.2f} % of perplexity over {} at best, and {} % "
        "are allowed",
        100 * least, int8_.text, 100 * kMostInt8Loss);
    return result;
  }

  double known_loss(Int8Method method, int outlier_prune) const {
    for (const plan::Int8Loss& loss : int8_.losses) {
      if (loss.method == plan::int8_method_name(method) && loss.outlier_prune == outlier_prune) {
        return loss.loss;
      }
    }
    return INFINITY;
  }

  plan::Int8Plan with(Int8Method method, int outlier_prune) const {
    plan::Int8Plan int8 = int8_;
    int8.method = method;
    int8.outlier_prune = outlier_prune;
    return int8;
  }

  void add_loss(Int8Method method, int outlier_prune) {
    const double loss = loss_of(with(method, outlier_prune));
    int8_.losses.push_back({plan::int8_method_name(method), outlier_prune, loss});
  }

  double loss_of(const plan::Int8Plan& int8) {
    const std::string pass =
        fmt::format("{} {} % ignored, within {} %, alpha {}", plan::int8_method_name(int8.method),
                    int8.outlier_prune, 100 * int8.quantile, int8.smooth_alpha);
    return loss_in(finding(pass, [&]() -> nlohmann::ordered_json {
      return {{"loss", run_int8(int8, nullptr)}};
    }));
  }

  static double loss_in(const plan::JsonFields& found) { return found.number("loss", -1, kWorst); }

  double run_int8(const plan::Int8Plan& int8, InputStatistics* observer) {
    prepare::Options options = options_.engine;
    options.prompts.int8.reset();
    options.plan.file.clear();
    options.prompts.outlier_prune.reset();
    options.lanes.is_strict_npu = false;
    options.plan.exact = plan_;
    options.plan.exact->activations = options_.engine.activations;
    options.plan.exact->prefill = plan::Prefill::kInt8;
    options.plan.exact->int8 = int8;
    plan::Int8Plan& asked = options.plan.exact->int8;
    asked.weight_scales = options.prompts.weight_scales.value_or(asked.weight_scales);
    asked.weight_outliers = options.prompts.weight_outliers.value_or(asked.weight_outliers);
    engine::Engine engine(options);
    const double loss = measure(engine, observer).perplexity / int8_.perplexity - 1.0;
    return std::isfinite(loss) ? std::min(loss, kWorst) : kWorst;
  }

  measure::Perplexity measure(engine::Engine& engine, lanes::InputObserver* inputs) {
    engine::Session session(engine);
    session.watch({.inputs = inputs});
    const ProgressFunction& progress = options_.progress;
    return measure::perplexity_of_text(session, text_, [&](uint64_t done, uint64_t total) {
      if (progress) progress(n_done_ * total + done, n_passes_ * total);
    });
  }

  const CalibrateOptions& options_;
  size_t n_passes_ = 0;
  size_t n_done_ = 0;
  plan::Plan plan_;                            // the plan that computes in float
  plan::Prefill safe_ = plan::Prefill::kBf16;  // the precision without int8
  std::string text_;
  model::Blueprint blueprint_;
  std::vector<model::LinearInput> inputs_;
  std::unique_ptr<CalibrationState> state_;
  std::vector<std::vector<double>> limits_;  // the limits by input, then by quantile
  plan::Int8Plan int8_;
};

}  // namespace

Calibration calibrate(const CalibrateOptions& options) { return Calibrator(options).run(); }

}  // namespace troika::tune
