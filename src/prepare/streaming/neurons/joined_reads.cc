#include "prepare/streaming/neurons/joined_reads.h"

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "prepare/streaming/awaited_read.h"

namespace troika::prepare {
namespace {

using weights::kBundlePage;

constexpr uint64_t kMostBytes = weights::kMostBundleRequest;
constexpr size_t kMeasured = 512;  // counts requests of one page

double read_us(lanes::DiskLane& disk, const lanes::Executable& read,
               const std::vector<lanes::ReadRequest>& reads) {
  const RealClock clock;
  const double start_us = clock.now_us();
  AwaitedRead awaited;
  lanes::Run run;
  run.reads = reads;
  disk.submit(read, run, awaited);
  return awaited.wait() == lanes::Status::kDone ? clock.now_us() - start_us : 0.0;
}

}  // namespace

// Says whether the pages are read by the last request, which may become longer for them.
bool JoinedReads::joins_last(weights::BundleRange pages) const {
  if (reads_->empty()) return false;
  const lanes::ReadRequest& last = reads_->back();
  const uint64_t end = pages.offset + pages.bytes, end_before = last.offset + last.bytes;
  if (end <= end_before) return true;
  const bool is_near = pages.offset <= end_before || pages.offset - end_before <= gap_bytes_;
  return is_near && end - last.offset <= kMostBytes;
}

uint64_t JoinedReads::bytes_with(weights::BundleRange pages) const {
  if (!joins_last(pages)) return bytes_ + pages.bytes;
  const lanes::ReadRequest& last = reads_->back();
  const uint64_t end = pages.offset + pages.bytes, end_before = last.offset + last.bytes;
  return bytes_ + (end > end_before ? end - end_before : 0);
}

void JoinedReads::add(weights::BundleRange pages) {
  bytes_ = bytes_with(pages);
  if (!joins_last(pages)) {
    reads_->push_back({0, pages.offset, pages.bytes, nullptr});
    return;
  }
  lanes::ReadRequest& last = reads_->back();
  last.bytes = std::max(last.bytes, pages.offset + pages.bytes - last.offset);
}

void JoinedReads::read_to(std::byte* memory) {
  for (lanes::ReadRequest& read : *reads_) {
    read.to = memory;
    memory += read.bytes;
  }
}

const std::byte* JoinedReads::find(uint64_t offset) {
  while (offset >= (*reads_)[found_].offset + (*reads_)[found_].bytes) ++found_;
  const lanes::ReadRequest& read = (*reads_)[found_];
  TROIKA_ASSERT(offset >= read.offset);
  return read.to + (offset - read.offset);
}

uint64_t measured_gap(lanes::DiskLane& disk, const weights::BundleLayout& layout,
                      std::span<std::byte> memory) {
  const uint64_t n_pages = layout.bundles_bytes() / kBundlePage;
  const uint64_t n_long = std::min(memory.size(), layout.bundles_bytes()) / kMostBytes;
  const uint64_t n_layers = layout.shape().n_layers;
  if (n_layers * n_pages < 4 * kMeasured || n_long < 8) {
    return kBundlePage;  // the file is too small to tell
  }
  const std::unique_ptr<lanes::Executable> read = disk.make_read();
  std::vector<lanes::ReadRequest> reads;
  for (uint64_t i = 0; i < kMeasured; ++i) {
    const uint64_t begin = layout.bundles_offset(random_bits(1, i) % n_layers);
    reads.push_back({0, begin + random_bits(2, i) % n_pages * kBundlePage, kBundlePage,
                     memory.data() + i % (memory.size() / kBundlePage) * kBundlePage});
  }
  const double page_us = read_us(disk, *read, reads) / static_cast<double>(kMeasured);
  reads.clear();
  for (uint64_t i = 0; i < n_long; ++i) {
    const uint64_t begin = layout.bundles_offset(random_bits(3, 0) % n_layers);
    reads.push_back({0, begin + i * kMostBytes, kMostBytes, memory.data() + i * kMostBytes});
  }
  const double us_per_byte = read_us(disk, *read, reads) / static_cast<double>(n_long * kMostBytes);
  if (page_us <= 0.0 || us_per_byte <= 0.0)
    return kBundlePage;  // a read failed; the next reader says why
  return weights::gap_between_bundles(page_us, us_per_byte);
}

}  // namespace troika::prepare
