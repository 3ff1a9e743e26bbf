#include "papers/reproduce_npu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "papers/baselines.h"
#include "papers/npu_memory.h"
#include "papers/npu_runs.h"
#include "papers/npu_speeds.h"

namespace troika::papers {
namespace {

constexpr const char* kAblated[] = {"qwen1.5-1.8b", "gemma-2b", "llama-2-7b"};
constexpr int kAblationTokens = 512;  // Figure 19
constexpr int kPromptSamples = 8;     // of the range of lengths of a task
// Constants that no row fixes, and that much hangs on.
constexpr std::string_view kDeclared[] = {"cpu.vector_gflops", "cpu.launch_us", "npu.int8_tops"};
constexpr double kNoLimitGb = 1000.0;  // of an NPU that holds any model

const char* known_of(std::string_view text) {
  for (const NpuModel& name : kNpuModels) {
    if (text.starts_with(name.published)) return name.known;
  }
  return nullptr;
}

bool is_ours(const plan::PublishedRow& row) { return row.what.starts_with("llm.npu: end to end"); }
bool is_of_table5(const plan::PublishedRow& row) {
  return row.paper == "llm.npu" && row.where == "Table 5" &&
         row.what.find(": end to end") != std::string::npos;
}
// Cells that the paper contradicts itself, and figures taken from another paper.
std::string why_not_counted(const plan::PublishedRow& row) {
  if (row.note.find("K4") != std::string::npos) return "contradicts the paper's own cells (K4)";
  if (row.what.starts_with("PowerInfer-V2")) return "copied there from another paper";
  return {};
}

// The task of a row: "LongBench 2wiki" behind the model's name.
std::string task_of(const plan::PublishedRow& row) {
  const size_t begin = row.configuration.find(", ") + 2;
  return row.configuration.substr(begin, row.configuration.find(", prompt") - begin);
}

class Reproduction {
 public:
  Reproduction(const PhoneFolder& folder, const std::vector<plan::ConstantChoice>& constants)
      : folder_(folder), runs_(folder.path, constants), rows_(folder) {}

  TestReport run() {
    add_table5();
    add_speedups();
    add_simulated_speeds(runs_, rows_);
    add_prompt_shares(runs_, rows_);
    add_rates();
    add_scheduling();
    add_ablation();
    add_memory();
    add_energy();
    add_gpu();
    add_orderings();
    return rows_.take("llm.npu");
  }

 private:
  struct Cell {
    double prefill_s = 0.0, decode_s = 0.0;
    double of(const std::string& name) const {
      return name == "prefill" ? prefill_s : name == "decode" ? decode_s : prefill_s + decode_s;
    }
  };

  const plan::PublishedRow& row_of(const std::string& id) const { return rows_.row_of(id); }
  TestRow& add(const std::string& id, const std::string& name, const char* group, TestKind kind,
               double simulated, const std::string& inputs) {
    return rows_.add(id, name, group, kind, simulated, inputs);
  }
  TestRow& add_range(const std::string& id, const std::string& name, const char* group,
                     const std::vector<double>& simulated, const std::string& inputs) {
    return rows_.add_range(id, name, group, simulated, inputs);
  }

  // The mean over prompts of a task, as the paper's cells are (section 4.1).
  Cell cell(const char* known, const TaskLengths& lengths, NpuRun run = {}) {
    Cell mean;
    run.model = known;
    for (const int n_prompt : lengths.prompts(kPromptSamples)) {
      run.n_prompt = n_prompt;
      const NpuResult& result = runs_.result(run);
      mean.prefill_s += result.prefill.seconds / kPromptSamples;
      mean.decode_s += result.step_s * lengths.output / kPromptSamples;
    }
    return mean;
  }

  // What a figure would be if the NPU's memory had no limit, where it has an effect (N9).
  std::string limit_text(const char* known, const TaskLengths& lengths, const std::string& name) {
    NpuRun run;
    run.model = known;
    run.n_prompt = lengths.prompts(kPromptSamples).front();
    const double share = runs_.result(run).npu_share;
    if (share == 1.0 || name == "decode") return {};
    run.has_memory_limit = false;
    return fmt::format("; {:.0f} % of the products are on the NPU, with all of them {:.3g} s",
                       100.0 * share, cell(known, lengths, run).of(name));
  }

  void add_table5() {
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper != "llm.npu" || !is_ours(row)) continue;
      const char* known = known_of(row.configuration);
      if (known == nullptr) continue;
      const TaskLengths lengths = task_lengths(row);
      const Cell ours = cell(known, lengths);
      for (const plan::PublishedValue& value : row.values) {
        TestRow& added = rows_.add(
            row, value, "llm.npu, whole tasks (Table 5)", TestKind::kValue, ours.of(value.name),
            fmt::format("{}, {}, {:g} to {:g} tokens, then {:g}{}", known, task_of(row),
                        lengths.shortest_prompt, lengths.longest_prompt, lengths.output,
                        limit_text(known, lengths, value.name)));
        added.reason = why_not_counted(row);
        if (value.name == "prefill") added.part = TestPart::kPrompt;
        if (value.name == "decode") added.part = TestPart::kDecode;
      }
    }
  }

