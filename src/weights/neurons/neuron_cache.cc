#include "weights/neurons/neuron_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace troika::weights {
namespace {

// Returns the share of a batch of this size, between 0 and 1; 0 where there are no shares.
double share_of_batch(const std::vector<double>& shares, int size) {
  if (shares.empty()) return 0.0;
  return std::clamp(shares[std::min(static_cast<size_t>(size), shares.size()) - 1], 0.0, 1.0);
}

}  // namespace

NeuronCache::NeuronCache(const NeuronCacheShape& shape, const NeuronCacheOptions& options)
    : shape_(shape), options_(options), capacity_bytes_(options.capacity_bytes) {
  TROIKA_ASSERT(shape.n_groups > 0 && shape.n_neurons > 0 && shape.neuron_bytes > 0);
  TROIKA_ASSERT(shape.cluster_neurons > 0);
  const int64_t n_all = int64_t{shape.n_groups} * shape.n_neurons;
  TROIKA_ASSERT(n_all <= std::numeric_limits<int>::max());
  const uint64_t left = capacity_bytes_ - std::min(capacity_bytes_, options.fixed_bytes);
  n_slots_ = static_cast<int64_t>(
      std::min<uint64_t>(left / shape.neuron_bytes, static_cast<uint64_t>(n_all)));
  if (n_slots_ == 0) {
    throw Error(fmt::format(
        "There are {} bytes of memory for neurons and what must be beside them: that takes {}, and "
        "one neuron {}. Allow more with ‹memory›.",
        capacity_bytes_, options.fixed_bytes, shape.neuron_bytes));
  }
  n_clusters_ = (shape.n_neurons + shape.cluster_neurons - 1) / shape.cluster_neurons;
  n_frames_ = static_cast<int>(n_slots_ / shape.cluster_neurons);
  neurons_.resize(static_cast<size_t>(n_all));
  clusters_.resize(static_cast<size_t>(shape.n_groups) * static_cast<size_t>(n_clusters_));
  frames_.resize(static_cast<size_t>(n_frames_) + 1);
  groups_.resize(options.keeps_last_steps ? static_cast<size_t>(shape.n_groups) : 1);
  owners_.assign(static_cast<size_t>(n_slots_), kNothing);
  free_slots_.reserve(static_cast<size_t>(n_slots_));
  for (int64_t slot = n_slots_; slot-- > 0;) free_slots_.push_back(static_cast<int>(slot));
  set_batch(1);
}

uint64_t NeuronCache::list_bytes(const NeuronCacheShape& shape, uint64_t n_slots) {
  const auto n_groups = static_cast<uint64_t>(shape.n_groups);
  const auto cluster = static_cast<uint64_t>(shape.cluster_neurons);
  const uint64_t n_clusters = (static_cast<uint64_t>(shape.n_neurons) + cluster - 1) / cluster;
  return n_groups * (static_cast<uint64_t>(shape.n_neurons) + n_clusters) * sizeof(Entry) +
         n_groups * sizeof(Group) + n_slots * 2 * sizeof(int) +
         (n_slots / cluster + 1) * (sizeof(Frame) + sizeof(int));
}

int NeuronCache::cluster_size(int cluster) const {
  return std::min(shape_.cluster_neurons, shape_.n_neurons - cluster * shape_.cluster_neurons);
}

int64_t NeuronCache::n_hot_slots() const { return int64_t{n_hot_frames_} * shape_.cluster_neurons; }

uint64_t NeuronCache::resident_bytes() const {
  const auto n_slots = static_cast<uint64_t>(n_used_slots_ + n_used_cluster_slots_);
  return options_.fixed_bytes + n_slots * shape_.neuron_bytes;
}

void NeuronCache::note_bytes() {
  most_resident_bytes_ = std::max(most_resident_bytes_, resident_bytes());
}

void NeuronCache::reset_counters() {
  hot_counters_ = {};
  cold_counters_ = {};
  for (Group& group : groups_) group.n_asked = 0;
  most_resident_bytes_ = resident_bytes();
}

NeuronCache::Frame* NeuronCache::frame_of_slot(int64_t slot) {
  const auto frame = std::min<int64_t>(slot / shape_.cluster_neurons, n_frames_);
  return &frames_[static_cast<size_t>(frame)];
}

// The functions that follow link entries into chains, by when they were used last.

