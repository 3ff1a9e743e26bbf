#include "cli/papers/paper_reports.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/papers/measured_hetero.h"
#include "cli/papers/measured_npu.h"
#include "cli/papers/measured_sd.h"
#include "cli/papers/reports.h"
#include "papers/hetero/hetero_runs.h"
#include "papers/hetero/reproduce_hetero.h"
#include "papers/npu/reproduce_npu.h"
#include "papers/power/reproduce_power.h"
#include "papers/sd/reproduce_sd.h"
#include "papers/shadow/reproduce_shadow.h"

namespace troika::cli {
namespace {

nlohmann::ordered_json rows_json(const papers::PhoneFolder& /*folder*/,
                                 const papers::TestReport& report) {
  return report_json(report);
}

nlohmann::ordered_json npu_json(const papers::PhoneFolder& folder,
                                const papers::TestReport& report) {
  papers::TestReport with_intervals = report;
  const auto sensitivities = papers::sensitivities_of_llm_npu(folder, &with_intervals);
  nlohmann::ordered_json json = report_json(with_intervals);
  for (const papers::Sensitivity& s : sensitivities) {
    json["sensitivities"].push_back({{"constant", s.text},
                                     {"values", s.median_of_values},
                                     {"prompts", s.median_of_prompts},
                                     {"all", s.median_of_all},
                                     {"kept", s.orderings.n_kept},
                                     {"orderings", s.orderings.n}});
  }
  return json;
}

void print_npu_sensitivities(const papers::PhoneFolder& folder) {
  print(
      "what constants that no published row fixes would change, and an NPU that holds any "
      "model:\n");
  for (const papers::Sensitivity& s : papers::sensitivities_of_llm_npu(folder)) {
    print(
        fmt::format("  {:<26} values {:>5.1f} %, prompts {:>5.1f} %, all {:>5.1f} %, {} of {} "
                    "orderings\n",
                    s.text, 100 * s.median_of_values, 100 * s.median_of_prompts,
                    100 * s.median_of_all, s.orderings.n_kept, s.orderings.n));
  }
}

MeasuredHere measure_npu_here(const papers::PhoneFolder& /*folder*/, const ReproduceFlags& flags) {
  papers::MeasureNpuOptions options = flags.measure;
  Progress bar("measuring");
  options.progress = bar.function();
  const auto measured = std::make_shared<papers::NpuMeasurement>(papers::measure_npu(options));
  return {.fill = [=](papers::TestReport* report) { papers::fill_measured(*measured, report); },
          .to_json = [=] { return measured_npu_json(*measured); },
          .print = [=] { print_measured_npu(*measured); }};
}

MeasuredHere measure_sd_here(const papers::PhoneFolder& folder, const ReproduceFlags& flags) {
  const auto measured =
      std::make_shared<MeasuredSd>(measure_sd(flags.measure.model, flags.tasks, flags.draft_model));
  return {.fill = {},
          .to_json = [=] { return measured_sd_json(*measured); },
          .print =
              [measured, &folder] {
                print_measured_sd(*measured, papers::published_gains_of_drafts(folder));
              }};
}

MeasuredHere measure_hetero_here(const papers::PhoneFolder& /*folder*/,
                                 const ReproduceFlags& flags) {
  papers::MeasureHeteroOptions options = flags.hetero;
  options.model = flags.measure.model;
  options.graphs = papers::hetero_lengths(flags.phones);
  options.rounds = flags.measure.rounds;
  Progress bar("measuring");
  options.progress = bar.function();
  const auto measured =
      std::make_shared<papers::HeteroMeasurement>(papers::measure_hetero(options));
  return {.fill = {},
          .to_json = [=] { return measured_hetero_json(*measured); },
          .print = [=] { print_measured_hetero(*measured); }};
}

nlohmann::ordered_json hetero_json(const papers::PhoneFolder& folder,
                                   const papers::TestReport& report) {
  nlohmann::ordered_json json = report_json(report);
  for (const papers::OddPrompts& row : papers::odd_prompts_of_heterollm(folder)) {
    for (const papers::OddPrompts::Prompt& prompt : row.prompts) {
      json["odd_prompts"].push_back({{"system", row.system},
                                     {"tokens", prompt.n_tokens},
                                     {"seconds", prompt.seconds},
                                     {"graphs_s", prompt.graphs_s}});
    }
  }
  return json;
}

void print_odd_prompts(const papers::PhoneFolder& folder) {
  print("prompts of Llama-8B that have no graph of their length, ms; behind +, making graphs:\n");
  const std::vector<papers::OddPrompts> rows = papers::odd_prompts_of_heterollm(folder);
  std::string head = fmt::format("  {:<24}", "tokens");
  for (const auto& prompt : rows.front().prompts) head += fmt::format("{:>14}", prompt.n_tokens);
  print(head + "\n");
  for (const papers::OddPrompts& row : rows) {
    std::string line = fmt::format("  {:<24}", row.system);
    for (const auto& prompt : row.prompts) {
      const std::string graphs =
          prompt.graphs_s > 0.0 ? fmt::format("+{:.0f}", kMsPerS * prompt.graphs_s) : "";
      line += fmt::format(
          "{:>14}", fmt::format("{:.0f}{}", kMsPerS * (prompt.seconds - prompt.graphs_s), graphs));
    }
    print(line + "\n");
  }
}

nlohmann::ordered_json shadow_json(const papers::PhoneFolder& folder,
                                   const papers::TestReport& report) {
  papers::TestReport with_intervals = report;
  const auto sensitivities = papers::sensitivities_of_shadowattn(folder, &with_intervals);
  nlohmann::ordered_json json = report_json(with_intervals);
  for (const papers::ShadowSensitivity& s : sensitivities) {
    json["sensitivities"].push_back({{"constant", s.text},
                                     {"all", s.median_error},
                                     {"kernels", s.kernel_speedup},
                                     {"requests", s.request_speedup},
                                     {"kept", s.orderings.n_kept},
                                     {"orderings", s.orderings.n}});
  }
  for (const papers::AblationRow& row : papers::ablation_of_shadowattn(folder)) {
    json["ablation"].push_back(
        {{"what", row.what}, {"seconds", row.seconds}, {"joules", row.joules}});
  }
  for (const papers::KernelRow& row : papers::kernels_of_shadowattn(folder)) {
    json["kernels"].push_back({{"model", row.model},
                               {"system", papers::system_name(row.system)},
                               {"seconds", row.result.seconds},
                               {"joules", row.result.joules},
                               {"published_energy", row.published_energy}});
  }
  return json;
}

void print_shadow_tables(const papers::PhoneFolder& folder) {
  print("what each part is worth, Qwen2-0.5B and a request of Octopus:\n");
  for (const papers::AblationRow& row : papers::ablation_of_shadowattn(folder)) {
    print(fmt::format("  {:<40} {:>7.2f} s {:>7.2f} J\n", row.what, row.seconds, row.joules));
  }
  print(
      "attention of one block over 1,024 tokens on the 8 Gen 2, over C/G-Full, and the energy as "
      "published:\n");
  double full_s = 0.0, full_j = 0.0;
  for (const papers::KernelRow& row : papers::kernels_of_shadowattn(folder)) {
    const papers::KernelResult& result = row.result;
    if (row.system == papers::ShadowSystem::kFull) {
      full_s = result.seconds;
      full_j = result.joules;
    }
    print(fmt::format("  {:<14} {:<18} {:>8.1f} ms {:>6.2f} {:>9.4f} J {:>6.2f} {:>6.2f}\n",
                      row.model, papers::system_name(row.system), 1e3 * result.seconds,
                      result.seconds / full_s, result.joules, result.joules / full_j,
                      row.published_energy));
  }
  print("what constants that no published row fixes would change:\n");
  for (const papers::ShadowSensitivity& s : papers::sensitivities_of_shadowattn(folder)) {
    print(
        fmt::format("  {:<32} all {:>5.1f} %, {} of {} orderings, mean gain of kernels {:.2f} and "
                    "of requests {:.2f}\n",
                    s.text, 100 * s.median_error, s.orderings.n_kept, s.orderings.n,
                    s.kernel_speedup, s.request_speedup));
  }
}

nlohmann::ordered_json power_json(const papers::PhoneFolder& folder,
                                  const papers::TestReport& report) {
  nlohmann::ordered_json json = report_json(report);
  for (const papers::OverlapRow& row : papers::overlaps_of_powerinfer2(folder)) {
    json["overlaps"].push_back({{"overlap", row.overlap},
                                {"miss_rate", row.miss_rate},
                                {"tokens_per_s", row.tokens_per_s},
                                {"by_matrix", row.by_matrix},
                                {"llmflash", row.llmflash}});
  }
  return json;
}

void print_overlaps(const papers::PhoneFolder& folder) {
  print("bamboo-7b, half of its FFN in memory, by how much tokens are like those before them:\n");
  for (const papers::OverlapRow& row : papers::overlaps_of_powerinfer2(folder)) {
    print(fmt::format(
        "  overlap {:<4g} {:>5.1f} % read, {:>6.2f} tokens/s; by matrices {:.2f}, as "
        "LLMFlash {:.2f}\n",
        row.overlap, 100 * row.miss_rate, row.tokens_per_s, row.by_matrix, row.llmflash));
  }
}

std::string draw_budgets(const papers::PhoneFolder& folder) {
  return papers::budget_picture(papers::budgets_of_powerinfer2(folder),
                                "mixtral-8x7b by neurons on a virtual 8 Gen 3");
}

const PaperReport kPaperReports[] = {
    {.name = "llm.npu",
     .about = ", in and out of order, stage by stage",
     .simulate = [](const papers::PhoneFolder& folder) { return papers::simulate_llm_npu(folder); },
     .to_json = npu_json,
     .print_more = print_npu_sensitivities,
     .measure = measure_npu_here},
    {.name = "sd.npu",
     .about = "; how many drafts are accepted is taken as published",
     .simulate = papers::simulate_sd_npu,
     .to_json = rows_json,
     .measure = measure_sd_here,
     .timeline_rows = &papers::kLayoutSwitchRows,
     .trace = papers::trace_layout_switch},
    {.name = "heterollm",
     .about = ", and how prompts run whose length has no graph",
     .simulate = papers::simulate_heterollm,
     .to_json = hetero_json,
     .print_more = print_odd_prompts,
     .measure = measure_hetero_here},
    {.name = "shadowattn",
     .about =
         ", what its parts are worth, and what constants would change that no published row fixes",
     .simulate =
         [](const papers::PhoneFolder& folder) { return papers::simulate_shadowattn(folder); },
     .to_json = shadow_json,
     .print_more = print_shadow_tables,
     .timeline_rows = &papers::kHeadPipelineRows,
     .trace = papers::trace_head_pipeline},
    {.name = "powerinfer-2",
     .about = "; which neurons fire is drawn from a stated law",
     .simulate = papers::simulate_powerinfer2,
     .to_json = power_json,
     .print_more = print_overlaps,
     .timeline_rows = &papers::kPipelineRows,
     .trace = papers::trace_pipeline,
     .picture = draw_budgets},
};

}  // namespace

std::span<const PaperReport> paper_reports() { return kPaperReports; }

}  // namespace troika::cli
