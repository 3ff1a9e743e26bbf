#include "papers/sd/reproduce_sd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/model_name.h"
#include "papers/sd/sd_runs.h"
#include "prepare/plan/make_plan.h"
#include "schedule/shared_graphs.h"

namespace troika::papers {
namespace {

constexpr double kHalfBytes = 2.0;
// Names the group whose rows are compared with each other where they are of one model or system.
constexpr const char* kTable3 = "time of a request per token of the answer (Table 3), 8 Gen 2";

// Names the models as Tables 3 and 4 do.
constexpr ModelName kModels[] = {{"Q-0.5B", "qwen2.5-0.5b"},
                                 {"Q-1.5B", "qwen2.5-1.5b"},
                                 {"L-3B", "llama-3.2-3b"},
                                 {"L-1B", "llama-3.2-1b"}};
constexpr const char* kK60 = "8gen2";
constexpr const char* kK70 = "8gen3";
constexpr const char* kOnePlus13 = "8elite";

const std::pair<const char*, SdSystem> kSystems[] = {
    {"NPU", SdSystem::kNpu},           {"+G", SdSystem::kNpuGraph},
    {"+SD", SdSystem::kNpuSam},        {"+G+SD", SdSystem::kNpuGraphSam},
    {"sd.npu", SdSystem::kOurs},       {"NPU-EAGLE", SdSystem::kNpuEagle},
    {"CPU", SdSystem::kCpu},           {"CPU-SAM", SdSystem::kCpuSam},
    {"CPU-EAGLE", SdSystem::kCpuEagle}};
const ModelName& model_of(const plan::FigureCall& call) {
  const std::string& name = call.text("model");
  for (const ModelName& model : kModels) {
    if (name == model.known) return model;
  }
  throw Error(fmt::format("A figure of sd.npu is asked for '{}', no model of the paper.", name));
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
      : folder_(folder), given_(folder.path, "sd.npu"), runs_(folder.path), rows_(folder) {}

  TestReport run() {
    add_figures();
    add_figures_of_table3();
    add_figures_of_memory();
    const plan::SimulatedFile file = plan::read_simulated(folder_.path + "/simulated/sd.npu.json");
    add_rows(file, figures_, &rows_);
    add_orderings_of_table3(file);
    add_orderings();
    add_table4();
    return rows_.take("sd.npu");
  }

 private:
  int n_prompt() const { return runs_.given().n_prompt; }
  int n_output() const { return runs_.given().n_output; }

  // Returns the row of accepted tokens that stands for a model and a task: the model's own, or that
  // of the nearest of its family.
  const plan::PublishedRow& acceptance(const ModelName& model, const std::string& task) const {
    const std::string list = fmt::format("accepted tokens of {}", model.known);
    for (const std::string& id : given_.rows(list)) {
      const plan::PublishedRow& row = rows_.row_of(id);
      if (row.configuration.find(fmt::format(", {},", task)) != std::string::npos) return row;
    }
    throw Error(fmt::format("{}/simulated/sd.npu.json: the list '{}' has no row of the task '{}'.",
                            folder_.path, list, task));
  }

  SdTask task(const ModelName& model, const std::string& name) const {
    const plan::PublishedRow& row = acceptance(model, name);
    return {n_prompt(), n_output(), plan::number_of(row, "SAM"),
            plan::number_of(row, "SAM + ours")};
  }
  SdRequest request(const plan::FigureCall& call) {
    const ModelName& model = model_of(call);
    return runs_.request(model.known, call.text("phone"), system_of(call),
                         task(model, call.text("task")));
  }
  void add_figure_of_request(const char* name, double (*figure_of)(const SdRequest&)) {
    figures_.add(
        name, {"model", "phone", "system", "task"},
        [this, figure_of](const plan::FigureCall& call) { return figure_of(request(call)); });
  }

  // Adds the figures of Table 3. The prompt counts in its times, because section 4.2 prints as
  // speedups per token what section 1 prints as end to end.
  void add_figures_of_table3() {
    const auto per_token = [&](const char* name, double (*seconds_of)(const SdRequest&)) {
      figures_.add(name, {"model", "phone", "system", "task"},
                   [this, seconds_of](const plan::FigureCall& call) {
                     return 1e3 * seconds_of(request(call)) / n_output();
                   });
    };
    per_token("ms a token", [](const SdRequest& r) { return r.seconds(); });
    per_token("steps ms a token", [](const SdRequest& r) { return r.steps.seconds; });
    per_token("ms a token, calibrated behind the prompt",
              [](const SdRequest& r) { return r.seconds() + r.more_if_behind_s; });
    figures_.add(
        "tokens accepted", {"model", "system", "task"}, [this](const plan::FigureCall& call) {
          return runs_.accepted_tokens(system_of(call), task(model_of(call), call.text("task")));
        });
    figures_.add("answer tokens", {}, [this](const plan::FigureCall&) { return 1.0 * n_output(); });
  }

  // Adds which of two cells of Table 3 is smaller, where both are of one model or of one system.
  void add_orderings_of_table3(const plan::SimulatedFile& file) {
    std::vector<const plan::SimulatedRow*> counted;
    for (const plan::SimulatedGroup& group : file.groups) {
      if (group.name != kTable3) continue;
      for (const plan::SimulatedRow& row : group.rows) {
        if (row.reason.empty()) counted.push_back(&row);
      }
    }
    if (counted.empty()) throw Error(fmt::format("No row that counts is in '{}'.", kTable3));
    for (size_t i = 0; i < counted.size(); ++i) {
      const plan::FigureCall& a = counted[i]->terms.at(0).of;
      for (size_t j = i + 1; j < counted.size(); ++j) {
        const plan::FigureCall& b = counted[j]->terms.at(0).of;
        if (a.text("model") != b.text("model") && a.text("system") != b.text("system")) continue;
        rows_.add_ordering(fmt::format("{} against {}: {} {}, {} {}", counted[i]->id,
                                       counted[j]->id, model_of(a).published, a.text("system"),
                                       model_of(b).published, b.text("system")),
                           plan::number_of(rows_.row_of(counted[i]->id), ""),
                           plan::number_of(rows_.row_of(counted[j]->id), ""), figures_.value(a),
                           figures_.value(b));
      }
    }
  }

  // Adds the figures that stand beside published rows as phones/simulated/sd.npu.json says.
  void add_figures() {
    add_figure_of_request("request s", [](const SdRequest& r) { return r.seconds(); });
    add_figure_of_request("request joules", [](const SdRequest& r) { return r.joules(); });
    add_figure_of_request("steps s", [](const SdRequest& r) { return r.steps.seconds; });
    add_figure_of_request("steps percent", [](const SdRequest& r) { return r.steps_percent(); });
    const auto of_prompt = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model", "phone"}, [figure_of](const plan::FigureCall& call) {
        return figure_of(call.text("model"), call.text("phone"));
      });
    };
    using Text = const std::string&;
    of_prompt("load s",
              [this](Text model, Text phone) { return runs_.whole_load_s(model, phone); });
    of_prompt("plain prompt s",
              [this](Text model, Text phone) { return plain_prompt_s(model, phone); });
    of_prompt("steps' prompt s", [this](Text model, Text phone) {
      return runs_.prompt(model, phone, n_prompt(), runs_.given().step_shape).seconds;
    });
    of_prompt("prompt rate",
              [this](Text model, Text phone) { return n_prompt() / plain_prompt_s(model, phone); });
    of_prompt("switched prompt s", [this](Text model, Text phone) {
      return runs_.switched_prompt(model, phone, n_prompt()).prompt_s;
    });
    of_prompt("next prompt s", [this](Text model, Text phone) {
      return runs_.switched_prompt(model, phone, n_prompt(), schedule::Layout::kStep).prompt_s;
    });
    of_prompt("prompt tokens", [this](Text, Text) { return 1.0 * n_prompt(); });
  }

  double plain_prompt_s(const std::string& model, const std::string& phone) {
    return runs_.prompt(model, phone, n_prompt(), runs_.given().prompt_shape).seconds;
  }

  // Adds the figures of memory that phones/simulated/sd.npu.json names.
  void add_figures_of_memory() {
    const auto add = [&](const char* name, auto figure_of) {
      figures_.add(name, {"model"}, [this, figure_of](const plan::FigureCall& call) {
        return figure_of(memory_of(model_of(call)));
      });
    };
    add("products GB", [](const Memory& m) { return m.weights / kBytesPerGb; });
    add("embedding GB", [](const Memory& m) { return m.embedding / kBytesPerGb; });
    add("block GB", [](const Memory& m) { return m.block / kBytesPerGb; });
    add("draft model GB", [](const Memory& m) { return m.draft_model / kBytesPerGb; });
    add("calibration MB", [](const Memory& m) { return m.calibration() / kBytesPerMb; });
    add("bytes of one graph",
        [](const Memory& m) { return m.weights + m.buffers(m.given.prompt_shape); });
    add("bytes of two graphs", [](const Memory& m) {
      return 2.0 * m.weights + m.buffers(m.given.prompt_shape) + m.buffers(m.given.step_shape);
    });
    figures_.add("memory GB", {"model", "system"}, [this](const plan::FigureCall& call) {
      const Memory memory = memory_of(model_of(call));
      const SdSystem system = system_of(call);
      if (system == SdSystem::kOurs) return memory.ours() / kBytesPerGb;
      return (memory.vanilla() + (system.is_on_cpu ? memory.weights : 0.0)) / kBytesPerGb;
    });
  }

  // Adds the orderings that the paper states in words.
  void add_orderings() {
    const std::string model = kModels[1].known;
    const auto prompt_s = [&](const char* phone) { return plain_prompt_s(model, phone); };
    rows_.add_ordering("section 3.2: a switch during the prompt is faster than one behind it",
                       runs_.switched_prompt(model, kK60, n_prompt()).finished_s <
                           prompt_s(kK60) + runs_.whole_load_s(model, kK60));
    rows_.add_ordering("section 4.2: the NPU of the 8 Gen 3 is slower than that of the 8 Elite",
                       prompt_s(kK70) > prompt_s(kOnePlus13));
    rows_.add_ordering("section 4.2: the NPU of the 8 Gen 3 is slower than that of the 8 Gen 2",
                       prompt_s(kK70) > 1.001 * prompt_s(kK60));
  }

  // Bytes of weights of products in 8 bits, of the embedding in floats beside them, and of a buffer
  // for each op's output.
  struct Memory {
    SdGiven given;
    double weights = 0.0, embedding = 0.0, block = 0.0;
    double buffers_per_row = 0.0, cache = 0.0, logits_row = 0.0, draft_model = 0.0;
    double buffers(int n_rows) const { return buffers_per_row * n_rows; }
    double vanilla() const { return weights + embedding + buffers(given.one_shape) + cache; }
    // Returns the bytes of logits of as many rows as the head takes at once, and, for each
    // position, of a few likely tokens and their probabilities.
    double calibration() const {
      constexpr double kLikely = 8.0, kNodeBytes = 16.0;
      return logits_row * given.step_shape + given.n_prompt * kLikely * kNodeBytes;
    }
    double ours() const {
      return weights + embedding + block + buffers(given.prompt_shape) + cache + calibration();
    }
  };
  Memory memory_of(const ModelName& model) {
    const engine::Engine& engine = runs_.engine(model.known, kK60);
    const model::Blueprint& blueprint = engine.blueprint();
    Memory memory{.given = runs_.given()};
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
        (n_prompt() + n_output());
    return memory;
  }

  // Adds Table 4, which was measured on another machine and so is an input. Beside it stand the
  // speeds that the virtual phone would have with it, once with steps on the CPU and once on the
  // NPU.
  void add_table4() {
    for (const std::string& id : given_.rows("accepted tokens")) {
      const plan::PublishedRow& row = rows_.row_of(id);
      const ModelName* const model = published_model(kModels, row.configuration);
      for (const plan::PublishedValue& value : row.values) {
        std::string text = "this model is not among those of Table 3";
        if (model != nullptr) {
          const double accepted = plan::number_of(row, value.name);
          const SdTask with{n_prompt(), n_output(), accepted, accepted};
          const bool is_ours = value.name.ends_with("ours");
          const SdDrafts drafts = is_ours ? SdDrafts::kCalibrated : SdDrafts::kRetrieved;
          text = "8 Gen 2, ms a token, and of them steps:";
          for (const bool is_on_cpu : {false, true}) {
            const SdSystem system{is_on_cpu, is_ours && !is_on_cpu, drafts};
            const SdRequest r = runs_.request(model->known, kK60, system, with);
            text += fmt::format("{} {:.1f}, {:.1f}", is_on_cpu ? "; on the CPU" : " on the NPU",
                                1e3 * r.seconds() / n_output(), 1e3 * r.steps.seconds / n_output());
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
  Given given_;
  SdRuns runs_;
  TestRows rows_;
  Figures figures_;
};

}  // namespace

TestReport simulate_sd_npu(const PhoneFolder& folder) { return Reproduction(folder).run(); }

const plan::PublishedRow& published_gains_of_drafts(const PhoneFolder& folder) {
  const Given given(folder.path, "sd.npu");
  return TestRows(folder).row_of(given.rows("gains of drafts").front());
}

TimelineTitle trace_layout_switch(const PhoneFolder& folder, Trace* trace) {
  constexpr const char* kModel = "qwen2.5-1.5b";
  SdRuns runs(folder.path);
  const int n_tokens = 4 * runs.given().prompt_shape;
  // The paper's example has two chunks, but here two chunks end before all blocks are loaded.
  runs.switched_prompt(kModel, kK60, n_tokens, schedule::Layout::kPrompt, trace);
  return {
      .what = kModel,
      .how =
          fmt::format("Virtual phone {} with sd.npu; time is modelled. \"blocks\": the layout in "
                      "which each block is computed.",
                      kK60),
      .about = fmt::format("blocks change their layout during a prompt of {} tokens", n_tokens)};
}

}  // namespace troika::papers
