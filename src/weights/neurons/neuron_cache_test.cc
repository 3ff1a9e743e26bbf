#include "weights/neurons/neuron_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace troika::weights {
namespace {

using Found = NeuronCache::Found;
using Held = NeuronCache::Held;
using Region = NeuronCache::Region;

constexpr uint64_t kNeuronBytes = 8192;

NeuronCacheOptions slots(uint64_t n) { return {.capacity_bytes = n * kNeuronBytes}; }

// Uses a neuron once, and says whether it was in memory.
bool use(NeuronCache& cache, NeuronId id) {
  const Held held = cache.acquire(id);
  if (held.found == Found::kMiss) cache.filled(held);
  if (held.is_held()) cache.give_back(held);
  return held.found == Found::kHit;
}

bool use_cluster(NeuronCache& cache, int group, int cluster) {
  const Held held = cache.acquire_cluster(group, cluster);
  if (held.found == Found::kMiss) cache.filled(held);
  if (held.is_held()) cache.give_back(held);
  return held.found == Found::kHit;
}

TEST(NeuronCache, P5TheNeuronThatWasUsedLongestAgoMakesRoom) {
  NeuronCache cache({1, 10, 4, kNeuronBytes}, slots(3));
  for (const int neuron : {1, 2, 3}) EXPECT_FALSE(use(cache, {0, neuron}));
  EXPECT_TRUE(use(cache, {0, 1}));
  EXPECT_FALSE(use(cache, {0, 4}));  // drives neuron 2 out
  EXPECT_TRUE(cache.is_resident({0, 1}));
  EXPECT_FALSE(cache.is_resident({0, 2}));
  EXPECT_TRUE(cache.is_resident({0, 3}));
  const NeuronCache::Counters& counters = cache.counters(Region::kCold);
  EXPECT_EQ(counters.hits, 1);
  EXPECT_EQ(counters.misses, 4);
  EXPECT_EQ(counters.evictions, 1);
  EXPECT_EQ(counters.read_bytes, 4 * kNeuronBytes);
  EXPECT_EQ(cache.resident_bytes(), 3 * kNeuronBytes);
}

TEST(NeuronCache, P5WhatAScanReadMakesRoomFirst) {
  NeuronCache cache({1, 10, 4, kNeuronBytes}, slots(3));
  for (const int neuron : {1, 2}) EXPECT_FALSE(use(cache, {0, neuron}));
  for (const int neuron : {5, 6, 7}) {
    const Held held = cache.acquire({0, neuron});
    ASSERT_EQ(held.found, Found::kMiss);
    cache.filled(held);
    cache.give_back(held, /*makes_room_first=*/true);
  }
  EXPECT_TRUE(use(cache, {0, 1}));
  EXPECT_TRUE(use(cache, {0, 2}));
  EXPECT_TRUE(use(cache, {0, 7}));
  EXPECT_FALSE(use(cache, {0, 8}));  // drives 1 out, because 7 was used since
  EXPECT_FALSE(cache.is_resident({0, 1}));
}

TEST(NeuronCache, P5WhatIsDroppedLeavesItsPlace) {
  NeuronCache cache({1, 10, 4, kNeuronBytes}, slots(3));
  EXPECT_FALSE(use(cache, {0, 1}));
  const Held wrong = cache.acquire({0, 5});
  cache.filled(wrong);
  const Held wanted = cache.acquire({0, 5});
  cache.drop(wrong);  // somebody else holds it
  EXPECT_TRUE(cache.is_resident({0, 5}));
  cache.drop(wanted);
  EXPECT_FALSE(cache.is_resident({0, 5}));
  const Held failed = cache.acquire({0, 6});
  cache.failed(failed);
  cache.drop(failed);
  for (const int neuron : {2, 3}) EXPECT_FALSE(use(cache, {0, neuron}));
  EXPECT_EQ(cache.counters(Region::kCold).evictions, 0);
  EXPECT_TRUE(use(cache, {0, 1}));
}

TEST(NeuronCache, P5WhatIsInUseIsNeverEvicted) {
  NeuronCache cache({2, 10, 4, kNeuronBytes}, slots(2));
  const Held a = cache.acquire({0, 1});
  const Held b = cache.acquire({1, 1});
  ASSERT_EQ(a.found, Found::kMiss);
  EXPECT_NE(a.slot, b.slot);
  EXPECT_EQ(cache.acquire({0, 1}).found, Found::kComing);
  EXPECT_EQ(cache.acquire({0, 2}).found, Found::kNoRoom);
  cache.filled(a);
  cache.give_back(a);
  // Somebody still holds a second lease of neuron 1.
  EXPECT_EQ(cache.acquire({0, 2}).found, Found::kNoRoom);
  cache.give_back(a);
  const Held c = cache.acquire({0, 2});
  EXPECT_EQ(c.found, Found::kMiss);
  EXPECT_EQ(c.slot, a.slot);
  EXPECT_EQ(cache.counters(Region::kCold).no_room, 2);
  cache.filled(b);
  cache.give_back(b);
  cache.filled(c);
  cache.give_back(c);
  EXPECT_TRUE(use(cache, {1, 1}));
}

TEST(NeuronCache, P5WhatCouldNotBeReadIsNotKept) {
  NeuronCache cache({1, 10, 4, kNeuronBytes}, slots(2));
  const Held held = cache.acquire({0, 3});
  cache.failed(held);
  EXPECT_FALSE(cache.is_resident({0, 3}));
  EXPECT_EQ(cache.acquire({0, 3}).found, Found::kFailed);
  cache.give_back(held);
  EXPECT_EQ(cache.resident_bytes(), 0u);
  EXPECT_FALSE(use(cache, {0, 3}));
  EXPECT_TRUE(use(cache, {0, 3}));
}

TEST(NeuronCache, P5TheHotRegionEvictsByCluster) {
  NeuronCacheOptions options = slots(12);
  options.hot_share = {0.7};  // makes 8 of 12 slots hot, which are two clusters of 4
  NeuronCache cache({2, 12, 4, kNeuronBytes}, options);
  EXPECT_EQ(cache.n_hot_slots(), 8);
  EXPECT_FALSE(use_cluster(cache, 0, 0));
  EXPECT_FALSE(use_cluster(cache, 1, 2));
  EXPECT_TRUE(use_cluster(cache, 0, 0));
  EXPECT_FALSE(use_cluster(cache, 0, 1));  // drives the cluster of group 1 out
  EXPECT_TRUE(cache.is_cluster_resident(0, 0));
  EXPECT_FALSE(cache.is_cluster_resident(1, 2));
  EXPECT_EQ(cache.counters(Region::kHot).evictions, 1);
  EXPECT_EQ(cache.counters(Region::kHot).read_bytes, 12 * kNeuronBytes);
  // Single neurons of the cluster are found there too, at their places.
  const Held cluster = cache.acquire_cluster(0, 1);
  const Held neuron = cache.acquire({0, 6});
  EXPECT_EQ(neuron.found, Found::kHit);
  EXPECT_EQ(neuron.region, Region::kHot);
  EXPECT_EQ(neuron.slot, cluster.slot + 2);
  cache.give_back(cluster);
  cache.give_back(neuron);
}

TEST(NeuronCache, P5AClusterTakesThePlaceOfItsSingleNeurons) {
  NeuronCacheOptions options = slots(8);
  options.hot_share = {0.5};
  NeuronCache cache({1, 8, 4, kNeuronBytes}, options);
  use(cache, {0, 1});
  const Held in_use = cache.acquire({0, 2});
  cache.filled(in_use);
  EXPECT_EQ(cache.resident_bytes(), 2 * kNeuronBytes);
  EXPECT_FALSE(use_cluster(cache, 0, 0));
  // The neuron in use stays beside the cluster.
  EXPECT_EQ(cache.resident_bytes(), 5 * kNeuronBytes);
  cache.give_back(in_use);
  EXPECT_EQ(cache.resident_bytes(), 4 * kNeuronBytes);
  EXPECT_EQ(cache.acquire({0, 2}).region, Region::kHot);
}

TEST(NeuronCache, P5TheRatioOfTheRegionsMovesWithTheBatch) {
  NeuronCacheOptions options = slots(16);
  options.hot_share = {0.25, 0.5, 0.75};
  NeuronCache cache({1, 64, 4, kNeuronBytes}, options);
  EXPECT_EQ(cache.n_hot_slots(), 4);
  use_cluster(cache, 0, 0);
  for (int neuron = 20; neuron < 32; ++neuron) use(cache, {0, neuron});
  EXPECT_EQ(cache.resident_bytes(), 16 * kNeuronBytes);
  cache.set_batch(2);
  EXPECT_EQ(cache.n_hot_slots(), 8);
  // The four neurons that were used longest ago made room. The others are still there.
  for (int neuron = 20; neuron < 32; ++neuron) {
    EXPECT_EQ(cache.is_resident({0, neuron}), neuron >= 24) << neuron;
  }
  cache.set_batch(7);  // has the shares of a batch of three
  EXPECT_EQ(cache.n_hot_slots(), 12);
  use_cluster(cache, 0, 1);
  use_cluster(cache, 0, 2);
  use_cluster(cache, 0, 0);
  cache.set_batch(2);  // drives cluster 1 out
  EXPECT_EQ(cache.n_hot_slots(), 8);
  EXPECT_FALSE(cache.is_cluster_resident(0, 1));
  EXPECT_TRUE(cache.is_cluster_resident(0, 0));
  EXPECT_TRUE(cache.is_cluster_resident(0, 2));
}

TEST(NeuronCache, P5TheRatioWaitsForWhatIsInUse) {
  NeuronCacheOptions options = slots(8);
  options.hot_share = {0.0, 1.0};
  NeuronCache cache({1, 32, 4, kNeuronBytes}, options);
  std::vector<Held> held;
  for (int neuron = 0; neuron < 8; ++neuron) {
    held.push_back(cache.acquire({0, neuron}));
    cache.filled(held.back());
  }
  EXPECT_TRUE(cache.set_batch(2).empty());
  EXPECT_EQ(cache.n_hot_slots(), 0);
  for (const Held& one : held) cache.give_back(one);
  cache.set_batch(2);
  EXPECT_EQ(cache.n_hot_slots(), 8);
  const Held cluster = cache.acquire_cluster(0, 3);
  cache.filled(cluster);
  cache.set_batch(1);
  EXPECT_EQ(cache.n_hot_slots(), 4);
  cache.give_back(cluster);
  cache.set_batch(1);
  EXPECT_EQ(cache.n_hot_slots(), 0);
}

TEST(NeuronCache, P5PinnedNeuronsStayBesideThoseOfLru) {
  NeuronCacheOptions options = slots(4);
  for (int neuron = 0; neuron < 10; ++neuron) options.frequent.push_back({0, neuron});
  options.pinned_share = {0.5};
  NeuronCache cache({1, 100, 4, kNeuronBytes}, options);
  EXPECT_EQ(cache.n_pins(), 2);
  EXPECT_TRUE(cache.is_pinned({0, 1}));
  EXPECT_FALSE(cache.is_pinned({0, 2}));
  use(cache, {0, 0});
  use(cache, {0, 1});
  for (int neuron = 50; neuron < 90; ++neuron) EXPECT_FALSE(use(cache, {0, neuron}));
  EXPECT_TRUE(use(cache, {0, 0}));
  EXPECT_TRUE(use(cache, {0, 1}));
  EXPECT_TRUE(use(cache, {0, 89}));
  EXPECT_TRUE(use(cache, {0, 88}));
  cache.clear();
  EXPECT_EQ(cache.resident_bytes(), 0u);
}

TEST(NeuronCache, P4PinsFollowTheBatch) {
  NeuronCacheOptions options = slots(8);
  for (int neuron = 0; neuron < 10; ++neuron) options.frequent.push_back({0, neuron});
  options.pinned_share = {0.75, 0.25, 0.0};
  NeuronCache cache({1, 100, 4, kNeuronBytes}, options);
  EXPECT_EQ(cache.n_pins(), 6);
  for (int neuron = 0; neuron < 6; ++neuron) use(cache, {0, neuron});
  for (int neuron = 50; neuron < 90; ++neuron) use(cache, {0, neuron});
  for (int neuron = 0; neuron < 6; ++neuron) EXPECT_TRUE(cache.is_resident({0, neuron}));
  // Those that are no longer pinned stay until there is need for their places, and go first.
  EXPECT_TRUE(cache.set_batch(2).empty());
  EXPECT_EQ(cache.n_pins(), 2);
  EXPECT_TRUE(cache.is_resident({0, 5}));
  for (int neuron = 50; neuron < 54; ++neuron) EXPECT_FALSE(use(cache, {0, neuron}));
  for (int neuron = 2; neuron < 6; ++neuron) EXPECT_FALSE(cache.is_resident({0, neuron}));
  EXPECT_TRUE(cache.is_resident({0, 88}));
  cache.set_batch(9);  // has the share of a batch of three
  EXPECT_EQ(cache.n_pins(), 0);
  cache.set_batch(1);
  EXPECT_EQ(cache.n_pins(), 6);
  for (int neuron = 2; neuron < 6; ++neuron) use(cache, {0, neuron});
  for (int neuron = 50; neuron < 90; ++neuron) use(cache, {0, neuron});
  for (int neuron = 0; neuron < 6; ++neuron) EXPECT_TRUE(cache.is_resident({0, neuron}));
  cache.clear();
  EXPECT_EQ(cache.resident_bytes(), 0u);
}

TEST(NeuronCache, P5PinningAloneKeepsNothingElse) {
  NeuronCacheOptions options = slots(4);
  for (int neuron = 0; neuron < 10; ++neuron) options.frequent.push_back({0, neuron});
  options.pinned_share = {1.0};
  NeuronCache cache({1, 100, 4, kNeuronBytes}, options);
  for (int neuron = 0; neuron < 4; ++neuron) use(cache, {0, neuron});
  EXPECT_FALSE(use(cache, {0, 60}));
  EXPECT_FALSE(use(cache, {0, 60}));
  EXPECT_EQ(cache.counters(Region::kCold).no_room, 2);
  for (int neuron = 0; neuron < 4; ++neuron) EXPECT_TRUE(use(cache, {0, neuron}));
}

TEST(NeuronCache, P5PinningByFrequencyBeatsLruInACyclicScan) {
  // With every neuron in turn, over and over, LRU drops each one before it comes again.
  const NeuronCacheShape shape = {1, 20, 4, kNeuronBytes};
  NeuronCacheOptions options = slots(10);
  for (int neuron = 0; neuron < 20; ++neuron) options.frequent.push_back({0, neuron});
  int64_t hits[2] = {};
  for (const bool is_pinned : {false, true}) {
    options.pinned_share = {is_pinned ? 1.0 : 0.0};
    NeuronCache cache(shape, options);
    for (int i = 0; i < 200; ++i) hits[is_pinned ? 1 : 0] += use(cache, {0, i % 20}) ? 1 : 0;
  }
  EXPECT_EQ(hits[0], 0);
  EXPECT_EQ(hits[1], 90);
}

TEST(NeuronCache, P5TheFixedRegionIsPartOfTheBudget) {
  NeuronCacheOptions options = slots(10);
  options.fixed_bytes = 7 * kNeuronBytes + 1;
  const NeuronCacheShape shape = {1, 100, 4, kNeuronBytes};
  NeuronCache cache(shape, options);
  EXPECT_EQ(cache.n_slots(), 2);
  for (int neuron = 0; neuron < 100; ++neuron) use(cache, {0, neuron});
  EXPECT_EQ(cache.resident_bytes(), 9 * kNeuronBytes + 1);
  EXPECT_LE(cache.most_resident_bytes(), cache.capacity_bytes());
  for (const uint64_t too_much : {9 * kNeuronBytes + 1, 10 * kNeuronBytes, 11 * kNeuronBytes}) {
    options.fixed_bytes = too_much;
    try {
      const NeuronCache none(shape, options);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("‹memory›"), std::string::npos) << error.what();
    }
  }
}

