// Keeps neurons' bundles in a side file (P7). It is made once for a content of the model and a form
// of its weights, checked whenever it is opened, and never used where it is stale or damaged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/huge_pages.h"
#include "base/progress.h"
#include "base/side_file.h"
#include "weights/neurons/bundle_layout.h"

namespace troika {
class AtomicFile;
}

namespace troika::weights {

// Returns a check by which the bytes of a piece of a bundle are recognised when they are read.
uint32_t bundle_check(std::span<const std::byte> piece);

// Says whether a file was read whose head is not that of bundles of this version, made for this
// content of a model. Of a file that cannot be read it says nothing.
bool holds_other_bundles(const std::string& path, uint64_t model_key);

// The parts of a file of bundles that are kept in memory.
class BundleTables {
 public:
  struct Keys {
    uint64_t model = 0;  // the content_key of the model
    uint64_t form = 0;   // says what bundles are made of
    // Says in which order bundles lie. 0: a new file keeps the model's order, and a file in any
    // order will do, because its tables say which neuron lies where.
    uint64_t order = 0;
  };
  // Reads these bytes of a file; returns false where the file does not have them.
  using ReadAt = FunctionRef<bool(uint64_t offset, std::span<std::byte> to)>;

  // Returns what is wrong with the file, as words that follow its name in a sentence; empty:
  // nothing. REQUIRES: the shape has layers, neurons and bundle_bytes above 0, and first_bytes that
  // are a multiple of kBundlePage below bundle_bytes. Throws std::bad_alloc.
  std::string read(ReadAt read_at, uint64_t file_bytes, const BundleShape& shape, const Keys& keys);

  // Returns (n_neurons) neurons in the order in which their bundles lie.
  std::span<const uint32_t> order(uint64_t layer) const {
    return std::span(orders_).subspan(layer * shape_.n_neurons, shape_.n_neurons);
  }
  // Returns the check sum of a piece of the bundle at a place of the layer.
  uint32_t check(uint64_t layer, uint64_t place, uint64_t piece) const {
    return checks_[(layer * shape_.n_neurons + place) * BundleLayout(shape_).n_pieces() + piece];
  }
  // Returns (resident_bytes) of what all neurons of the layer share.
  std::span<const std::byte> resident(uint64_t layer) const {
    return {resident_[layer].get(), shape_.resident_bytes};
  }
  // Returns how many bytes orders, checks and resident bytes take.
  static uint64_t memory_bytes(const BundleShape& shape) {
    return shape.n_layers * BundleLayout(shape).table_bytes();
  }

 private:
  std::string read_layer(ReadAt read_at, uint64_t layer, uint64_t hash);

  BundleShape shape_;
  std::vector<uint32_t> orders_;  // (n_layers, n_neurons)
  std::vector<uint32_t> checks_;  // (n_layers, n_neurons, n_pieces)
  std::vector<PageBuffer> resident_;
};

// Makes what stands in a file of bundles.
class BundleSource {
 public:
  virtual ~BundleSource() = default;
  // Returns (n_neurons) neurons of a layer, segment after segment (source.h), the hottest of a
  // segment first.
  virtual std::vector<uint32_t> order(uint64_t layer) = 0;
  // Fills `bundles`, (n_neurons, bundle_bytes) by neuron, and `resident`, (resident_bytes).
  virtual void make(uint64_t layer, std::span<std::byte> bundles,
                    std::span<std::byte> resident) = 0;
  // Throws Error where what was made so far may not be the model's. Is asked before a file gets its
  // name.
  virtual void check_made() const = 0;
};

class BundleFile {
 public:
  struct Options {
    std::string path;
    BundleTables::Keys keys;
    ProgressFunction progress = {};
  };

  // Opens the file. Makes it where there is none, where it has another content, form, version or
  // order, and where it is damaged. Throws Error where it cannot be written or read, and what the
  // source throws; std::bad_alloc.
  BundleFile(const Options& options, const BundleShape& shape, BundleSource& source);
  BundleFile(const BundleFile&) = delete;
  BundleFile& operator=(const BundleFile&) = delete;

  const std::string& path() const { return path_; }
  const BundleLayout& layout() const { return layout_; }
  const BundleTables& tables() const { return tables_; }
  uint64_t bytes() const { return layout_.file_bytes(); }
  // Returns the file that was checked, whatever takes its name later.
  int descriptor() const { return file_.descriptor(); }
  bool is_new() const { return is_new_; }
  // Says why a file that was there had to be made again; empty where none had.
  const std::string& problem() const { return problem_; }

 private:
  std::string open(const Options& options);
  void make(const Options& options, BundleSource& source) const;
  void write(const Options& options, BundleSource& source, AtomicFile* file) const;

  std::string path_;
  BundleLayout layout_;
  BundleTables tables_;
  SideFile file_;
  bool is_new_ = false;
  std::string problem_;
};

}  // namespace troika::weights
