// Says where the bundles of neurons lie in their side file (P7, 4.4). A bundle is what one neuron
// needs from the disk, in one piece. First comes a page that says whose file it is; then, for each
// layer, its bundles, segment after segment, in the order of heat within a segment, and its tables,
// which are kept in memory; last the hashes of the tables.
//
// Reads past the page cache are of whole pages. A bundle that is smaller than a page lies within
// one, which several bundles may share; a larger one begins at a page, and its gate, which comes
// first, can be read by itself where that takes fewer pages.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weights/file_pages.h"

namespace troika::weights {

inline constexpr uint64_t kBundlePage = kFilePage;
inline constexpr uint64_t kMostBundleRequest = uint64_t{256} << 10;

// Returns how far apart bundles may be that one request reads, on a disk that reads a page
// somewhere in `page_us` and bytes in order in `us_per_byte` each: such a gap takes as long to read
// as one more request. REQUIRES: both times are above 0.
inline uint64_t gap_between_bundles(double page_us, double us_per_byte) {
  constexpr double kMostPages = 16.0;
  const double n_pages = page_us / us_per_byte / static_cast<double>(kBundlePage) - 1.0;
  return static_cast<uint64_t>(std::clamp(n_pages, 1.0, kMostPages)) * kBundlePage;
}

struct BundleShape {
  uint64_t n_layers = 0;
  uint64_t n_neurons = 0;     // counts the neurons of each layer
  uint64_t bundle_bytes = 0;  // the size of a neuron's bundle
  // The size of what all neurons of a layer share, such as scales.
  uint64_t resident_bytes = 0;
  // The size of the pages at the start of a bundle that hold its gate. 0: bundles are read whole.
  uint64_t first_bytes = 0;
  bool operator==(const BundleShape&) const = default;
};

struct BundleRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A place is where a neuron stands in its layer's order.
class BundleLayout {
 public:
  struct Header {  // All words have the little end first, as the machines that this runs on do.
    char magic[16];
    uint64_t version;
    uint64_t model_key;
    uint64_t form_key;
    uint64_t order_key;  // says in which order bundles lie; 0: the model's
    BundleShape shape;
    uint64_t file_bytes;
    uint64_t hash;  // hashes everything before it
  };
  // The file ends with (n_layers) hashes of tables, and the hash of these hashes.

  explicit BundleLayout(const BundleShape& shape)
      : shape_(shape),
        per_page_(shape.bundle_bytes <= kBundlePage ? kBundlePage / shape.bundle_bytes : 1) {}

  // Counts the pieces of a bundle that can be read by themselves, each of which has a check.
  uint64_t n_pieces() const { return shape_.first_bytes > 0 ? 2 : 1; }
  // Returns where a piece lies within its bundle. The first piece is the one with the gate.
  BundleRange piece(uint64_t piece) const {
    if (shape_.first_bytes == 0) return {0, shape_.bundle_bytes};
    if (piece == 0) return {0, shape_.first_bytes};
    return {shape_.first_bytes, shape_.bundle_bytes - shape_.first_bytes};
  }
  // The tables of a layer are the order (n_neurons words of 4 bytes) and the checks (n_pieces of
  // such words for each neuron), then what is resident.
  uint64_t order_bytes() const { return shape_.n_neurons * sizeof(uint32_t); }
  uint64_t checks_bytes() const { return n_pieces() * order_bytes(); }
  uint64_t table_bytes() const { return order_bytes() + checks_bytes() + shape_.resident_bytes; }
  uint64_t bundles_bytes() const {
    if (shape_.bundle_bytes > kBundlePage) {
      return shape_.n_neurons * page_above(shape_.bundle_bytes);
    }
    return (shape_.n_neurons + per_page_ - 1) / per_page_ * kBundlePage;
  }
  uint64_t bundles_offset(uint64_t layer) const {
    return page_above(sizeof(Header)) + layer * (bundles_bytes() + page_above(table_bytes()));
  }
  uint64_t tables_offset(uint64_t layer) const { return bundles_offset(layer) + bundles_bytes(); }
  uint64_t hashes_offset() const { return bundles_offset(shape_.n_layers); }
  uint64_t bundle_offset(uint64_t layer, uint64_t place) const {
    const uint64_t begin = bundles_offset(layer);
    if (shape_.bundle_bytes > kBundlePage) return begin + place * page_above(shape_.bundle_bytes);
    return begin + place / per_page_ * kBundlePage + place % per_page_ * shape_.bundle_bytes;
  }
  // Returns the pages that a bundle lies in.
  BundleRange pages(uint64_t layer, uint64_t place) const {
    const uint64_t begin = bundle_offset(layer, place) / kBundlePage * kBundlePage;
    return {begin, page_above(bundle_offset(layer, place) + shape_.bundle_bytes) - begin};
  }
  // Returns the pages of one of its pieces.
  BundleRange pages(uint64_t layer, uint64_t place, uint64_t piece) const {
    const BundleRange own = this->piece(piece);
    if (n_pieces() == 1) return pages(layer, place);
    return {bundle_offset(layer, place) + own.offset, page_above(own.bytes)};
  }
  // Counts the bundles that share a page: 1 where a bundle has pages of its own.
  uint64_t n_per_page() const { return per_page_; }
  // Returns the most bytes that `pages` has.
  uint64_t read_bytes() const { return page_above(shape_.bundle_bytes); }
  uint64_t file_bytes() const {
    return hashes_offset() + page_above((shape_.n_layers + 1) * sizeof(uint64_t));
  }
  const BundleShape& shape() const { return shape_; }

 private:
  BundleShape shape_;
  uint64_t per_page_;
};

}  // namespace troika::weights