TEST(NeuronCache, P5NoMoreThanAllNeuronsTakePlace) {
  NeuronCache cache({2, 7, 4, kNeuronBytes}, slots(1000));
  EXPECT_EQ(cache.n_slots(), 14);
  EXPECT_EQ(cache.n_clusters(), 2);
  EXPECT_EQ(cache.cluster_size(1), 3);
}

// Does what a cache must do in the plainest way, with lists that are searched from end to end.
class NaiveCache {
 public:
  NaiveCache(const NeuronCacheShape& shape, const NeuronCacheOptions& options)
      : shape(shape), n_slots(options.capacity_bytes / kNeuronBytes), options(options) {}

  struct Item {
    int key;  // is group * n_neurons + neuron, or group * n_clusters + cluster
    int n_leases;
    bool is_ready;
  };
  // Items stand in the order in which they were given back, oldest first.
  using Items = std::vector<Item>;

  static Items::iterator find(Items& items, int key) {
    return std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.key == key; });
  }
  bool is_pinned(int key) const { return pins.contains(key); }
  // Drops the oldest item that may go. Returns false if there is none.
  bool evict(Items& items, bool is_hot) {
    const auto oldest = std::find_if(items.begin(), items.end(), [&](const Item& item) {
      return item.n_leases == 0 && (is_hot || !is_pinned(item.key));
    });
    if (oldest == items.end()) return false;
    items.erase(oldest);
    return true;
  }
  Found acquire(Items& items, int key, size_t most, bool is_hot) {
    const auto at = find(items, key);
    if (at != items.end()) {
      ++at->n_leases;
      return at->is_ready ? Found::kHit : Found::kComing;
    }
    if (items.size() >= most && !evict(items, is_hot)) return Found::kNoRoom;
    items.push_back({key, 1, false});
    return Found::kMiss;
  }
  void give_back(Items& items, int key) {
    const auto at = find(items, key);
    Item item = *at;
    --item.n_leases;
    items.erase(at);
    items.push_back(item);
  }

  NeuronCacheShape shape;
  size_t n_slots;
  NeuronCacheOptions options;
  Items cold;
  Items hot;
  std::map<int, bool> pins;
};

