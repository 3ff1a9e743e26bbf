#include "papers/hetero/reproduce_hetero.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "papers/hetero/hetero_runs.h"
#include "papers/npu_runs.h"

namespace troika::papers {
namespace {

constexpr const char* kLlama8b = "llama-3-8b";
constexpr const char* kLlama7b = "llama-2-7b";
constexpr const char* kLlama3b = "llama-3.2-3b";
constexpr const char* kInternLm = "internlm-1.8b";
// Section 5.2.1.
constexpr std::array kLengths = {64, 256, 1024};
constexpr int kUsual = 256;
constexpr int kLong = 1024;
// Section 5.2.2 names 135, 525 and 1000; 300 and 600 are the examples of section 4.1.
constexpr std::array kOddLengths = {135, 300, 525, 600, 1000};
// A few tokens above each standard length, where padding costs most.
constexpr std::array kJustAbove = {40, 72, 136, 264, 520};
constexpr double kPercent = 100.0;

constexpr const char* kPrompts = "prompts, HeteroLLM";
constexpr const char* kOthers = "prompts beside other engines";
constexpr const char* kOdd = "prompts of odd lengths";
constexpr const char* kGeneration = "generation, HeteroLLM";
constexpr const char* kHandover = "what fast handovers gain";
constexpr const char* kEnergy = "power and energy of a prompt";
constexpr const char* kGame = "prompts beside a game";

double more_percent(double a, double b) { return kPercent * (a / b - 1.0); }

class HeteroReproduction {
 public:
  explicit HeteroReproduction(const PhoneFolder& folder)
      : runs_(folder.path), npu_(folder.path), rows_(folder) {}

  TestReport run() {
    add_prompts();
    add_over_others();
    add_odd_lengths();
    add_generation();
    add_handovers();
    add_energy();
    add_game();
    add_orderings();
    return rows_.take("heterollm");
  }

 private:
  const HeteroResult& at(const char* model, HeteroSystem system, int n_prompt = kUsual,
                         bool is_fast = true) {
    return runs_.result(
        {.model = model, .system = system, .n_prompt = n_prompt, .has_fast_handover = is_fast});
  }
  double rate(const char* model, HeteroSystem system, int n_prompt = kUsual) {
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
    for (const int n : kLengths) sum += value(n);
    return sum / kLengths.size();
  }
  double published(const char* id, const std::string& name) const {
    for (const plan::PublishedValue& value : rows_.row_of(id).values) {
      if (value.name == name && value.value) return *value.value;
    }
    throw Error(fmt::format("The published row '{}' has no value '{}'.", id, name));
  }

  void add_value(const char* id, const char* name, const char* group, TestPart part,
                 double simulated, const std::string& inputs) {
    rows_.add(id, name, group, TestKind::kValue, simulated, inputs).part = part;
  }
  void add_ratio(const char* id, const char* name, const char* group, TestPart part,
                 double simulated, const std::string& inputs) {
    rows_.add(id, name, group, TestKind::kRatio, simulated, inputs).part = part;
  }

