#include "papers/npu/measure_npu.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "measure/measure.h"
#include "model/linear_inputs.h"
#include "prepare/plan/make_plan.h"
#include "prepare/plan/saved_plan.h"
#include "tune/input_statistics.h"

namespace troika::papers {
namespace {

using plan::Int8Method;
using plan::Order;

// Is the share of values that are no outliers, where there is no calibration. The paper has 0.1 to
// 0.3 % of the channels as outliers.
constexpr double kQuantile = 0.998;
constexpr double kHotShare = 0.8;
constexpr int kCalibrationTokens = 256;
constexpr int kDefaultPrune = plan::Int8Plan::kDefaultOutlierPrune;

// One way to compute the prompt, measured once in every round.
struct Variation {
  std::string name;
  plan::Plan plan;
  bool is_built_anew = false;  // graphs are built anew for each prompt
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::Session> session;
  std::vector<double> ms, build_ms, idle;
  lanes::ShadowCounters counters;
  schedule::SchedulerStatistics scheduler;  // sums up all rounds
};

class Measurer {
 public:
  explicit Measurer(const MeasureNpuOptions& options) : options_(options) {
    measurement_.options = options;
    measurement_.cores = usable_core_numbers();
    if (measurement_.cores.size() < 2) {
      throw Error("‹measure› needs two cores that this program may use, for two lanes.");
    }
    measurement_.cores.resize(2);
  }

  NpuMeasurement run() {
    calibrate();
    add_settings();
    const uint64_t n_runs = settings_.size() * static_cast<size_t>(options_.rounds + 1);
    uint64_t n_done = 0;
    for (int round = -1; round < options_.rounds; ++round) {  // the first round warms up
      for (const auto& setting : settings_) {
        run_once(*setting, round >= 0);
        if (options_.progress) options_.progress(++n_done, n_runs);
      }
    }
    return summary();
  }

 private:
  prepare::Options engine_options() const {
    prepare::Options options;
    options.model.file = options_.model;
    options.memory.context = options_.n_prompt + 8;
    options.prompts.chunk = options_.chunk;
    options.memory.shadow_rows = options_.shadow_rows;
    options.memory.has_side_files = options_.has_cache;
    options.memory.load = prepare::Load::kMap;  // all settings map the same pages
    return options;
  }

  // Takes limits of a plan, or of seeded tokens: how large activations are depends little on which
  // tokens.
  void calibrate() {
    prepare::Options options = engine_options();
    options.prompts.prefill = plan::Prefill::kBf16;
    base_ = std::make_unique<engine::Engine>(options);
    if (!options_.plan.empty()) {
      int8_ = prepare::load_plan(options_.plan, prepare::plan_identity(base_->file())).plan.int8;
      if (!int8_.is_calibrated()) {
        throw UsageError(fmt::format(
            "{}: the plan has no limits of outliers. Make it with 'troika plan MODEL --calibrate "
            "TEXT -o {}'.",
            options_.plan, options_.plan));
      }
      measurement_.calibration = fmt::format("{}, from {}", options_.plan, int8_.text);
    } else {
      guess_limits();
      measurement_.calibration = fmt::format("{} seeded tokens, {:.2g} % of the values outliers",
                                             kCalibrationTokens, 100 * (1 - kQuantile));
    }
    for (const plan::Int8Input& input : int8_.inputs) {
      measurement_.outliers_per_token += input.outliers_per_token;
    }
  }