// Makes random uses, leases of random length, and batches that come and go.
class RandomUses {
 public:
  RandomUses(uint64_t seed, const NeuronCacheShape& shape, const NeuronCacheOptions& options)
      : seed_(seed), shape_(shape), cache_(shape, options), naive_(shape, options) {
    memory_.assign(static_cast<size_t>(cache_.n_slots()), -1);
    note_pins();
  }

  void run(int n_steps) {
    for (int i = 0; i < n_steps && !testing::Test::HasFailure(); ++i) step();
  }

 private:
  struct Lease {
    Held held;
    int key;
    bool is_hot;
  };

  int random(int n) { return static_cast<int>(random_bits(seed_, n_drawn_++) % uint64_t(n)); }
  // The hot neurons, which have the lowest numbers, are drawn more often.
  int random_neuron() { return random(1 + random(shape_.n_neurons)); }

  void note_pins() {
    naive_.pins.clear();
    for (int64_t i = 0; i < cache_.n_pins(); ++i) {
      const NeuronId id = naive_.options.frequent[static_cast<size_t>(i)];
      naive_.pins[id.group * shape_.n_neurons + id.neuron] = true;
    }
  }

  void step() {
    const int what = random(100);
    if (what < 3) {
      change_batch();
    } else if (what < 50) {
      acquire_neuron();
    } else if (what < 56) {
      acquire_cluster();
    } else if (!leases_.empty()) {
      give_back();
    }
    check();
  }

