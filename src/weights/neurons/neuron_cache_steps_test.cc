// What the last steps used stays in the cache of neurons (P5), where going by who was used longest
// ago finds nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/random.h"
#include "weights/neurons/neuron_cache.h"

namespace troika::weights {
namespace {

using Found = NeuronCache::Found;
using Held = NeuronCache::Held;

constexpr int kStepGroups = 4;
constexpr int kOfGroup = 100;

NeuronCache cache_of(uint64_t n_slots, bool keeps_last_steps) {
  NeuronCacheOptions options;
  options.capacity_bytes = n_slots;
  options.keeps_last_steps = keeps_last_steps;
  return NeuronCache({kStepGroups, kOfGroup, 10, 1}, options);
}

// Asks for n neurons of a group, one after the other, of which n_at_once are held meanwhile.
// `changed` of them, in percent, are others than usual.
void use(NeuronCache& cache, int group, int n, uint64_t step, int changed, size_t n_at_once = 3) {
  cache.begin_group(group);
  std::deque<Held> held;
  const auto end_one = [&] {
    if (held.front().found == Found::kMiss) cache.filled(held.front());
    cache.give_back(held.front());
    held.pop_front();
  };
  for (int i = 0; i < n; ++i) {
    const uint64_t draw = random_bits(step, static_cast<uint64_t>(group * kOfGroup + i));
    const bool is_other = static_cast<int>(draw % 100) < changed;
    const int neuron = is_other ? n + static_cast<int>(draw / 100 % (kOfGroup - n)) : i;
    Held one = cache.acquire({group, neuron}, !held.empty());
    while (!one.is_held()) {
      ASSERT_FALSE(held.empty()) << "there is no room even where nothing is in use";
      end_one();
      one = cache.acquire({group, neuron}, !held.empty());
    }
    held.push_back(one);
    if (held.size() > n_at_once) end_one();
  }
  while (!held.empty()) end_one();
}

double hit_share(uint64_t n_slots, bool keeps_last_steps, int n, int changed,
                 size_t n_at_once = 3) {
  NeuronCache cache = cache_of(n_slots, keeps_last_steps);
  constexpr uint64_t kSteps = 60;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) cache.reset_counters();
    for (int group = 0; group < kStepGroups; ++group)
      use(cache, group, n, step, changed, n_at_once);
  }
  const NeuronCache::Counters& counters = cache.counters(NeuronCache::Region::kCold);
  return static_cast<double>(counters.hits) / static_cast<double>(counters.hits + counters.misses);
}

TEST(NeuronCacheSteps, P5WhatTheLastStepUsedStaysWhereLruFindsNothing) {
  // A step asks for 120 neurons.
  EXPECT_EQ(hit_share(100, false, 30, 0), 0.0);
  EXPECT_GT(hit_share(100, true, 30, 0), 0.65);
  EXPECT_GT(hit_share(60, true, 30, 0), 0.4);
  EXPECT_GT(hit_share(100, true, 30, 20), 0.5);
  EXPECT_LT(hit_share(100, false, 30, 20), 0.1);
  // However many are in use at the same time.
  EXPECT_GT(hit_share(100, true, 30, 0, 20), 0.7);
}

TEST(NeuronCacheSteps, P5WhereAStepHasRoomItIsAsGoodAsLru) {
  for (const int changed : {0, 10, 40}) {
    for (const uint64_t n_slots : {130, 200, 300}) {
      EXPECT_NEAR(hit_share(n_slots, true, 30, changed), hit_share(n_slots, false, 30, changed),
                  0.02)
          << changed << " " << n_slots;
    }
  }
}

TEST(NeuronCacheSteps, P5AGroupThatCameLateGetsItsShare) {
  NeuronCache cache = cache_of(100, true);
  for (uint64_t step = 0; step < 20; ++step) use(cache, 0, 90, step, 0);
  const auto n_resident = [&](int group) {
    int n = 0;
    for (int i = 0; i < kOfGroup; ++i) n += cache.is_resident({group, i}) ? 1 : 0;
    return n;
  };
  EXPECT_EQ(n_resident(0), 90);
  for (uint64_t step = 20; step < 60; ++step) {
    for (int group = 0; group < kStepGroups; ++group) use(cache, group, 40, step, 0);
  }
  for (int group = 0; group < kStepGroups; ++group) EXPECT_NEAR(n_resident(group), 25, 5) << group;
}

