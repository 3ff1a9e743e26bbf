#include "papers/reproduce_sd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "papers/sd_runs.h"
#include "prepare/make_plan.h"
#include "schedule/shared_graphs.h"

namespace troika::papers {
namespace {

constexpr double kGiga = 1e9, kMega = 1e6;
constexpr double kFloatBytes = 4.0, kHalfBytes = 2.0;
// "1-2K tokens" of context (section 1), the middle. The paper prints no length of an answer:
// assumed.
constexpr int kPrompt = 1500, kOutput = 200;

struct ModelName {
  const char* published;  // of Table 3
  const char* known;
  const char* accepted;  // whose row of Table 4 stands for it: its own, or its family's nearest
};
constexpr ModelName kModels[] = {{"Q-0.5B", "qwen2.5-0.5b", "Q-1.5B"},
                                 {"Q-1.5B", "qwen2.5-1.5b", "Q-1.5B"},
                                 {"L-3B", "llama-3.2-3b", "L-1B"}};
constexpr const char* kTasks[] = {"summary", "rag", "ui", "tweet"};
constexpr const char* kK60 = "8gen2";
constexpr const char* kK70 = "8gen3";
constexpr const char* kOnePlus13 = "8elite";

struct Column {
  const char* begin;  // of `what`, behind "per-token latency, "
  const char* name;
  SdSystem system;
  bool counts;  // K18: the others look computed
};
constexpr Column kColumns[] = {{"NPU vanilla", "NPU", SdSystem::kNpu, true},
                               {"+G (", "+G", SdSystem::kNpuGraph, false},
                               {"+SD (", "+SD", SdSystem::kNpuSam, true},
                               {"+G+SD", "+G+SD", SdSystem::kNpuGraphSam, false},
                               {"sd.npu", "sd.npu", SdSystem::kOurs, true}};
constexpr std::string_view kTable3 = "per-token latency, ";
constexpr const char* kK18 = "the paper's row looks computed from the others (K18)";

class Reproduction {
 public:
  explicit Reproduction(const PhoneFolder& folder)
      : folder_(folder), runs_(folder.path), rows_(folder) {}

  TestReport run() {
    add_table3();
    add_graphs();
    add_shares();
    add_speedups();
    add_energy();
    add_memory();
    add_table4();
    return rows_.take("sd.npu");
  }

 private:
  // Accepted tokens as published for a model and a task.
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
  // What else a reader of a row of Table 3 should know.
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