void NeuronCache::push_newest(std::vector<Entry>& entries, Chain* chain, int index) {
  Entry& entry = entries[static_cast<size_t>(index)];
  entry.newer = kNothing;
  entry.older = chain->newest;
  if (chain->newest != kNothing) entries[static_cast<size_t>(chain->newest)].newer = index;
  chain->newest = index;
  if (chain->oldest == kNothing) chain->oldest = index;
}

void NeuronCache::push_oldest(std::vector<Entry>& entries, Chain* chain, int index) {
  Entry& entry = entries[static_cast<size_t>(index)];
  entry.older = kNothing;
  entry.newer = chain->oldest;
  if (chain->oldest != kNothing) entries[static_cast<size_t>(chain->oldest)].older = index;
  chain->oldest = index;
  if (chain->newest == kNothing) chain->newest = index;
}

void NeuronCache::unlink(std::vector<Entry>& entries, Chain* chain, int index) {
  Entry& entry = entries[static_cast<size_t>(index)];
  (entry.newer != kNothing ? entries[static_cast<size_t>(entry.newer)].older : chain->newest) =
      entry.older;
  (entry.older != kNothing ? entries[static_cast<size_t>(entry.older)].newer : chain->oldest) =
      entry.newer;
  entry.newer = entry.older = kNothing;
}

// Returns the chain in which a neuron is a link while nobody holds it.
NeuronCache::Chain* NeuronCache::chain_of(int neuron) {
  Group& group = group_of(neuron);
  switch (neurons_[static_cast<size_t>(neuron)].fate) {
    case Fate::kKept:
      return &group.kept;
    case Fate::kPassing:
      return &group.passing;
    case Fate::kStale:
      return &stale_;
  }
  return nullptr;
}

void NeuronCache::set_fate(int neuron, Fate fate) {
  Entry& entry = neurons_[static_cast<size_t>(neuron)];
  Group& group = group_of(neuron);
  if (entry.fate == Fate::kPassing) --group.n_passing;
  if (fate == Fate::kPassing) ++group.n_passing;
  entry.fate = fate;
}

void NeuronCache::note_use(int neuron) {
  Group& group = group_of(neuron);
  neurons_[static_cast<size_t>(neuron)].is_of_step = group.is_of_step;
  set_fate(neuron, Fate::kKept);
}

void NeuronCache::unlink_neuron(int neuron) { unlink(neurons_, chain_of(neuron), neuron); }

void NeuronCache::link_newest(int neuron, Fate fate) {
  set_fate(neuron, fate);
  push_newest(neurons_, chain_of(neuron), neuron);
}

// Makes a neuron the first to make room.
void NeuronCache::link_first_to_go(int neuron) {
  set_fate(neuron, options_.keeps_last_steps ? Fate::kStale : Fate::kKept);
  push_oldest(neurons_, chain_of(neuron), neuron);
}

// The functions that follow divide places between groups, by what their last steps asked for.

double NeuronCache::share_of(const Group& group) const {
  const auto n_slots = static_cast<double>(n_slots_ - n_hot_slots());
  // Before all groups have been asked for something, they have equal shares.
  return n_known_groups_ == groups_.size() ? n_slots * group.wanted / n_wanted_
                                           : n_slots / static_cast<double>(groups_.size());
}

// Shares move a little with every step, and following that would cost other groups what they need.
bool NeuronCache::is_below_share(const Group& group) const {
  constexpr double kSlack = 1.0 / 16;
  return static_cast<double>(group.n_used) < (1.0 - kSlack) * share_of(group);
}

// Returns the group that is most above its share of those that can make room; null: none can.
NeuronCache::Group* NeuronCache::group_above_share() {
  Group* most = nullptr;
  double most_above = 0.0;
  for (Group& group : groups_) {
    if (group.kept.oldest == kNothing && group.passing.oldest == kNothing) continue;
    const double above = static_cast<double>(group.n_used) - share_of(group);
    if (most != nullptr && above <= most_above) continue;
    most = &group;
    most_above = above;
  }
  return most;
}

// Ends the step of the group at work: what it did not use is stale, and what passed through last is
// still there.
void NeuronCache::end_group() {
  if (group_at_work_ == kNothing) return;
  Group& group = groups_[static_cast<size_t>(group_at_work_)];
  for (int neuron = group.kept.oldest; neuron != kNothing; neuron = group.kept.oldest) {
    if (neurons_[static_cast<size_t>(neuron)].is_of_step == group.is_of_step) break;
    unlink_neuron(neuron);
    link_newest(neuron, Fate::kStale);
  }
  for (int neuron = group.passing.oldest; neuron != kNothing; neuron = group.passing.oldest) {
    unlink_neuron(neuron);
    link_newest(neuron, Fate::kKept);
  }
}

