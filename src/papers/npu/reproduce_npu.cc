#include "papers/npu/reproduce_npu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "papers/baselines.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/npu/npu_figures.h"
#include "papers/npu/npu_runs.h"

namespace troika::papers {
namespace {

constexpr const char* kAblated[] = {"qwen1.5-1.8b", "gemma-2b", "llama-2-7b"};
constexpr const char* kEngines[] = {"MLC", "llama.cpp", "MNN", "TFLite", "PowerInfer-V2"};
constexpr int kPromptSamples = 8;  // counts lengths that are taken from a task's range of lengths
// Names constants that no published row fixes, and that much depends on.
constexpr std::string_view kDeclared[] = {"cpu.vector_gflops", "cpu.launch_us", "npu.int8_tops"};
constexpr double kNoLimitGb = 1000.0;  // lets an NPU hold any model
// Name lists of rows: those of all engines, and among them those of llm.npu, and of PowerInfer-2.
constexpr const char* kAllTasks = "whole tasks";
constexpr const char* kOurs = "whole tasks of llm.npu";
constexpr const char* kRivals = "whole tasks of PowerInfer-2";

// Returns the task of a row: "LongBench 2wiki" behind the model's name.
std::string task_of(const plan::PublishedRow& row) {
  const size_t begin = row.configuration.find(", ") + 2;
  return row.configuration.substr(begin, row.configuration.find(", prompt") - begin);
}

class Reproduction {
 public:
  // `rivals` outlives this. PowerInfer-2 has a stack of its own, which the constants leave alone.
  Reproduction(const PhoneFolder& folder, const std::vector<plan::ConstantChoice>& constants,
               PowerRuns& rivals)
      : folder_(folder),
        given_(folder.path, "llm.npu"),
        runs_(folder.path, constants),
        rivals_(rivals),
        rows_(folder) {}

  TestReport run() {
    add_table5();
    add_rivals();
    add_npu_figures(runs_, rivals_, rows_, &figures_);
    add_figures_of_speedups();
    add_figures_of_tasks();
    add_rows(plan::read_simulated(folder_.path + "/simulated/llm.npu.json"), figures_, &rows_);
    add_orderings_of_steps();
    add_orderings();
    return rows_.take("llm.npu");
  }

 private:
  // Returns the published rows of a list, in its order.
  std::vector<const plan::PublishedRow*> listed(const char* name) const {
    std::vector<const plan::PublishedRow*> rows;
    for (const std::string& id : given_.rows(name)) rows.push_back(&rows_.row_of(id));
    return rows;
  }
  bool is_ours(const plan::PublishedRow& row) const {
    const std::vector<std::string>& ids = given_.rows(kOurs);
    return std::find(ids.begin(), ids.end(), row.id) != ids.end();
  }
  bool counts(const plan::PublishedRow& row) const {
    return given_.why_not_counted(row.id).empty();
  }

  struct Cell {
    double prefill_s = 0.0, decode_s = 0.0;
    double of(const std::string& name) const {
      return name == "prefill" ? prefill_s : name == "decode" ? decode_s : prefill_s + decode_s;
    }
  };