  // Geometric means over the models of a task: the other engines as published, ours simulated.
  void add_speedups() {
    const struct {
      const char* id;
      const char* task;
    } kRows[] = {{"nf074", "LongBench 2wiki"},
                 {"nf097", "LongBench TriviaQA"},
                 {"nf120", "DroidTask (1st \"clock\")"},
                 {"nf143", "DroidTask (2nd \"clock\")"},
                 {"nf166", "Persona-Chat"}};
    const struct {
      const char* name;
      const char* begin;
    } kEngines[] = {
        {"MLC", "MLC-LLM"}, {"llama.cpp", "llama.cpp"}, {"MNN", "MNN"}, {"TFLite", "TFLite"}};
    const char* group = "speed over other engines as published (Table 5)";
    std::vector<double> all;
    for (const auto& [id, task] : kRows) {
      for (const auto& [name, begin] : kEngines) {
        double log_sum = 0.0;
        int n = 0;
        for (const plan::PublishedRow& row : folder_.published) {
          if (!is_of_table5(row) || task_of(row) != task || !row.what.starts_with(begin)) continue;
          const char* known = known_of(row.configuration);
          if (known == nullptr || !row.values[0].value) continue;
          const double speedup =
              *row.values[0].value / cell(known, task_lengths(row)).of("end to end");
          log_sum += std::log(speedup);
          ++n;
          if (why_not_counted(row).empty()) all.push_back(speedup);
        }
        if (n == 0) continue;
        TestRow& added = add(id, name, group, TestKind::kRatio, std::exp(log_sum / n),
                             fmt::format("geometric mean of {} models; {} as published", n, name));
        added.part = TestPart::kRecombined;
        if (std::string_view(id) == "nf166" && std::string_view(name) == "MLC") {
          added.reason = "not the mean of its cells (K4)";
        }
      }
    }
    add_range("nf176", "", group, all, "all engines, models and tasks; lowest and highest").part =
        TestPart::kRecombined;
  }

  double rate(const char* model, int n_prompt, int prune) {
    NpuRun run;
    run.model = model;
    run.n_prompt = n_prompt;
    run.prune = prune;
    return runs_.result(run).prefill.tokens_per_s();
  }

  void add_rates() {
    const char* group = "rates of prompts (Figure 16, abstract, HeteroLLM)";
    const struct {
      const char* id;
      int prune;
    } kPruned[] = {{"nf187", 0}, {"nf188", 80}, {"nf189", 100}};
    for (const auto& [id, prune] : kPruned) {
      for (const char* name : {"Qwen1.5-1.8B", "Gemma-2B"}) {
        add(id, name, group, TestKind::kValue, rate(known_of(name), 256, prune),
            fmt::format("256 tokens (K2), {} % pruned", prune))
            .part = TestPart::kPrompt;
      }
    }
    add("nf174", "", group, TestKind::kRange, rate("qwen1.5-1.8b", 1561, 85),
        "Qwen1.5-1.8B, 1561 tokens")
        .part = TestPart::kPrompt;
    add("hf044", "", group, TestKind::kValue, rate("internlm-1.8b", 256, 85),
        "InternLM-1.8B, 256 tokens")
        .part = TestPart::kPrompt;
    rows_.add_ordering("hf045: 1024 tokens run at a higher rate than 256",
                       rate("internlm-1.8b", 256, 85) < rate("internlm-1.8b", 1024, 85));
  }

  void add_scheduling() {
    const char* group = "scheduling (sections 3.3, 3.4)";
    NpuRun whole{"qwen1.5-1.8b", 256};
    const NpuResult& one = runs_.result(whole);
    add("nf039", "", group, TestKind::kValue, one.npu_busy * one.prefill.seconds * 1e3,
        "Qwen1.5-1.8B, 256 tokens: time the NPU is busy (K2)")
        .part = TestPart::kPrompt;
    NpuRun in_order{"qwen1.5-1.8b", 1024, NpuStep::kOutlier};
    add("nf050", "", group, TestKind::kRatio, 100.0 * (1.0 - runs_.result(in_order).npu_busy),
        "Qwen1.5-1.8B, 1024 tokens in order: share of the time in which the NPU waits");
    // What the small products and their sums cost where no block is pruned.
    NpuRun none{"qwen1.5-1.8b", 1024}, all{"qwen1.5-1.8b", 1024};
    none.prune = 0;
    all.prune = 100;
    const measure::SimulatedRate &with = runs_.result(none).prefill,
                                 &without = runs_.result(all).prefill;
    add("nf049", "latency", group, TestKind::kRatio, 100.0 * (1.0 - without.seconds / with.seconds),
        "Qwen1.5-1.8B, 1024 tokens, nothing pruned against everything");
    add("nf049", "energy", group, TestKind::kRatio, 100.0 * (1.0 - without.joules / with.joules),
        "the same");
  }