void NeuronCache::begin_group(int index) {
  if (!options_.keeps_last_steps) return;
  constexpr double kOfLast = 0.25;  // how much the last step counts
  end_group();
  group_at_work_ = index;
  Group& group = groups_[static_cast<size_t>(index)];
  const auto n_asked = static_cast<double>(std::exchange(group.n_asked, 0));
  const double change = (group.wanted > 0.0 ? kOfLast : 1.0) * (n_asked - group.wanted);
  if (group.wanted == 0.0 && n_asked > 0.0) ++n_known_groups_;
  group.wanted += change;
  n_wanted_ += change;
  group.is_of_step = !group.is_of_step;
}

// The functions that follow give places in memory, and take them back.

void NeuronCache::take_slot(int entry, int slot) {
  neurons_[static_cast<size_t>(entry)].place = slot;
  owners_[static_cast<size_t>(slot)] = entry;
  ++frame_of_slot(slot)->n_used;
  ++group_of(entry).n_used;
  ++n_used_slots_;
}

void NeuronCache::leave_slot(int entry) {
  int& place = neurons_[static_cast<size_t>(entry)].place;
  owners_[static_cast<size_t>(place)] = kNothing;
  --frame_of_slot(place)->n_used;
  --group_of(entry).n_used;
  --n_used_slots_;
  place = kNothing;
}

// REQUIRES: nobody holds the neuron, and it is no link of the chain.
void NeuronCache::drop_neuron(int entry) {
  free_slots_.push_back(neurons_[static_cast<size_t>(entry)].place);
  set_fate(entry, Fate::kKept);
  leave_slot(entry);
  neurons_[static_cast<size_t>(entry)].state = State::kAbsent;
}

// REQUIRES: nobody holds the cluster, and it is no link of the chain.
void NeuronCache::drop_cluster(int entry) {
  Entry& cluster = clusters_[static_cast<size_t>(entry)];
  frames_[static_cast<size_t>(cluster.place)].n_used = 0;
  free_frames_.push_back(cluster.place);
  n_used_cluster_slots_ -= cluster_size(entry % n_clusters_);
  cluster.place = kNothing;
  cluster.state = State::kAbsent;
}

bool NeuronCache::evict_neuron(int neuron) {
  if (neuron == kNothing) return false;
  unlink_neuron(neuron);
  drop_neuron(neuron);
  ++cold_counters_.evictions;
  return true;
}

// Makes room for a neuron that is asked for, and says of it whether it only passes through: it does
// where the last steps of all groups need all there is.
bool NeuronCache::make_room_for(int neuron, bool may_wait) {
  constexpr double kPassing = 1.0 / 8;  // the part of a share that neurons pass through
  Group& own = group_of(neuron);
  if (!options_.keeps_last_steps) return evict_neuron(own.kept.oldest);
  if (evict_neuron(stale_.oldest)) return true;
  if (is_below_share(own)) return evict_any_neuron();
  const double share = share_of(own), n_under_way = static_cast<double>(options_.n_under_way);
  const bool has_all = share >= n_under_way && static_cast<double>(own.n_passing) >=
                                                   std::max(kPassing * share, n_under_way);
  if (own.passing.oldest == kNothing && has_all && may_wait) return false;
  const bool has_room =
      evict_neuron(own.passing.oldest) || evict_neuron(own.kept.oldest) || evict_any_neuron();
  if (has_room) set_fate(neuron, Fate::kPassing);
  return has_room;
}

bool NeuronCache::evict_any_neuron() {
  if (evict_neuron(stale_.oldest)) return true;
  const Group* const group = group_above_share();
  return group != nullptr &&
         (evict_neuron(group->kept.oldest) || evict_neuron(group->passing.oldest));
}

bool NeuronCache::evict_cluster() {
  const int oldest = cluster_chain_.oldest;
  if (oldest == kNothing) return false;
  unlink(clusters_, &cluster_chain_, oldest);
  drop_cluster(oldest);
  ++hot_counters_.evictions;
  return true;
}

// The functions that follow give leases, and end them.

