// What llm.npu prints of its speed over engines on one processor, where both sides are simulated
// (Figures 1 and 14): a plain CPU stands for llama.cpp and MNN, a GPU alone for MLC and TFLite.
#pragma once

#include "papers/npu_runs.h"
#include "papers/test_rows.h"

namespace troika::papers {

void add_simulated_speeds(NpuRuns& runs, TestRows& rows);
// How much of a task a prompt takes, on a CPU and on a GPU.
void add_prompt_shares(NpuRuns& runs, TestRows& rows);

}  // namespace troika::papers