  void add_prompts() {
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const auto add = [&](const char* id, const char* name, const char* model, HeteroSystem system,
                         int n) {
      add_value(id, name, kPrompts, TestPart::kPrompt, rate(model, system, n),
                fmt::format("{}, {} tokens", model, n));
    };
    add("hf037", "", kLlama8b, tensor, kLong);
    add("hf038", "", kLlama8b, tensor, kUsual);
    add_value("hf039", "", kPrompts, TestPart::kPrompt,
              at(kLlama8b, tensor, kUsual, /*is_fast=*/false).prompt_rate(),
              "the plan of the fast handover");
    add("hf040", "", kLlama8b, layer, kUsual);
    add("hf041", "PPL-OpenCL", kLlama8b, HeteroSystem::kGpu, kUsual);
    add("hf041", "llama.cpp", kLlama8b, HeteroSystem::kCpu, kUsual);
    add("hf042", "llama.cpp", kLlama8b, HeteroSystem::kCpu, kLong);
    add("hf043", "", kInternLm, tensor, kUsual);
    add_value("hf044", "", kPrompts, TestPart::kRest, llm_npu_rate(kUsual),
              fmt::format("{} with llm.npu's system", kInternLm));
    const auto gain = [&](int n) {
      return more_percent(rate(kLlama8b, tensor, n), rate(kLlama8b, layer, n));
    };
    add_ratio("hf034", "", kPrompts, TestPart::kPrompt, mean_over_lengths(gain),
              "mean over 64, 256 and 1024 tokens");
    add_ratio("hf035", "", kPrompts, TestPart::kPrompt, gain(kUsual), "");
    add_ratio("hf036", "", kPrompts, TestPart::kPrompt, 1.0 + gain(kLong) / kPercent, "");
    const double share = at(kLlama8b, layer).down_share;
    rows_.add_ordering(
        fmt::format("FFN-down takes nearly half of the products' time on the NPU (here {:.0f} %)",
                    kPercent * share),
        share > 0.4 && share < 0.5);
  }

  double llm_npu_rate(int n_prompt) {
    return npu_.result({.model = kInternLm, .n_prompt = n_prompt}).prefill.tokens_per_s();
  }

  // Where the other engine is one of whose kernels no row tells, its published speed counts.
  void add_over_others() {
    const auto add = [&](const char* id, const char* name, double ours, double theirs,
                         bool is_published) {
      add_ratio(id, name, kOthers, is_published ? TestPart::kRecombined : TestPart::kPrompt,
                ours / theirs, is_published ? "over its published speed" : "");
    };
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const double layer_256 = rate(kLlama8b, layer), layer_1024 = rate(kLlama8b, layer, kLong);
    const double tensor_1024 = rate(kLlama8b, tensor, kLong);
    const double cpu_1024 = rate(kLlama8b, HeteroSystem::kCpu, kLong);
    add("hf029", "MNN-OpenCL", layer_256, published("hf041", "MNN"), true);
    add("hf029", "llama.cpp", layer_256, rate(kLlama8b, HeteroSystem::kCpu), false);
    add("hf029", "MLC", layer_256, published("hf041", "MLC"), true);
    add("hf029", "PPL-OpenCL", layer_256, rate(kLlama8b, HeteroSystem::kGpu), false);
    for (const auto& [id, ours] : {std::pair("hf032", layer_1024), {"hf033", tensor_1024}}) {
      add(id, "llama.cpp", ours, cpu_1024, false);
      add(id, "MLC", ours, published("hf042", "MLC"), true);
      add(id, "MNN", ours, published("hf042", "MNN"), true);
    }
    const double layer_64 = rate(kLlama8b, layer, 64);
    rows_.add_range("hf030", "", kOthers,
                    {layer_64 / rate(kLlama8b, HeteroSystem::kGpu, 64),
                     layer_64 / rate(kLlama8b, HeteroSystem::kCpu, 64)},
                    "over PPL-OpenCL and llama.cpp; no speeds of the others are printed");
    rows_.add_range(
        "hf031", "", kOthers,
        {layer_1024 / rate(kLlama8b, HeteroSystem::kGpu, kLong), layer_1024 / cpu_1024,
         layer_1024 / published("hf042", "MNN"), layer_1024 / published("hf042", "MLC")},
        "over all four, MNN and MLC as published");
    add_ratio("hf047", "PPL", kOthers, TestPart::kPrompt, mean_over_lengths([&](int n) {
                return rate(kLlama3b, tensor, n) / rate(kLlama3b, HeteroSystem::kGpu, n);
              }),
              "mean over 64, 256 and 1024 tokens");
  }