  void acquire_neuron() {
    const NeuronId id = {random(shape_.n_groups), random_neuron()};
    const int key = id.group * shape_.n_neurons + id.neuron;
    const int cluster_key = id.group * cache_.n_clusters() + id.neuron / shape_.cluster_neurons;
    const auto cluster = NaiveCache::find(naive_.hot, cluster_key);
    const bool is_in_cluster =
        cluster != naive_.hot.end() &&
        (cluster->is_ready || NaiveCache::find(naive_.cold, key) == naive_.cold.end());
    const Held held = cache_.acquire(id);
    const auto most = static_cast<size_t>(cache_.n_slots() - cache_.n_hot_slots());
    const Found wanted = is_in_cluster ? naive_.acquire(naive_.hot, cluster_key, 0, true)
                                       : naive_.acquire(naive_.cold, key, most, false);
    ASSERT_EQ(held.found, wanted);
    ASSERT_EQ(held.region, is_in_cluster ? Region::kHot : Region::kCold);
    if (held.found == Found::kHit) {
      ASSERT_EQ(memory_[static_cast<size_t>(held.slot)], key);
    }
    if (held.is_held()) leases_.push_back({held, is_in_cluster ? cluster_key : key, is_in_cluster});
    if (held.found == Found::kMiss && random(3) > 0) fill(leases_.back());
  }

