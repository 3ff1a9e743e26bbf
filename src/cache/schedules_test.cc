// Runs random schedules of everything that a cache and its sequences are asked for, against a model
// that only writes down the slots, tokens and tags of each text.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "cache/sequences.h"

namespace troika::cache {
namespace {

struct Item {
  Slot slot;
  Token token;
  Tag tag;
  bool operator==(const Item&) const = default;
};

struct Text {
  std::vector<Item> items;
  bool is_idle = false;
  int last = 0;
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed)
      : seed_(seed),
        most_idle_(below(5)),
        granule_(1 + below(3)),
        kv_({1, 1, 32, tensor::Type::kF16, 40 + below(400), 20 + below(40)}),
        sequences_(kv_, most_idle_) {}

  void run(int n_operations) {
    for (int i = 0; i < n_operations && !testing::Test::HasFailure(); ++i) {
      one();
      check();
    }
    // When all texts have gone, all slots are free.
    while (!texts_.empty()) {
      const SequenceId id = texts_.begin()->first;
      if (!texts_.begin()->second.is_idle) release(id);
      if (texts_.count(id) != 0) evict(kv_.shape().most_slots);
    }
    EXPECT_EQ(kv_.n_free(), kv_.shape().most_slots);
  }

 private:
  int below(int n) {
    return static_cast<int>(random_bits(seed_, counter_++) % static_cast<uint64_t>(n));
  }
  Token any_token() { return below(8) == 0 ? 1 : 0; }
  Tag any_tag() { return below(16) == 0 ? 1 : 0; }

  // Returns a sequence that is busy, or -1.
  SequenceId any_busy() {
    std::vector<SequenceId> busy;
    for (const auto& [id, text] : texts_) {
      if (!text.is_idle) busy.push_back(id);
    }
    return busy.empty() ? -1 : busy[static_cast<size_t>(below(static_cast<int>(busy.size())))];
  }

  void one() {
    const SequenceId id = any_busy();
    const int operation = below(20);
    if (id < 0 || operation < 3) {
      begin();
    } else if (operation < 13) {
      pass();
    } else if (operation == 13) {
      const int length = below(kv_.length(id) + 2);
      kv_.truncate(id, length);
      std::vector<Item>& items = texts_[id].items;
      items.resize(std::min(items.size(), static_cast<size_t>(length)));
    } else if (operation == 14) {
      begin_again(id);
    } else if (operation == 15) {
      const SequenceId from = texts_.begin()->first;
      if (from == id) return;
      const int length = below(kv_.length(from) + 1);
      kv_.fork(from, id, length);
      const std::vector<Item>& items = texts_[from].items;
      texts_[id].items.assign(items.begin(), items.begin() + length);
    } else if (operation == 16) {
      evict(below(kv_.shape().most_slots));
    } else if (operation == 17) {
      sequences_.forget(id);
      texts_.erase(id);
    } else {
      release(id);
    }
  }

  struct Prompt {
    std::vector<Token> tokens;
    std::vector<Tag> tags;
  };
  // Makes a prompt, which often is the beginning of some text.
  Prompt any_prompt() {
    Prompt prompt;
    if (!texts_.empty() && below(4) > 0) {
      auto at = texts_.begin();
      std::advance(at, below(static_cast<int>(texts_.size())));
      for (const Item& item : at->second.items) {
        prompt.tokens.push_back(item.token);
        prompt.tags.push_back(item.tag);
      }
      const auto n = static_cast<size_t>(below(static_cast<int>(prompt.tokens.size()) + 1));
      if (below(2) == 0) prompt.tokens.resize(n);
    }
    for (int n = 1 + below(5); n > 0; --n) prompt.tokens.push_back(any_token());
    while (prompt.tags.size() < prompt.tokens.size()) prompt.tags.push_back(any_tag());
    return prompt;
  }

  size_t n_common(const Text& text, const Prompt& prompt) const {
    size_t n = 0;
    while (n < text.items.size() && n + 1 < prompt.tokens.size() &&
           text.items[n].token == prompt.tokens[n] && text.items[n].tag == prompt.tags[n]) {
      ++n;
    }
    const auto granule = static_cast<size_t>(granule_);
    return n / granule * granule;
  }