  // Returns the mean over prompts of a task, which the paper's cells are too (section 4.1).
  Cell cell(const std::string& known, const TaskLengths& lengths, NpuRun run = {}) {
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

  // Returns the same of PowerInfer-2, with all weights in memory.
  Cell rival_cell(const char* known, const TaskLengths& lengths) {
    PowerRun run;
    run.model = known;
    run.ffn_share = 1.0;
    Cell mean;
    for (const int n_prompt : lengths.prompts(kPromptSamples)) {
      PowerRun prompt = run, answer = run;
      prompt.n_prompt = n_prompt;
      answer.n_before = n_prompt;
      mean.prefill_s += rivals_.result(prompt).rate.seconds / kPromptSamples;
      mean.decode_s += lengths.output / rivals_.result(answer).tokens_per_s() / kPromptSamples;
    }
    return mean;
  }

  // Says with how much of its weights PowerInfer-2 runs. The share of neurons that fire follows
  // from the model's activation.
  std::string rival_text(const char* known) {
    PowerRun run;
    run.model = known;
    run.ffn_share = 1.0;
    return fmt::format(", all weights in memory, {:g} % of the neurons fire",
                       100.0 * rivals_.result(run).plan.value().statistics.live_share);
  }

  // Says what a figure would be if the NPU's memory had no limit, where that changes it (N9).
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
    for (const plan::PublishedRow* listed_row : listed(kOurs)) {
      const plan::PublishedRow& row = *listed_row;
      const char* known = known_npu_model(row.configuration);
      if (known == nullptr) continue;
      const TaskLengths lengths = task_lengths(row);
      add_cell(row, known, "llm.npu, whole tasks (Table 5)", cell(known, lengths),
               [&](const std::string& name) { return limit_text(known, lengths, name); });
    }
  }

  void add_rivals() {
    for (const plan::PublishedRow* row : listed(kRivals)) {
      const char* known = known_npu_model(row->configuration);
      if (known == nullptr) continue;
      add_cell(*row, known, "PowerInfer-2, whole tasks (Table 5)",
               rival_cell(known, task_lengths(*row)),
               [&](const std::string&) { return rival_text(known); });
    }
  }

  template <typename Note>
  void add_cell(const plan::PublishedRow& row, const char* known, const char* group,
                const Cell& simulated, Note note) {
    const TaskLengths lengths = task_lengths(row);
    for (const plan::PublishedValue& value : row.values) {
      TestRow& added =
          rows_.add(row, value, group, TestKind::kValue, simulated.of(value.name),
                    fmt::format("{}, {}, {:g} to {:g} tokens, then {:g}{}", known, task_of(row),
                                lengths.shortest_prompt, lengths.longest_prompt, lengths.output,
                                note(value.name)));
      added.reason = given_.why_not_counted(row.id);
      if (value.name == "prefill") added.part = TestSubject::kPrompt;
      if (value.name == "decode") added.part = TestSubject::kDecode;
    }
  }

  // How many times as fast ours is as another engine: the other as published, ours simulated.
  struct Speedup {
    double times;
    bool counts;  // false where the paper contradicts the figure
  };
  std::vector<Speedup> speedups(std::string_view task, std::string_view engine) {
    std::vector<Speedup> all;
    for (const plan::PublishedRow* row : listed(kAllTasks)) {
      if (task_of(*row) != task || !row->what.starts_with(engine)) continue;
      const char* known = known_npu_model(row->configuration);
      if (known == nullptr || row->values.empty() || !row->values[0].value) continue;
      all.push_back(
          {*row->values[0].value / cell(known, task_lengths(*row)).of("end to end"), counts(*row)});
    }
    return all;
  }
  // Returns the speedups over all tasks and engines that count.
  std::vector<double> counted_speedups() {
    std::vector<double> all;
    std::set<std::string> tasks;
    for (const plan::PublishedRow* row : listed(kAllTasks)) tasks.insert(task_of(*row));
    for (const std::string& task : tasks) {
      for (const char* engine : kEngines) {
        for (const Speedup& one : speedups(task, engine)) {
          if (one.counts) all.push_back(one.times);
        }
      }
    }
    if (all.empty()) {
      throw Error(fmt::format("{}/simulated/llm.npu.json: the list '{}' has no times that count.",
                              folder_.path, kAllTasks));
    }
    return all;
  }