  void guess_limits() {
    tune::InputStatistics statistics(base_->blueprint());
    engine::Session session(*base_);
    session.watch({.inputs = &statistics});
    const int n_tokens = std::min(kCalibrationTokens, options_.n_prompt);
    measure::prefill_seconds(session, n_tokens);
    std::vector<float> limits;
    for (const model::LinearInput& input : model::linear_inputs(base_->blueprint())) {
      const size_t i = int8_.inputs.size();
      plan::Int8Input made;
      made.weight = input.name;
      made.largest = statistics.largest(i);
      made.limit = std::max(statistics.quantile(i, kQuantile), 1e-6f);
      made.limit_alone = std::max(statistics.best_clamp(i), 1e-6f);
      limits.push_back(made.limit);
      int8_.inputs.push_back(std::move(made));
    }
    statistics.count_outliers(std::move(limits));
    measure::prefill_seconds(session, n_tokens);
    for (size_t i = 0; i < int8_.inputs.size(); ++i) {
      int8_.inputs[i].outliers_per_token = statistics.outliers_per_token(i);
      int8_.inputs[i].n_outlier_channels = statistics.n_outlier_channels(i);
      int8_.inputs[i].hot_channels = statistics.hot_channels(i, kHotShare);
    }
    int8_.text = "seeded tokens";
    int8_.n_tokens = static_cast<uint64_t>(n_tokens);
    int8_.quantile = kQuantile;
  }

  plan::Plan plan_of(bool has_two_lanes, Int8Method method, int prune, Order order,
                     int chunk) const {
    prepare::Options options = engine_options();
    options.prompts.prefill = plan::Prefill::kBf16;
    options.prompts.chunk = chunk;
    const std::vector<int>& cores = measurement_.cores;
    if (has_two_lanes) {
      options.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    } else {
      options.lanes.cores = {{cores, 2}};
    }
    plan::Plan plan = prepare::make_plan(options, base_->blueprint(), base_->weights());
    plan.prefill = plan::Prefill::kInt8;
    plan.int8 = int8_;
    plan.int8.method = method;
    plan.int8.outlier_prune = prune;
    plan.order = order;
    if (!has_two_lanes) return plan;
    plan.splits.at_norms = true;
    plan.placements = {{"attention", 2, 1}, {"norm", 2, 1}};
    if (plan::has_shadow(method)) plan.placements.push_back({"shadow", 2, 1});
    return plan;
  }

  void add(const std::string& name, plan::Plan plan, bool is_built_anew = false) {
    settings_.push_back(std::make_unique<Variation>());
    Variation& setting = *settings_.back();
    setting.name = name;
    setting.plan = std::move(plan);
    setting.is_built_anew = is_built_anew;
    if (!is_built_anew) build(setting);
  }

  void add_settings() {
    const int chunk = options_.chunk, whole = std::max(options_.n_prompt, options_.chunk);
    plan::Plan plain = plan_of(false, Int8Method::kToken, 100, Order::kInOrder, chunk);
    plain.prefill = plan::Prefill::kSame;
    add("plain CPU", plain);
    add("naive", plan_of(true, Int8Method::kGroup, 100, Order::kInOrder, whole), true);
    add("chunk", plan_of(true, Int8Method::kGroup, 100, Order::kInOrder, chunk));
    for (const Order order : {Order::kInOrder, Order::kLockStep, Order::kOutOfOrder}) {
      add(plan::order_name(order), plan_of(true, Int8Method::kShadow, kDefaultPrune, order, chunk));
    }
    for (const int prune : {0, 100}) {
      add(fmt::format("{} %", prune),
          plan_of(true, Int8Method::kShadow, prune, Order::kOutOfOrder, chunk));
    }
    add("int8", plan_of(false, Int8Method::kToken, 100, Order::kInOrder, chunk));
    for (const int prune : {100, kDefaultPrune}) {
      add(fmt::format("one lane, {} %", prune),
          plan_of(false, Int8Method::kShadow, prune, Order::kInOrder, chunk));
    }
  }

  // Returns how long the setting's graphs took, with weights in the form that they read.
  double build(Variation& setting) const {
    setting.session.reset();
    setting.engine.reset();
    prepare::Options options = engine_options();
    options.plan.exact = setting.plan;
    setting.engine = std::make_unique<engine::Engine>(options);
    setting.session = std::make_unique<engine::Session>(*setting.engine);
    return 1e3 * (setting.engine->loaded().pack_seconds + setting.engine->start().build_seconds);
  }

