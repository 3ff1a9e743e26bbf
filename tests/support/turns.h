// How long the system lets a thread have its core at a time, by which tests see who gives way
// (lanes/host/give_way.h).
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace troika::test {

struct Turns {
  // These are the first fields of what Linux knows of a thread's turns.
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t turn_ns, deadline_ns, period_ns;
};

// Returns what the calling thread has. `turn_ns` is 0 where all turns are alike.
inline Turns turns_here() {
  Turns turns = {};
  syscall(SYS_sched_getattr, 0, &turns, sizeof(turns), 0);
  return turns;
}

// Returns why threads like the calling one cannot get shorter turns; nothing if they can.
inline std::string why_no_shorter_turns() {
  Turns turns = turns_here();
  constexpr uint64_t kShortest = 100'000;
  if (turns.turn_ns == 0) return "this Linux has one length for all turns";
  if (turns.turn_ns <= kShortest) return "turns are short here already";
  if (turns.policy != SCHED_OTHER && turns.policy != SCHED_BATCH) {
    return "the tests run under a policy of their own";
  }
  const bool may_ask = syscall(SYS_sched_setattr, 0, &turns, 0) == 0;
  return may_ask ? "" : "the system takes no wishes";
}

}  // namespace troika::test
