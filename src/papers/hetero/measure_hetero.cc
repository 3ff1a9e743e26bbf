#include "papers/hetero/measure_hetero.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "base/units.h"
#include "gguf/file.h"
#include "machines/devices.h"
#include "measure/measure.h"
#include "measure/peaks.h"
#include "model/architecture.h"
#include "papers/hetero/hetero_runs.h"
#include "prepare/plan/make_plan.h"
#include "tune/choose_plan.h"

namespace troika::papers {
namespace {

constexpr int kHost = 0, kDevice = 1;
constexpr int kStepContext = 256;
constexpr uint64_t kAllCopies = 1ull << 40;

struct HeteroMachine {
  explicit HeteroMachine(const prepare::Options& options) : engine(options), session(engine) {}
  double graphs_ms() const {
    return kMsPerS * (engine.loaded().pack_seconds + engine.start().build_seconds);
  }
  engine::Engine engine;
  engine::Session session;
};

// A way to divide steps between both cores, with what was measured in each round.
struct StepWay {
  std::string name;
  std::unique_ptr<HeteroMachine> with;
  std::vector<double> rates = {}, gains = {}, read_gains = {}, shares = {};

  void add(const measure::DecodeRun& both, const measure::DecodeRun& alone) {
    rates.push_back(both.tokens_per_s);
    gains.push_back(both.tokens_per_s / alone.tokens_per_s);
    if (alone.read_gb_s == 0.0) return;
    read_gains.push_back(both.read_gb_s / alone.read_gb_s);
    shares.push_back(gains.back() / read_gains.back());
  }
  HeteroStepRate medians() const {
    HeteroStepRate step = {name, median(rates), median(gains)};
    if (read_gains.empty()) return step;
    step.read_gain = median(read_gains);
    step.share_of_read_gain = median(shares);
    return step;
  }
};

class HeteroMeasurer {
 public:
  explicit HeteroMeasurer(const MeasureHeteroOptions& options)
      : options_(options),
        file_(gguf::File::open(options.model)),
        blueprint_(model::read(file_)),
        weights_(file_, blueprint_) {
    TROIKA_ASSERT(!options.graphs.empty());
    measurement_.options = options;
    std::vector<int> cores = usable_core_numbers();
    if (cores.size() < 2) throw Error("‹measure› needs two cores that this program may use.");
    one_core_ = {{{cores[0]}, 1}};
    two_cores_ = {{{cores[0]}, 1}, {{cores[1]}, 1}};
    both_cores_ = {{{cores[0], cores[1]}, 2}};
    const std::string text = fmt::format("{};{}@{}", cores[0], options.device, cores[1]);
    lanes_ = plan::lanes_from_text(text, usable_core_numbers());
    measurement_.lanes = text;
    plan::Plan check;
    check.lanes = lanes_;
    machines::check_devices(check);
  }

  HeteroMeasurement run() {
    reference_ = machine(prompt_plan(one_core_));
    const tune::PlanChoice choice = choose(/*by_margin=*/false);
    const plan::Plan layer = layer_plan(options_.graphs);
    n_left_ = 9;
    add(
        "one lane, device", "products of exact lengths on the device, made beforehand",
        [&](int n) { return layer_plan({n}); }, /*is_single=*/true, /*is_anew=*/false);
    add(
        "online-prepare", "the same, made when the prompt comes",
        [&](int n) { return layer_plan({n}); }, false, /*is_anew=*/true);
    add("padding", fmt::format("the next longer of {} tokens", fmt::join(options_.graphs, ", ")),
        layer, true);
    add("pipe", "a sum of these, one behind the other", pipe_plan());
    add("chunked", fmt::format("chunks of {}, the last one padded", kChunkedTokens),
        layer_plan({kChunkedTokens}));
    add("layer-level", "each kind of subgraph on the lane where it is fastest",
        choice.candidates.front().plan);
    add("by margin", "odd lengths divided or padded by what is left over the next shorter graph",
        best_predicted(choose(/*by_margin=*/true)));
    add_tensor_level(choice);
    add("both cores", "one lane of both cores", prompt_plan(both_cores_));
    add_reference();
    reference_.reset();
    measure_steps();
    return std::move(measurement_);
  }

