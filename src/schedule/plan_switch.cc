#include "schedule/plan_switch.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace troika::schedule {
namespace {

// A plan and its latency. Of two plans the better one is kept; of equal ones the one that begins
// later.
struct SwitchCandidate {
  SwitchPlan plan;
  double latency_us = 0.0;

  bool is_better_than(const SwitchCandidate& other) const {
    if (latency_us < other.latency_us - kSameUs) return true;
    if (latency_us > other.latency_us + kSameUs) return false;
    if (plan.n_back != other.plan.n_back) return plan.n_back < other.plan.n_back;
    return plan.start > other.plan.start;
  }
};

// A prompt on its way. It does what `forecast` does, but passes over all blocks from one load to
// the next at once. Where plans differ only in what comes later, a copy goes on for each of them.
class Course {
 public:
  Course(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts, int n_back,
         int64_t* n_steps)
      : state_(times, layouts), n_steps_(n_steps) {
    for (size_t i = 0; i < times.size(); ++i) round_us_ += times[i].compute_us(layouts[i]);
    TROIKA_ASSERT(round_us_ > 0.0);
    // Until somebody says otherwise, blocks only go back.
    state_.follow({n_back, std::numeric_limits<int>::max()});
  }

  // Computes n blocks, with the loads that begin meanwhile.
  void compute(int n) {
    while (n > 0) {
      begin_load();
      n -= pass(n);
    }
  }

  // Returns the latency of the prompt if loads into the step's layout begin now, and n_left blocks
  // are still to be computed.
  double latency_us(int n_left) const {
    Course rest = *this;
    *n_steps_ += state_.n_blocks();
    rest.state_.follow({});
    rest.compute(n_left);
    const double prompt_us = rest.now_us_;
    // After the prompt, loads follow one another.
    if (rest.state_.loading()) rest.end_load_after_prompt();
    while (rest.begin_load()) rest.end_load_after_prompt();
    return std::max(prompt_us, rest.switched_us_);
  }

 private:
  const BlockTimes& times_of(int block) const { return state_.times()[static_cast<size_t>(block)]; }

  // Begins the next load, unless one is in flight. Says whether one has begun.
  bool begin_load() {
    if (state_.loading()) return false;
    *n_steps_ += state_.n_blocks();
    const auto load = state_.before_block(n_computed_ % state_.n_blocks());
    if (load) end_us_ = now_us_ + times_of(load->block).load_us(load->into);
    return load.has_value();
  }

  // Computes blocks until the load in flight ends, or until n blocks are computed. Returns how many
  // were computed.
  int pass(int n) {
    const int n_blocks = state_.n_blocks();
    const bool is_loading = state_.loading().has_value();
    const double left_us = std::max(0.0, end_us_ - kSameUs - now_us_);
    int n_rounds = n / n_blocks;
    if (is_loading && left_us < n_rounds * round_us_) {
      n_rounds = static_cast<int>(left_us / round_us_);
    }
    now_us_ += n_rounds * round_us_;
    int n_passed = n_rounds * n_blocks;
    const auto has_ended = [&] { return is_loading && end_us_ <= now_us_ + kSameUs; };
    // At least one block is computed while a load lasts.
    while (n_passed < n && (n_passed == 0 || !has_ended())) {
      const int block = (n_computed_ + n_passed) % n_blocks;
      now_us_ += times_of(block).compute_us(state_.layout(block));
      ++n_passed;
    }
    *n_steps_ += n_passed - n_rounds * n_blocks;
    n_computed_ = (n_computed_ + n_passed) % n_blocks;
    if (has_ended()) end_load();
    return n_passed;
  }

  void end_load() {
    const BlockLoad load = *state_.loading();
    const BlockTimes& times = times_of(load.block);
    round_us_ += times.compute_us(load.into) - times.compute_us(state_.layout(load.block));
    switched_us_ = end_us_;
    state_.loaded();
  }

  void end_load_after_prompt() {
    now_us_ = end_us_;
    end_load();
  }

  LayoutSwitch state_;
  int64_t* n_steps_;
  double round_us_ = 0.0;  // what all blocks take in the layouts that they have
  double now_us_ = 0.0;
  int n_computed_ = 0;        // counts the blocks of this round that are computed
  double end_us_ = 0.0;       // the end of the last load that has begun
  double switched_us_ = 0.0;  // the end of the last load that has ended
};

}  // namespace

SwitchPlan plan_switch(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                       int n_chunks, int64_t* n_steps) {
  const auto n_blocks = static_cast<int>(times.size());
  TROIKA_ASSERT(n_blocks > 0 && n_chunks > 0);
  const int n_all = n_chunks * n_blocks;
  int64_t n_looked = 0;
  SwitchCandidate best = {{}, Course(times, layouts, 0, &n_looked).latency_us(n_all)};
  // Compares the plans that begin at `first`, and then every `stride` blocks until `last`.
  const auto take_starts = [&](int n_back, int first, int last, int stride) {
    Course course(times, layouts, n_back, &n_looked);
    course.compute(first);
    for (int start = first; start <= last; start += stride) {
      const SwitchCandidate other = {{n_back, start}, course.latency_us(n_all - start)};
      if (other.is_better_than(best)) best = other;
      course.compute(std::min(stride, n_all - start));
    }
  };
  for (int n_back = 0; n_back <= n_blocks; ++n_back) {
    const bool moves_one = n_back == 0 || layouts[static_cast<size_t>(n_back) - 1] == Layout::kStep;
    if (moves_one) take_starts(n_back, 0, n_all, n_blocks);
  }
  // The best start lies within the chunk before the best start at a chunk's beginning, or within
  // the chunk behind it.
  const int middle = best.plan.start;
  take_starts(best.plan.n_back, std::max(0, middle - n_blocks), std::min(n_all, middle + n_blocks),
              1);
  if (n_steps != nullptr) *n_steps = n_looked;
  return best.plan;
}

}  // namespace troika::schedule
