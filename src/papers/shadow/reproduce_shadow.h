// Simulates the test rows of shadowAttn on a virtual phone (V3, S1 to S8): kernels, requests, other
// programs beside them, what each part is worth. Nothing is fitted to them.
#pragma once

#include <string>
#include <vector>

#include "base/timeline/timeline.h"
#include "base/trace.h"
#include "papers/shadow/shadow_runs.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report. `constants` replace those of the phones' files.
TestReport simulate_shadowattn(const PhoneFolder& folder,
                               const std::vector<plan::ConstantChoice>& constants = {});
TestReport simulate_shadowattn(PhoneFolder&& folder) = delete;

// Says what changes with a constant that no published row fixes, at an end of its range.
struct ShadowSensitivity {
  std::string text;  // "cpu.vector_gflops = 103.9"
  double median_error = 0.0;
  double kernel_speedup = 0.0, request_speedup = 0.0;  // the means over models
  OrderingCount orderings;
};
// Widens the intervals of `report`, which is that of the folder; null: nobody asks for them.
std::vector<ShadowSensitivity> sensitivities_of_shadowattn(const PhoneFolder& folder,
                                                           TestReport* report = nullptr);

// A stage of section 5.2, which takes ever more parts of shadowAttn away, on Qwen2-0.5B and a
// prompt of Octopus (S8).
struct AblationRow {
  std::string what;
  double seconds = 0.0;  // the time of the whole request
  double joules = 0.0;   // the energy of the prompt
};
std::vector<AblationRow> ablation_of_shadowattn(const PhoneFolder& folder);

// The time and energy of one system's kernels for 1,024 tokens, as in Table 8.
struct KernelRow {
  std::string model;
  ShadowSystem system = ShadowSystem::kFull;
  KernelResult result;
  double published_energy = 0.0;  // over that of full attention on the CPU
};
std::vector<KernelRow> kernels_of_shadowattn(const PhoneFolder& folder);

// Traces attention of the last chunk of 2,048 tokens of PhoneLM-0.5B in one block, with heads in
// their pipeline. The `block` of an event says which task of its kind it is, from 1. As the core
// computes a head as soon as it has selected its positions, the selection and the exact part of a
// head have the same number.
TimelineTitle trace_head_pipeline(const PhoneFolder& folder, Trace* trace);
// Names the rows of such a trace.
inline const std::vector<std::string> kHeadPipelineRows = {"cpu", "npu"};

}  // namespace troika::papers
