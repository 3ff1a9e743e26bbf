#include "papers/npu_speeds.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

namespace troika::papers {
namespace {

constexpr int kLongPrompt = 1024, kShortPrompt = 64;  // Figure 14

struct Rival {
  const char* name;
  Processor processor;
};
// In the order in which the paper prints them.
constexpr Rival kRivals[] = {{"llama.cpp", Processor::kCpu},
                             {"MNN", Processor::kCpu},
                             {"MLC", Processor::kGpu},
                             {"TFLite", Processor::kGpu}};

NpuRun alone(const char* model, int n_prompt, Processor processor, const char* phone = "8gen3") {
  NpuRun run;
  run.model = model;
  run.n_prompt = n_prompt;
  run.step = std::nullopt;
  run.phone = phone;
  run.processors = {processor};
  return run;
}

// Returns how many times longer the prompt of each model takes on one processor.
std::vector<double> speedups(NpuRuns& runs, Processor rival, int n_prompt, const char* phone) {
  std::vector<double> all;
  for (const NpuModel& model : kNpuModels) {
    NpuRun ours;
    ours.model = model.known;
    ours.n_prompt = n_prompt;
    ours.phone = phone;
    all.push_back(runs.result(alone(model.known, n_prompt, rival, phone)).prefill.seconds /
                  runs.result(ours).prefill.seconds);
  }
  return all;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

const plan::PublishedValue& value_at(const TestRows& rows, const char* id, size_t index) {
  const plan::PublishedRow& row = rows.row_of(id);
  if (index >= row.values.size()) {
    throw Error(fmt::format("The published row '{}' has no value {}.", id, index + 1));
  }
  return row.values[index];
}

// The middle of what a row of inputs prints.
double input(const TestRows& rows, const char* id, const char* name) {
  for (const plan::PublishedValue& value : rows.row_of(id).values) {
    if (value.name == name) return (value.low + value.high) / 2.0;
  }
  throw Error(fmt::format("The published row '{}' has no value '{}'.", id, name));
}

}  // namespace

void add_simulated_speeds(NpuRuns& runs, TestRows& rows) {
  const char* group = "prompts over one processor, both simulated (Figure 14)";
  const struct {
    const char* id;
    const char* phone;
    int n_prompt;
  } kRows[] = {{"nf167", "8gen3", kLongPrompt},
               {"nf168", "8gen2", kLongPrompt},
               {"nf170", "8gen3", kShortPrompt}};
  for (const auto& [id, phone, n_prompt] : kRows) {
    for (size_t i = 0; i < std::size(kRivals); ++i) {
      rows.add_range(id, value_at(rows, id, i).name, group,
                     speedups(runs, kRivals[i].processor, n_prompt, phone),
                     fmt::format("{} tokens, {}, five models; {} as a plain {}", n_prompt, phone,
                                 kRivals[i].name, lanes::processor_name(kRivals[i].processor)));
    }
  }
  for (size_t i = 0; i < std::size(kRivals); ++i) {
    const Processor rival = kRivals[i].processor;
    TestRow& row =
        rows.add("nf171", value_at(rows, "nf171", i).name, group, TestKind::kRatio,
                 geometric_mean(speedups(runs, rival, kLongPrompt, "8gen3")) /
                     geometric_mean(speedups(runs, rival, kShortPrompt, "8gen3")),
                 fmt::format("{}: 1024 against 64 tokens, means of five models", kRivals[i].name));
    if (i == 0) row.reason = "not the ratio of the paper's own figures, which is 2.6 (K5)";
  }
}

void add_prompt_shares(NpuRuns& runs, TestRows& rows) {
  const char* group = "share of the prompt in a task on one processor (Figure 1)";
  const auto share = [&](const char* model, const char* task, Processor processor) {
    const auto n_prompt = static_cast<int>(std::lround(input(rows, "nf185", task)));
    const NpuResult& result = runs.result(alone(model, n_prompt, processor));
    const double decode_s = result.step_s * input(rows, "nf186", task);
    return 100.0 * result.prefill.seconds / (result.prefill.seconds + decode_s);
  };
  for (const auto& [name, processor] :
       {std::pair("CPU", Processor::kCpu), std::pair("GPU", Processor::kGpu)}) {
    std::vector<double> shares;
    for (const char* task : {"LongBench", "DroidTask", "Persona-Chat"}) {
      shares.push_back(share(kNpuModels[0].known, task, processor));
    }
    rows.add_range("nf183", name, group, shares, "Qwen1.5-1.8B, three tasks (nf185, nf186)");
  }
  std::vector<double> shares;
  for (const NpuModel& model : kNpuModels) {
    shares.push_back(share(model.known, "DroidTask", Processor::kCpu));
  }
  rows.add_range("nf184", "", group, shares, "five models, DroidTask (nf185, nf186)");
}

}  // namespace troika::papers
