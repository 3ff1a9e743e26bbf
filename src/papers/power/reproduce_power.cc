#include "papers/power/reproduce_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/power/power_runs.h"

namespace troika::papers {
namespace {

using plan::NeuronPipeline;
using plan::NeuronSystem;

constexpr const char* kBamboo = "bamboo-7b";
constexpr const char* kMistral = "mistral-7b";
constexpr const char* kMixtral = "mixtral-8x7b";
// Lists the models of section 7.1.
constexpr std::array kPowerModels = {kMistral, "qwen2-7b", kBamboo, "llama-2-13b", kMixtral};
constexpr const char* kAce2 = "8plusgen1";
constexpr const char* kPaper = "powerinfer-2";
// Names the share of the FFN that is in memory where a row says nothing else.
constexpr const char* kHalfOfFfn = "percent of the FFN in memory";
// Names the memory that a program may have, from the least to the most.
constexpr const char* kBudgets = "memory GB";
// Names the group whose rows are the steps of Figure 14, each with one part more than the one
// before.
constexpr const char* kAblation = "ablation (Figure 14)";

// A system that the paper measures. Those without a system of neurons are dense, with all weights
// in memory.
struct MeasuredSystem {
  const char* name;
  std::optional<NeuronSystem> system;
  lanes::Processor dense_on = lanes::Processor::kNpu;
};
constexpr MeasuredSystem kMeasuredSystems[] = {
    {.name = "PowerInfer-2", .system = NeuronSystem::kXpu},
    {.name = "PowerInfer-2 on the CPU alone", .system = NeuronSystem::kPipeline},
    {.name = "with a cache", .system = NeuronSystem::kCache},
    {.name = "with bundles", .system = NeuronSystem::kBundle},
    {.name = "with live neurons only", .system = NeuronSystem::kPlain},
    {.name = "PowerInfer", .system = NeuronSystem::kPowerInfer},
    {.name = "LLMFlash", .system = NeuronSystem::kFlash},
    {.name = "llama.cpp", .system = NeuronSystem::kMap},
    {.name = "llama.cpp in memory", .system = {}, .dense_on = lanes::Processor::kCpu},
    {.name = "MLC", .system = {}, .dense_on = lanes::Processor::kGpu},
    {.name = "QNN", .system = {}, .dense_on = lanes::Processor::kNpu}};

const MeasuredSystem& measured_system(const std::string& name) {
  for (const MeasuredSystem& system : kMeasuredSystems) {
    if (name == system.name) return system;
  }
  throw Error(fmt::format("A figure of PowerInfer-2 is asked for '{}', which is not known.", name));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the mean for "mean", or else the value at the share that the call names, 0 to 1.
double at_point(const std::vector<double>& values, const plan::FigureCall& call) {
  if (values.empty()) {
    throw Error(fmt::format("The figure '{}' is one of an answer's steps, and the run has none.",
                            call.figure));
  }
  if (call.text("at") == "mean") return mean(values);
  const double share = call.number("at");
  if (share >= 0.0 && share <= 1.0) return percentile(values, share);
  throw Error(fmt::format("The figure '{}' needs a share from 0 to 1 as 'at', not {:g}.",
                          call.figure, share));
}

// Returns the plan of a run whose neurons are planned one by one.
const plan::NeuronPlan& plan_of(const PowerResult& result, const plan::FigureCall& call) {
  if (result.plan) return *result.plan;
  throw Error(fmt::format("The figure '{}' needs a system that plans neurons, not '{}'.",
                          call.figure, call.text("system")));
}

// Returns the rate behind the end of so many samples, which end one after the other. Throws Error.
double rate_behind(const PowerResult& result, int n_ended) {
  if (n_ended >= 0 && n_ended < static_cast<int>(result.together.size())) {
    return result.together[static_cast<size_t>(n_ended)].tokens_per_s();
  }
  throw Error(fmt::format("A rate behind the end of {} samples needs more than one that goes on.",
                          n_ended));
}

class PowerReproduction {
 public:
  explicit PowerReproduction(const PhoneFolder& folder)
      : given_(folder.path, kPaper),
        n_samples_(given_.count("samples")),
        n_steps_of_sample_(given_.count("steps of a sample")),
        n_of_long_(given_.count("tokens of a long prompt")),
        runs_(folder.path),
        rows_(folder) {}

  TestReport run() {
    add_figures();
    add_rows(plan::read_simulated(rows_.folder().path + "/simulated/powerinfer-2.json"), figures_,
             &rows_);
    add_offloading_orders();
    add_prompt_orders();
    add_budget_orders();
    add_best_of_four_orders();
    rows_.add_rising(kAblation);
    return rows_.take(kPaper);
  }

 private:
  // Returns the share of the FFN in memory: less for 47B on the smaller phone (section 7.2.1).
  double usual_ffn_share(const std::string& model, const std::string& phone) const {
    return phone == kAce2 && model == kMixtral
               ? given_.share("percent of the FFN of 47B in memory on the smaller phone")
               : given_.share(kHalfOfFfn);
  }
  PowerRun power_run_of(const plan::FigureCall& call) const {
    const MeasuredSystem& system = measured_system(call.text("system"));
    PowerRun run{.model = call.text("model"), .system = system.system, .dense_on = system.dense_on};
    if (call.has("phone")) run.phone = call.text("phone");
    run.ffn_share = usual_ffn_share(run.model, run.phone);
    if (call.has("FFN in memory")) run.ffn_share = call.number("FFN in memory");
    if (call.has("memory GB")) run.memory_gb = call.number("memory GB");
    if (call.has("tokens")) run.n_prompt = call.count("tokens");
    if (call.has("steps")) run.n_steps = call.count("steps");
    if (call.has("blocks ahead")) run.pipeline = NeuronPipeline::kNone;
    if (call.has("samples")) {
      run.n_sequences = call.count("samples");
      run.n_steps = n_steps_of_sample_;
    }
    return run;
  }

  // Adds the figures that stand beside published rows as phones/simulated/powerinfer-2.json says.
  void add_figures() {
    const auto add = [&](const char* name, auto figure_of) {
      figures_.add(name,
                   {"model", "system", "phone", "FFN in memory", "memory GB", "tokens", "steps",
                    "blocks ahead", "at"},
                   [this, figure_of](const plan::FigureCall& call) {
                     return figure_of(runs_.result(power_run_of(call)), call);
                   });
    };
    using Result = const PowerResult&;
    using Call = const plan::FigureCall&;
    add("prompt rate", [](Result r, Call) { return r.tokens_per_s(); });
    add("step rate", [](Result r, Call) { return r.tokens_per_s(); });
    add("step ms", [](Result r, Call call) { return kMsPerS * at_point(r.rate.step_s, call); });
    add("bus GB/s", [](Result r, Call) { return r.rate.bus_gb_s; });
    add("reads alone %", [](Result r, Call) { return kPercent * r.rate.flash_alone_share; });
    add("computing %", [](Result r, Call) { return kPercent * (1.0 - r.rate.flash_alone_share); });
    add("CPU busy %", [](Result r, Call) { return kPercent * r.rate.busy_share[0]; });
    add("watts", [](Result r, Call) { return r.rate.joules / r.rate.seconds; });
    add("joules a token", [](Result r, Call) { return r.rate.joules_per_token(); });
    add("hits %", [](Result r, Call) { return kPercent * (1.0 - r.neurons.miss_rate()); });
    add("misses %", [](Result r, Call call) {
      return kPercent *
             (call.text("at") == "mean" ? r.neurons.miss_rate() : at_point(r.miss_rates, call));
    });
    add("live %",
        [](Result r, Call call) { return kPercent * plan_of(r, call).statistics.live_share; });
    const auto gb = [](uint64_t bytes) { return static_cast<double>(bytes) / kBytesPerGb; };
    add("cache GB", [gb](Result r, Call call) { return gb(plan_of(r, call).cache_bytes); });
    add("cache % of the model", [gb](Result r, Call call) {
      return kPercent * gb(plan_of(r, call).cache_bytes) / gb(r.model_bytes);
    });
    add("predictors GB",
        [gb](Result r, Call call) { return gb(plan_of(r, call).predictor_bytes); });
    add("scales GB", [gb](Result r, Call call) { return gb(plan_of(r, call).scale_bytes); });
    add("no FFN GB",
        [gb](Result r, Call call) { return gb(plan_of(r, call).other_bytes) - r.runtime_gb; });
    // Samples end one after the other. The figure is the rate while `left` of them go on.
    figures_.add("rate together", {"model", "system", "FFN in memory", "samples", "left"},
                 [this](Call call) {
                   const int n_ended = call.count("samples") - call.count("left");
                   return rate_behind(runs_.result(power_run_of(call)), n_ended);
                 });
  }

  double half(const std::string& model, NeuronSystem system) {
    return runs_.result({.model = model, .system = system, .ffn_share = given_.share(kHalfOfFfn)})
        .tokens_per_s();
  }
  double whole(const char* model, NeuronSystem system) {
    return runs_.result({.model = model, .system = system, .ffn_share = 1.0}).tokens_per_s();
  }
  double dense(const char* model, lanes::Processor processor, int n_prompt = 0) {
    return runs_.result({.model = model, .system = {}, .dense_on = processor, .n_prompt = n_prompt})
        .tokens_per_s();
  }
  double at_gb(double gb) {
    return runs_.result({.model = kMixtral, .memory_gb = gb}).tokens_per_s();
  }
  double together(std::optional<NeuronSystem> system, int n) {
    const PowerRun run{.model = kBamboo,
                       .system = system,
                       .ffn_share = 1.0,
                       .n_steps = n_steps_of_sample_,
                       .n_sequences = n_samples_};
    return rate_behind(runs_.result(run), n_samples_ - n);
  }

  // Adds the orderings that the paper states in words.
  void add_offloading_orders() {
    const auto power = NeuronSystem::kPowerInfer, flash = NeuronSystem::kFlash;
    const auto printed = [&](const char* a, const char* b) {
      return given_.number(a) / given_.number(b);
    };
    rows_.add_ordering("PowerInfer loses more by offloading than LLMFlash",
                       printed("PowerInfer, half in memory", "PowerInfer in memory"),
                       printed("LLMFlash, half in memory", "LLMFlash in memory"),
                       half(kMistral, power) / whole(kMistral, power),
                       half(kMistral, flash) / whole(kMistral, flash));
    const auto gain = [&](const char* model) {
      return half(model, NeuronSystem::kXpu) / half(model, flash);
    };
    for (const char* model : kPowerModels) {
      rows_.add_ordering(fmt::format("{}: faster than LLMFlash", model), gain(model) > 1.0);
      rows_.add_ordering(fmt::format("{}: LLMFlash is faster than llama.cpp", model),
                         half(model, flash) > half(model, NeuronSystem::kMap));
    }
    rows_.add_ordering("a ReLU model gains more over LLMFlash than a SiLU model",
                       printed("PowerInfer-2 with SiLU", "LLMFlash with SiLU"),
                       printed("PowerInfer-2 with ReLU", "LLMFlash with ReLU"), gain(kMistral),
                       gain(kBamboo));
    const double ours = whole(kBamboo, NeuronSystem::kXpu);
    const auto cpu = lanes::Processor::kCpu, gpu = lanes::Processor::kGpu,
               npu = lanes::Processor::kNpu;
    rows_.add_ordering("in memory faster than QNN", ours > dense(kBamboo, npu));
    rows_.add_ordering("in memory faster than llama.cpp", ours > dense(kBamboo, cpu));
    rows_.add_ordering("in memory faster than MLC", ours > dense(kBamboo, gpu));
  }

  void add_prompt_orders() {
    const auto prompt = [&](lanes::Processor processor) {
      return dense(kMistral, processor, n_of_long_);
    };
    const double gpu = prompt(lanes::Processor::kGpu);
    rows_.add_ordering("the NPU reads prompts faster than the GPU",
                       prompt(lanes::Processor::kNpu) > gpu);
    rows_.add_ordering("the GPU reads prompts faster than the CPU",
                       gpu > prompt(lanes::Processor::kCpu));
    PowerRun run{.model = kBamboo, .n_prompt = n_of_long_};
    const double ahead = runs_.result(run).tokens_per_s();
    run.pipeline = NeuronPipeline::kNone;
    rows_.add_ordering("reading the next block ahead gains over reading it first",
                       ahead > runs_.result(run).tokens_per_s());
  }

  void add_budget_orders() {
    const std::vector<double>& gb = given_.numbers(kBudgets);
    for (size_t i = 1; i < gb.size(); ++i) {
      rows_.add_ordering(fmt::format("47B: faster with {:g} GB than with {:g}", gb[i], gb[i - 1]),
                         at_gb(gb[i]) > at_gb(gb[i - 1]));
    }
    const double middle = at_gb((gb.front() + gb.back()) / 2.0);
    const double straight = (at_gb(gb.front()) + at_gb(gb.back())) / 2.0;
    rows_.add_ordering(
        fmt::format("47B: speed grows in a line: in the middle {:.0f} % of what a line would give",
                    kPercent * middle / straight),
        std::abs(middle / straight - 1.0) < 0.1);
  }

  void add_best_of_four_orders() {
    const auto ours = NeuronSystem::kXpu, cpu = NeuronSystem::kPipeline;
    rows_.add_ordering("one sample left: QNN is slower than the CPU alone",
                       together({}, 1) < together(cpu, 1));
    for (int n = 2; n <= n_samples_; ++n) {
      rows_.add_ordering(fmt::format("{} samples: faster than the CPU alone", n),
                         together(ours, n) > together(cpu, n));
      rows_.add_ordering(fmt::format("{} samples: faster than QNN", n),
                         together(ours, n) > together({}, n));
    }
  }

  Given given_;
  int n_samples_ = 0, n_steps_of_sample_ = 0;  // a sample ends so many steps after the one before
  int n_of_long_ = 0;                          // the tokens of a long prompt
  PowerRuns runs_;
  TestRows rows_;
  Figures figures_;
};

}  // namespace

TestReport simulate_powerinfer2(const PhoneFolder& folder) {
  return PowerReproduction(folder).run();
}

std::vector<OverlapRow> overlaps_of_powerinfer2(const PhoneFolder& folder) {
  PowerRuns runs(folder.path);
  std::vector<OverlapRow> rows;
  for (const double overlap : {0.0, 0.5, 0.9}) {
    PowerRun run{.model = kBamboo, .overlap = overlap};
    OverlapRow row{overlap, runs.result(run).neurons.miss_rate(), runs.result(run).tokens_per_s()};
    run.pipeline = plan::NeuronPipeline::kMatrix;
    row.by_matrix = runs.result(run).tokens_per_s();
    run.pipeline.reset();
    run.system = NeuronSystem::kFlash;
    row.llmflash = runs.result(run).tokens_per_s();
    rows.push_back(row);
  }
  return rows;
}

std::vector<BudgetRow> budgets_of_powerinfer2(const PhoneFolder& folder) {
  PowerRuns runs(folder.path);
  std::vector<BudgetRow> rows;
  const Given given(folder.path, kPaper);
  for (const double gb : given.numbers(kBudgets)) {
    const auto rate = [&](NeuronSystem system) {
      return runs.result({.model = kMixtral, .system = system, .memory_gb = gb}).tokens_per_s();
    };
    rows.push_back(
        {gb, rate(NeuronSystem::kXpu), rate(NeuronSystem::kFlash), rate(NeuronSystem::kMap)});
  }
  return rows;
}

TimelineTitle trace_pipeline(const PhoneFolder& folder, Trace* trace) {
  PowerRuns runs(folder.path);
  runs.trace({.model = kBamboo}, trace);
  return {.what = kBamboo,
          .how =
              "Virtual phone 8gen3 with the techniques of PowerInfer-2; time is modelled. CPU and "
              "NPU compute clusters of neurons while others are read.",
          .about = "one step, half of the feed-forward weights in memory"};
}

}  // namespace troika::papers
