#include "papers/hetero/reproduce_hetero.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/hetero/hetero_runs.h"
#include "papers/npu/npu_runs.h"

namespace troika::papers {
namespace {

constexpr const char* kLlama8b = "llama-3-8b";
constexpr const char* kLlama3b = "llama-3.2-3b";
constexpr const char* kInternLm = "internlm-1.8b";

constexpr std::pair<const char*, HeteroSystem> kSystems[] = {
    {"llama.cpp", HeteroSystem::kCpu},
    {"PPL-OpenCL", HeteroSystem::kGpu},
    {"Hetero-layer", HeteroSystem::kLayer},
    {"Hetero-tensor", HeteroSystem::kTensor}};
constexpr std::pair<const char*, OddLengths> kWays[] = {{"padding", OddLengths::kPadding},
                                                        {"pipe", OddLengths::kPipe},
                                                        {"online-prepare", OddLengths::kPrepare},
                                                        {"chunked", OddLengths::kChunked},
                                                        {"margin", OddLengths::kMargin}};
constexpr const char* kOddPrompts = "tokens of odd prompts";
// Names the system of another paper, which stands beside those of this one.
constexpr const char* kLlmNpu = "llm.npu";

template <typename Choice, size_t n>
Choice chosen(const std::pair<const char*, Choice> (&all)[n], const std::string& name) {
  for (const auto& [known, choice] : all) {
    if (name == known) return choice;
  }
  throw Error(fmt::format("A figure of HeteroLLM is asked for '{}', which is not known.", name));
}

HeteroRun hetero_run_of(const plan::FigureCall& call) {
  HeteroRun run{.model = call.text("model"), .system = chosen(kSystems, call.text("system"))};
  if (call.has("tokens")) run.n_prompt = call.count("tokens");
  if (call.has("handover")) run.has_fast_handover = call.text("handover") == "fast";
  if (call.has("game")) run.has_game = call.text("game") == "yes";
  if (call.has("odd lengths")) run.odd_lengths = chosen(kWays, call.text("odd lengths"));
  return run;
}

double more_percent(double a, double b) { return kPercent * (a / b - 1.0); }

class HeteroReproduction {
 public:
  explicit HeteroReproduction(const PhoneFolder& folder)
      : given_(folder.path, "heterollm"),
        lengths_(given_.counts("tokens of prompts")),
        usual_(given_.count("tokens of the usual prompt")),
        runs_(folder.path),
        npu_(folder.path),
        rows_(folder) {}

  TestReport run() {
    add_figures();
    add_rows(plan::read_simulated(rows_.folder().path + "/simulated/heterollm.json"), figures_,
             &rows_);
    add_orderings();
    return rows_.take("heterollm");
  }

 private:
  // Adds the figures that stand beside published rows as phones/simulated/heterollm.json says.
  void add_figures() {
    const auto add = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model", "system", "tokens", "handover", "odd lengths", "game"},
                   [this, figure_of](const plan::FigureCall& call) {
                     return figure_of(runs_.result(hetero_run_of(call)));
                   });
    };
    add("prompt s", [](const HeteroResult& r) { return r.prompt_s(); });
    add("prompt ms", [](const HeteroResult& r) { return 1e3 * r.prompt_s(); });
    add("graphs s", [](const HeteroResult& r) { return r.graphs_s; });
    add("step rate", [](const HeteroResult& r) { return r.step_rate(); });
    add("frames in time a second",
        [](const HeteroResult& r) { return r.prefill.frames_in_time_per_s(); });
    add("prompt joules", [](const HeteroResult& r) { return r.prefill.joules; });
    add("prompt watts", [](const HeteroResult& r) { return r.prefill.joules / r.prefill.seconds; });
    figures_.add("prompt rate", {"model", "system", "tokens", "handover", "game"},
                 [this](const plan::FigureCall& call) {
                   if (call.text("system") == kLlmNpu) {
                     return llm_npu_rate(call.text("model"), call.count("tokens"));
                   }
                   return runs_.result(hetero_run_of(call)).prompt_rate();
                 });
    figures_.add_published(rows_);
  }

  const HeteroResult& at(const char* model, HeteroSystem system, int n_prompt,
                         bool is_fast = true) {
    return runs_.result(
        {.model = model, .system = system, .n_prompt = n_prompt, .has_fast_handover = is_fast});
  }
  double rate(const char* model, HeteroSystem system, int n_prompt) {
    return at(model, system, n_prompt).prompt_rate();
  }
  const HeteroResult& odd(OddLengths how, int n_prompt) {
    return runs_.result({.model = kLlama8b,
                         .system = HeteroSystem::kLayer,
                         .n_prompt = n_prompt,
                         .odd_lengths = how});
  }
  double mean_over_lengths(const std::function<double(int)>& value) const {
    double sum = 0.0;
    for (const int n : lengths_) sum += value(n);
    return sum / static_cast<double>(lengths_.size());
  }
  double llm_npu_rate(const std::string& model, int n_prompt) {
    return npu_.result({.model = model, .n_prompt = n_prompt}).prefill.tokens_per_s();
  }

  double step_rate(const char* model, HeteroSystem system, bool is_fast = true) {
    return at(model, system, usual_, is_fast).step_rate();
  }