  // The prompt counts: section 4.2 prints as speedups per token what section 1 prints as end to
  // end.
  void add_table3() {
    std::vector<std::tuple<const plan::PublishedRow*, std::string, const char*, double>> counted;
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper != "sd.npu" || !row.what.starts_with(kTable3)) continue;
      const auto model = std::find_if(
          std::begin(kModels), std::end(kModels),
          [&](const ModelName& m) { return row.configuration.starts_with(m.published); });
      const auto column = std::find_if(
          std::begin(kColumns), std::end(kColumns),
          [&](const Column& c) { return row.what.substr(kTable3.size()).starts_with(c.begin); });
      if (model == std::end(kModels) || column == std::end(kColumns)) {
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
      if (!column->counts) {
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

  void add_graphs() {
    const char* group = "one graph and two (sections 1, 3.2)";
    const ModelName& model = kModels[1];
    const double load_s = runs_.whole_load_s(model.known, kK60);
    const SdRequest ours = request(model, kK60, SdSystem::kOurs);
    const SwitchedPrompt switched = runs_.switched_prompt(model.known, kK60, kPrompt);
    const double next_s =
        runs_.switched_prompt(model.known, kK60, kPrompt, schedule::Layout::kStep).prompt_s;
    const double plain_s = runs_.prompt(model.known, kK60, kPrompt, kSdPromptShape).seconds;
    const double steps_s = runs_.prompt(model.known, kK60, kPrompt, kSdStepShape).seconds;
    rows_.add("df006", "", group, TestKind::kRatio, 100.0 * load_s / ours.seconds(),
              fmt::format("Qwen2.5-1.5B, 8 Gen 2: loading takes {:.2f} s, a request {:.2f} s; "
                          "hidden, the prompt takes {:.2f} s instead of {:.2f} s, and with the way "
                          "back {:.2f} s; in the step's layout all the time {:.2f} s",
                          load_s, ours.seconds(), switched.prompt_s, plain_s, next_s, steps_s));
    rows_.add_ordering("section 3.2: a switch during the prompt is faster than one behind it",
                       switched.finished_s < plain_s + load_s);
    const Memory memory = memory_of(model);
    rows_.add(
        "df007", "", group, TestKind::kRatio,
        (2.0 * memory.weights + memory.buffers(kSdPromptShape) + memory.buffers(kSdStepShape)) /
            (memory.weights + memory.buffers(kSdPromptShape)),
        "Qwen2.5-1.5B: weights and buffers of two graphs over those of one");
  }

  void add_shares() {
    const char* group = "prompts and shares of time, 8 Elite";
    const ModelName& model = kModels[1];
    rows_.add("df014", "", group, TestKind::kRange,
              kPrompt / runs_.prompt(model.known, kOnePlus13, kPrompt, kSdPromptShape).seconds,
              fmt::format("Qwen2.5-1.5B, {} tokens", kPrompt));
    const double cpu = request(model, kOnePlus13, SdSystem::kCpu).steps_percent();
    for (const char* name : {"question answering", "summary"}) {
      rows_.add("df015", name, group, TestKind::kRatio, cpu,
                "Qwen2.5-1.5B, steps on the CPU; lengths are assumed to be the same");
    }
    std::vector<double> all, npu, reduction;
    for (const ModelName& m : kModels) {
      for (const char* phone : {kK60, kK70, kOnePlus13}) {
        all.push_back(request(m, phone, SdSystem::kCpu).steps_percent());
      }
      const SdRequest vanilla = request(m, kOnePlus13, SdSystem::kNpu);
      npu.push_back(vanilla.steps_percent());
      reduction.push_back(vanilla.steps.seconds /
                          request(m, kOnePlus13, SdSystem::kOurs).steps.seconds);
    }
    double mean = 0.0;
    for (const double percent : all) mean += percent / static_cast<double>(all.size());
    rows_.add("df016", "", group, TestKind::kRatio, mean,
              "steps on the CPU, three models on three phones");
    rows_.add_range("df017", "", group, npu, "three models");
    rows_.add_range("df018", "", group, reduction, "three models");
  }

  using Measure = std::function<double(const SdRequest&)>;
  // How much better sd.npu is than any of the systems, over models, tasks and phones.
  std::vector<double> gains(const std::vector<ModelName>& models,
                            const std::vector<const char*>& phones,
                            const std::vector<const char*>& tasks,
                            const std::vector<SdSystem>& systems, const Measure& measure,
                            const SdSystem& ours = SdSystem::kOurs) {
    std::vector<double> result;
    for (const ModelName& model : models) {
      for (const char* phone : phones) {
        for (const char* name : tasks) {
          for (const SdSystem& other : systems) {
            result.push_back(measure(request(model, phone, other, name)) /
                             measure(request(model, phone, ours, name)));
          }
        }
      }
    }
    return result;
  }
  const std::vector<ModelName> models_{std::begin(kModels), std::end(kModels)};
  const std::vector<const char*> tasks_{std::begin(kTasks), std::end(kTasks)};
  const std::vector<const char*> phones_{kK60, kK70, kOnePlus13};
  const std::vector<SdSystem> npu_{SdSystem::kNpu}, cpu_{SdSystem::kCpu},
      plain_{SdSystem::kNpu, SdSystem::kCpu}, sam_{SdSystem::kNpuSam, SdSystem::kCpuSam},
      eagle_{SdSystem::kNpuEagle, SdSystem::kCpuEagle};

  void add_speedups() {
    const char* group = "speed over the other systems, whole requests (section 4.2)";
    const Measure seconds = [](const SdRequest& r) { return r.seconds(); };
    const std::string all = "three models, three phones, four tasks";
    const auto add = [&](const char* id, const char* name, const std::vector<const char*>& phones,
                         const std::vector<const char*>& tasks,
                         const std::vector<SdSystem>& systems, const std::string& inputs) {
      rows_.add_range(id, name, group, gains(models_, phones, tasks, systems, seconds), inputs);
    };
    add("df035", "NPU vanilla", phones_, tasks_, npu_, all);
    add("df035", "CPU vanilla", phones_, tasks_, cpu_, all);
    add("df036", "over NPU vanilla", phones_, {"summary"}, npu_, "three models, three phones");
    add("df036", "CPU vanilla", phones_, {"summary"}, cpu_, "three models, three phones");
    add("df037", "SAM", phones_, tasks_, sam_, all + "; SAM on NPU and CPU");
    add("df037", "EAGLE", phones_, tasks_, eagle_, all + "; 5.5 accepted (df013)");
    rows_.add_range("df038", "SAM", group,
                    gains(models_, phones_, tasks_, cpu_, seconds, SdSystem::kCpuSam), all);
    rows_.add_range("df038", "EAGLE on CPU against CPU vanilla", group,
                    gains(models_, phones_, tasks_, cpu_, seconds, SdSystem::kCpuEagle), all);
    add("df039", "over NPU vanilla", {kK70}, tasks_, npu_, "8 Gen 3, three models, four tasks");
    add("df039", "CPU vanilla", {kK70}, tasks_, cpu_, "8 Gen 3, three models, four tasks");
    add("df048", "", phones_, tasks_, plain_, all + "; steps on NPU or CPU");
    const auto prompt_s = [&](const char* phone) {
      return runs_.prompt(kModels[1].known, phone, kPrompt, kSdPromptShape).seconds;
    };
    rows_.add_ordering("df040: the NPU of the 8 Gen 3 is slower than that of the 8 Elite",
                       prompt_s(kK70) > prompt_s(kOnePlus13));
    rows_.add_ordering("df040: the NPU of the 8 Gen 3 is slower than that of the 8 Gen 2",
                       prompt_s(kK70) > 1.001 * prompt_s(kK60));
  }

  void add_energy() {
    const char* group = "energy of whole requests (section 4.2), 8 Gen 2 and 8 Elite";
    const Measure joules = [](const SdRequest& r) { return r.joules(); };
    const std::vector<const char*> phones{kK60, kOnePlus13};
    const auto add = [&](const char* id, const char* name, const std::vector<ModelName>& models,
                         const std::vector<SdSystem>& systems) {
      rows_.add_range(id, name, group, gains(models, phones, tasks_, systems, joules),
                      models.size() == 1 ? "one model, two phones, four tasks"
                                         : "three models, two phones, four tasks");
    };
    add("df041", "NPU vanilla", models_, npu_);
    add("df041", "CPU vanilla", models_, cpu_);
    add("df042", "SAM", models_, sam_);
    add("df042", "EAGLE", models_, eagle_);
    add("df043", "", {kModels[2]}, plain_);
    add("df044", "", {kModels[0]}, npu_);
    const struct {
      const char* name;
      const char* phone;
    } kRequests[] = {{"OP13", kOnePlus13}, {"K60 in the order of the text", kK60}};
    for (const auto& [name, phone] : kRequests) {
      double mean = 0.0;
      for (const char* task_name : kTasks) {
        mean += request(kModels[1], phone, SdSystem::kOurs, task_name).joules() /
                static_cast<double>(std::size(kTasks));
      }
      rows_
          .add("df045", name, group, TestKind::kValue, mean,
               "Qwen2.5-1.5B with sd.npu, mean of four tasks")
          .reason = "which phone has which figure contradicts the sentence (K18)";
    }
  }

  // Bytes. Weights of products in 8 bits, the embedding in floats beside them, a buffer for what
  // each op gives.
  struct Memory {
    double weights = 0.0, embedding = 0.0, block = 0.0;
    double buffers_per_row = 0.0, cache = 0.0, logits_row = 0.0, draft_model = 0.0;
    double buffers(int n_rows) const { return buffers_per_row * n_rows; }
    double vanilla() const { return weights + embedding + buffers(kSdOneShape) + cache; }
    // Logits of as many rows as the head takes at once; of each position a few likely tokens and
    // how likely they are.
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
        memory.embedding = n * kFloatBytes;  // of the head's size
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

  void add_memory() {
    const char* group = "memory (section 4.3)";
    const Memory qwen = memory_of(kModels[1]);
    const std::string inputs = fmt::format(
        "Qwen2.5-1.5B: products {:.2f} GB, embedding in floats {:.2f} GB, a block {:.3f} GB",
        qwen.weights / kGiga, qwen.embedding / kGiga, qwen.block / kGiga);
    rows_.add("df046", "sd.npu", group, TestKind::kValue, qwen.ours() / kGiga,
              inputs + "; one copy and one block");
    rows_.add("df046", "NPU vanilla", group, TestKind::kRange, qwen.vanilla() / kGiga, inputs);
    rows_.add("df046", "CPU vanilla", group, TestKind::kValue,
              (qwen.vanilla() + qwen.weights) / kGiga, inputs + "; the products twice");
    std::vector<double> eagle;
    for (const ModelName& model : kModels) {
      eagle.push_back(memory_of(model).draft_model / kGiga);
    }
    rows_.add_range("df047", "", group, eagle, "one block and a head in half floats, three models");
    rows_.add("df011", "", group, TestKind::kRange, memory_of(kModels[2]).calibration() / kMega,
              "Llama-3.2-3B: logits of 32 positions, 8 likely tokens of each of all positions");
  }

  // Measured on another machine, so an input; beside it what it comes to on the phone, with steps
  // on either lane.
  void add_table4() {
    for (const plan::PublishedRow& row : folder_.published) {
      if (row.paper != "sd.npu" || row.where != "Table 4") continue;
      const bool is_qwen = row.configuration.starts_with("Q-1.5B");
      const bool is_llama = row.configuration.starts_with("L-1B");
      for (const plan::PublishedValue& value : row.values) {
        std::string text = "this model is not among those of Table 3";
        if (is_qwen || is_llama) {
          const ModelName model{"", is_qwen ? "qwen2.5-1.5b" : "llama-3.2-1b", ""};
          const SdTask with{kPrompt, kOutput, *value.value, *value.value};
          const bool is_ours = value.name.ends_with("ours");
          const SdDrafts drafts = is_ours ? SdDrafts::kCalibrated : SdDrafts::kRetrieved;
          text = "8 Gen 2, ms a token, and of them steps:";
          for (const bool is_on_cpu : {false, true}) {
            const SdSystem system{is_on_cpu, is_ours && !is_on_cpu, drafts};
            const SdRequest r = runs_.request(model.known, kK60, system, with);
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
};

}  // namespace

TestReport simulate_sd_npu(const PhoneFolder& folder) { return Reproduction(folder).run(); }

TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace) {
  constexpr int kTokens = 4 * kSdPromptShape;
  constexpr const char* kModel = "qwen2.5-1.5b";
  SdRuns runs(folder.path);
  // The paper's example has two chunks; two here are over before all blocks are loaded.
  runs.switched_prompt(kModel, kK60, kTokens, schedule::Layout::kPrompt, trace);
  return {
      fmt::format("{}: blocks change their layout during a prompt of {} tokens", kModel, kTokens),
      fmt::format("virtual phone {} with sd.npu; modelled time, nothing is computed", kK60)};
}

}  // namespace troika::papers