  void add_odd_lengths() {
    const HeteroResult& made = odd(OddLengths::kPrepare, 135);
    add_ratio("hf027", "share", kOdd, TestPart::kPrompt, kPercent * made.graphs_s / made.prompt_s(),
              "135 tokens");
    add_value("hf027", "total", kOdd, TestPart::kPrompt, 1e3 * made.prompt_s(), "135 tokens");
    const auto over = [&](OddLengths how, int n) {
      return odd(how, n).prompt_s() / at(kLlama8b, HeteroSystem::kTensor, n).prompt_s();
    };
    for (const auto& [name, how] : {std::pair("online-prepare", OddLengths::kPrepare),
                                    {"padding", OddLengths::kPadding},
                                    {"pipe", OddLengths::kPipe}}) {
      add_ratio("hf048", name, kOdd, TestPart::kPrompt, over(how, 525), "525 tokens");
    }
    double sum = 0.0;
    for (const int n : kJustAbove) sum += over(OddLengths::kPadding, n);
    add_ratio("hf050", "", kOdd, TestPart::kPrompt, sum / kJustAbove.size(),
              "mean over 40, 72, 136, 264 and 520 tokens");
    std::vector<double> less;
    less.reserve(kOddLengths.size());
    for (const int n : kOddLengths) {
      less.push_back(kPercent * (1.0 - 1.0 / over(OddLengths::kPipe, n)));
    }
    rows_.add_range("hf051", "", kOdd, less, "135, 300, 525, 600 and 1000 tokens");
  }

  double step_rate(const char* model, HeteroSystem system, bool is_fast = true) {
    return at(model, system, kUsual, is_fast).step_rate();
  }