  void run_once(Variation& setting, bool counts) const {
    const double build_ms = setting.is_built_anew ? build(setting) : 0.0;
    engine::Engine& engine = *setting.engine;
    engine.passes().statistics = {};
    lanes::ShadowAreas* shadow = engine.graphs().shadow();
    if (shadow != nullptr) shadow->forget_counters();
    const double ms = 1e3 * measure::prefill_seconds(*setting.session, options_.n_prompt);
    if (!counts) return;
    setting.ms.push_back(build_ms + ms);
    setting.build_ms.push_back(build_ms);
    const schedule::SchedulerStatistics& s = engine.passes().statistics;
    if (s.n_decisions > 0) setting.idle.push_back(1.0 - s.busy_us[0] / s.span_us);
    setting.scheduler.add(s);
    if (shadow != nullptr) setting.counters = shadow->counters();
  }

  const Variation& find(const std::string& name) const {
    const auto at = std::find_if(settings_.begin(), settings_.end(),
                                 [&](const auto& setting) { return setting->name == name; });
    TROIKA_ASSERT(at != settings_.end());
    return **at;
  }

  MeasuredRun result(const std::string& setting, const std::string& name = {}) const {
    const Variation& from = find(setting);
    MeasuredRun run;
    run.name = name.empty() ? setting : name;
    run.ms = median(from.ms);
    run.build_ms = median(from.build_ms);
    if (!from.idle.empty()) run.matrix_idle_share = median(from.idle);
    run.counters = from.counters;
    return run;
  }

  NpuMeasurement summary() {
    NpuMeasurement& m = measurement_;
    m.ablation = {result("plain CPU"), result("naive"), result("chunk"),
                  result("in-order", "outlier"), result("out-of-order")};
    m.orders = {result("in-order"), result("lock-step"), result("out-of-order")};
    m.pruned = {result("0 %"), result("out-of-order", fmt::format("{} %", kDefaultPrune)),
                result("100 %")};
    m.one_lane = {
        result("int8"), result("one lane, 100 %", "100 %"),
        result(fmt::format("one lane, {} %", kDefaultPrune), fmt::format("{} %", kDefaultPrune))};
    const schedule::SchedulerStatistics& s = find("out-of-order").scheduler;
    m.n_decisions = s.n_decisions;
    m.decision_us = s.n_decisions > 0 ? s.decision_us / static_cast<double>(s.n_decisions) : 0.0;
    m.longest_decision_us = s.longest_decision_us;
    return m;
  }

  MeasureNpuOptions options_;
  NpuMeasurement measurement_;
  std::unique_ptr<engine::Engine> base_;  // computes prompts in bfloat16
  plan::Int8Plan int8_;
  std::vector<std::unique_ptr<Variation>> settings_;
};

}  // namespace

double NpuMeasurement::latency_gain() const { return 1.0 - orders.back().ms / orders.front().ms; }

NpuMeasurement measure_npu(const MeasureNpuOptions& options) { return Measurer(options).run(); }

void fill_measured(const NpuMeasurement& m, TestReport* report) {
  const auto ms = [&](size_t stage) { return m.ablation[stage].ms; };
  // The names are those of phones/simulated/llm.npu.json.
  const std::map<std::string_view, double> figures = {
      {"percent the matrix lane waits", 100.0 * m.orders.front().matrix_idle_share.value_or(0.0)},
      {"naive over one lane", ms(1) / ms(0)},
      {"naive over chunks", ms(1) / ms(2)},
      {"chunks over outliers beside", ms(2) / ms(3)},
      {"percent less out of order", 100.0 * m.latency_gain()}};
  for (TestRow& row : report->rows) {
    if (row.measured_by.empty()) continue;
    const auto at = figures.find(row.measured_by);
    if (at == figures.end()) {
      throw Error(fmt::format("The row '{}' asks for '{}', which is not measured here.",
                              row.base.row->id, row.measured_by));
    }
    row.measured = at->second;
  }
  report->n_decisions = m.n_decisions;
  report->decision_us = m.decision_us * static_cast<double>(m.n_decisions);
}

}  // namespace troika::papers