  // Adds the figures that stand beside published rows as phones/simulated/llm.npu.json says.
  void add_figures_of_speedups() {
    const auto of_task = [this](const plan::FigureCall& call) {
      std::vector<Speedup> all = speedups(call.text("task"), call.text("engine"));
      if (all.empty()) {
        throw Error(
            fmt::format("{}/simulated/llm.npu.json: the list '{}' has no times of '{}' "
                        "with {}.",
                        folder_.path, kAllTasks, call.text("task"), call.text("engine")));
      }
      return all;
    };
    figures_.add("models of a task", {"task", "engine"}, [=](const plan::FigureCall& call) {
      return static_cast<double>(of_task(call).size());
    });
    // The mean speedup is the geometric mean over the models.
    figures_.add("mean speedup of a task", {"task", "engine"}, [=](const plan::FigureCall& call) {
      const std::vector<Speedup> all = of_task(call);
      double log_sum = 0.0;
      for (const Speedup& one : all) log_sum += std::log(one.times);
      return std::exp(log_sum / static_cast<double>(all.size()));
    });
    figures_.add("lowest speedup of a task", {}, [this](const plan::FigureCall&) {
      const std::vector<double> all = counted_speedups();
      return *std::min_element(all.begin(), all.end());
    });
    figures_.add("highest speedup of a task", {}, [this](const plan::FigureCall&) {
      const std::vector<double> all = counted_speedups();
      return *std::max_element(all.begin(), all.end());
    });
  }

  // Adds figures about a task whose lengths a row prints, with the floats on the CPU or on the GPU.
  void add_figures_of_tasks() {
    const auto lengths_of = [this](const plan::FigureCall& call) {
      return task_lengths(rows_.row_of(call.text("lengths of")));
    };
    const auto cell_of = [=, this](const plan::FigureCall& call, const std::string& processor) {
      NpuRun run;
      run.processors = {lanes::processor_from_name(processor), Processor::kNpu};
      return cell(call.text("model"), lengths_of(call), run);
    };
    figures_.add("task ms", {"model", "lengths of", "floats on"},
                 [=](const plan::FigureCall& call) {
                   return 1e3 * cell_of(call, call.text("floats on")).of("end to end");
                 });
    figures_.add("prompt s, floats on the CPU", {"model", "lengths of"},
                 [=](const plan::FigureCall& call) { return cell_of(call, "cpu").prefill_s; });
    figures_.add("prompt s, floats on the GPU", {"model", "lengths of"},
                 [=](const plan::FigureCall& call) { return cell_of(call, "gpu").prefill_s; });
    figures_.add("shortest prompt", {"lengths of"},
                 [=](const plan::FigureCall& call) { return lengths_of(call).shortest_prompt; });
    figures_.add("longest prompt", {"lengths of"},
                 [=](const plan::FigureCall& call) { return lengths_of(call).longest_prompt; });
    figures_.add("answer", {"lengths of"},
                 [=](const plan::FigureCall& call) { return lengths_of(call).output; });
  }

  // Adds the orderings that the paper states in words.
  void add_orderings_of_steps() {
    const auto rate = [&](int n_prompt) {
      return runs_.result({"internlm-1.8b", n_prompt}).prefill.tokens_per_s();
    };
    const int n_few = given_.count("tokens of a chunk");
    const int n_many = given_.count("tokens of a long prompt");
    rows_.add_ordering(
        fmt::format("HeteroLLM of llm.npu: {} tokens run at a higher rate than {}", n_many, n_few),
        rate(n_few) < rate(n_many));
    const int n_tokens = given_.count("tokens of the ablation");
    for (const char* model : kAblated) {
      NpuRun run{model, n_tokens, std::nullopt};
      run.processors = {Processor::kCpu};
      const double on_cpu = runs_.result(run).prefill.seconds;
      const auto seconds = [&](NpuStage stage) {
        return runs_.result({model, n_tokens, stage}).prefill.seconds;
      };
      const double stages[] = {seconds(NpuStage::kNaive), seconds(NpuStage::kChunk),
                               seconds(NpuStage::kOutlier), seconds(NpuStage::kOutOfOrder)};
      for (int i = 1; i < 4; ++i) {
        rows_.add_ordering(fmt::format("{}: each stage of the ablation is faster, {}", model, i),
                           stages[i] < stages[i - 1]);
      }
      rows_.add_ordering(fmt::format("{}: naive is slower than the CPU", model),
                         stages[0] > on_cpu);
    }
  }

