// Decides which neurons of which layers are in memory, and which make room for others (P5, 4.2). It
// is a structure of ids, places and bytes, without weights and without reads. Whoever reads
// neurons, or simulates that, asks it what must be read, and to where.
//
// Three regions share a number of bytes. The fixed one (attention, keys and values, scales,
// predictors) is only counted. The hot one holds clusters, which are neurons that follow each other
// in their layer's order of heat; the cluster that was not used for the longest time makes room.
// The cold one holds single neurons, which make room by the same rule, unless they are pinned
// because they fire often. The share of the hot region, and that of pins, depend on the size of the
// batch: the number of tokens in a step (P4).
//
// Steps ask for one group after the other, in the same order each time. If they ask for more than
// there is room for, whatever was used longest ago is needed next, and going by that finds nothing
// at all. So it can be told to keep what each group's last step used. What that step did not use
// makes room first. If that is not enough, neurons that are read make room for each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troika::weights {

struct NeuronCacheShape {
  int n_groups = 0;   // counts groups of neurons: layers, or layers times experts
  int n_neurons = 0;  // counts the neurons of each group
  // Counts neurons of a hot cluster; the last cluster of a group may have fewer
  int cluster_neurons = 1;
  uint64_t neuron_bytes = 0;
};

// A neuron is named by its place in the group's order of heat, which is below n_neurons.
struct NeuronId {
  int group = 0;
  int neuron = 0;
  bool operator==(const NeuronId&) const = default;
};

struct NeuronCacheOptions {
  uint64_t capacity_bytes = 0;  // the bytes of all three regions
  uint64_t fixed_bytes = 0;
  // The hot region's share of what the fixed region leaves, by the size of the batch: the first
  // share is for a batch of one, the last one for all larger ones. Empty: there is no hot region.
  std::vector<double> hot_share = {};
  // The neurons by how often they fire, the most frequent first. pinned_share of the cold region is
  // for them, by the size of the batch: 0 is LRU alone, 1 pinning alone. Empty: nothing is pinned.
  std::vector<NeuronId> frequent = {};
  std::vector<double> pinned_share = {};
  // Says that what the last step of each group used stays; else whoever was used longest ago makes
  // room, of all groups.
  bool keeps_last_steps = false;
  // Counts neurons of a group that may always be under way, as the disk reads many at a time: only
  // beyond them does whoever may wait get no room, and never where shares have fewer places.
  int64_t n_under_way = 0;
};

class NeuronCache {
 public:
  enum class Region : uint8_t { kHot, kCold };
  enum class Found : uint8_t {
    kHit,     // the neuron is in memory
    kComing,  // somebody reads the neuron now
    kMiss,    // the caller has to read the neuron to its place and to call `filled` or `failed`
    kNoRoom,  // everything that could make room is in use: the caller reads it to memory of its own
    kFailed,  // the neuron could not be read, and somebody still holds its place
  };
  // The right to a place until it is given back. kNoRoom and kFailed give no right.
  struct Held {
    Found found = Found::kNoRoom;
    Region region = Region::kCold;
    int64_t slot = -1;  // counts neurons: the bytes begin at slot * neuron_bytes
    int entry = -1;     // the cache's own number
    bool is_held() const { return entry >= 0; }
  };
  // Tells that the bytes of one neuron must be moved.
  struct Move {
    int64_t from = 0;
    int64_t to = 0;
  };
  // Counts what happened in one region. Each acquisition counts as one of the first four, but for
  // those of what could not be read.
  struct Counters {
    int64_t hits = 0;
    int64_t coming = 0;
    int64_t misses = 0;
    int64_t no_room = 0;
    int64_t evictions = 0;
    uint64_t read_bytes = 0;  // sums up what misses and acquisitions without room read
  };

  // Returns how many bytes the lists of a cache with n_slots slots take beside the neurons.
  static uint64_t list_bytes(const NeuronCacheShape& shape, uint64_t n_slots);

  // Throws Error where the capacity has no room for the fixed region and a neuron.
  NeuronCache(const NeuronCacheShape& shape, const NeuronCacheOptions& options);

  // Says that a step now asks for neurons of this group, for each one once. It only matters where
  // last steps are kept.
  void begin_group(int group);
  // Acquires a neuron, from the hot region where its cluster is in memory. It is neither evicted
  // nor moved before it was given back as often as it was acquired. may_wait says that the caller
  // gives others of this group back soon: where last steps are kept, it then finds no room rather
  // than to take the place of a neuron that the step may still ask for.
  Held acquire(NeuronId id, bool may_wait = false);
  // Acquires a cluster as a whole: neurons [cluster * cluster_neurons, …) of the group. It replaces
  // the copies of its neurons that are in the cold region.
  Held acquire_cluster(int group, int cluster);
  // Both tell how a read has ended. A failed entry goes when it is given back. REQUIRES: `held`
  // came with kMiss, and neither was called before.
  void filled(const Held& held);
  void failed(const Held& held);
  // Makes the entry the one used last, or the first to make room: a scan comes by again only when
  // it has read all others. REQUIRES: it is held and not being read. Is called once for each hold.
  void give_back(const Held& held, bool makes_room_first = false);
  // Gives a neuron of the cold region back, and forgets it if nobody else holds it and it is not
  // pinned. REQUIRES: as give_back.
  void drop(const Held& held);

  // Says how large the next batches are. What leases prevent is done by a later call. The
  // moves must be carried out, in their order, before anything else is acquired. They are valid
  // until the next call.
  std::span<const Move> set_batch(int size);
  // Forgets everything that is not in use.
  void clear();

  // These look without counting or using anything.
  bool is_resident(NeuronId id) const;
  bool is_cluster_resident(int group, int cluster) const;
  bool is_pinned(NeuronId id) const;