NeuronCache::Held NeuronCache::lease_neuron(int index, Found found) {
  Entry& entry = neurons_[static_cast<size_t>(index)];
  TROIKA_ASSERT(entry.n_leases < std::numeric_limits<uint16_t>::max());
  if (entry.n_leases++ == 0) ++frame_of_slot(entry.place)->n_leased;
  ++group_of(index).n_asked;
  return {found, Region::kCold, entry.place, index};
}

NeuronCache::Held NeuronCache::lease_cluster(int index, Found found, int64_t slot) {
  Entry& entry = clusters_[static_cast<size_t>(index)];
  TROIKA_ASSERT(entry.n_leases < std::numeric_limits<uint16_t>::max());
  if (entry.n_leases++ == 0) {
    frames_[static_cast<size_t>(entry.place)].n_leased = 1;
    if (found != Found::kMiss) unlink(clusters_, &cluster_chain_, index);
  }
  return {found, Region::kHot, int64_t{entry.place} * shape_.cluster_neurons + slot, index};
}

NeuronCache::Held NeuronCache::acquire(NeuronId id, bool may_wait) {
  TROIKA_ASSERT(id.group >= 0 && id.group < shape_.n_groups);
  TROIKA_ASSERT(id.neuron >= 0 && id.neuron < shape_.n_neurons);
  const int cluster = cluster_entry(id.group, id.neuron / shape_.cluster_neurons);
  const State of_cluster = clusters_[static_cast<size_t>(cluster)].state;
  const int index = neuron_entry(id);
  Entry& entry = neurons_[static_cast<size_t>(index)];
  const bool has_copy = entry.state == State::kReady || entry.state == State::kReading;
  if (of_cluster == State::kReady || (of_cluster == State::kReading && !has_copy)) {
    const bool is_ready = of_cluster == State::kReady;
    ++(is_ready ? hot_counters_.hits : hot_counters_.coming);
    return lease_cluster(cluster, is_ready ? Found::kHit : Found::kComing,
                         id.neuron % shape_.cluster_neurons);
  }
  if (entry.state == State::kFailed) return {Found::kFailed, Region::kCold};
  if (has_copy) {
    const bool is_ready = entry.state == State::kReady;
    ++(is_ready ? cold_counters_.hits : cold_counters_.coming);
    if (entry.n_leases == 0 && !entry.is_pinned) unlink_neuron(index);
    note_use(index);
    return lease_neuron(index, is_ready ? Found::kHit : Found::kComing);
  }
  cold_counters_.read_bytes += shape_.neuron_bytes;
  note_use(index);
  if (free_slots_.empty() && !make_room_for(index, may_wait)) {
    ++cold_counters_.no_room;
    return {Found::kNoRoom, Region::kCold};
  }
  ++cold_counters_.misses;
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  take_slot(index, slot);
  entry.state = State::kReading;
  note_bytes();
  return lease_neuron(index, Found::kMiss);
}

NeuronCache::Held NeuronCache::acquire_cluster(int group, int cluster) {
  TROIKA_ASSERT(group >= 0 && group < shape_.n_groups && cluster >= 0 && cluster < n_clusters_);
  const int index = cluster_entry(group, cluster);
  Entry& entry = clusters_[static_cast<size_t>(index)];
  if (entry.state == State::kFailed) return {Found::kFailed, Region::kHot};
  if (entry.state != State::kAbsent) {
    const bool is_ready = entry.state == State::kReady;
    ++(is_ready ? hot_counters_.hits : hot_counters_.coming);
    return lease_cluster(index, is_ready ? Found::kHit : Found::kComing, 0);
  }
  const int size = cluster_size(cluster);
  hot_counters_.read_bytes += static_cast<uint64_t>(size) * shape_.neuron_bytes;
  if (free_frames_.empty() && !evict_cluster()) {
    ++hot_counters_.no_room;
    return {Found::kNoRoom, Region::kHot};
  }
  ++hot_counters_.misses;
  entry.place = free_frames_.back();
  free_frames_.pop_back();
  frames_[static_cast<size_t>(entry.place)].n_used = 1;
  entry.state = State::kReading;
  n_used_cluster_slots_ += size;
  note_bytes();
  return lease_cluster(index, Found::kMiss, 0);
}

