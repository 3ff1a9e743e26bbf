#include "papers/reproduce_npu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "papers/baselines.h"
#include "papers/npu_memory.h"
#include "papers/npu_runs.h"

namespace troika::papers {
namespace {

struct ModelName {
  const char* published;
  const char* known;
};
constexpr ModelName kModels[] = {{"Qwen1.5-1.8B", "qwen1.5-1.8b"},
                                 {"Gemma-2B", "gemma-2b"},
                                 {"Phi-2-2.7B", "phi-2"},
                                 {"LlaMA-2-7B", "llama-2-7b"},
                                 {"Mistral-7B", "mistral-7b"}};
constexpr const char* kAblated[] = {"qwen1.5-1.8b", "gemma-2b", "llama-2-7b"};
constexpr int kAblationTokens = 512;  // Figure 19
constexpr int kPromptSamples = 8;     // of the range of lengths of a task

const char* known_of(std::string_view text) {
  for (const ModelName& name : kModels) {
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
std::string why_left_out(const plan::PublishedRow& row) {
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
  explicit Reproduction(const PhoneFolder& folder)
      : folder_(folder), runs_(folder.path), rows_(folder) {}

  TestReport run() {
    add_table5();
    add_speedups();
    add_rates();
    add_scheduling();
    add_ablation();
    add_memory();
    add_energy();
    add_gpu();
    add_orderings();
    return rows_.take();
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
  Cell cell(const char* known, const TaskLengths& lengths,
            const std::vector<Processor>& processors = NpuRun().processors) {
    Cell mean;
    for (const int n_prompt : lengths.prompts(kPromptSamples)) {
      NpuRun run;
      run.model = known;
      run.n_prompt = n_prompt;
      run.processors = processors;
      const NpuResult& result = runs_.result(run);
      mean.prefill_s += result.prefill.seconds / kPromptSamples;
      mean.decode_s += result.step_s * lengths.output / kPromptSamples;
    }
    return mean;
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
            fmt::format("{}, {}, {:g} to {:g} tokens, then {:g}", known, task_of(row),
                        lengths.shortest_prompt, lengths.longest_prompt, lengths.output));
        added.left_out = why_left_out(row);
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
    for (const auto& [id, task] : kRows) {
      for (const auto& [name, begin] : kEngines) {
        double log_sum = 0.0;
        int n = 0;
        for (const plan::PublishedRow& row : folder_.published) {
          if (!is_of_table5(row) || task_of(row) != task || !row.what.starts_with(begin)) continue;
          const char* known = known_of(row.configuration);
          if (known == nullptr || !row.values[0].value) continue;
          log_sum +=
              std::log(*row.values[0].value / cell(known, task_lengths(row)).of("end to end"));
          ++n;
        }
        if (n == 0) continue;
        TestRow& added =
            add(id, name, "speed over other engines, geometric means (Table 5)", TestKind::kRatio,
                std::exp(log_sum / n), fmt::format("{} models; {} as published", n, name));
        if (std::string_view(id) == "nf166" && std::string_view(name) == "MLC") {
          added.left_out = "not the mean of its cells (K4)";
        }
      }
    }
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
            fmt::format("256 tokens (K2), {} % pruned", prune));
      }
    }
    add("nf174", "", group, TestKind::kRange, rate("qwen1.5-1.8b", 1561, 85),
        "Qwen1.5-1.8B, 1561 tokens");
    add("hf044", "", group, TestKind::kValue, rate("internlm-1.8b", 256, 85),
        "InternLM-1.8B, 256 tokens");
    rows_.add_ordering("hf045: 1024 tokens run at a higher rate than 256",
                       rate("internlm-1.8b", 256, 85) < rate("internlm-1.8b", 1024, 85));
  }

  void add_scheduling() {
    const char* group = "scheduling (sections 3.3, 3.4)";
    NpuRun whole{"qwen1.5-1.8b", 256};
    const NpuResult& one = runs_.result(whole);
    add("nf039", "", group, TestKind::kValue, one.npu_busy * one.prefill.seconds * 1e3,
        "Qwen1.5-1.8B, 256 tokens: time the NPU is busy (K2)");
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
    std::vector<double> shares;
    for (const ModelName& name : kModels) {
      const NpuMemory memory = npu_memory(folder_.path, name.known, kAblationTokens);
      shares.push_back(100.0 * memory.shadow_bytes / memory.total_bytes());
    }
    add_range("nf191", "", group, shares,
              "float rows of 3 % of the channels, of the inputs that are not pruned");
  }

  // As the planner chooses it on the phone, with all lanes free.
  double chosen_chunk(const char* model) {
    prepare::Options options = npu_options(folder_.path, model);
    options.memory.context = 2048;
    return engine::Engine(options).plan().chunk();
  }

  // Over a plain CPU with the same power: the other engines' energies are printed as ratios only.
  void add_energy() {
    const char* group = "energy (Figure 15), 8 Gen 2";
    const struct {
      const char* id;
      const char* name;
      int n_prompt;
    } kRows[] = {{"nf172", "llama.cpp", 1024}, {"nf173", "1", 64}};
    for (const auto& [id, name, n_prompt] : kRows) {
      std::vector<double> savings;
      for (const ModelName& model : kModels) {
        const double cpu =
            runs_.result({model.known, n_prompt, std::nullopt, 85, "8gen2", {Processor::kCpu}})
                .prefill.joules;
        const double ours =
            runs_.result({model.known, n_prompt, NpuStep::kOutOfOrder, 85, "8gen2"}).prefill.joules;
        savings.push_back(cpu / ours);
      }
      add_range(id, name, group, savings,
                fmt::format("{} tokens, five models; llama.cpp as the simulated CPU", n_prompt));
    }
  }

  void add_gpu() {
    const char* group = "floats on the GPU (section 4.6)";
    const TaskLengths lengths = task_lengths(row_of("nf059"));  // LongBench 2wiki, Gemma-2B
    const Cell with_cpu = cell("gemma-2b", lengths);
    const Cell with_gpu = cell("gemma-2b", lengths, {Processor::kGpu, Processor::kNpu});
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
      if (row.paper == "llm.npu" && is_ours(row) && why_left_out(row).empty()) ours.push_back(&row);
    }
    for (const plan::PublishedRow* row : ours) {
      const Cell simulated = cell(known_of(row->configuration), task_lengths(*row));
      for (const plan::PublishedRow& other : folder_.published) {
        const bool is_rival = is_of_table5(other) && !is_ours(other) &&
                              other.configuration == row->configuration &&
                              why_left_out(other).empty();
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

TestReport simulate_llm_npu(const PhoneFolder& folder) { return Reproduction(folder).run(); }

}  // namespace troika::papers
