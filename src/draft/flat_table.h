// A map from numbers to small values in one piece of memory, so that what is reserved for is added
// without allocating. Nothing is taken out but everything.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troika::draft {

template <typename Value>
class FlatTable {
 public:
  // Takes memory, so that n keys fit without allocating.
  void reserve(size_t n) {
    if (places_.size() < 2 * n) rehash(std::bit_ceil(std::max(kLeastPlaces, 2 * n)));
  }
  void clear() {
    std::fill(places_.begin(), places_.end(), Place{});
    n_keys_ = 0;
  }

  // Returns a key's value; null: there is none.
  const Value* find(uint64_t key) const {
    if (places_.empty()) return nullptr;
    const Place& place = places_[place_of(key)];
    return place.is_taken ? &place.value : nullptr;
  }
  // Returns a key's value, which is a new one where there was none.
  Value& operator[](uint64_t key) {
    reserve(n_keys_ + 1);
    Place& place = places_[place_of(key)];
    if (!place.is_taken) {
      place = {key, Value{}, true};
      ++n_keys_;
    }
    return place.value;
  }

 private:
  static constexpr size_t kLeastPlaces = 64;
  struct Place {
    uint64_t key = 0;
    Value value{};
    bool is_taken = false;
  };

  // Returns where a key is, or where it may be put. At least half of all places are free.
  size_t place_of(uint64_t key) const {
    const size_t mask = places_.size() - 1;
    size_t at = (key * 0x9e3779b97f4a7c15ull >> 32) & mask;
    while (places_[at].is_taken && places_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void rehash(size_t n_places) {
    std::vector<Place> before(n_places);
    std::swap(before, places_);
    for (const Place& place : before) {
      if (place.is_taken) places_[place_of(place.key)] = place;
    }
  }

  std::vector<Place> places_;  // has a power of two
  size_t n_keys_ = 0;
};

}  // namespace troika::draft