TEST(NeuronCacheSteps, P5WhoMayWaitDoesNotTakeWhatTheStepMayStillAskFor) {
  NeuronCache cache = cache_of(40, true);
  for (uint64_t step = 0; step < 9; ++step) {
    for (int group = 0; group < kStepGroups; ++group) use(cache, group, 10, step, 0);
  }
  cache.begin_group(0);
  std::vector<Held> held = {cache.acquire({0, 50}), cache.acquire({0, 53})};
  EXPECT_EQ(cache.acquire({0, 51}, true).found, Found::kNoRoom);
  held.push_back(cache.acquire({0, 51}));  // who cannot wait finds room
  for (const Held& one : held) ASSERT_EQ(one.found, Found::kMiss);
  for (const Held& one : held) {
    cache.filled(one);
    cache.give_back(one);
  }
  // What passed through makes room before what is kept.
  const Held next = cache.acquire({0, 52}, true);
  EXPECT_EQ(next.found, Found::kMiss);
  EXPECT_FALSE(cache.is_resident({0, 50}));
  cache.filled(next);
  cache.give_back(next);
}

// Whatever is asked for, held and given back in whatever order: a hit finds the bytes of the
// neuron, and no more is in memory than there is room for.
TEST(NeuronCacheSteps, P5RandomUsesFindTheirBytes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    uint64_t n_drawn = 0;
    const auto random = [&](int n) {
      return static_cast<int>(random_bits(seed, n_drawn++) % static_cast<uint64_t>(n));
    };
    NeuronCacheOptions options;
    const int n_slots = 1 + random(150);
    options.capacity_bytes = static_cast<uint64_t>(n_slots);
    options.keeps_last_steps = true;
    options.pinned_share = {0.01 * random(101), 0.3, 0.0};
    for (int i = 0; i < kStepGroups * kOfGroup; ++i) {
      options.frequent.push_back({i % kStepGroups, i / kStepGroups});
    }
    NeuronCache cache({kStepGroups, kOfGroup, 10, 1}, options);
    std::vector<int> memory(static_cast<size_t>(n_slots), -1);
    struct Lease {
      Held held;
      int key;
    };
    std::vector<Lease> leases;
    int group = 0;
    for (int i = 0; i < 4000; ++i) {
      const int what = random(100);
      if (what < 4) {
        group = random(kStepGroups);
        cache.begin_group(group);
      } else if (what < 6) {
        ASSERT_TRUE(cache.set_batch(1 + random(3)).empty());
      } else if (what < 55) {
        const int neuron = random(2) == 0 ? random(kOfGroup) : random(20);
        const Held held = cache.acquire({group, neuron}, random(2) == 0);
        const int key = group * kOfGroup + neuron;
        if (held.found == Found::kHit) {
          ASSERT_EQ(memory[static_cast<size_t>(held.slot)], key);
        }
        if (held.found == Found::kMiss) {
          memory[static_cast<size_t>(held.slot)] = key;
          cache.filled(held);
        }
        if (held.is_held()) leases.push_back({held, key});
      } else if (!leases.empty()) {
        const auto at = leases.begin() + random(static_cast<int>(leases.size()));
        ASSERT_EQ(memory[static_cast<size_t>(at->held.slot)], at->key);
        cache.give_back(at->held);
        leases.erase(at);
      }
      ASSERT_LE(cache.resident_bytes(), cache.capacity_bytes());
    }
    for (const Lease& lease : leases) cache.give_back(lease.held);
    cache.clear();
    EXPECT_EQ(cache.resident_bytes(), 0u);
  }
}

}  // namespace
}  // namespace troika::weights
