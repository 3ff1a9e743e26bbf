#include "papers/reproduce_sd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "papers/figures.h"
#include "papers/sd_runs.h"
#include "prepare/make_plan.h"
#include "schedule/shared_graphs.h"

namespace troika::papers {
namespace {

constexpr double kGiga = 1e9, kMega = 1e6;
constexpr double kFloatBytes = 4.0, kHalfBytes = 2.0;
// The prompt is the middle of "1-2K tokens" of context (section 1). The paper prints no length of
// an answer, so 200 is assumed.
constexpr int kPrompt = 1500, kOutput = 200;

struct ModelName {
  const char* published;  // the name in Tables 3 and 4
  const char* known;
  // The model whose row of Table 4 stands for this one: itself, or the nearest of its family.
  const char* accepted;
};
constexpr ModelName kModels[] = {{"Q-0.5B", "qwen2.5-0.5b", "Q-1.5B"},
                                 {"Q-1.5B", "qwen2.5-1.5b", "Q-1.5B"},
                                 {"L-3B", "llama-3.2-3b", "L-1B"},
                                 {"L-1B", "llama-3.2-1b", "L-1B"}};
constexpr const char* kK60 = "8gen2";
constexpr const char* kK70 = "8gen3";
constexpr const char* kOnePlus13 = "8elite";

struct Column {
  // What the row's `what` begins with, behind "per-token latency, ".
  const char* begin;
  const char* name;
  SdSystem system;
  // The paper seems to have computed it from other columns, so that it does not count (K18)
  bool looks_computed = false;
};
constexpr Column kColumns[] = {
    {.begin = "NPU vanilla", .name = "NPU", .system = SdSystem::kNpu},
    {.begin = "+G (", .name = "+G", .system = SdSystem::kNpuGraph, .looks_computed = true},
    {.begin = "+SD (", .name = "+SD", .system = SdSystem::kNpuSam},
    {.begin = "+G+SD", .name = "+G+SD", .system = SdSystem::kNpuGraphSam, .looks_computed = true},
    {.begin = "sd.npu", .name = "sd.npu", .system = SdSystem::kOurs}};
const std::pair<const char*, SdSystem> kSystems[] = {
    {"NPU", SdSystem::kNpu},           {"+G", SdSystem::kNpuGraph},
    {"+SD", SdSystem::kNpuSam},        {"+G+SD", SdSystem::kNpuGraphSam},
    {"sd.npu", SdSystem::kOurs},       {"NPU-EAGLE", SdSystem::kNpuEagle},
    {"CPU", SdSystem::kCpu},           {"CPU-SAM", SdSystem::kCpuSam},
    {"CPU-EAGLE", SdSystem::kCpuEagle}};
constexpr std::string_view kTable3 = "per-token latency, ";
constexpr const char* kK18 = "the paper's row looks computed from the others (K18)";

const ModelName& model_of(const plan::FigureCall& call) {
  const std::string& name = call.text("model");
  for (const ModelName& model : kModels) {
    if (name == model.known) return model;
  }
  throw Error(fmt::format("A figure of sd.npu is asked for '{}', no model of the paper.", name));
}

// Returns the model with whose published name a row's configuration begins; null: it is not known.
const ModelName* published_model(const plan::PublishedRow& row) {
  const auto* const at = std::find_if(
      std::begin(kModels), std::end(kModels),
      [&](const ModelName& model) { return row.configuration.starts_with(model.published); });
  return at == std::end(kModels) ? nullptr : at;
}

SdSystem system_of(const plan::FigureCall& call) {
  const std::string& name = call.text("system");
  for (const auto& [known, system] : kSystems) {
    if (name == known) return system;
  }
  throw Error(fmt::format("A figure of sd.npu is asked for '{}', no system of the paper.", name));
}

class Reproduction {
 public:
  explicit Reproduction(const PhoneFolder& folder)
      : folder_(folder), runs_(folder.path), rows_(folder) {}

  TestReport run() {
    add_table3();
    add_figures();
    add_figures_of_memory();
    add_rows(plan::read_simulated(folder_.path + "/simulated/sd.npu.json"), figures_, &rows_);
    add_orderings();
    add_table4();
    return rows_.take("sd.npu");
  }