void NeuronCache::filled(const Held& held) {
  TROIKA_ASSERT(held.found == Found::kMiss);
  const bool is_hot = held.region == Region::kHot;
  Entry& entry = (is_hot ? clusters_ : neurons_)[static_cast<size_t>(held.entry)];
  TROIKA_ASSERT(entry.state == State::kReading);
  entry.state = State::kReady;
  if (is_hot) drop_cold_copies(held.entry);
}

void NeuronCache::failed(const Held& held) {
  TROIKA_ASSERT(held.found == Found::kMiss);
  auto& entries = held.region == Region::kHot ? clusters_ : neurons_;
  Entry& entry = entries[static_cast<size_t>(held.entry)];
  TROIKA_ASSERT(entry.state == State::kReading);
  entry.state = State::kFailed;
}

void NeuronCache::give_back(const Held& held, bool makes_room_first) {
  TROIKA_ASSERT(held.is_held());
  if (held.region == Region::kHot) {
    give_back_cluster(held.entry);
  } else {
    give_back_neuron(held.entry, makes_room_first);
  }
}

void NeuronCache::give_back_neuron(int index, bool makes_room_first) {
  Entry& entry = neurons_[static_cast<size_t>(index)];
  TROIKA_ASSERT(entry.n_leases > 0);
  if (--entry.n_leases > 0) return;
  --frame_of_slot(entry.place)->n_leased;
  TROIKA_ASSERT(entry.state != State::kReading);
  if (entry.state == State::kFailed || is_covered(index)) {
    drop_neuron(index);
  } else if (entry.is_pinned) {
    set_fate(index, Fate::kKept);  // it makes room for nobody
  } else {
    makes_room_first ? link_first_to_go(index) : link_newest(index, entry.fate);
  }
}

void NeuronCache::drop(const Held& held) {
  TROIKA_ASSERT(held.is_held() && held.region == Region::kCold);
  give_back_neuron(held.entry, true);
  const Entry& entry = neurons_[static_cast<size_t>(held.entry)];
  if (entry.state != State::kReady || entry.n_leases > 0 || entry.is_pinned) return;
  unlink_neuron(held.entry);
  drop_neuron(held.entry);
}

void NeuronCache::give_back_cluster(int index) {
  Entry& entry = clusters_[static_cast<size_t>(index)];
  TROIKA_ASSERT(entry.n_leases > 0);
  if (--entry.n_leases > 0) return;
  frames_[static_cast<size_t>(entry.place)].n_leased = 0;
  TROIKA_ASSERT(entry.state != State::kReading);
  if (entry.state == State::kFailed) {
    drop_cluster(index);
  } else {
    push_newest(clusters_, &cluster_chain_, index);
  }
}

bool NeuronCache::is_covered(int neuron_entry) const {
  const int cluster = neuron_entry % shape_.n_neurons / shape_.cluster_neurons;
  const int index = cluster_entry(neuron_entry / shape_.n_neurons, cluster);
  return clusters_[static_cast<size_t>(index)].state == State::kReady;
}

// Drops the copies of a cluster's neurons in the cold region. Copies in use go when they are given
// back.
void NeuronCache::drop_cold_copies(int index) {
  const int group = index / n_clusters_;
  const int cluster = index % n_clusters_;
  const int first = neuron_entry({group, cluster * shape_.cluster_neurons});
  for (int i = first; i < first + cluster_size(cluster); ++i) {
    const Entry& entry = neurons_[static_cast<size_t>(i)];
    if (entry.state != State::kReady || entry.n_leases > 0) continue;
    if (!entry.is_pinned) unlink_neuron(i);
    drop_neuron(i);
  }
}

bool NeuronCache::is_resident(NeuronId id) const {
  const int index = neuron_entry(id);
  return neurons_[static_cast<size_t>(index)].state == State::kReady || is_covered(index);
}

bool NeuronCache::is_cluster_resident(int group, int cluster) const {
  return clusters_[static_cast<size_t>(cluster_entry(group, cluster))].state == State::kReady;
}

bool NeuronCache::is_pinned(NeuronId id) const {
  return neurons_[static_cast<size_t>(neuron_entry(id))].is_pinned;
}

// The functions that follow move the border between the regions.

std::span<const NeuronCache::Move> NeuronCache::set_batch(int size) {
  TROIKA_ASSERT(size > 0);
  moves_.clear();
  const double n_hot = share_of_batch(options_.hot_share, size) * static_cast<double>(n_slots_);
  n_wanted_hot_frames_ = std::min(n_frames_, static_cast<int>(n_hot / shape_.cluster_neurons));
  pin_for_share(share_of_batch(options_.pinned_share, size));
  settle();
  return moves_;
}

