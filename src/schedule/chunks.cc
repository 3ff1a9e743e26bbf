#include "schedule/chunks.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace troika::schedule {
namespace {

class Builder {
 public:
  Builder(std::span<const TaskList* const> chunks, int n_sets)
      : chunks_(chunks), n_sets_(n_sets), nodes_(chunks.size()) {
    for (size_t i = 0; i < chunks.size(); ++i) nodes_[i].resize(tasks_of(i).size(), -1);
  }

  // Adds one chunk after the other: each whole list in turn.
  void add_by_chunks() {
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      for (size_t task = 0; task < tasks_of(chunk).size(); ++task) add(chunk, task, {});
    }
  }

  // Adds two chunks at a time, step by step. A chunk goes alone if the next one does not have the
  // same steps.
  void add_by_pairs() {
    std::vector<int> before;  // nodes of the step before
    for (size_t first = 0; first < chunks_.size();) {
      const Levels one = levels_of(first);
      const bool is_pair = first + 1 < chunks_.size() && has_same_steps(first, first + 1);
      const Levels other = is_pair ? levels_of(first + 1) : Levels();
      for (size_t step = 0; step < std::max(one.size(), is_pair ? other.size() + 1 : 0); ++step) {
        const std::vector<int> step_before = std::exchange(before, {});
        const auto add_level = [&](size_t chunk, const std::vector<size_t>& tasks) {
          for (const size_t task : tasks) before.push_back(add(chunk, task, step_before));
        };
        if (step < one.size()) add_level(first, one[step]);
        if (step > 0 && step - 1 < other.size()) add_level(first + 1, other[step - 1]);
      }
      first += is_pair ? 2 : 1;
    }
  }

  Pass take() { return Pass(std::move(built_)); }

 private:
  const std::vector<Task>& tasks_of(size_t chunk) const { return chunks_[chunk]->tasks; }

  // The tasks of a chunk by level: how many others stand before them in the longest chain.
  using Levels = std::vector<std::vector<size_t>>;

  // Says whether the lists of two chunks are cut alike; that of a short last chunk may not be. If
  // they are not, the second chunk's attention could come before the first one's.
  bool has_same_steps(size_t chunk, size_t other) const {
    const std::vector<Task>& mine = tasks_of(chunk);
    const std::vector<Task>& theirs = tasks_of(other);
    return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                      [](const Task& a, const Task& b) {
                        return a.is_dynamic == b.is_dynamic && a.waits_for == b.waits_for;
                      });
  }

  Levels levels_of(size_t chunk) const {
    const std::vector<Task>& tasks = tasks_of(chunk);
    std::vector<size_t> level(tasks.size(), 0);
    Levels levels;
    for (size_t i = 0; i < tasks.size(); ++i) {
      for (const int other : tasks[i].waits_for) {
        level[i] = std::max(level[i], level[static_cast<size_t>(other)] + 1);
      }
      levels.resize(std::max(levels.size(), level[i] + 1));
      levels[level[i]].push_back(i);
    }
    return levels;
  }

  int add(size_t chunk, size_t index, const std::vector<int>& more) {
    const Task& task = tasks_of(chunk)[index];
    const auto number = static_cast<int>(built_.size());
    Node node = node_of(task);
    node.run = static_cast<int>(chunk);
    node.waits_for.clear();
    for (const int other : task.waits_for) {
      node.waits_for.push_back(nodes_[chunk][static_cast<size_t>(other)]);
    }
    if (task.waits_for.empty()) wait_for_buffers(chunk, &node);
    if (task.is_dynamic) {
      // A part that waits for another part of this chunk's attention need not wait for the chunk
      // before: the other part does.
      const bool is_behind =
          lanes::is_of_heads(task.role) &&
          std::any_of(task.waits_for.begin(), task.waits_for.end(), [&](int other) {
            return tasks_of(chunk)[static_cast<size_t>(other)].is_dynamic;
          });
      wait_for_keys(chunk, task.block, number, is_behind, &node);
    }
    node.waits_for.insert(node.waits_for.end(), more.begin(), more.end());
    std::sort(node.waits_for.begin(), node.waits_for.end());
    node.waits_for.erase(std::unique(node.waits_for.begin(), node.waits_for.end()),
                         node.waits_for.end());
    nodes_[chunk][index] = number;
    built_.push_back(std::move(node));
    return number;
  }

  // Lets a node wait for the chunk whose buffers it takes: for those tasks of it for which no other
  // task waits.
  void wait_for_buffers(size_t chunk, Node* node) const {
    if (chunk < static_cast<size_t>(n_sets_)) return;
    const size_t before = chunk - static_cast<size_t>(n_sets_);
    const std::vector<Task>& tasks = tasks_of(before);
    std::vector<char> is_last(tasks.size(), 1);
    for (const Task& task : tasks) {
      for (const int other : task.waits_for) is_last[static_cast<size_t>(other)] = 0;
    }
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (is_last[i]) node->waits_for.push_back(nodes_[before][i]);
    }
  }

  // Lets each piece of a chunk's attention wait for all pieces of the attention of the chunk
  // before, which may be cut at other heads.
  void wait_for_keys(size_t chunk, int block, int number, bool is_behind, Node* node) {
    std::map<size_t, std::vector<int>>& of_chunks = attention_[block];
    if (!is_behind && chunk > 0) {
      // In lock step some of those pieces are added later. The ones that are there suffice, because
      // they store the keys.
      const std::vector<int>& before = of_chunks[chunk - 1];
      node->waits_for.insert(node->waits_for.end(), before.begin(), before.end());
    }
    of_chunks[chunk].push_back(number);
  }

  std::span<const TaskList* const> chunks_;
  int n_sets_;
  std::vector<std::vector<int>> nodes_;  // by chunk, in the order of the chunk's list
  // The nodes of attention by block and by chunk.
  std::map<int, std::map<size_t, std::vector<int>>> attention_;
  std::vector<Node> built_;
};

}  // namespace

int buffer_set_of(size_t chunk, int n_sets) {
  return static_cast<int>(chunk % static_cast<size_t>(n_sets));
}

Pass pass_of_chunks(std::span<const TaskList* const> chunks, plan::Order order, int n_sets) {
  TROIKA_ASSERT(n_sets >= 1 && (order != plan::Order::kLockStep || n_sets <= 2));
  Builder builder(chunks, n_sets);
  if (order == plan::Order::kLockStep && n_sets == 2) {
    builder.add_by_pairs();
  } else {
    builder.add_by_chunks();
  }
  return builder.take();
}

}  // namespace troika::schedule