 private:
  // Returns the row of accepted tokens that is published for a model and a task.
  const plan::PublishedRow& acceptance(const std::string& model, const std::string& task) const {
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper == "sd.npu" && row.where == "Table 4" &&
          row.configuration.starts_with(model + ", " + task)) {
        return row;
      }
    }
    throw Error(
        fmt::format("{}/published has no acceptance of {} in '{}'.", folder_.path, model, task));
  }
  static double value_of(const plan::PublishedRow& row, std::string_view name) {
    for (const plan::PublishedValue& value : row.values) {
      if (value.name == name && value.value) return *value.value;
    }
    throw Error(fmt::format("The published row '{}' has no value '{}'.", row.id, name));
  }

  SdTask task(const ModelName& model, const char* name) const {
    const plan::PublishedRow& row = acceptance(model.accepted, name);
    return {kPrompt, kOutput, value_of(row, "SAM"), value_of(row, "SAM + ours")};
  }
  SdRequest request(const ModelName& model, const char* phone, const SdSystem& system,
                    const char* task_name = "summary") {
    return runs_.request(model.known, phone, system, task(model, task_name));
  }
  // Says what else a reader of a row of Table 3 should know.
  static std::string remark(const ModelName& model, const SdRequest& r) {
    std::string text;
    if (r.more_if_behind_s > 0.0) {
      text += fmt::format("; with the calibration in a row behind the prompt {:.1f} ms (K16)",
                          1e3 * (r.seconds() + r.more_if_behind_s) / kOutput);
    }
    if (std::string_view(model.published) == "L-3B") {
      text += "; as published its steps read 60 to 67 GB/s, the whole bus (K31)";
    }
    return text;
  }