  int n_clusters() const { return n_clusters_; }  // counts the clusters of a group
  int cluster_size(int cluster) const;            // counts neurons
  // Counts slots for hot and cold neurons, whose memory is slots * neuron_bytes.
  int64_t n_slots() const { return n_slots_; }
  int64_t n_hot_slots() const;  // counts slots that are the hot region's now
  int64_t n_pins() const { return n_pins_; }
  // Sums up the neurons in memory or being read, and the fixed region.
  uint64_t resident_bytes() const;
  uint64_t most_resident_bytes() const { return most_resident_bytes_; }
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  const Counters& counters(Region region) const {
    return region == Region::kHot ? hot_counters_ : cold_counters_;
  }
  // Also forgets how many neurons groups were asked for since they began.
  void reset_counters();

 private:
  enum class State : uint8_t { kAbsent, kReading, kReady, kFailed };
  // Says in which chain a neuron of the cold region is while nobody holds it.
  enum class Fate : uint8_t {
    kKept,
    kPassing,  // the step at work has read it, and reads others to its place
    kStale,    // the last step of its group did not use it
  };
  static constexpr int kNothing = -1;
  static constexpr int kSteps = 64;

  // A neuron of the cold region, or a cluster of the hot one. While nobody holds it and it is not
  // pinned, it is a link of its region's chain.
  struct Entry {
    int newer = kNothing;
    int older = kNothing;
    int place = kNothing;  // a slot, or a frame
    uint16_t n_leases = 0;
    State state = State::kAbsent;
    bool is_pinned : 1 = false;
    bool is_of_step : 1 = false;  // says, by the group's own such bit, that its last step used it
    Fate fate : 2 = Fate::kKept;
  };
  struct Chain {
    int newest = kNothing;
    int oldest = kNothing;
  };
  // The cold region's neurons of a group, or of all groups where last steps are not kept.
  struct Group {
    Chain kept;
    Chain passing;
    bool is_of_step = false;  // the bit that neurons have which the last step used
    int64_t n_used = 0;       // counts slots
    int64_t n_passing = 0;    // counts neurons that pass through, whether they are held or not
    int64_t n_asked = 0;      // counts neurons that the last step got a place of
    double wanted = 0.0;      // the mean of n_asked, of the last steps most of all
  };
  // A frame is cluster_neurons slots that follow each other. It has one cluster, or single neurons.
  struct Frame {
    bool is_hot = false;
    int n_used = 0;    // counts slots, or is 1 with a cluster
    int n_leased = 0;  // counts how many of n_used are leased
  };

  int neuron_entry(NeuronId id) const { return id.group * shape_.n_neurons + id.neuron; }
  Group& group_of(int neuron_entry) {
    const int group = options_.keeps_last_steps ? neuron_entry / shape_.n_neurons : 0;
    return groups_[static_cast<size_t>(group)];
  }
  double share_of(const Group& group) const;
  bool is_below_share(const Group& group) const;
  Group* group_above_share();
  void end_group();
  Chain* chain_of(int neuron);
  void note_use(int neuron);
  void set_fate(int neuron, Fate fate);
  void unlink_neuron(int neuron);
  void link_newest(int neuron, Fate fate);
  void link_first_to_go(int neuron);
  int cluster_entry(int group, int cluster) const { return group * n_clusters_ + cluster; }
  Frame* frame_of_slot(int64_t slot);
  void push_newest(std::vector<Entry>& entries, Chain* chain, int index);
  void push_oldest(std::vector<Entry>& entries, Chain* chain, int index);
  void unlink(std::vector<Entry>& entries, Chain* chain, int index);

  void take_slot(int entry, int slot);
  void leave_slot(int entry);
  void drop_neuron(int entry);
  void drop_cluster(int entry);
  bool evict_neuron(int neuron);
  bool make_room_for(int neuron, bool may_wait);
  bool evict_any_neuron();
  bool evict_cluster();
  Held lease_neuron(int entry, Found found);
  Held lease_cluster(int entry, Found found, int64_t slot);
  void give_back_neuron(int index, bool makes_room_first);
  void give_back_cluster(int index);
  void drop_cold_copies(int cluster_entry);
  bool is_covered(int neuron_entry) const;

  void pin_for_share(double share);
  void settle();
  bool turn_a_frame_hot();
  bool turn_a_frame_cold();
  void note_bytes();

  NeuronCacheShape shape_;
  NeuronCacheOptions options_;
  uint64_t capacity_bytes_ = 0;
  int n_clusters_ = 0;
  int64_t n_slots_ = 0;
  int n_frames_ = 0;  // the slots behind the last frame are always cold
  int n_hot_frames_ = 0;
  int n_wanted_hot_frames_ = 0;
  int64_t n_pins_ = 0;

  std::vector<Entry> neurons_;   // (n_groups, n_neurons)
  std::vector<Entry> clusters_;  // (n_groups, n_clusters)
  std::vector<Group> groups_;    // one where last steps are not kept
  Chain stale_;
  int group_at_work_ = kNothing;
  size_t n_known_groups_ = 0;  // counts groups that were asked for something
  double n_wanted_ = 0.0;      // sums up what groups want
  Chain cluster_chain_;
  std::vector<Frame> frames_;     // has one frame more, for the slots behind the last
  std::vector<int> owners_;       // (n_slots): the neuron in each cold slot
  std::vector<int> free_slots_;   // the free slots of cold frames
  std::vector<int> free_frames_;  // the free hot frames
  int64_t n_used_slots_ = 0;
  int64_t n_used_cluster_slots_ = 0;
  std::vector<Move> moves_;
  Counters hot_counters_;
  Counters cold_counters_;
  uint64_t most_resident_bytes_ = 0;
};

}  // namespace troika::weights