  // Returns the best source for a prompt; its sequence is -1 if there is none.
  Prefix longest(const Prompt& prompt) const {
    Prefix best;
    for (const auto& [id, text] : texts_) {
      const auto length = static_cast<int>(n_common(text, prompt));
      if (length > best.length) best = {id, length};
    }
    return best;
  }

  void begin() {
    const Prompt prompt = any_prompt();
    begun(sequences_.begin(prompt.tokens, prompt.tags, granule_), longest(prompt));
  }

  void begun(const Sequences::Begun& begun, const Prefix& source) {
    ASSERT_EQ(begun.n_reused, source.length);
    Text fresh;
    if (source.length > 0) {
      Text& from = texts_[source.sequence];
      from.last = ++now_;
      const bool is_whole = source.length == static_cast<int>(from.items.size());
      fresh.items.assign(from.items.begin(), from.items.begin() + source.length);
      if (from.is_idle && is_whole) {
        ASSERT_EQ(begun.sequence, source.sequence);
        from.is_idle = false;
        return;
      }
    }
    ASSERT_EQ(texts_.count(begun.sequence), 0u);
    texts_[begun.sequence] = fresh;
  }

  void begin_again(SequenceId own) {
    const Prompt prompt = any_prompt();
    const Prefix source = longest(prompt);
    const auto n_own = static_cast<int>(n_common(texts_[own], prompt));
    const Sequences::Begun result =
        sequences_.begin_again(own, prompt.tokens, prompt.tags, granule_);
    if (n_own == source.length) {
      EXPECT_EQ(result.sequence, own);
      EXPECT_EQ(result.n_reused, n_own);
      texts_[own].items.resize(static_cast<size_t>(n_own));
      return;
    }
    begun(result, source);
    let_go(own);
  }

  void release(SequenceId id) {
    sequences_.release(id);
    let_go(id);
  }

  void let_go(SequenceId id) {
    if (texts_[id].items.empty()) {
      texts_.erase(id);
      return;
    }
    texts_[id].is_idle = true;
    texts_[id].last = ++now_;
    while (n_idle() > most_idle_) evict_oldest();
  }

  void evict_oldest() {
    auto oldest = texts_.end();
    for (auto at = texts_.begin(); at != texts_.end(); ++at) {
      if (!at->second.is_idle) continue;
      if (oldest == texts_.end() || at->second.last < oldest->second.last) oldest = at;
    }
    texts_.erase(oldest);
  }

  void evict(int n_free) {
    const bool are_free = sequences_.evict_until(n_free);
    while (this->n_free() < n_free && n_idle() > 0) evict_oldest();
    EXPECT_EQ(are_free, this->n_free() >= n_free);
  }

  int n_idle() const {
    return static_cast<int>(std::count_if(texts_.begin(), texts_.end(),
                                          [](const auto& text) { return text.second.is_idle; }));
  }

  // Returns for each slot of the pages whether it is taken.
  std::vector<bool> taken() const {
    std::vector<bool> is_taken(512);
    for (const auto& [id, text] : texts_) {
      for (const Item& item : text.items) is_taken.at(item.slot) = true;
    }
    return is_taken;
  }
  int n_free() const {
    const std::vector<bool> is_taken = taken();
    const auto n = std::count(is_taken.begin(), is_taken.end(), true);
    return kv_.shape().most_slots - static_cast<int>(n);
  }

  // Makes a batch of chains and trees that continue a few texts.
  Batch any_batch() {
    Batch batch;
    for (int n = 1 + below(3); n > 0; --n) {
      const SequenceId id = any_busy();
      const int kind = below(3);
      for (int i = 1 + below(kind == 0 ? 40 : 9); i > 0; --i) {
        int parent = kind == 2 ? below(batch.size() + 1) - 1 : batch.size() - 1;
        if (parent >= 0 && row(batch, parent).sequence != id) parent = -1;
        const int position = parent < 0 ? kv_.length(id) : row(batch, parent).position + 1;
        batch.rows.push_back({any_token(), position, id, parent, true, any_tag()});
      }
    }
    return batch;
  }