 private:
  prepare::Options engine_options() const {
    prepare::Options options;
    options.model.file = options_.model;
    const int longest = *std::max_element(options_.prompts.begin(), options_.prompts.end());
    options.memory.context = std::max(longest, kStepContext) + options_.n_steps + 8;
    options.prompts.prefill = plan::Prefill::kInt8;
    options.prompts.int8 = plan::Int8Method::kToken;
    return options;
  }

  // Returns a plan of these lanes. Every system has the same graphs, and int8 weights from copies.
  plan::Plan prompt_plan(const std::vector<plan::PlannedLane>& lanes) const {
    prepare::Options options = engine_options();
    options.lanes.cores = lanes;
    plan::Plan plan = prepare::make_plan(options, blueprint_, weights_);
    plan.prefill = plan::Prefill::kInt8;
    plan.int8.method = plan::Int8Method::kToken;
    plan.packed_bytes = kAllCopies;
    plan.prompt_shapes = options_.graphs;
    plan.order = plan::Order::kInOrder;
    return plan;
  }

  // Returns a plan with static subgraphs of prompts on the device and all else on the core.
  plan::Plan layer_plan(std::vector<int> shapes) const {
    plan::Plan plan = prompt_plan(lanes_);
    plan.packed_bytes = 0;
    plan.prompt_shapes = std::move(shapes);
    plan.short_rest = 0;
    plan.splits.at_norms = true;
    for (const char* kind : {"qkv", "out", "ffn"}) {
      plan.placements.push_back(
          {kind, 0, kDevice, plan::Placement::kAllBlocks, plan::Phase::kPrompt});
    }
    plan.placements.push_back({"", 0, kHost});
    return plan;
  }

  plan::Plan pipe_plan() const {
    plan::Plan plan = layer_plan(options_.graphs);
    for (const int n : options_.prompts) {
      plan::LengthCut length = piped_length(n, kDevice, options_.graphs);
      const auto is_same = [&](const plan::LengthCut& other) {
        return other.n_tokens == length.n_tokens;
      };
      const bool is_known = std::any_of(plan.lengths.begin(), plan.lengths.end(), is_same);
      if (length.tokens.size() > 1 && !is_known) plan.lengths.push_back(std::move(length));
    }
    std::sort(plan.lengths.begin(), plan.lengths.end(),
              [](const auto& a, const auto& b) { return a.n_tokens < b.n_tokens; });
    return plan;
  }

  tune::PlanChoice choose(bool by_margin) const {
    tune::ChooseRequest request;
    request.options = engine_options();
    request.options.lanes.divides_by_margin = by_margin;
    request.options.lanes.cores = lanes_;
    plan::Plan base = prompt_plan(lanes_);
    base.splits.at_norms = true;
    request.options.plan.base = base;
    request.prompts = options_.prompts;
    request.n_steps = 1;
    const auto silent = [](uint64_t, uint64_t) {};
    return tune::choose_plan(request, [&](const std::string&) { return ProgressFunction(silent); });
  }

  // The first candidate divides nothing, and is all where nothing is worth dividing.
  static const plan::Plan& best_predicted(const tune::PlanChoice& choice) {
    return choice.candidates.size() > 1 ? choice.candidates[1].plan : choice.candidates[0].plan;
  }

  std::unique_ptr<HeteroMachine> machine(const plan::Plan& plan) const {
    prepare::Options options = engine_options();
    options.plan.exact = plan;
    return std::make_unique<HeteroMachine>(options);
  }

  // Times a prompt in turn with the lane of one core.
  void time_prompt(HeteroMachine& with, int n_tokens, double graphs_ms, HeteroSystemTimes* times) {
    std::vector<double> ms, ratios;
    for (int round = -1; round < options_.rounds; ++round) {  // the first round warms up
      const double ours = graphs_ms + kMsPerS * measure::prefill_seconds(with.session, n_tokens);
      const double other = kMsPerS * measure::prefill_seconds(reference_->session, n_tokens);
      if (round < 0) continue;
      ms.push_back(ours);
      ratios.push_back(ours / other);
    }
    times->ms.push_back(median(ms));
    times->graphs_ms.push_back(graphs_ms);
    times->of_reference.push_back(median(ratios));
  }

