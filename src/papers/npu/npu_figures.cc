#include "papers/npu/npu_figures.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "papers/npu/npu_memory.h"

namespace troika::papers {
namespace {

constexpr int kContextOfChunks = 2048;

// Sets what a run's name says: a stage of the ablation, all of them, or one processor alone.
void choose_run(const std::string& name, NpuRun* run) {
  constexpr std::pair<const char*, NpuStage> kStages[] = {{"naive", NpuStage::kNaive},
                                                          {"chunk", NpuStage::kChunk},
                                                          {"outlier", NpuStage::kOutlier},
                                                          {"llm.npu", NpuStage::kOutOfOrder}};
  for (const auto& [known, stage] : kStages) {
    if (name != known) continue;
    run->stage = stage;
    return;
  }
  run->stage = std::nullopt;
  run->processors = {lanes::processor_from_name(name)};
}

NpuRun npu_run_of(const plan::FigureCall& call) {
  NpuRun run;
  run.model = call.text("model");
  run.n_prompt = call.count("tokens");
  if (call.has("run")) choose_run(call.text("run"), &run);
  if (call.has("prune")) run.prune = call.count("prune");
  if (call.has("phone")) run.phone = call.text("phone");
  return run;
}

// Returns the middle of what a row of inputs prints.
double input(const TestRows& rows, const std::string& id, const std::string& name) {
  for (const plan::PublishedValue& value : rows.row_of(id).values) {
    if (value.name == name) return (value.low + value.high) / 2.0;
  }
  throw Error(fmt::format("The published row '{}' has no value '{}'.", id, name));
}

// Returns how long a prompt takes in a run of llm.npu's stack, or of PowerInfer-2 with all weights
// in memory.
double prompt_s(NpuRuns& runs, PowerRuns& rivals, const plan::FigureCall& call) {
  if (!call.has("run") || call.text("run") != "powerinfer-2") {
    return runs.result(npu_run_of(call)).prefill.seconds;
  }
  PowerRun run;
  run.model = call.text("model");
  run.ffn_share = 1.0;
  run.n_prompt = call.count("tokens");
  if (call.has("phone")) run.phone = call.text("phone");
  return rivals.result(run).rate.seconds;
}

double prompt_percent(NpuRuns& runs, const TestRows& rows, const plan::FigureCall& call) {
  const std::string& task = call.text("task");
  NpuRun run;
  run.model = call.text("model");
  run.n_prompt = static_cast<int>(std::lround(input(rows, call.text("prompt row"), task)));
  choose_run(call.text("run"), &run);
  const NpuResult& result = runs.result(run);
  const double decode_s = result.step_s * input(rows, call.text("answer row"), task);
  return kPercent * result.prefill.seconds / (result.prefill.seconds + decode_s);
}

void add_figures_of_memory(const std::string& folder, Figures* figures) {
  // The memory of a model is computed once, because several figures ask for it.
  const auto known = std::make_shared<std::map<std::pair<std::string, int>, NpuMemory>>();
  const auto add = [&](const char* name, auto figure_of) {
    figures->add(name, {"model", "tokens"}, [=, &folder](const plan::FigureCall& call) {
      const std::pair key(call.text("model"), call.count("tokens"));
      auto at = known->find(key);
      if (at == known->end()) {
        at = known->emplace(key, npu_memory(folder, key.first, key.second)).first;
      }
      return figure_of(at->second);
    });
  };
  add("graphs", [](const NpuMemory& m) { return double(m.n_subgraphs); });
  add("graphs shared by chunks", [](const NpuMemory& m) { return double(m.n_shared); });
  add("saved GB", [](const NpuMemory& m) { return m.saved_bytes() / kBytesPerGb; });
  add("unshared GB", [](const NpuMemory& m) { return m.unshared_bytes / kBytesPerGb; });
  add("model GB", [](const NpuMemory& m) { return m.model_bytes / kBytesPerGb; });
  add("total over model", [](const NpuMemory& m) { return m.total_bytes() / m.model_bytes; });
  add("float rows percent",
      [](const NpuMemory& m) { return kPercent * m.shadow_bytes / m.total_bytes(); });
  // The planner chooses the chunk on the phone, with all lanes free.
  figures->add("chunk length", {"model"}, [&folder](const plan::FigureCall& call) {
    prepare::Options options = npu_options(folder, call.text("model"));
    options.memory.context = kContextOfChunks;
    return double(engine::Engine(options).plan().chunk());
  });
}

}  // namespace

void add_npu_figures(NpuRuns& runs, PowerRuns& rivals, const TestRows& rows, Figures* figures) {
  const auto add = [&](const char* name, auto figure_of) {
    figures->add(name, {"model", "tokens", "run", "prune", "phone"},
                 [&runs, figure_of](const plan::FigureCall& call) {
                   return figure_of(runs.result(npu_run_of(call)));
                 });
  };
  figures->add(
      "prompt s", {"model", "tokens", "run", "prune", "phone"},
      [&runs, &rivals](const plan::FigureCall& call) { return prompt_s(runs, rivals, call); });
  add("prompt rate", [](const NpuResult& r) { return r.prefill.tokens_per_s(); });
  add("prompt joules", [](const NpuResult& r) { return r.prefill.joules; });
  add("ms the NPU is busy",
      [](const NpuResult& r) { return kMsPerS * r.npu_busy * r.prefill.seconds; });
  add("percent the NPU waits", [](const NpuResult& r) { return kPercent * (1.0 - r.npu_busy); });
  // Adds the figure "prompt speedup": the time of another run divided by that of the whole system.
  figures->add("prompt speedup", {"model", "tokens", "run", "phone"},
               [&runs, &rivals](const plan::FigureCall& call) {
                 plan::FigureCall ours = call;
                 ours.with.erase("run");
                 return prompt_s(runs, rivals, call) / prompt_s(runs, rivals, ours);
               });
  figures->add("prompt percent of a task", {"model", "run", "task", "prompt row", "answer row"},
               [&](const plan::FigureCall& call) { return prompt_percent(runs, rows, call); });
  figures->add_published(rows);
  add_figures_of_memory(rows.folder().path, figures);
}

}  // namespace troika::papers
