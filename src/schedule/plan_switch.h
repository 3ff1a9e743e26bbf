// Chooses when blocks change their layout during a prompt (D1), for a number of chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/layout_switch.h"

namespace troika::schedule {

// Returns the plan with the least latency for a prompt of some number of chunks, from the present
// layouts; of equal plans the one that begins last. The paper's schedule is among the compared
// ones, so this plan is never slower: in a prompt of many chunks, switching does not begin in the
// first chunk, and for a prompt too short to be worth the way back the step's layout stays.
//
// The steps grow with the number of chunks, not with its square, because nobody waits for the plan
// but the prompt itself. `n_steps`, unless null, is told how many blocks were looked at. REQUIRES:
// some block takes time in either layout.
SwitchPlan plan_switch(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                       int n_chunks, int64_t* n_steps = nullptr);

}  // namespace troika::schedule
