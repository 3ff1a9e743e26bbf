// Simulates the first rows marked test: what a phone does with one processor and none of the
// papers' techniques (V3). Nothing here is fitted. What was changed after a look at these rows
// stands in phones/record.json, and the report counts it.
#pragma once

#include "papers/micro/micro.h"

namespace troika::papers {

// Simulates, for the CPU alone, the llama.cpp rows of llm.npu's Table 5 and of HeteroLLM, and for
// the GPU alone HeteroLLM's decode rates of PPL-OpenCL, which follow from its gains.
MicroReport simulate_baselines(const PhoneFolder& folder);

// The lengths in a configuration as "prompt 1451–1672, out 2–4": the middles of the ranges, and the
// range of the prompts.
struct TaskLengths {
  double prompt = 0.0;
  double output = 0.0;
  double shortest_prompt = 0.0, longest_prompt = 0.0;

  // Returns `n` lengths that stand for prompts spread evenly over the range: the middles of its n
  // parts. Chunks make time a staircase, on which the middle alone says little.
  std::vector<int> prompts(int n) const;
};
// Throws Error that names the row where its configuration lacks one of the two lengths.
TaskLengths task_lengths(const plan::PublishedRow& row);

}  // namespace troika::papers