  void acquire_cluster() {
    const int group = random(shape_.n_groups);
    const int cluster = random(cache_.n_clusters());
    const int key = group * cache_.n_clusters() + cluster;
    const auto most = static_cast<size_t>(cache_.n_hot_slots() / shape_.cluster_neurons);
    const Held held = cache_.acquire_cluster(group, cluster);
    ASSERT_EQ(held.found, naive_.acquire(naive_.hot, key, most, true));
    if (held.is_held()) leases_.push_back({held, key, true});
    if (held.found == Found::kMiss && random(3) > 0) fill(leases_.back());
  }

  void fill(const Lease& lease) {
    const auto slot = static_cast<size_t>(lease.held.slot);
    if (!lease.is_hot) {
      memory_[slot] = lease.key;
      NaiveCache::find(naive_.cold, lease.key)->is_ready = true;
    } else {
      NaiveCache::find(naive_.hot, lease.key)->is_ready = true;
      const int cluster = lease.key % cache_.n_clusters();
      const int first =
          lease.key / cache_.n_clusters() * shape_.n_neurons + cluster * shape_.cluster_neurons;
      for (int i = 0; i < cache_.cluster_size(cluster); ++i) {
        memory_[slot + static_cast<size_t>(i)] = first + i;
        const auto copy = NaiveCache::find(naive_.cold, first + i);
        const bool may_go = copy != naive_.cold.end() && copy->is_ready && copy->n_leases == 0;
        if (may_go) naive_.cold.erase(copy);
      }
    }
    cache_.filled(lease.held);
  }