void NeuronCache::settle() {
  while (n_hot_frames_ > n_wanted_hot_frames_ && turn_a_frame_cold()) {
  }
  while (n_hot_frames_ < n_wanted_hot_frames_ && turn_a_frame_hot()) {
  }
}

bool NeuronCache::turn_a_frame_cold() {
  if (free_frames_.empty() && !evict_cluster()) return false;
  const int frame = free_frames_.back();
  free_frames_.pop_back();
  frames_[static_cast<size_t>(frame)].is_hot = false;
  --n_hot_frames_;
  const int first = frame * shape_.cluster_neurons;
  for (int slot = first + shape_.cluster_neurons; slot-- > first;) free_slots_.push_back(slot);
  return true;
}

// Empties the emptiest cold frame that nobody uses: its neurons move to slots elsewhere, for which
// those used longest ago are evicted.
bool NeuronCache::turn_a_frame_hot() {
  int best = kNothing;
  for (int i = 0; i < n_frames_; ++i) {
    const Frame& frame = frames_[static_cast<size_t>(i)];
    if (frame.is_hot || frame.n_leased > 0) continue;
    if (best == kNothing || frame.n_used < frames_[static_cast<size_t>(best)].n_used) best = i;
  }
  if (best == kNothing) return false;
  Frame& frame = frames_[static_cast<size_t>(best)];
  const int first = best * shape_.cluster_neurons;
  const int end = first + shape_.cluster_neurons;
  const auto n_free_elsewhere = [&] {
    return static_cast<int>(free_slots_.size()) - (shape_.cluster_neurons - frame.n_used);
  };
  while (n_free_elsewhere() < frame.n_used && evict_any_neuron()) {
  }
  if (n_free_elsewhere() < frame.n_used) return false;
  const auto is_inside = [&](int slot) { return slot >= first && slot < end; };
  free_slots_.erase(std::remove_if(free_slots_.begin(), free_slots_.end(), is_inside),
                    free_slots_.end());
  for (int slot = first; slot < end; ++slot) {
    const int owner = owners_[static_cast<size_t>(slot)];
    if (owner == kNothing) continue;
    moves_.push_back({slot, free_slots_.back()});
    leave_slot(owner);
    take_slot(owner, free_slots_.back());
    free_slots_.pop_back();
  }
  frame.is_hot = true;
  free_frames_.push_back(best);
  ++n_hot_frames_;
  return true;
}

// Pins neurons for the regions as they will be. First it unpins what is no longer to be pinned.
void NeuronCache::pin_for_share(double share) {
  const auto n_most = static_cast<int64_t>(options_.frequent.size());
  const int64_t n_cold = n_slots_ - int64_t{n_wanted_hot_frames_} * shape_.cluster_neurons;
  const int64_t n_pins =
      std::min(n_most, static_cast<int64_t>(share * static_cast<double>(n_cold)));
  const auto at = [&](int64_t i) {
    return neuron_entry(options_.frequent[static_cast<size_t>(i)]);
  };
  for (int64_t i = n_pins_; i < n_pins; ++i) {
    Entry& entry = neurons_[static_cast<size_t>(at(i))];
    TROIKA_ASSERT(!entry.is_pinned);  // `frequent` names it once
    const bool is_link = entry.state == State::kReady && entry.n_leases == 0;
    if (is_link) unlink_neuron(at(i));
    entry.is_pinned = true;
  }
  for (int64_t i = n_pins; i < n_pins_; ++i) {
    Entry& entry = neurons_[static_cast<size_t>(at(i))];
    entry.is_pinned = false;
    const bool is_link = entry.state == State::kReady && entry.n_leases == 0;
    if (is_link) link_first_to_go(at(i));
  }
  n_pins_ = n_pins;
}

void NeuronCache::clear() {
  while (evict_cluster()) --hot_counters_.evictions;
  while (evict_any_neuron()) --cold_counters_.evictions;
  for (int64_t i = 0; i < n_pins_; ++i) {
    const int index = neuron_entry(options_.frequent[static_cast<size_t>(i)]);
    const Entry& entry = neurons_[static_cast<size_t>(index)];
    if (entry.state == State::kReady && entry.n_leases == 0) drop_neuron(index);
  }
}

}  // namespace troika::weights