  void add_ablation() {
    const char* group = "the ablation (Figure 19), 512 tokens";
    std::vector<double> naive, chunk, outlier, out_of_order;
    for (const char* model : kAblated) {
      NpuRun run{model, kAblationTokens, std::nullopt};
      run.processors = {Processor::kCpu};
      const double on_cpu = runs_.result(run).prefill.seconds;
      const auto seconds = [&](NpuStep step) {
        return runs_.result({model, kAblationTokens, step}).prefill.seconds;
      };
      const double steps[] = {seconds(NpuStep::kNaive), seconds(NpuStep::kChunk),
                              seconds(NpuStep::kOutlier), seconds(NpuStep::kOutOfOrder)};
      naive.push_back(steps[0] / on_cpu);
      chunk.push_back(steps[0] / steps[1]);
      outlier.push_back(steps[1] / steps[2]);
      out_of_order.push_back(100.0 * (1.0 - steps[3] / steps[2]));
      for (int i = 1; i < 4; ++i) {
        rows_.add_ordering(fmt::format("{}: each step of the ablation is faster, {}", model, i),
                           steps[i] < steps[i - 1]);
      }
      rows_.add_ordering(fmt::format("{}: naive is slower than the CPU", model), steps[0] > on_cpu);
    }
    const std::string inputs = "Qwen1.5-1.8B, Gemma-2B, LlaMA-2-7B: lowest and highest";
    add_range("nf194", "", group, naive, inputs + "; the CPU simulated");
    add_range("nf195", "", group, chunk, inputs);
    add_range("nf196", "", group, outlier, inputs);
    add_range("nf197", "", group, out_of_order, inputs);
  }

  void add_memory() {
    const char* group = "graphs and memory";
    const NpuMemory qwen = npu_memory(folder_.path, "qwen1.5-1.8b", 1024);
    add("nf040", "shared", group, TestKind::kValue, qwen.n_shared, "Qwen1.5-1.8B, counted");
    add("nf040", "all", group, TestKind::kValue, qwen.n_subgraphs, "Qwen1.5-1.8B, counted");
    add("nf041", "", group, TestKind::kRange, 100.0 * qwen.saved_bytes() / qwen.unshared_bytes,
        fmt::format("Qwen1.5-1.8B, 4 chunks: {:.1f} GB of {:.1f} GB", 1e-9 * qwen.saved_bytes(),
                    1e-9 * qwen.unshared_bytes));
    add("nf042", "", group, TestKind::kRange, qwen.saved_bytes() / qwen.model_bytes,
        "Qwen1.5-1.8B, 4 chunks: what graphs of their own take more, over the weights");
    for (const char* model : {"qwen1.5-1.8b", "gemma-2b"}) {
      add("nf038", "", group, TestKind::kValue, chosen_chunk(model), model);
    }
    std::vector<double> shares, over_weights;
    for (const NpuModel& name : kNpuModels) {
      const NpuMemory memory = npu_memory(folder_.path, name.known, kAblationTokens);
      shares.push_back(100.0 * memory.shadow_bytes / memory.total_bytes());
      over_weights.push_back(memory.total_bytes() / memory.model_bytes);
    }
    add_range("nf190", "", group, over_weights,
              "weights, buffers and float rows over the weights alone, which the others have");
    add_range("nf191", "", group, shares,
              "float rows of 3 % of the channels, of the inputs that are not pruned");
  }

  // As the planner chooses it on the phone, with all lanes free.
  double chosen_chunk(const char* model) {
    prepare::Options options = npu_options(folder_.path, model);
    options.memory.context = 2048;
    return engine::Engine(options).plan().chunk();
  }