  double prompt_gain(const char* model, HeteroSystem system) {
    return mean_over_lengths([&](int n) {
      return more_percent(at(model, system, n).prompt_rate(),
                          at(model, system, n, /*is_fast=*/false).prompt_rate());
    });
  }
  double step_gain(const char* model) {
    const auto tensor = HeteroSystem::kTensor;
    return step_rate(model, tensor) / step_rate(model, tensor, /*is_fast=*/false);
  }

  // Adds the orderings that the paper states in words.
  void add_orderings() {
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const double share = at(kLlama8b, layer, usual_).down_share;
    rows_.add_ordering(
        fmt::format("FFN-down takes nearly half of the products' time on the NPU (here {:.0f} %)",
                    kPercent * share),
        share > 0.4 && share < 0.5);
    rows_.add_ordering("Hetero-layer generates on the GPU alone",
                       at(kLlama8b, layer, usual_).decodes_on_gpu_alone &&
                           at(kLlama3b, layer, usual_).decodes_on_gpu_alone &&
                           at(kInternLm, layer, usual_).decodes_on_gpu_alone);
    const auto gpu = HeteroSystem::kGpu, cpu = HeteroSystem::kCpu;
    for (const int n : lengths_) {
      const auto slower = [&](HeteroSystem a, HeteroSystem b) {
        return rate(kLlama8b, a, n) < rate(kLlama8b, b, n);
      };
      rows_.add_ordering(fmt::format("{} tokens: Hetero-layer is slower than Hetero-tensor", n),
                         slower(layer, tensor));
      rows_.add_ordering(fmt::format("{} tokens: PPL-OpenCL is slower than Hetero-layer", n),
                         slower(gpu, layer));
      rows_.add_ordering(fmt::format("{} tokens: llama.cpp is slower than PPL-OpenCL", n),
                         slower(cpu, gpu));
    }
    for (const int n : given_.counts(kOddPrompts)) {
      const double ours_s = at(kLlama8b, tensor, n).prompt_s();
      rows_.add_ordering(
          fmt::format("{} tokens: Hetero-tensor is faster than every other method", n),
          ours_s < odd(OddLengths::kPipe, n).prompt_s() &&
              ours_s < odd(OddLengths::kPadding, n).prompt_s() &&
              ours_s < odd(OddLengths::kPrepare, n).prompt_s());
    }
    for (const char* model : {kLlama8b, kLlama3b, kInternLm}) {
      rows_.add_ordering(fmt::format("{}: generation on GPU and NPU beats the GPU alone", model),
                         step_rate(model, tensor) > step_rate(model, gpu));
      rows_.add_ordering(
          fmt::format("{}: fast handovers gain more in generation than in prompts", model),
          kPercent * (step_gain(model) - 1.0) > prompt_gain(model, tensor));
      rows_.add_ordering(
          fmt::format("{}: in prompts they gain more where tensors are divided", model),
          prompt_gain(model, tensor) > prompt_gain(model, layer));
    }
    const auto frames = [&](HeteroSystem system) {
      return runs_.result({.model = kLlama8b, .system = system, .has_game = true})
          .prefill.frames_in_time_per_s();
    };
    rows_.add_ordering("a game keeps more frames beside both than beside PPL-OpenCL",
                       frames(gpu) < std::min(frames(layer), frames(tensor)));
    rows_.add_ordering(
        fmt::format("llm.npu's prompts of {} tokens run at less speed than those of {}", usual_,
                    lengths_.back()),
        llm_npu_rate(kInternLm, usual_) < llm_npu_rate(kInternLm, lengths_.back()));
  }

  Given given_;
  std::vector<int> lengths_;  // the tokens of prompts, the fewest first
  int usual_ = 0;             // the tokens of the prompt where nothing else is said
  HeteroRuns runs_;
  NpuRuns npu_;
  TestRows rows_;
  Figures figures_;
};

}  // namespace

TestReport simulate_heterollm(const PhoneFolder& folder) {
  return HeteroReproduction(folder).run();
}

std::vector<OddPrompts> odd_prompts_of_heterollm(const PhoneFolder& folder) {
  const std::vector<int> prompts = Given(folder.path, "heterollm").counts(kOddPrompts);
  HeteroRuns runs(folder.path);
  std::vector<OddPrompts> systems;
  const auto add = [&](const char* name, HeteroSystem system, OddLengths odd_lengths) {
    OddPrompts& row = systems.emplace_back();
    row.system = name;
    for (const int n : prompts) {
      const HeteroResult& result = runs.result(
          {.model = kLlama8b, .system = system, .n_prompt = n, .odd_lengths = odd_lengths});
      row.prompts.push_back({n, result.prompt_s(), result.graphs_s});
    }
  };
  add("the GPU alone", HeteroSystem::kGpu, OddLengths::kPadding);
  add("online-prepare", HeteroSystem::kLayer, OddLengths::kPrepare);
  add("padding", HeteroSystem::kLayer, OddLengths::kPadding);
  add("chunked, 256", HeteroSystem::kLayer, OddLengths::kChunked);
  add("pipe", HeteroSystem::kLayer, OddLengths::kPipe);
  add("Hetero-tensor by margin", HeteroSystem::kTensor, OddLengths::kMargin);
  add("Hetero-tensor", HeteroSystem::kTensor, OddLengths::kPadding);
  return systems;
}

}  // namespace troika::papers