  void add_generation() {
    const auto tensor = HeteroSystem::kTensor, gpu = HeteroSystem::kGpu;
    for (const auto& [id, name, model] : {std::tuple("hf052", "Llama-8B", kLlama8b),
                                          {"hf053", "Llama-3B", kLlama3b},
                                          {"hf054", "InternLM-1.8B", kInternLm}}) {
      const double ours = step_rate(model, tensor), theirs = step_rate(model, gpu);
      add_value(id, "", kGeneration, TestPart::kDecode, ours, model);
      add_ratio("hf055", name, kGeneration, TestPart::kDecode, more_percent(ours, theirs), model);
      add_value("hf056", name, kGeneration, TestPart::kDecode, theirs, model);
    }
    const double llama = step_rate(kLlama8b, tensor), intern = step_rate(kInternLm, tensor);
    const auto add_other = [&](const char* id, const char* name, const char* ours_id, double ours) {
      const double theirs = published(ours_id, "") / published(id, name);
      add_ratio(id, name, kGeneration, TestPart::kRecombined, ours / theirs,
                "over its published speed");
    };
    add_other("hf057", "MNN", "hf052", llama);
    add_other("hf057", "MLC", "hf052", llama);
    add_ratio("hf057", "llama.cpp", kGeneration, TestPart::kDecode,
              llama / step_rate(kLlama8b, HeteroSystem::kCpu), "");
    add_other("hf058", "MNN", "hf054", intern);
    add_other("hf058", "MLC", "hf054", intern);
    rows_.add_ordering("Hetero-layer generates on the GPU alone",
                       at(kLlama8b, HeteroSystem::kLayer).decodes_on_gpu_alone &&
                           at(kLlama3b, HeteroSystem::kLayer).decodes_on_gpu_alone &&
                           at(kInternLm, HeteroSystem::kLayer).decodes_on_gpu_alone);
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

  void add_handovers() {
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const std::string inputs = "mean over 64, 256 and 1024 tokens";
    for (const auto& [id, name, model, system] :
         {std::tuple("hf060", "Hetero-layer", kLlama8b, layer),
          {"hf060", "Hetero-tensor", kLlama8b, tensor},
          {"hf061", "Llama-7B", kLlama7b, tensor},
          {"hf061", "InternLM-1.8B", kInternLm, tensor},
          {"hf062", "Llama-7B", kLlama7b, layer},
          {"hf062", "InternLM-1.8B", kInternLm, layer}}) {
      add_ratio(id, name, kHandover, TestPart::kPrompt, prompt_gain(model, system), inputs);
    }
    add_ratio("hf063", "gain", kHandover, TestPart::kDecode, step_gain(kLlama8b), "");
    add_value("hf063", "without", kHandover, TestPart::kDecode,
              step_rate(kLlama8b, tensor, /*is_fast=*/false), "");
    rows_.add_range("hf064", "", kHandover,
                    {step_gain(kLlama7b), step_gain(kLlama3b), step_gain(kInternLm)},
                    "Llama-7B, Llama-3B and InternLM-1.8B");
  }

  void add_energy() {
    const auto& tensor = at(kLlama8b, HeteroSystem::kTensor).prefill;
    const auto& layer = at(kLlama8b, HeteroSystem::kLayer).prefill;
    const auto& gpu = at(kLlama8b, HeteroSystem::kGpu).prefill;
    const auto watts = [](const measure::SimulatedRate& r) { return r.joules / r.seconds; };
    const auto part = TestPart::kRest;
    add_ratio("hf069", "increase", kEnergy, part, more_percent(watts(tensor), watts(layer)), "");
    add_value("hf069", "", kEnergy, part, watts(tensor), "");
    add_ratio("hf071", "", kEnergy, part, gpu.seconds / tensor.seconds, "");
    add_ratio("hf072", "", kEnergy, part, more_percent(tensor.joules, layer.joules), "");
    add_ratio("hf073", "efficiency", kEnergy, part, gpu.joules / tensor.joules, "");
    add_value("hf073", "Hetero-tensor", kEnergy, part, tensor.joules, "");
    add_value("hf073", "Hetero-layer", kEnergy, part, layer.joules, "");
    add_value("hf073", "PPL-OpenCL", kEnergy, part, gpu.joules, "");
  }

  void add_game() {
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const auto beside = [&](HeteroSystem system) -> const measure::SimulatedRate& {
      return runs_.result({.model = kLlama8b, .system = system, .has_game = true}).prefill;
    };
    const auto part = TestPart::kRest;
    for (const auto& [name, system] :
         {std::pair("Hetero-layer", layer), {"Hetero-tensor", tensor}}) {
      add_ratio("hf065", name, kGame, part,
                more_percent(beside(system).tokens_per_s(), rate(kLlama8b, system)),
                "how much of the GPU the game takes is assumed");
    }
    add_ratio("hf066", "", kGame, part,
              more_percent(beside(tensor).tokens_per_s(), rate(kLlama8b, layer)), "likewise");
    const auto frames = [&](HeteroSystem system) { return beside(system).frames_in_time_per_s(); };
    add_value("hf067", "Hetero-layer, Hetero-tensor", kGame, part,
              std::min(frames(layer), frames(tensor)), "the lower of both; frames in time");
    add_value("hf067", "PPL-OpenCL", kGame, part, frames(HeteroSystem::kGpu),
              "its queue is always full");
    rows_.add_ordering("a game keeps more frames beside both than beside PPL-OpenCL",
                       frames(HeteroSystem::kGpu) < std::min(frames(layer), frames(tensor)));
  }

  void add_orderings() {
    const auto tensor = HeteroSystem::kTensor, layer = HeteroSystem::kLayer;
    const auto gpu = HeteroSystem::kGpu, cpu = HeteroSystem::kCpu;
    for (const int n : kLengths) {
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
    for (const int n : kOddLengths) {
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
    rows_.add_ordering("llm.npu's prompts of 256 tokens run at less speed than those of 1024",
                       llm_npu_rate(kUsual) < llm_npu_rate(kLong));
  }

  HeteroRuns runs_;
  NpuRuns npu_;
  TestRows rows_;
};

}  // namespace

TestReport simulate_heterollm(const PhoneFolder& folder) {
  return HeteroReproduction(folder).run();
}

}  // namespace troika::papers