  // Over a processor alone with the same power: the other engines' energies are printed as ratios
  // only.
  void add_energy() {
    const char* group = "energy (Figure 15), 8 Gen 2";
    const struct {
      const char* name;
      Processor processor;
    } kRivals[] = {
        {"llama.cpp", Processor::kCpu}, {"MLC", Processor::kGpu}, {"TFLite", Processor::kGpu}};
    for (const auto& [id, n_prompt] : {std::pair("nf172", 1024), std::pair("nf173", 64)}) {
      const plan::PublishedRow& row = row_of(id);
      for (size_t i = 0; i < std::min(row.values.size(), std::size(kRivals)); ++i) {
        const auto& [name, processor] = kRivals[i];
        std::vector<double> savings;
        for (const NpuModel& model : kNpuModels) {
          const NpuRun alone{model.known, n_prompt, std::nullopt, 85, "8gen2", {processor}};
          const NpuRun ours{model.known, n_prompt, NpuStep::kOutOfOrder, 85, "8gen2"};
          savings.push_back(runs_.result(alone).prefill.joules / runs_.result(ours).prefill.joules);
        }
        add_range(id, row.values[i].name, group, savings,
                  fmt::format("{} tokens, five models; {} as the simulated {}", n_prompt, name,
                              lanes::processor_name(processor)));
      }
    }
  }

  void add_gpu() {
    const char* group = "floats on the GPU (section 4.6)";
    const TaskLengths lengths = task_lengths(row_of("nf059"));  // LongBench 2wiki, Gemma-2B
    const Cell with_cpu = cell("gemma-2b", lengths);
    NpuRun on_gpu;
    on_gpu.processors = {Processor::kGpu, Processor::kNpu};
    const Cell with_gpu = cell("gemma-2b", lengths, on_gpu);
    add("nf193", "", group, TestKind::kRange,
        1e3 * (with_cpu.of("end to end") - with_gpu.of("end to end")),
        fmt::format("Gemma-2B, {:g} to {:g} tokens, then {:g}: prompts take {:.2f} s and {:.2f} s "
                    "(nf192: equal)",
                    lengths.shortest_prompt, lengths.longest_prompt, lengths.output,
                    with_cpu.prefill_s, with_gpu.prefill_s));
  }

  void add_orderings() {
    std::vector<const plan::PublishedRow*> ours;
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper == "llm.npu" && is_ours(row) && why_not_counted(row).empty())
        ours.push_back(&row);
    }
    for (const plan::PublishedRow* row : ours) {
      const Cell simulated = cell(known_of(row->configuration), task_lengths(*row));
      for (const plan::PublishedRow& other : folder_.published) {
        const bool is_rival = is_of_table5(other) && !is_ours(other) &&
                              other.configuration == row->configuration &&
                              why_not_counted(other).empty();
        if (!is_rival) continue;
        for (const plan::PublishedValue& value : row->values) {
          if (value.name == "decode") continue;  // of the CPU, whoever asks
          for (const plan::PublishedValue& theirs : other.values) {
            if (theirs.name != value.name || !theirs.value || !value.value) continue;
            rows_.add_ordering(fmt::format("{} against {}: {}, {}", row->id, other.id, value.name,
                                           other.what.substr(0, other.what.find(':'))),
                               *value.value, *theirs.value, simulated.of(value.name),
                               *theirs.value);
          }
        }
      }
      // Models of one task among each other.
      for (const plan::PublishedRow* other : ours) {
        if (other <= row || task_of(*other) != task_of(*row)) continue;
        const Cell theirs = cell(known_of(other->configuration), task_lengths(*other));
        rows_.add_ordering(fmt::format("{} against {}: prefill of two models", row->id, other->id),
                           *row->values[1].value, *other->values[1].value, simulated.prefill_s,
                           theirs.prefill_s);
      }
    }
  }

  const PhoneFolder& folder_;
  NpuRuns runs_;
  TestRows rows_;
};

}  // namespace

TestReport simulate_llm_npu(const PhoneFolder& folder,
                            const std::vector<plan::ConstantChoice>& constants) {
  return Reproduction(folder, constants).run();
}

std::vector<Sensitivity> sensitivities_of_llm_npu(const PhoneFolder& folder) {
  plan::Stack stack = folder.stacks.at("llm.npu");
  std::vector<plan::ConstantChoice> choices;
  for (const plan::Field& field : stack.fields()) {
    const std::string_view name = field.name;
    if (std::find(std::begin(kDeclared), std::end(kDeclared), name) == std::end(kDeclared))
      continue;
    if (!field.constant->range) {
      throw Error(
          fmt::format("{}/stacks/llm.npu.json: no row fixes '{}', so that it needs a range.",
                      folder.path, field.name));
    }
    choices.push_back({field.name, field.constant->range->first});
    choices.push_back({field.name, field.constant->range->second});
  }
  choices.push_back({"npu.memory_limit_gb", kNoLimitGb});
  std::vector<Sensitivity> all;
  for (const plan::ConstantChoice& choice : choices) {
    const TestReport report = simulate_llm_npu(folder, {choice});
    all.push_back({fmt::format("{} = {:.4g}", choice.name, choice.value),
                   report.median_error(TestKind::kValue), report.median_error_of(TestPart::kPrompt),
                   report.median_error(), report.count_orderings()});
  }
  return all;
}

}  // namespace troika::papers