  void end_system() {
    ++n_done_;
    if (options_.progress) options_.progress(n_done_, n_left_);
  }

  void add(const std::string& name, const std::string& how, const plan::Plan& plan,
           bool is_single = false) {
    HeteroSystemTimes times{name, how, {}, {}, {}, is_single};
    const auto with = machine(plan);
    for (const int n : options_.prompts) time_prompt(*with, n, 0.0, &times);
    measurement_.systems.push_back(std::move(times));
    if (name == kTensorLevel) measurement_.cuts = cuts_text(with->engine.plan());
    end_system();
  }

  // Adds the fastest of the plans with cuts that are predicted to take nearly the same time. It is
  // timed anew, so that luck when it was chosen does not count.
  void add_tensor_level(const tune::PlanChoice& choice) {
    const std::vector<tune::PlanCandidate>& all = choice.candidates;
    // The first candidate divides nothing. It speaks for all where nothing is worth dividing.
    size_t best = all.size() > 1 ? 1 : 0;
    double best_ratio = 0.0;
    for (size_t i = best; i < all.size() && all.size() > 2; ++i) {
      HeteroSystemTimes times;
      const auto with = machine(all[i].plan);
      for (const int n : options_.prompts) time_prompt(*with, n, 0.0, &times);
      const double ratio =
          std::accumulate(times.of_reference.begin(), times.of_reference.end(), 0.0);
      if (best_ratio > 0.0 && ratio >= best_ratio) continue;
      best_ratio = ratio;
      best = i;
    }
    const std::string how = all.size() > 2
                                ? "the fastest of the plans that the solver finds about alike"
                                : "the cuts and lengths that the solver found";
    add(kTensorLevel, how, all[best].plan);
  }

  // Adds a system that has a plan of its own for each length.
  template <typename PlanOf>
  void add(const std::string& name, const std::string& how, PlanOf plan_of, bool is_single,
           bool is_anew) {
    HeteroSystemTimes times{name, how, {}, {}, {}, is_single};
    for (const int n : options_.prompts) {
      const auto with = machine(plan_of(n));
      time_prompt(*with, n, is_anew ? with->graphs_ms() : 0.0, &times);
    }
    measurement_.systems.push_back(std::move(times));
    end_system();
  }

  void add_reference() {
    HeteroSystemTimes times{"one lane, core", "one core computes everything", {}, {}, {}, true};
    for (const int n : options_.prompts) {
      std::vector<double> ms;
      ms.reserve(static_cast<size_t>(options_.rounds));
      for (int round = 0; round < options_.rounds; ++round) {
        ms.push_back(kMsPerS * measure::prefill_seconds(reference_->session, n));
      }
      times.ms.push_back(median(ms));
      times.graphs_ms.push_back(0.0);
      times.of_reference.push_back(1.0);
    }
    measurement_.systems.insert(measurement_.systems.begin(), std::move(times));
  }

  // Tells the cuts and lengths that parts of the measured prompts take, and no others.
  std::string cuts_text(const plan::Plan& plan) const {
    std::vector<plan::Shape> shapes;
    for (const int n_tokens : options_.prompts) {
      for (int done = 0; done < n_tokens;) {
        const plan::Shape part = plan.prompt_chunk(done, n_tokens);
        done += part.n_rows;
        shapes.push_back(plan.body_shape(part.phase, part.n_rows));
      }
    }
    const auto is_taken = [&](const auto& holds_for) {
      return std::any_of(shapes.begin(), shapes.end(), holds_for);
    };
    std::vector<std::string> texts;
    for (const plan::TensorCut& cut : plan.cuts) {
      if (is_taken([&](plan::Shape shape) { return cut.holds_for(cut.subgraph, shape); })) {
        texts.push_back(plan::cut_text(cut));
      }
    }
    for (const plan::LengthCut& length : plan.lengths) {
      if (!is_taken([&](plan::Shape shape) { return plan.length_of(shape) == &length; })) continue;
      texts.push_back(
          fmt::format("{} tokens {}", length.n_tokens, plan::shares_text(length.tokens)));
    }
    return texts.empty() ? "nothing is cut" : fmt::format("{}", fmt::join(texts, "; "));
  }