  void give_back() {
    const auto at = leases_.begin() + random(static_cast<int>(leases_.size()));
    const Lease lease = *at;
    NaiveCache::Items& items = lease.is_hot ? naive_.hot : naive_.cold;
    if (!NaiveCache::find(items, lease.key)->is_ready) {
      // The lease that reads the neuron ends its reading first.
      const auto reader = std::find_if(leases_.begin(), leases_.end(), [&](const Lease& other) {
        return other.key == lease.key && other.is_hot == lease.is_hot &&
               other.held.found == Found::kMiss;
      });
      fill(*reader);
    }
    leases_.erase(at);
    cache_.give_back(lease.held);
    naive_.give_back(items, lease.key);
    const int cluster_key = lease.key / shape_.n_neurons * cache_.n_clusters() +
                            lease.key % shape_.n_neurons / shape_.cluster_neurons;
    if (lease.is_hot || items.back().n_leases > 0) return;
    const auto cluster = NaiveCache::find(naive_.hot, cluster_key);
    if (cluster != naive_.hot.end() && cluster->is_ready) items.pop_back();
  }

  // Only what was used longest ago may go, and nothing that stays may change its bytes.
  void change_batch() {
    for (const NeuronCache::Move& move : cache_.set_batch(1 + random(4))) {
      memory_[static_cast<size_t>(move.to)] = memory_[static_cast<size_t>(move.from)];
    }
    // Pins that ended count as the oldest items, the least frequent first.
    for (size_t i = naive_.options.frequent.size(); i-- > 0;) {
      const NeuronId id = naive_.options.frequent[i];
      const int key = id.group * shape_.n_neurons + id.neuron;
      const auto at = NaiveCache::find(naive_.cold, key);
      if (!naive_.is_pinned(key) || cache_.is_pinned(id)) continue;
      if (at == naive_.cold.end() || at->n_leases > 0 || !at->is_ready) continue;
      ended_.push_back(*at);
      naive_.cold.erase(at);
    }
    naive_.cold.insert(naive_.cold.begin(), ended_.begin(), ended_.end());
    ended_.clear();
    note_pins();
    remove_gone(naive_.cold, [&](int key) {
      return cache_.is_resident({key / shape_.n_neurons, key % shape_.n_neurons});
    });
    remove_gone(naive_.hot, [&](int key) {
      return cache_.is_cluster_resident(key / cache_.n_clusters(), key % cache_.n_clusters());
    });
  }

