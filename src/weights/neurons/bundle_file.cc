#include "weights/neurons/bundle_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/side_file.h"
#include "weights/fast_hash.h"
#include "weights/file_pages.h"
#include "weights/neurons/source.h"

namespace troika::weights {
namespace {

constexpr char kBundleMagic[16] = "troika-bundles";
constexpr uint64_t kBundleVersion = 4;
// Counts the bytes that are written, or checked, at a time.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

uint64_t header_hash(const BundleLayout::Header& header) {
  return hash_of(std::as_bytes(std::span(&header, 1)).first(offsetof(BundleLayout::Header, hash)));
}

// Writes the bundles and tables of a layer. Returns the hash of the tables.
uint64_t write_layer(const BundleLayout& layout, uint64_t layer, BundleSource& source,
                     AtomicFile& file) {
  const BundleShape& shape = layout.shape();
  const PageBuffer bundles(shape.n_neurons * shape.bundle_bytes);
  const PageBuffer resident(shape.resident_bytes);
  const std::span<std::byte> shared(resident.get(), shape.resident_bytes);
  source.make(layer, {bundles.get(), bundles.size()}, shared);
  const std::vector<uint32_t> order = source.order(layer);
  TROIKA_ASSERT(order.size() == shape.n_neurons);
  std::vector<uint32_t> checks;
  std::vector<std::byte> piece;  // a piece of the file
  uint64_t piece_begin = layout.bundles_offset(layer);
  for (uint64_t place = 0; place < shape.n_neurons; ++place) {
    const std::span<const std::byte> bundle(bundles.get() + order[place] * shape.bundle_bytes,
                                            shape.bundle_bytes);
    for (uint64_t i = 0; i < layout.n_pieces(); ++i) {
      const BundleRange range = layout.piece(i);
      checks.push_back(bundle_check(bundle.subspan(range.offset, range.bytes)));
    }
    piece.resize(layout.bundle_offset(layer, place) - piece_begin);
    piece.insert(piece.end(), bundle.begin(), bundle.end());
    if (piece.size() < kPieceBytes) continue;
    file.write(piece);
    piece_begin += piece.size();
    piece.clear();
  }
  piece.resize(layout.tables_offset(layer) - piece_begin);
  file.write(piece);
  FastHash hash;
  for (const std::span<const std::byte> table :
       {std::as_bytes(std::span(order)), std::as_bytes(std::span(checks)),
        std::span<const std::byte>(shared)}) {
    hash.add(table);
    if (!table.empty()) file.write(table);
  }
  pad_to_page(file);
  return hash.value();
}

// Says whether all neurons are there once, each in its segment's stretch.
bool is_order(std::span<const uint32_t> order) {
  std::vector<bool> has(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    const uint32_t neuron = order[place];
    if (neuron >= order.size() || has[neuron]) return false;
    if (neuron / kSegmentNeurons != place / kSegmentNeurons) return false;
    has[neuron] = true;
  }
  return true;
}

}  // namespace

uint32_t bundle_check(std::span<const std::byte> piece) {
  return static_cast<uint32_t>(fast_hash(piece));
}

bool holds_other_bundles(const std::string& path, uint64_t model_key) {
  BundleLayout::Header header = {};
  std::string problem;
  const SideFile file(path, &problem);
  if (!file.is_open()) return false;
  if (file.bytes() < sizeof(header)) return true;
  if (!file.read(0, std::as_writable_bytes(std::span(&header, 1)))) return false;
  return std::memcmp(header.magic, kBundleMagic, sizeof(kBundleMagic)) != 0 ||
         header.version != kBundleVersion || header.model_key != model_key;
}

std::string BundleTables::read(ReadAt read_at, uint64_t file_bytes, const BundleShape& shape,
                               const Keys& keys) {
  const BundleLayout layout(shape);
  BundleLayout::Header header;
  if (file_bytes < sizeof(header)) return "is too short";
  if (!read_at(0, std::as_writable_bytes(std::span(&header, 1)))) return "cannot be read";
  if (std::memcmp(header.magic, kBundleMagic, sizeof(kBundleMagic)) != 0)
    return "is no file of bundles";
  if (header.version != kBundleVersion) return "was made by another version of this program";
  if (header.model_key != keys.model) return "was made for another content of the model";
  if (header.form_key != keys.form || header.shape != shape) {
    return "was made for another form of the weights";
  }
  if (keys.order != 0 && header.order_key != keys.order) {
    return "has neurons in the order of another count of their heat";
  }
  if (header.file_bytes != file_bytes || file_bytes != layout.file_bytes()) {
    return "has not the length that it says";
  }
  std::vector<uint64_t> hashes(shape.n_layers + 1);
  if (!read_at(layout.hashes_offset(), std::as_writable_bytes(std::span(hashes)))) {
    return "cannot be read";
  }
  const uint64_t hash_of_hashes = hash_of(std::as_bytes(std::span(hashes).first(shape.n_layers)));
  if (header_hash(header) != header.hash || hash_of_hashes != hashes.back()) return "is damaged";
  shape_ = shape;
  orders_.resize(shape.n_layers * shape.n_neurons);
  checks_.resize(orders_.size() * layout.n_pieces());
  resident_.clear();
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    resident_.emplace_back(shape.resident_bytes);
    std::string problem = read_layer(read_at, layer, hashes[layer]);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string BundleTables::read_layer(ReadAt read_at, uint64_t layer, uint64_t hash) {
  const BundleLayout layout(shape_);
  const uint64_t begin = layout.tables_offset(layer);
  const std::span<uint32_t> order(orders_.data() + layer * shape_.n_neurons, shape_.n_neurons);
  const uint64_t n_checks = shape_.n_neurons * layout.n_pieces();
  const std::span<uint32_t> checks(checks_.data() + layer * n_checks, n_checks);
  const std::span<std::byte> resident(resident_[layer].get(), shape_.resident_bytes);
  const bool is_read = read_at(begin, std::as_writable_bytes(order)) &&
                       read_at(begin + order.size_bytes(), std::as_writable_bytes(checks)) &&
                       read_at(begin + order.size_bytes() + checks.size_bytes(), resident);
  if (!is_read) return "cannot be read";
  FastHash found;
  found.add(std::as_bytes(order));
  found.add(std::as_bytes(checks));
  found.add(resident);
  if (found.value() != hash || !is_order(order)) return "is damaged";
  return {};
}

BundleFile::BundleFile(const Options& options, const BundleShape& shape, BundleSource& source)
    : path_(options.path), layout_(shape) {
  TROIKA_ASSERT(shape.n_layers > 0 && shape.n_neurons > 0 && shape.bundle_bytes > 0);
  TROIKA_ASSERT(shape.first_bytes % kBundlePage == 0 && shape.first_bytes < shape.bundle_bytes);
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored)) {
    problem_ = open(options);
    if (problem_.empty()) return;
  }
  make(options, source);
  is_new_ = true;
  const std::string problem = open(options);
  if (!problem.empty()) {
    throw Error(
        fmt::format("{}: the file that was just written {}. Try again, or use ‹ffn› by-output, "
                    "which reads whole blocks of the model instead.",
                    path_, problem));
  }
}

