// A line of things that keeps its memory: once it has been as long as it gets, nothing is
// allocated any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace troika::lanes {

template <typename Thing>
class KeptLine {
 public:
  bool empty() const { return n_ == 0; }
  size_t size() const { return n_; }
  // Makes room for n things in all, or more.
  void reserve(size_t n) {
    if (n <= things_.size()) return;
    std::vector<Thing> more(std::max(n, 2 * things_.size()));
    for (size_t i = 0; i < n_; ++i) more[i] = std::move(things_[(first_ + i) % things_.size()]);
    things_ = std::move(more);
    first_ = 0;
  }
  // REQUIRES: the line is not empty.
  const Thing& front() const { return things_[first_]; }
  void pop_front() {
    first_ = (first_ + 1) % things_.size();
    --n_;
  }
  void push_back(Thing thing) {
    make_room();
    things_[(first_ + n_++) % things_.size()] = std::move(thing);
  }
  void push_front(Thing thing) {
    make_room();
    first_ = (first_ + things_.size() - 1) % things_.size();
    things_[first_] = std::move(thing);
    ++n_;
  }

 private:
  void make_room() {
    if (n_ == things_.size()) reserve(std::max<size_t>(16, n_ + 1));
  }

  std::vector<Thing> things_;
  size_t first_ = 0, n_ = 0;
};

}  // namespace troika::lanes