  plan::Plan step_plan(const std::vector<plan::PlannedLane>& lanes,
                       plan::HandoverKind handover) const {
    plan::Plan plan = prompt_plan(lanes);
    plan.prefill = plan::Prefill::kSame;
    plan.packed_bytes = 0;
    plan.prompt_shapes = {kStepContext};
    plan.handover = handover;
    if (lanes.size() < 2) return plan;
    plan.cuts = {plan::cut_from_text("@step=rows:0:1,1:1")};
    return plan;
  }

  // Measures generation with the rows of every product divided between two cores.
  void measure_steps() {
    using plan::HandoverKind;
    const auto one = machine(step_plan(one_core_, HandoverKind::kOrdinary));
    const std::string rows = "rows on " + plan::lanes_text(two_cores_);
    std::vector<StepWay> ways;
    ways.push_back(
        {rows + ", ordinary handover", machine(step_plan(two_cores_, HandoverKind::kOrdinary))});
    ways.push_back({rows + ", fast handover", machine(step_plan(two_cores_, HandoverKind::kFast))});
    ways.push_back(
        {"one lane of both cores", machine(step_plan(both_cores_, HandoverKind::kOrdinary))});
    measure::ReadProbe one_reads(1), both_read(2);
    const bool has_probes = one_reads.has_room() && both_read.has_room();
    const auto run = [&](HeteroMachine& with, measure::ReadProbe& probe) {
      return measure::decode_run(with.session, kStepContext, options_.n_steps,
                                 has_probes ? &probe : nullptr);
    };
    std::vector<double> rates;
    for (int round = -1; round < options_.rounds; ++round) {
      const measure::DecodeRun alone = run(*one, one_reads);
      if (round >= 0) rates.push_back(alone.tokens_per_s);
      for (StepWay& way : ways) {
        const measure::DecodeRun both = run(*way.with, both_read);
        if (round >= 0) way.add(both, alone);
      }
    }
    const double of_itself = has_probes ? 1.0 : 0.0;
    measurement_.steps.push_back({"one core", median(rates), 1.0, of_itself, of_itself});
    for (StepWay& way : ways) measurement_.steps.push_back(way.medians());
  }

  MeasureHeteroOptions options_;
  gguf::File file_;
  model::Blueprint blueprint_;
  weights::Store weights_;
  std::vector<plan::PlannedLane> one_core_, two_cores_, both_cores_, lanes_;
  std::unique_ptr<HeteroMachine> reference_;
  HeteroMeasurement measurement_;
  uint64_t n_done_ = 0, n_left_ = 0;
};

}  // namespace

const HeteroSystemTimes& HeteroMeasurement::system(const std::string& name) const {
  for (const HeteroSystemTimes& times : systems) {
    if (times.name == name) return times;
  }
  throw Error(fmt::format("No system '{}' was measured.", name));
}

double HeteroMeasurement::gain_over(const std::string& name, size_t prompt) const {
  return system(name).ratio(prompt) / system(kTensorLevel).ratio(prompt);
}

double HeteroMeasurement::gain_over_one_lane(size_t prompt) const {
  double best = 0.0;
  for (const HeteroSystemTimes& times : systems) {
    if (!times.is_single_lane) continue;
    if (best == 0.0 || times.ratio(prompt) < best) best = times.ratio(prompt);
  }
  return best / system(kTensorLevel).ratio(prompt);
}

HeteroMeasurement measure_hetero(const MeasureHeteroOptions& options) {
  return HeteroMeasurer(options).run();
}

}  // namespace troika::papers