  static const Batch::Row& row(const Batch& batch, int i) {
    return batch.rows[static_cast<size_t>(i)];
  }

  void pass() {
    const Batch batch = any_batch();
    const bool is_too_long = std::any_of(batch.rows.begin(), batch.rows.end(), [&](const auto& r) {
      return r.position >= kv_.shape().most_positions;
    });
    const int n_before = n_free();
    if (is_too_long || batch.size() > n_before) {
      EXPECT_THROW(kv_.place(batch, &placed_), Error);
      return;
    }
    kv_.place(batch, &placed_);
    EXPECT_EQ(kv_.n_free(), n_before - batch.size());
    check_placement(batch);
    end_pass(batch);
  }

  void check_placement(const Batch& batch) {
    std::vector<bool> is_taken = taken();
    for (int i = 0; i < batch.size(); ++i) {
      const auto index = static_cast<size_t>(i);
      EXPECT_FALSE(is_taken.at(placed_.slots[index])) << "a slot in use";
      is_taken.at(placed_.slots[index]) = true;
      std::vector<Slot> expected;
      for (int at = i; at >= 0; at = row(batch, at).parent) {
        expected.push_back(placed_.slots[static_cast<size_t>(at)]);
      }
      const std::vector<Item>& past = texts_[row(batch, i).sequence].items;
      for (size_t at = past.size(); at-- > 0;) expected.push_back(past[at].slot);
      std::reverse(expected.begin(), expected.end());
      const VisibleSlots& visible = placed_.visible[index];
      std::vector<Slot> seen(visible.past.begin(), visible.past.end());
      seen.insert(seen.end(), visible.own.begin(), visible.own.end());
      ASSERT_EQ(seen, expected);
    }
  }

  // Drops the pass, or keeps a path or nothing for each sequence.
  void end_pass(const Batch& batch) {
    const int how = below(4);
    if (how == 0) {
      kv_.drop(placed_);
      return;
    }
    std::vector<int> kept;
    std::set<SequenceId> done;
    for (int i = batch.size() - 1; i >= 0; --i) {
      if (how > 1 && below(2) == 0) continue;
      if (!done.insert(row(batch, i).sequence).second) continue;
      std::vector<int> path;
      for (int at = i; at >= 0; at = row(batch, at).parent) path.push_back(at);
      kept.insert(kept.end(), path.rbegin(), path.rend());
    }
    for (const int i : kept) {
      const Batch::Row& r = row(batch, i);
      texts_[r.sequence].items.push_back({placed_.slots[static_cast<size_t>(i)], r.token, r.tag});
    }
    std::vector<int> all(batch.rows.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    if (kept == all) {
      kv_.keep_all(batch, placed_);
    } else {
      kv_.keep(batch, placed_, kept);
    }
  }

  void check() {
    EXPECT_EQ(kv_.n_free(), n_free());
    for (SequenceId id = 0; id < kv_.sequence_end() + 1; ++id) {
      ASSERT_EQ(kv_.is_open(id), texts_.count(id) == 1) << id;
      if (!kv_.is_open(id)) continue;
      const Text& text = texts_[id];
      EXPECT_EQ(sequences_.is_idle(id), text.is_idle);
      ASSERT_EQ(kv_.slots(id).size(), text.items.size());
      bool is_equal = true;
      for (int i = 0; i < kv_.length(id); ++i) {
        const auto index = static_cast<size_t>(i);
        const Item held = {kv_.slots(id)[index], kv_.token_of(id, i), kv_.tag_of(id, i)};
        is_equal = is_equal && held == text.items[index];
      }
      EXPECT_TRUE(is_equal) << id;
    }
  }

  uint64_t seed_;
  uint64_t counter_ = 0;
  int most_idle_;
  int granule_;
  KvCache kv_;
  Sequences sequences_;
  PlacedBatch placed_;
  std::map<SequenceId, Text> texts_;
  int now_ = 0;
};

TEST(Schedules, RandomOnesAgreeWithTheModel) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Schedule(seed).run(250);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troika::cache
