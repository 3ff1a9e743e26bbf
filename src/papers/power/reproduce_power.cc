#include "papers/power/reproduce_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "papers/power/power_runs.h"
#include "papers/units.h"

namespace troika::papers {
namespace {

using plan::NeuronSystem;

constexpr const char* kBamboo = "bamboo-7b";
constexpr const char* kMistral = "mistral-7b";
constexpr const char* kMixtral = "mixtral-8x7b";
constexpr const char* kLlama13b = "llama-2-13b";
// Section 7.1.
constexpr std::array kPowerModels = {kMistral, "qwen2-7b", kBamboo, kLlama13b, kMixtral};
constexpr const char* kAce2 = "8plusgen1";
constexpr std::array kBudgetsGb = {7.0, 10.0, 13.0, 16.0, 19.0};
constexpr double kLeastGb = 7.0, kMostGb = 19.0;
constexpr int kManySteps = 100;
constexpr int kTokensOfLong = 512, kTokensOfShort = 128;
constexpr int kSamples = 4;
constexpr double kHalfOfFfn = 0.5, kQuarterOfFfn = 0.25;
constexpr double kPercentOfPower = 100.0, kBytesOfGb = 1e9;

constexpr const char* kMotivation = "existing systems, Mistral-7B (Table 2)";
constexpr const char* kOffloaded = "generation, part of the FFN in memory";
constexpr const char* kPromptsOfPower = "prompts";
constexpr const char* kBudgets = "TurboSparse-Mixtral-47B over memory";
constexpr const char* kLatency = "latencies and misses";
constexpr const char* kInMemory = "all in memory";
constexpr const char* kBest = "Best-of-4";
constexpr const char* kAblation = "ablation (Figure 14)";
constexpr const char* kEnergyOfPower = "power and energy";

struct AblationSwitch {
  const char* row;
  NeuronSystem system;
};
constexpr AblationSwitch kAblationSteps[] = {{"pf070", NeuronSystem::kPlain},
                                             {"pf071", NeuronSystem::kBundle},
                                             {"pf072", NeuronSystem::kCache},
                                             {"pf073", NeuronSystem::kPipeline},
                                             {"pf074", NeuronSystem::kXpu}};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class PowerReproduction {
 public:
  explicit PowerReproduction(const PhoneFolder& folder) : runs_(folder.path), rows_(folder) {}

  TestReport run() {
    add_motivation();
    add_offloaded();
    add_prompts();
    add_budgets();
    add_latencies();
    add_in_memory();
    add_best_of_four();
    add_ablation();
    add_energy();
    return rows_.take("powerinfer-2");
  }

 private:
  double half(const std::string& model, NeuronSystem system, const std::string& phone = "8gen3") {
    // 47B on the smaller phone: a quarter (section 7.2.1).
    const bool is_quarter = phone == kAce2 && model == kMixtral;
    return runs_
        .result({.model = model,
                 .system = system,
                 .phone = phone,
                 .ffn_share = is_quarter ? kQuarterOfFfn : kHalfOfFfn})
        .tokens_per_s();
  }
  const PowerResult& half_of(const char* model, NeuronSystem system) {
    return runs_.result({.model = model, .system = system});
  }
  const PowerResult& whole(const char* model, NeuronSystem system) {
    return runs_.result({.model = model, .system = system, .ffn_share = 1.0});
  }
  double dense(const char* model, lanes::Processor processor) {
    return runs_.result({.model = model, .system = std::nullopt, .dense_on = processor})
        .tokens_per_s();
  }
  double prompt(const std::string& model, std::optional<NeuronSystem> system, int n_prompt,
                double ffn_share = kHalfOfFfn, const std::string& phone = "8gen3",
                std::optional<plan::NeuronPipeline> pipeline = {}) {
    return runs_
        .result({.model = model,
                 .system = system,
                 .phone = phone,
                 .ffn_share = ffn_share,
                 .n_prompt = n_prompt,
                 .pipeline = pipeline})
        .tokens_per_s();
  }
  double dense_prompt(lanes::Processor processor) {
    return runs_
        .result({.model = kMistral,
                 .system = std::nullopt,
                 .dense_on = processor,
                 .n_prompt = kTokensOfLong})
        .tokens_per_s();
  }

  void value(const char* id, const char* name, const char* group, TestPart part, double simulated,
             const std::string& inputs = "") {
    rows_.add(id, name, group, TestKind::kValue, simulated, inputs).part = part;
  }
  void ratio(const char* id, const char* name, const char* group, TestPart part, double simulated,
             const std::string& inputs = "") {
    rows_.add(id, name, group, TestKind::kRatio, simulated, inputs).part = part;
  }

  void add_motivation() {
    const auto power = NeuronSystem::kPowerInfer, flash = NeuronSystem::kFlash;
    for (const auto& [id, system] : {std::pair("pf035", power), {"pf036", flash}}) {
      value(id, "in memory", kMotivation, TestPart::kRest, whole(kMistral, system).tokens_per_s());
      value(id, "50 %", kMotivation, TestPart::kRest, half(kMistral, system));
    }
    for (const auto& [name, system] : {std::pair("PowerInfer", power), {"LLMFlash", flash}}) {
      const PowerResult& in_memory = whole(kMistral, system);
      const PowerResult& offloaded = half_of(kMistral, system);
      value("pf037", name, kMotivation, TestPart::kRest, in_memory.rate.bus_gb_s);
      value("pf038", name, kMotivation, TestPart::kRest,
            kPercentOfPower * offloaded.rate.flash_alone_share);
      value("pf039", name, kMotivation, TestPart::kRest,
            kPercentOfPower * offloaded.rate.busy_share[0]);
      value("pf040", name, kMotivation, TestPart::kRest,
            kPercentOfPower * (1.0 - offloaded.tokens_per_s() / in_memory.tokens_per_s()));
    }
    rows_.add_ordering("PowerInfer loses more by offloading than LLMFlash", 1.4 / 12.4, 2.3 / 12.9,
                       half(kMistral, power) / whole(kMistral, power).tokens_per_s(),
                       half(kMistral, flash) / whole(kMistral, flash).tokens_per_s());
  }

  std::vector<double> gains(NeuronSystem over, const std::string& phone) {
    std::vector<double> gains;
    for (const char* model : kPowerModels) {
      gains.push_back(half(model, NeuronSystem::kXpu, phone) / half(model, over, phone));
    }
    return gains;
  }

  void add_offloaded() {
    const std::string five = "five models";
    const std::vector<double> over_flash = gains(NeuronSystem::kFlash, "8gen3");
    const std::vector<double> over_llama = gains(NeuronSystem::kMap, "8gen3");
    const auto best = [](const std::vector<double>& gains) {
      return *std::max_element(gains.begin(), gains.end());
    };
    ratio("pf041", "mean", kOffloaded, TestPart::kDecode, mean(over_flash), five);
    ratio("pf041", "best", kOffloaded, TestPart::kDecode, best(over_flash), five);
    ratio("pf042", "mean", kOffloaded, TestPart::kDecode, mean(over_llama), five);
    ratio("pf042", "best", kOffloaded, TestPart::kDecode, best(over_llama), five);
    ratio("pf043", "LLMFlash", kOffloaded, TestPart::kDecode,
          mean(gains(NeuronSystem::kFlash, kAce2)), five + ", 8+ Gen 1");
    ratio("pf043", "llama.cpp", kOffloaded, TestPart::kDecode,
          mean(gains(NeuronSystem::kMap, kAce2)), five + ", 8+ Gen 1");
    std::vector<double> flash_over_llama;
    for (size_t i = 0; i < kPowerModels.size(); ++i) {
      flash_over_llama.push_back(over_llama[i] / over_flash[i]);
    }
    ratio("pf044", "", kOffloaded, TestPart::kRest, mean(flash_over_llama), five);
    value("pf045", "", kOffloaded, TestPart::kDecode, half(kMixtral, NeuronSystem::kXpu));
    ratio("pf046", "", kOffloaded, TestPart::kDecode,
          half(kBamboo, NeuronSystem::kXpu) / half(kLlama13b, NeuronSystem::kXpu));
    for (const auto& [id, system] :
         {std::pair("pf047", NeuronSystem::kXpu), {"pf048", NeuronSystem::kFlash}}) {
      const double alone = half_of(kBamboo, system).rate.flash_alone_share;
      value(id, "compute", kOffloaded, TestPart::kRest, kPercentOfPower * (1.0 - alone));
      value(id, "I/O", kOffloaded, TestPart::kRest, kPercentOfPower * alone);
    }
    for (const auto& [id, model] : {std::pair("pf061", kMistral), {"pf062", kBamboo}}) {
      value(id, "PowerInfer-2", kOffloaded, TestPart::kDecode, half(model, NeuronSystem::kXpu));
      value(id, "LLMFlash", kOffloaded, TestPart::kRest, half(model, NeuronSystem::kFlash));
    }
    for (size_t i = 0; i < kPowerModels.size(); ++i) {
      rows_.add_ordering(fmt::format("{}: faster than LLMFlash", kPowerModels[i]),
                         over_flash[i] > 1.0);
      rows_.add_ordering(fmt::format("{}: LLMFlash is faster than llama.cpp", kPowerModels[i]),
                         flash_over_llama[i] > 1.0);
    }
    rows_.add_ordering("a ReLU model gains more over LLMFlash than a SiLU model", 2.4, 4.6,
                       over_flash[0], over_flash[2]);
  }

  void add_prompts() {
    const auto cpu = lanes::Processor::kCpu, gpu = lanes::Processor::kGpu,
               npu = lanes::Processor::kNpu;
    value("pf034", "NPU", kPromptsOfPower, TestPart::kRest, dense_prompt(npu));
    value("pf034", "GPU", kPromptsOfPower, TestPart::kRest, dense_prompt(gpu));
    value("pf034", "CPU", kPromptsOfPower, TestPart::kRest, dense_prompt(cpu));
    const auto over = [&](NeuronSystem system, int n, const std::string& phone,
                          std::optional<plan::NeuronPipeline> pipeline = {}) {
      std::vector<double> gains;
      for (const char* model : kPowerModels) {
        const double share = phone == kAce2 && model == kMixtral ? kQuarterOfFfn : kHalfOfFfn;
        gains.push_back(prompt(model, NeuronSystem::kXpu, n, share, phone) /
                        prompt(model, system, n, share, phone, pipeline));
      }
      return gains;
    };
    const std::string five = "mean of five models";
    ratio("pf049", "LLMFlash", kPromptsOfPower, TestPart::kPrompt,
          mean(over(NeuronSystem::kFlash, kTokensOfLong, "8gen3")), five);
    ratio("pf049", "llama.cpp", kPromptsOfPower, TestPart::kPrompt,
          mean(over(NeuronSystem::kMap, kTokensOfLong, "8gen3")), five);
    ratio("pf049", "QNN", kPromptsOfPower, TestPart::kPrompt,
          mean(over(NeuronSystem::kXpu, kTokensOfLong, "8gen3", plan::NeuronPipeline::kNone)),
          five + "; a block is read before it is computed");
    ratio("pf050", "LLMFlash", kPromptsOfPower, TestPart::kPrompt,
          mean(over(NeuronSystem::kFlash, kTokensOfLong, kAce2)), five);
    ratio("pf050", "llama.cpp", kPromptsOfPower, TestPart::kPrompt,
          mean(over(NeuronSystem::kMap, kTokensOfLong, kAce2)), five);
    const std::vector<double> brief = over(NeuronSystem::kFlash, kTokensOfShort, "8gen3");
    ratio("pf051", "", kPromptsOfPower, TestPart::kPrompt,
          *std::max_element(brief.begin(), brief.end()), "the best of five models");
    value("pf063", "PowerInfer-2", kPromptsOfPower, TestPart::kPrompt,
          prompt(kBamboo, NeuronSystem::kXpu, kTokensOfLong, 1.0));
    value("pf063", "QNN", kPromptsOfPower, TestPart::kRest, dense_prompt(npu));
    ratio("pf063", "over other frameworks", kPromptsOfPower, TestPart::kPrompt,
          prompt(kBamboo, NeuronSystem::kXpu, kTokensOfLong, 1.0) /
              std::max(dense_prompt(cpu), dense_prompt(gpu)),
          "over the faster of CPU and GPU");
    value("pf064", "", kPromptsOfPower, TestPart::kPrompt,
          prompt(kBamboo, NeuronSystem::kXpu, kTokensOfLong));
    rows_.add_ordering("the NPU reads prompts faster than the GPU",
                       dense_prompt(npu) > dense_prompt(gpu));
    rows_.add_ordering("the GPU reads prompts faster than the CPU",
                       dense_prompt(gpu) > dense_prompt(cpu));
    rows_.add_ordering("reading the next block ahead gains over reading it first",
                       prompt(kBamboo, NeuronSystem::kXpu, kTokensOfLong) >
                           prompt(kBamboo, NeuronSystem::kXpu, kTokensOfLong, kHalfOfFfn, "8gen3",
                                  plan::NeuronPipeline::kNone));
  }

  double at_gb(NeuronSystem system, double gb) {
    return runs_.result({.model = kMixtral, .system = system, .memory_gb = gb}).tokens_per_s();
  }

  void add_budgets() {
    const auto ours = NeuronSystem::kXpu, flash = NeuronSystem::kFlash;
    const double least = at_gb(ours, kLeastGb), most = at_gb(ours, kMostGb);
    value("pf052", "PowerInfer-2", kBudgets, TestPart::kDecode, least);
    ratio("pf052", "over LLMFlash", kBudgets, TestPart::kDecode, least / at_gb(flash, kLeastGb));
    value("pf053", "PowerInfer-2", kBudgets, TestPart::kDecode, most);
    ratio("pf053", "over LLMFlash", kBudgets, TestPart::kDecode, most / at_gb(flash, kMostGb));
    ratio("pf053", "over llama.cpp", kBudgets, TestPart::kDecode,
          most / at_gb(NeuronSystem::kMap, kMostGb));
    const PowerResult& at_least =
        runs_.result({.model = kMixtral, .system = ours, .memory_gb = kLeastGb});
    const plan::NeuronPlan& plan = *at_least.plan;
    const auto gb = [](uint64_t bytes) { return static_cast<double>(bytes) / kBytesOfGb; };
    value("pf055", "non-FFN", kBudgets, TestPart::kRest,
          gb(plan.other_bytes) - at_least.runtime_gb);
    value("pf055", "predictors", kBudgets, TestPart::kRest, gb(plan.predictor_bytes));
    value("pf055", "FFN scales", kBudgets, TestPart::kRest, gb(plan.scale_bytes));
    value("pf055", "cache", kBudgets, TestPart::kRest, gb(plan.cache_bytes));
    for (size_t i = 1; i < kBudgetsGb.size(); ++i) {
      rows_.add_ordering(
          fmt::format("47B: faster with {:g} GB than with {:g}", kBudgetsGb[i], kBudgetsGb[i - 1]),
          at_gb(ours, kBudgetsGb[i]) > at_gb(ours, kBudgetsGb[i - 1]));
    }
    const double middle = at_gb(ours, (kLeastGb + kMostGb) / 2.0);
    const double straight = (least + most) / 2.0;
    rows_.add_ordering(
        fmt::format("47B: speed grows in a line: in the middle {:.0f} % of what a line would give",
                    kPercentOfPower * middle / straight),
        std::abs(middle / straight - 1.0) < 0.1);
  }

  void add_latencies() {
    for (const auto& [name, model] : {std::pair("47B", kMixtral), {"Bamboo-7B", kBamboo}}) {
      const PowerResult& many = runs_.result({.model = model, .n_steps = kManySteps});
      const std::vector<double>& steps = many.rate.step_s;
      value("pf057", name, kLatency, TestPart::kDecode, kMsPerS * mean(steps));
      value("pf058", name, kLatency, TestPart::kDecode, kMsPerS * at_share(steps, 0.5));
      value("pf059", name, kLatency, TestPart::kDecode, kMsPerS * at_share(steps, 0.9));
      value("pf060", name, kLatency, TestPart::kDecode, kMsPerS * at_share(steps, 0.99));
    }
    const PowerResult& mixtral = runs_.result({.model = kMixtral, .n_steps = kManySteps});
    value("pf032", "mean", kLatency, TestPart::kRest,
          kPercentOfPower * mixtral.neurons.miss_rate());
    value("pf032", "P99", kLatency, TestPart::kRest,
          kPercentOfPower * at_share(mixtral.miss_rates, 0.99));
    value("pf033", "", kLatency, TestPart::kRest,
          kPercentOfPower * (1.0 - half_of(kBamboo, NeuronSystem::kCache).neurons.miss_rate()));
  }

  void add_in_memory() {
    const double ours = whole(kBamboo, NeuronSystem::kXpu).tokens_per_s();
    const double cpu = dense(kBamboo, lanes::Processor::kCpu);
    const double gpu = dense(kBamboo, lanes::Processor::kGpu);
    const double npu = dense(kBamboo, lanes::Processor::kNpu);
    ratio("pf065", "llama.cpp", kInMemory, TestPart::kDecode, ours / cpu);
    ratio("pf065", "MLC", kInMemory, TestPart::kDecode, ours / gpu);
    ratio("pf065", "QNN", kInMemory, TestPart::kDecode, ours / npu);
    const double all = static_cast<double>(whole(kBamboo, NeuronSystem::kXpu).plan->cache_bytes);
    const double some = static_cast<double>(half_of(kBamboo, NeuronSystem::kXpu).plan->cache_bytes);
    value("pf066", "saved", kInMemory, TestPart::kRest, (all - some) / kBytesOfGb);
    value("pf066", "share", kInMemory, TestPart::kRest,
          kPercentOfPower * (all - some) /
              static_cast<double>(whole(kBamboo, NeuronSystem::kXpu).model_bytes));
    rows_.add_ordering("in memory faster than QNN", ours > npu);
    rows_.add_ordering("in memory faster than llama.cpp", ours > cpu);
    rows_.add_ordering("in memory faster than MLC", ours > gpu);
  }

  // The batch falls by one every four iterations (section 7.4).
  double together(std::optional<NeuronSystem> system, int n) {
    const PowerRun run{.model = kBamboo,
                       .system = system,
                       .ffn_share = 1.0,
                       .n_steps = 4,
                       .n_sequences = kSamples};
    return runs_.result(run).together[static_cast<size_t>(kSamples - n)].tokens_per_s();
  }

  void add_best_of_four() {
    const auto ours = NeuronSystem::kXpu, cpu = NeuronSystem::kPipeline;
    ratio("pf067", "QNN", kBest, TestPart::kDecode, together(ours, 4) / together({}, 4));
    ratio("pf067", "CPU only", kBest, TestPart::kDecode, together(ours, 4) / together(cpu, 4));
    ratio("pf069", "CPU only", kBest, TestPart::kDecode, together(ours, 1) / together(cpu, 1));
    ratio("pf069", "QNN", kBest, TestPart::kDecode, together(ours, 1) / together({}, 1));
    rows_.add_ordering("one sample left: QNN is slower than the CPU alone",
                       together({}, 1) < together(cpu, 1));
    for (int n = 2; n <= kSamples; ++n) {
      rows_.add_ordering(fmt::format("{} samples: faster than the CPU alone", n),
                         together(ours, n) > together(cpu, n));
      rows_.add_ordering(fmt::format("{} samples: faster than QNN", n),
                         together(ours, n) > together({}, n));
    }
  }

  void add_ablation() {
    double before = 0.0, published_before = 0.0;
    for (const auto& [id, system] : kAblationSteps) {
      const double rate = half(kBamboo, system);
      const double published = *rows_.row_of(id).values[0].value;
      value(id, "", kAblation, TestPart::kDecode, rate);
      if (before > 0.0) {
        rows_.add_ordering(
            fmt::format("{} is faster than the step before", plan::neuron_system_name(system)),
            published_before, published, before, rate);
      }
      before = rate;
      published_before = published;
    }
  }

  void add_energy() {
    const auto of = [&](const PowerResult& result, const char* name) {
      value("pf076", name, kEnergyOfPower, TestPart::kRest, result.rate.joules_per_token(),
            "Bamboo-7B, all in memory, generation");
      return result.rate.joules / result.rate.seconds;
    };
    const double ours = of(whole(kBamboo, NeuronSystem::kXpu), "PowerInfer-2");
    const double qnn = of(runs_.result({.model = kBamboo, .system = std::nullopt}), "QNN");
    (void)of(runs_.result(
                 {.model = kBamboo, .system = std::nullopt, .dense_on = lanes::Processor::kCpu}),
             "llama.cpp");
    value("pf075", "PowerInfer-2", kEnergyOfPower, TestPart::kRest, ours, "mean, not peak");
    value("pf075", "QNN", kEnergyOfPower, TestPart::kRest, qnn, "mean, not peak");
  }

  PowerRuns runs_;
  TestRows rows_;
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
  for (const double gb : kBudgetsGb) {
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
  return {"One step of bamboo-7b, half of its FFN in memory",
          "8gen3 with powerinfer-2: clusters of neurons on CPU and NPU while others are read"};
}

}  // namespace troika::papers