  // Adds Table 3. The prompt counts in its times, because section 4.2 prints as speedups per token
  // what section 1 prints as end to end.
  void add_table3() {
    std::vector<std::tuple<const plan::PublishedRow*, std::string, const char*, double>> counted;
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper != "sd.npu" || !row.what.starts_with(kTable3)) continue;
      const ModelName* const model = published_model(row);
      const auto column = std::find_if(
          std::begin(kColumns), std::end(kColumns),
          [&](const Column& c) { return row.what.substr(kTable3.size()).starts_with(c.begin); });
      if (model == nullptr || column == std::end(kColumns)) {
        throw Error(
            fmt::format("{}/published: row '{}' is of a model or a system that is not "
                        "known.",
                        folder_.path, row.id));
      }
      const SdTask t = task(*model, "summary");
      const SdRequest r = request(*model, kK60, column->system);
      const double ms = 1e3 * r.seconds() / kOutput;
      TestRow& added = rows_.add(
          row, row.values[0], "time of a request per token of the answer (Table 3), 8 Gen 2",
          TestKind::kValue, ms,
          fmt::format(
              "{}, {} tokens, then {}; {:g} accepted as published for {}; steps {:.1f} ms{}",
              model->known, kPrompt, kOutput, accepted_tokens(column->system, t), model->accepted,
              1e3 * r.steps.seconds / kOutput, remark(*model, r)));
      if (column->looks_computed) {
        added.reason = kK18;
      } else {
        counted.emplace_back(&row, model->published, column->name, ms);
      }
    }
    for (size_t i = 0; i < counted.size(); ++i) {
      for (size_t j = i + 1; j < counted.size(); ++j) {
        const auto& [a, model_a, column_a, ms_a] = counted[i];
        const auto& [b, model_b, column_b, ms_b] = counted[j];
        if (model_a != model_b && column_a != column_b) continue;
        rows_.add_ordering(fmt::format("{} against {}: {} {}, {} {}", a->id, b->id, model_a,
                                       column_a, model_b, column_b),
                           *a->values[0].value, *b->values[0].value, ms_a, ms_b);
      }
    }
  }

  // Adds the figures that stand beside published rows as phones/simulated/sd.npu.json says.
  void add_figures() {
    const auto of_request = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model", "phone", "system", "task"},
                   [this, figure_of](const plan::FigureCall& call) {
                     return figure_of(request(model_of(call), call.text("phone").c_str(),
                                              system_of(call), call.text("task").c_str()));
                   });
    };
    of_request("request s", [](const SdRequest& r) { return r.seconds(); });
    of_request("request joules", [](const SdRequest& r) { return r.joules(); });
    of_request("steps s", [](const SdRequest& r) { return r.steps.seconds; });
    of_request("steps percent", [](const SdRequest& r) { return r.steps_percent(); });
    const auto of_prompt = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model", "phone"}, [figure_of](const plan::FigureCall& call) {
        return figure_of(call.text("model"), call.text("phone"));
      });
    };
    using Text = const std::string&;
    of_prompt("load s",
              [this](Text model, Text phone) { return runs_.whole_load_s(model, phone); });
    of_prompt("plain prompt s", [this](Text model, Text phone) {
      return runs_.prompt(model, phone, kPrompt, kSdPromptShape).seconds;
    });
    of_prompt("steps' prompt s", [this](Text model, Text phone) {
      return runs_.prompt(model, phone, kPrompt, kSdStepShape).seconds;
    });
    of_prompt("prompt rate", [this](Text model, Text phone) {
      return kPrompt / runs_.prompt(model, phone, kPrompt, kSdPromptShape).seconds;
    });
    of_prompt("switched prompt s", [this](Text model, Text phone) {
      return runs_.switched_prompt(model, phone, kPrompt).prompt_s;
    });
    of_prompt("next prompt s", [this](Text model, Text phone) {
      return runs_.switched_prompt(model, phone, kPrompt, schedule::Layout::kStep).prompt_s;
    });
    of_prompt("prompt tokens", [](Text, Text) { return double{kPrompt}; });
  }

  // Adds the figures of memory that phones/simulated/sd.npu.json names.
  void add_figures_of_memory() {
    const auto add = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model"}, [this, figure_of](const plan::FigureCall& call) {
        return figure_of(memory_of(model_of(call)));
      });
    };
    add("products GB", [](const Memory& m) { return m.weights / kGiga; });
    add("embedding GB", [](const Memory& m) { return m.embedding / kGiga; });
    add("block GB", [](const Memory& m) { return m.block / kGiga; });
    add("draft model GB", [](const Memory& m) { return m.draft_model / kGiga; });
    add("calibration MB", [](const Memory& m) { return m.calibration() / kMega; });
    add("bytes of one graph",
        [](const Memory& m) { return m.weights + m.buffers(kSdPromptShape); });
    add("bytes of two graphs", [](const Memory& m) {
      return 2.0 * m.weights + m.buffers(kSdPromptShape) + m.buffers(kSdStepShape);
    });
    figures_.add("memory GB", {"model", "system"}, [this](const plan::FigureCall& call) {
      const Memory memory = memory_of(model_of(call));
      const SdSystem system = system_of(call);
      if (system == SdSystem::kOurs) return memory.ours() / kGiga;
      return (memory.vanilla() + (system.is_on_cpu ? memory.weights : 0.0)) / kGiga;
    });
  }

  // Adds the orderings that the paper states in words.
  void add_orderings() {
    const std::string model = kModels[1].known;
    const auto prompt_s = [&](const char* phone) {
      return runs_.prompt(model, phone, kPrompt, kSdPromptShape).seconds;
    };
    rows_.add_ordering("section 3.2: a switch during the prompt is faster than one behind it",
                       runs_.switched_prompt(model, kK60, kPrompt).finished_s <
                           prompt_s(kK60) + runs_.whole_load_s(model, kK60));
    rows_.add_ordering("section 4.2: the NPU of the 8 Gen 3 is slower than that of the 8 Elite",
                       prompt_s(kK70) > prompt_s(kOnePlus13));
    rows_.add_ordering("section 4.2: the NPU of the 8 Gen 3 is slower than that of the 8 Gen 2",
                       prompt_s(kK70) > 1.001 * prompt_s(kK60));
  }

  // Bytes of weights of products in 8 bits, of the embedding in floats beside them, and of a buffer
  // for each op's output.
  struct Memory {
    double weights = 0.0, embedding = 0.0, block = 0.0;
    double buffers_per_row = 0.0, cache = 0.0, logits_row = 0.0, draft_model = 0.0;
    double buffers(int n_rows) const { return buffers_per_row * n_rows; }
    double vanilla() const { return weights + embedding + buffers(kSdOneShape) + cache; }
    // Returns the bytes of logits of as many rows as the head takes at once, and, for each
    // position, of a few likely tokens and their probabilities.
    double calibration() const {
      constexpr double kLikely = 8.0, kNodeBytes = 16.0;
      return logits_row * kSdStepShape + kPrompt * kLikely * kNodeBytes;
    }
    double ours() const {
      return weights + embedding + block + buffers(kSdPromptShape) + cache + calibration();
    }
  };
  Memory memory_of(const ModelName& model) {
    const engine::Engine& engine = runs_.engine(model.known, kK60);
    const model::Blueprint& blueprint = engine.blueprint();
    Memory memory;
    for (const model::Op& op : blueprint.ops) {
      if (op.kind != model::OpKind::kLinear) continue;
      const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
      const double n = static_cast<double>(weight.n_rows) * weight.row_length;
      memory.weights += n;
      if (op.layer == 0) memory.block += n;
      if (op.layer == model::kNone) {
        memory.embedding = n * kFloatBytes;  // the embedding has the head's size
        memory.logits_row = weight.n_rows * kFloatBytes;
        memory.draft_model = n * kHalfBytes;
      }
    }
    memory.draft_model += memory.block * kHalfBytes;
    const schedule::SharedGraphs graphs =
        schedule::count_shared(blueprint, engine.weights(), engine.plan());
    memory.buffers_per_row =
        static_cast<double>(graphs.static_buffer_bytes + graphs.dynamic_buffer_bytes) /
        engine.plan().chunk();
    memory.cache =
        static_cast<double>(prepare::kv_shape(engine.plan(), blueprint).bytes_per_token()) *
        (kPrompt + kOutput);
    return memory;
  }

  // Adds Table 4. It was measured on another machine and is an input; beside it stand the speeds
  // that follow on the phone, with steps on either lane.
  void add_table4() {
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper != "sd.npu" || row.where != "Table 4") continue;
      const ModelName* const model = published_model(row);
      for (const plan::PublishedValue& value : row.values) {
        std::string text = "this model is not among those of Table 3";
        if (model != nullptr) {
          const SdTask with{kPrompt, kOutput, *value.value, *value.value};
          const bool is_ours = value.name.ends_with("ours");
          const SdDrafts drafts = is_ours ? SdDrafts::kCalibrated : SdDrafts::kRetrieved;
          text = "8 Gen 2, ms a token, and of them steps:";
          for (const bool is_on_cpu : {false, true}) {
            const SdSystem system{is_on_cpu, is_ours && !is_on_cpu, drafts};
            const SdRequest r = runs_.request(model->known, kK60, system, with);
            text += fmt::format("{} {:.1f}, {:.1f}", is_on_cpu ? "; on the CPU" : " on the NPU",
                                1e3 * r.seconds() / kOutput, 1e3 * r.steps.seconds / kOutput);
          }
        }
        TestRow& added = rows_.add(row, value, "tokens per verification (Table 4): inputs",
                                   TestKind::kValue, 0.0, row.configuration + ": " + text);
        added.base.simulated.reset();
        added.reason = "an input";
      }
    }
  }

  const PhoneFolder& folder_;
  SdRuns runs_;
  TestRows rows_;
  Figures figures_;
};

}  // namespace

TestReport simulate_sd_npu(const PhoneFolder& folder) { return Reproduction(folder).run(); }

TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace) {
  constexpr int kTokens = 4 * kSdPromptShape;
  constexpr const char* kModel = "qwen2.5-1.5b";
  SdRuns runs(folder.path);
  // The paper's example has two chunks, but here two chunks end before all blocks are loaded.
  runs.switched_prompt(kModel, kK60, kTokens, schedule::Layout::kPrompt, trace);
  return {
      fmt::format("{}: blocks change their layout during a prompt of {} tokens", kModel, kTokens),
      fmt::format("virtual phone {} with sd.npu; modelled time, nothing is computed", kK60)};
}

}  // namespace troika::papers
