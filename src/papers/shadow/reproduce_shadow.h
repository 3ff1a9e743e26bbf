// The test rows of shadowAttn on a virtual phone (V3, S1 to S8): kernels, requests, other programs
// beside them, what each part is worth. Nothing is fitted to them.
#pragma once

#include <string>
#include <vector>

#include "base/timeline.h"
#include "base/trace.h"
#include "papers/shadow/shadow_runs.h"
#include "papers/test_rows.h"

namespace troika::papers {

// The folder must outlive the report. `constants` stand in place of those of the phones' files.
TestReport simulate_shadowattn(const PhoneFolder& folder,
                               const std::vector<plan::ConstantChoice>& constants = {});
TestReport simulate_shadowattn(PhoneFolder&& folder) = delete;

// What the ends of the ranges of constants that no row fixes would change.
struct ShadowSensitivity {
  std::string text;  // "cpu.vector_gflops = 103.9"
  double median_error = 0.0;
  double kernel_speedup = 0.0, request_speedup = 0.0;  // means over models
  OrderingCount orderings;
};
std::vector<ShadowSensitivity> sensitivities_of_shadowattn(const PhoneFolder& folder);

// Section 5.2: shadowAttn with ever less of it, on Qwen2-0.5B and a prompt of Octopus (S8).
struct AblationRow {
  std::string what;
  double seconds = 0.0;  // of the whole request
  double joules = 0.0;   // of the prompt
};
std::vector<AblationRow> ablation_of_shadowattn(const PhoneFolder& folder);

// Kernels of 1,024 tokens, as in Table 8: time and energy of each system.
struct KernelRow {
  std::string model;
  ShadowSystem system = ShadowSystem::kFull;
  KernelResult result;
};
std::vector<KernelRow> kernels_of_shadowattn(const PhoneFolder& folder);

// Attention of the last chunk of 2,048 tokens of PhoneLM-0.5B in one block, heads in their
// pipeline.
TimelineTitle trace_head_pipeline(const PhoneFolder& folder, Trace* trace);
// The rows of such a trace.
inline const std::vector<std::string> kHeadPipelineRows = {"cpu", "npu"};

}  // namespace troika::papers
