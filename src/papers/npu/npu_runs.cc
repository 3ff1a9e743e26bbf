#include "papers/npu/npu_runs.h"

#include <utility>

#include "machines/phone_setup.h"
#include "papers/given.h"
#include "papers/gpu_alone.h"
#include "papers/model_name.h"
#include "schedule/graphs.h"
#include "solve/lane_memory.h"

namespace troika::papers {

prepare::Options npu_options(const std::string& folder, const std::string& model) {
  prepare::Options options;
  options.phone.file = folder + "/8gen3.json";
  options.phone.stack = "llm.npu";
  options.model.file = model;
  options.model.type = "q8_0";
  options.phone.processors = {Processor::kCpu, Processor::kNpu};
  options.phone.npu_stage = NpuStage::kOutOfOrder;
  options.phone.has_values = false;
  return options;
}

namespace {

constexpr ModelName kNpuModels[] = {{"Qwen1.5-1.8B", "qwen1.5-1.8b"},
                                    {"Gemma-2B", "gemma-2b"},
                                    {"Phi-2-2.7B", "phi-2"},
                                    {"LlaMA-2-7B", "llama-2-7b"},
                                    {"Mistral-7B", "mistral-7b"}};

// Returns which share of the blocks' weights the products of one lane multiply.
double share_on(const engine::Engine& engine, int lane) {
  const plan::Plan& plan = engine.plan();
  const plan::Shape chunk = {plan::Phase::kPrompt, plan.chunk()};
  double all = 0.0, there = 0.0;
  for (const lanes::Subgraph& subgraph :
       schedule::cut_into_subgraphs(engine.blueprint(), plan.splits)) {
    if (subgraph.is_head()) continue;
    const auto bytes = static_cast<double>(solve::weight_bytes(subgraph, engine.weights()));
    all += bytes;
    if (plan.lane_of(subgraph.name, chunk, subgraph.block()) == lane) there += bytes;
  }
  return there / all;
}

}  // namespace

const char* known_npu_model(std::string_view configuration) {
  const ModelName* const model = published_model(kNpuModels, configuration);
  return model != nullptr ? model->known : nullptr;
}

NpuGiven read_npu_given(const std::string& folder) {
  const Given given(folder, "llm.npu");
  return {.chunk = given.count("tokens of a chunk"),
          .prune = given.count("percent of blocks without outliers"),
          .hot_share = given.share("percent of channels that are hot")};
}

NpuRuns::NpuRuns(std::string folder, std::vector<plan::ConstantChoice> constants)
    : folder_(std::move(folder)),
      given_(read_npu_given(folder_)),
      constants_(std::move(constants)) {}

// One processor alone needs no graphs of a fixed length, so nothing of its prompts is padded.
int NpuRuns::chunk_of(const NpuRun& run) const {
  constexpr int kMostTokens = 512;
  if (!run.stage) {
    const int n_chunks = (run.n_prompt + kMostTokens - 1) / kMostTokens;
    return (run.n_prompt + n_chunks - 1) / n_chunks;
  }
  // Without chunks a prompt has graphs of its own length.
  return *run.stage == NpuStage::kNaive ? run.n_prompt : given_.chunk;
}

const NpuResult& NpuRuns::result(const NpuRun& run) {
  if (const auto at = known_.find(run); at != known_.end()) return at->second;
  constexpr int kSteps = 8;
  prepare::Options options = npu_options(folder_, run.model);
  options.phone.file = folder_ + "/" + run.phone + ".json";
  options.phone.processors = run.processors;
  fill_queue_of_gpu_alone(&options);
  options.phone.npu_stage = run.stage;
  options.phone.npu_prune = run.prune.value_or(given_.prune);
  options.prompts.order = run.order;
  // Polling on shared flags is another paper's technique (H8).
  options.phone.has_fast_handover = false;
  options.phone.has_square_shapes = run.has_square_shapes;
  options.phone.constants = constants_;
  options.prompts.chunk = chunk_of(run);
  if (!run.has_memory_limit) {
    for (size_t lane = 0; lane < run.processors.size(); ++lane) {
      options.lanes.limits.push_back({static_cast<int>(lane), plan::PlannedLane::kNoLimit});
    }
  }
  options.memory.context = run.n_prompt + kSteps + 8;
  engine::Engine engine(options);
  engine::Session session(engine);
  const measure::Simulation simulation = measure::simulate_answer(session, run.n_prompt, kSteps);
  NpuResult result;
  result.prefill = simulation.prefill[0];
  result.step_s = simulation.decode.seconds / kSteps;
  for (size_t lane = 0; lane < engine.plan().lanes.size(); ++lane) {
    if (engine.plan().lanes[lane].kind == "npu") {
      result.npu_busy = simulation.prefill[0].busy_share[lane];
      result.npu_share = share_on(engine, static_cast<int>(lane));
    }
  }
  return known_.emplace(run, std::move(result)).first->second;
}

}  // namespace troika::papers