  void add_orderings() {
    std::vector<const plan::PublishedRow*> ours;
    for (const plan::PublishedRow* row : listed(kOurs)) {
      if (counts(*row) && known_npu_model(row->configuration) != nullptr) ours.push_back(row);
    }
    for (const plan::PublishedRow* row : ours) {
      const Cell simulated = cell(known_npu_model(row->configuration), task_lengths(*row));
      for (const plan::PublishedRow* listed_row : listed(kAllTasks)) {
        const plan::PublishedRow& other = *listed_row;
        const bool is_rival =
            !is_ours(other) && other.configuration == row->configuration && counts(other);
        if (!is_rival) continue;
        for (const plan::PublishedValue& value : row->values) {
          if (value.name == "decode") continue;  // every system decodes on the CPU
          for (const plan::PublishedValue& theirs : other.values) {
            if (theirs.name != value.name || !theirs.value || !value.value) continue;
            rows_.add_ordering(fmt::format("{} against {}: {}, {}", row->id, other.id, value.name,
                                           other.what.substr(0, other.what.find(':'))),
                               *value.value, *theirs.value, simulated.of(value.name),
                               *theirs.value);
          }
        }
      }
      // Models are compared with each other where the task is the same.
      for (const plan::PublishedRow* other : ours) {
        if (other <= row || task_of(*other) != task_of(*row)) continue;
        const Cell theirs = cell(known_npu_model(other->configuration), task_lengths(*other));
        rows_.add_ordering(fmt::format("{} against {}: prefill of two models", row->id, other->id),
                           plan::number_of(*row, "prefill"), plan::number_of(*other, "prefill"),
                           simulated.prefill_s, theirs.prefill_s);
      }
    }
  }

  const PhoneFolder& folder_;
  Given given_;
  NpuRuns runs_;
  PowerRuns& rivals_;
  TestRows rows_;
  Figures figures_;
};

}  // namespace

TestReport simulate_llm_npu(const PhoneFolder& folder,
                            const std::vector<plan::ConstantChoice>& constants) {
  PowerRuns rivals(folder.path);
  return Reproduction(folder, constants, rivals).run();
}

std::vector<Sensitivity> sensitivities_of_llm_npu(const PhoneFolder& folder, TestReport* report) {
  plan::Stack stack = folder.stacks.at("llm.npu");
  std::vector<plan::ConstantChoice> choices;
  for (const plan::Field& field : stack.fields()) {
    const std::string_view name = field.name;
    if (std::find(std::begin(kDeclared), std::end(kDeclared), name) == std::end(kDeclared))
      continue;
    if (!field.constant->range) {
      throw Error(fmt::format(
          "{}/stacks/llm.npu.json: no published row fixes '{}', so that it needs a range.",
          folder.path, field.name));
    }
    choices.push_back({field.name, field.constant->range->first});
    choices.push_back({field.name, field.constant->range->second});
  }
  choices.push_back({"npu.memory_limit_gb", kNoLimitGb});
  std::vector<Sensitivity> all;
  PowerRuns rivals(folder.path);  // runs once for all choices
  for (const plan::ConstantChoice& choice : choices) {
    const TestReport tried = Reproduction(folder, {choice}, rivals).run();
    all.push_back({fmt::format("{} = {:.4g}", choice.name, choice.value),
                   tried.median_error(TestKind::kValue),
                   tried.median_error_of(TestSubject::kPrompt), tried.median_error(),
                   tried.count_orderings()});
    // An NPU without a limit is no end of a range.
    if (report != nullptr && choice.value != kNoLimitGb) report->widen(tried);
  }
  return all;
}

}  // namespace troika::papers
