// Finds expressions by hashes of their contents. The index grows a little with every addition, so
// that no single addition takes long: whoever waits for a mask would notice.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace troika::grammar {

class ExprIndex {
 public:
  static constexpr uint32_t kNotFound = 0xffffffff;

  // Returns the expression with this hash for which `is_it` is true, or kNotFound. `is_it` is also
  // called for other expressions whose hashes agree.
  template <typename IsIt>
  uint32_t find(uint64_t hash, const IsIt& is_it) const {
    const auto short_hash = static_cast<uint32_t>(hash >> 32);
    for (const Table* const table : {&now_, &old_}) {
      if (table->slots == nullptr) continue;
      for (size_t i = short_hash & table->mask; table->slots[i].plus_one != 0;
           i = (i + 1) & table->mask) {
        const Slot& slot = table->slots[i];
        if (slot.hash == short_hash && is_it(slot.plus_one - 1)) return slot.plus_one - 1;
      }
    }
    return kNotFound;
  }

  // Adds expression `e`. REQUIRES: find() does not find it, and `e` is not kNotFound.
  void add(uint64_t hash, uint32_t e) {
    if (now_.slots == nullptr) now_ = Table(kFirstSlots);
    if (2 * (now_.n + 1) > now_.mask + 1) {
      old_ = std::exchange(now_, Table(2 * (now_.mask + 1)));
      n_moved_ = 0;
    }
    move_some();
    now_.put({static_cast<uint32_t>(hash >> 32), e + 1});
  }

 private:
  static constexpr size_t kFirstSlots = 1024;
  // The old table is empty long before the new one is half full.
  static constexpr size_t kMovedAtOnce = 8;
  struct Slot {
    uint32_t hash;
    uint32_t plus_one;  // the expression's number plus one; 0 in an empty slot
  };
  struct Free {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  struct Table {
    Table() = default;
    // Memory from calloc() costs nothing before it is written to.
    explicit Table(size_t n_slots)
        : slots(static_cast<Slot*>(std::calloc(n_slots, sizeof(Slot)))), mask(n_slots - 1) {
      if (slots == nullptr) throw std::bad_alloc();
    }
    void put(Slot slot) {
      size_t i = slot.hash & mask;
      while (slots[i].plus_one != 0) i = (i + 1) & mask;
      slots[i] = slot;
      ++n;
    }
    std::unique_ptr<Slot[], Free> slots;
    size_t mask = 0, n = 0;
  };

  // Moves some slots of the old table to the new one. Slots that were moved stay in the old table
  // too, until all of it is dropped; find() may see either copy.
  void move_some() {
    if (old_.slots == nullptr) return;
    for (size_t i = 0; i < kMovedAtOnce && n_moved_ <= old_.mask; ++i, ++n_moved_) {
      if (old_.slots[n_moved_].plus_one != 0) now_.put(old_.slots[n_moved_]);
    }
    if (n_moved_ > old_.mask) old_ = Table();
  }

  Table now_, old_;
  size_t n_moved_ = 0;
};

}  // namespace troika::grammar