  template <typename IsThere>
  void remove_gone(NaiveCache::Items& items, IsThere is_there) {
    bool has_stayed = false;
    for (auto at = items.begin(); at != items.end();) {
      const bool may_go =
          at->n_leases == 0 && (&items == &naive_.hot || !naive_.is_pinned(at->key));
      if (at->is_ready && !is_there(at->key)) {
        ASSERT_TRUE(may_go);
        ASSERT_FALSE(has_stayed);
        at = items.erase(at);
      } else {
        has_stayed = has_stayed || may_go;
        ++at;
      }
    }
  }

  void check() {
    size_t n_hot_neurons = 0;
    for (const NaiveCache::Item& item : naive_.hot) {
      n_hot_neurons += static_cast<size_t>(cache_.cluster_size(item.key % cache_.n_clusters()));
    }
    ASSERT_EQ(cache_.resident_bytes(), (naive_.cold.size() + n_hot_neurons) * kNeuronBytes);
    ASSERT_LE(cache_.resident_bytes(), cache_.capacity_bytes());
    for (const Lease& lease : leases_) {
      if (!lease.is_hot && NaiveCache::find(naive_.cold, lease.key)->is_ready) {
        ASSERT_EQ(memory_[static_cast<size_t>(lease.held.slot)], lease.key);
      }
    }
  }

  uint64_t seed_;
  uint64_t n_drawn_ = 0;
  NeuronCacheShape shape_;
  NeuronCache cache_;
  NaiveCache naive_;
  NaiveCache::Items ended_;
  std::vector<Lease> leases_;
  std::vector<int> memory_;  // has the key whose bytes lie in each slot
};

class NeuronCacheRandom
    : public testing::TestWithParam<std::tuple<uint64_t /*slots*/, int /*cluster*/, double>> {};

TEST_P(NeuronCacheRandom, P5RandomUsesAreThoseOfANaiveCache) {
  const auto [n_slots, cluster_neurons, pinned_share] = GetParam();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const NeuronCacheShape shape = {3, 41, cluster_neurons, kNeuronBytes};
    NeuronCacheOptions options = slots(n_slots);
    if (seed % 4 != 0) options.hot_share = {0.1, 0.3, 0.6, 1.0};
    options.pinned_share = {pinned_share, 0.5 * pinned_share, 0.0, 0.75 * pinned_share};
    for (int i = 0; i < 3 * 41; ++i) options.frequent.push_back({i % 3, i / 3});
    RandomUses uses(seed, shape, options);
    uses.run(2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NeuronCacheRandom,
                         testing::Combine(testing::Values(1, 7, 40, 123), testing::Values(1, 4, 16),
                                          testing::Values(0.0, 0.4, 1.0)));

}  // namespace
}  // namespace troika::weights