std::string BundleFile::open(const Options& options) {
  std::string problem;
  file_ = SideFile(path_, &problem);
  if (!file_.is_open()) return problem.empty() ? "is gone" : problem;
  const auto read_at = [&](uint64_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const size_t n = std::min<size_t>(to.size(), kPieceBytes);
      if (!file_.read(offset, to.first(n))) return false;
      // What was read is in memory twice now, and tables of all experts may be half a gigabyte.
      (void)posix_fadvise(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(n),
                          POSIX_FADV_DONTNEED);
      to = to.subspan(n);
      offset += n;
    }
    return true;
  };
  problem = tables_.read(read_at, file_.bytes(), layout_.shape(), options.keys);
  // Bundles are read past the page cache.
  (void)posix_fadvise(descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return problem;
}

void BundleFile::make(const Options& options, BundleSource& source) const {
  const auto told = [&](const auto& step) {
    write_step(layout_.file_bytes(), "The bundles of the model's neurons",
               "‹ffn› by-output reads whole blocks of the model instead", step);
  };
  std::optional<AtomicFile> file;
  told([&] {
    make_place_for(path_);
    file.emplace(path_);
    write(options, source, &*file);
  });
  source.check_made();
  told([&] { file->commit(); });
}

void BundleFile::write(const Options& options, BundleSource& source, AtomicFile* file) const {
  const BundleShape& shape = layout_.shape();
  BundleLayout::Header header = {{},
                                 kBundleVersion,
                                 options.keys.model,
                                 options.keys.form,
                                 options.keys.order,
                                 shape,
                                 layout_.file_bytes(),
                                 0};
  std::memcpy(header.magic, kBundleMagic, sizeof(kBundleMagic));
  header.hash = header_hash(header);
  file->write(std::as_bytes(std::span(&header, 1)));
  pad_to_page(*file);
  std::vector<uint64_t> hashes;
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    if (options.progress) options.progress(layer, shape.n_layers);
    hashes.push_back(write_layer(layout_, layer, source, *file));
  }
  hashes.push_back(hash_of(std::as_bytes(std::span(hashes))));
  file->write(std::as_bytes(std::span(hashes)));
  pad_to_page(*file);
  TROIKA_ASSERT(file->bytes_written() == layout_.file_bytes());
  if (options.progress) options.progress(shape.n_layers, shape.n_layers);
}

}  // namespace troika::weights
