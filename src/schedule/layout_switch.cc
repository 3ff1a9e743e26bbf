#include "schedule/layout_switch.h"

#include <algorithm>

#include "base/error.h"

namespace troika::schedule {
namespace {

double sum_us(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts) {
  double us = 0.0;
  for (size_t i = 0; i < times.size(); ++i) us += times[i].compute_us(layouts[i]);
  return us;
}

}  // namespace

int covering_blocks(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                    int first, double load_us) {
  const size_t n = times.size();
  const double round_us = sum_us(times, layouts);
  TROIKA_ASSERT(n > 0 && n == layouts.size() && round_us > 0.0);
  // Whole rounds are counted first, so that a slow load does not cost a walk for each of them.
  const auto n_rounds = static_cast<int>(std::max(0.0, load_us - kSameUs) / round_us);
  double covered_us = n_rounds * round_us;
  int k = n_rounds * static_cast<int>(n);
  for (auto i = static_cast<size_t>(first); covered_us + kSameUs < load_us; i = (i + 1) % n) {
    covered_us += times[i].compute_us(layouts[i]);
    ++k;
  }
  return std::max(k, 1);
}

LayoutSwitch::LayoutSwitch(std::vector<BlockTimes> times, Layout now)
    : times_(std::move(times)), layouts_(times_.size(), now) {}

LayoutSwitch::LayoutSwitch(std::vector<BlockTimes> times, std::vector<Layout> now)
    : times_(std::move(times)), layouts_(std::move(now)) {
  TROIKA_ASSERT(times_.size() == layouts_.size());
}

void LayoutSwitch::expect(std::vector<BlockTimes> times) {
  TROIKA_ASSERT(times.size() == layouts_.size());
  times_ = std::move(times);
}

bool LayoutSwitch::is_done() const {
  return !loading_ && std::all_of(layouts_.begin(), layouts_.end(),
                                  [](Layout layout) { return layout == Layout::kStep; });
}

void LayoutSwitch::follow(const SwitchPlan& plan) {
  TROIKA_ASSERT(plan.n_back >= 0 && plan.n_back <= n_blocks() && plan.start >= 0);
  plan_ = plan;
  n_computed_ = 0;
}

// Returns the next load. On the way back this is the first block that can be loaded before its turn
// comes; if there is none, the very first one, for the next chunk. On the way forth it is the last
// block.
std::optional<BlockLoad> LayoutSwitch::next_load(int block) const {
  if (n_computed_ < plan_.start) {
    const auto begin = layouts_.begin(), back_end = begin + plan_.n_back;
    const auto first = std::find(begin, back_end, Layout::kStep);
    if (first == back_end) return {};
    const double load_us = times_[static_cast<size_t>(first - begin)].load_us(Layout::kPrompt);
    const int in_time = block + covering_blocks(times_, layouts_, block, load_us);
    if (in_time < plan_.n_back) {
      const auto reached = std::find(begin + in_time, back_end, Layout::kStep);
      if (reached != back_end) {
        return BlockLoad{static_cast<int>(reached - begin), Layout::kPrompt};
      }
    }
    return BlockLoad{static_cast<int>(first - begin), Layout::kPrompt};
  }
  const auto last = std::find(layouts_.rbegin(), layouts_.rend(), Layout::kPrompt);
  if (last == layouts_.rend()) return {};
  return BlockLoad{static_cast<int>(layouts_.rend() - last) - 1, Layout::kStep};
}

std::optional<BlockLoad> LayoutSwitch::before_block(int block) {
  TROIKA_ASSERT(block >= 0 && block < n_blocks());
  std::optional<BlockLoad> load;
  if (!loading_) load = loading_ = next_load(block);
  ++n_computed_;
  return load;
}

std::optional<BlockLoad> LayoutSwitch::before_step(int block) {
  TROIKA_ASSERT(block >= 0 && block < n_blocks());
  if (loading_) return {};
  for (int i = 0; i < n_blocks(); ++i) {
    const int next = (block + i) % n_blocks();
    if (layout(next) == Layout::kPrompt) return loading_ = BlockLoad{next, Layout::kStep};
  }
  return {};
}

void LayoutSwitch::loaded() {
  TROIKA_ASSERT(loading_.has_value());
  layouts_[static_cast<size_t>(loading_->block)] = loading_->into;
  loading_.reset();
}

void LayoutSwitch::failed() {
  TROIKA_ASSERT(loading_.has_value());
  loading_.reset();
}

SwitchForecast forecast(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                        int n_chunks, const SwitchPlan& plan) {
  LayoutSwitch state(times, layouts);
  state.follow(plan);
  SwitchForecast result;
  double now_us = 0.0;
  int n_computed = 0;
  const auto begin_load = [&](const BlockLoad& load) {
    const double us = times[static_cast<size_t>(load.block)].load_us(load.into);
    result.loads.push_back({load, n_computed, 0, now_us, now_us + us});
  };
  const auto end_load = [&] {
    result.loads.back().k = n_computed - result.loads.back().begin;
    state.loaded();
  };
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    for (int block = 0; block < state.n_blocks(); ++block) {
      if (const auto load = state.before_block(block)) begin_load(*load);
      now_us += times[static_cast<size_t>(block)].compute_us(state.layout(block));
      ++n_computed;
      if (state.loading() && result.loads.back().end_us <= now_us + kSameUs) end_load();
    }
  }
  result.prompt_us = now_us;
  result.is_finished = state.is_done();
  // After the prompt, loads follow one another.
  if (state.loading()) {
    now_us = result.loads.back().end_us;
    end_load();
  }
  state.follow({});
  while (const auto load = state.before_block(0)) {
    begin_load(*load);
    now_us = result.loads.back().end_us;
    end_load();
  }
  if (!result.loads.empty()) result.switched_us = result.loads.back().end_us;
  return result;
}

}  // namespace troika::schedule
