// Measures the read bandwidth of lanes, alone and together.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/error.h"
#include "solve/profile/one_op.h"
#include "solve/profile/op_bench.h"

namespace troika::solve {
namespace {

using plan::OpShape;

constexpr int kRowLength = 4096;
constexpr size_t kChunkBytes = 8u << 20;
constexpr size_t kLeastChunks = 12;  // each lane reads at least this many
constexpr size_t kMostChunks = 96;   // a much faster lane reads at most this many

// Returns a product with one token over a chunk of a large matrix: it has hardly any arithmetic
// beside the reading.
OpShape chunk_shape(tensor::Type type, size_t arena_bytes) {
  const size_t row_bytes = tensor::row_bytes(type, kRowLength);
  const size_t chunk_bytes = std::min(kChunkBytes, arena_bytes / 4);
  const auto n_rows = static_cast<int>(std::max<size_t>(16, chunk_bytes / row_bytes / 16 * 16));
  return {model::OpKind::kLinear, type, n_rows, kRowLength, 1, 0, 0};
}

class Streams;

// Reads chunk after chunk on one lane.
class Stream : public lanes::Completion {
 public:
  Stream(Streams& all, int lane, const OpShape& shape, Arena& arena);
  void start();
  void finished(lanes::Status status) override;
  // Returns the bytes read until then; a chunk under way counts by the share of its time.
  double bytes_until(double us) const;

  std::atomic<size_t> n_done{0};
  std::vector<double> ends_us;  // the end of each chunk
  bool failed = false;

 private:
  Streams& all_;
  int lane_;
  double chunk_bytes_;
  std::unique_ptr<OneOp> ops_;
  std::vector<std::unique_ptr<lanes::Executable>> executables_;
};

class Streams {
 public:
  Streams(lanes::Machine& machine, const std::vector<int>& lanes, const OpShape& shape,
          Arena& arena)
      : machine_(machine), n_running_(lanes.size()) {
    for (const int lane : lanes) {
      streams_.push_back(std::make_unique<Stream>(*this, lane, shape, arena));
    }
  }

  plan::ReadRate run(const std::vector<int>& lanes) {
    start_us_ = machine_.clock().now_us();
    for (const auto& stream : streams_) stream->start();
    machine_.wait(latch_);
    double end_us = streams_.front()->ends_us.back();
    for (const auto& stream : streams_) {
      if (stream->failed) throw Error("A task failed while read bandwidth was measured.");
      end_us = std::min(end_us, stream->ends_us.back());
    }
    // Until the first lane was done, all of them read.
    plan::ReadRate rate{lanes, {}};
    for (const auto& stream : streams_) {
      rate.gb_s.push_back(stream->bytes_until(end_us) * 1e-3 / (end_us - start_us_));
    }
    return rate;
  }

  // Says whether a lane that has read so much should go on: until every lane has its share.
  bool goes_on(size_t n_done) const {
    if (n_done >= kMostChunks) return false;
    if (n_done < kLeastChunks) return true;
    return std::any_of(streams_.begin(), streams_.end(),
                       [](const auto& stream) { return stream->n_done < kLeastChunks; });
  }
  void ended() {
    if (n_running_.fetch_sub(1) == 1) latch_.open();
  }
  lanes::Machine& machine() { return machine_; }
  double start_us() const { return start_us_; }

 private:
  lanes::Machine& machine_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::atomic<size_t> n_running_;
  double start_us_ = 0.0;
  lanes::Latch latch_;
};

Stream::Stream(Streams& all, int lane, const OpShape& shape, Arena& arena)
    : all_(all), lane_(lane) {
  arena.prepare(shape.type);
  std::vector<weights::Matrix> chunks;
  const size_t row_bytes = tensor::row_bytes(shape.type, static_cast<size_t>(shape.k));
  const size_t bytes = row_bytes * static_cast<size_t>(shape.n_rows);
  chunk_bytes_ = static_cast<double>(bytes);
  const size_t n_chunks = std::clamp<size_t>(arena.bytes() / bytes, 2, kMostChunks);
  for (size_t i = 0; i < n_chunks; ++i) {
    chunks.push_back(arena.take(shape.type, shape.n_rows, shape.k));
  }
  ops_ = std::make_unique<OneOp>(all.machine(), shape, chunks);
  lanes::Lane& worker = *all.machine().lanes()[static_cast<size_t>(lane)];
  for (size_t i = 0; i < n_chunks; ++i) {
    // Lanes begin at different places, so that none finds what another has brought into a cache.
    const size_t variant = (i + static_cast<size_t>(lane) * n_chunks / 3) % n_chunks;
    executables_.push_back(ops_->build(worker, variant));
  }
  ends_us.reserve(kMostChunks);
}

void Stream::start() {
  lanes::Lane& worker = *all_.machine().lanes()[static_cast<size_t>(lane_)];
  worker.submit(*executables_[n_done % executables_.size()], ops_->run(), *this);
}

void Stream::finished(lanes::Status status) {
  ends_us.push_back(all_.machine().clock().now_us());
  failed = failed || status != lanes::Status::kDone;
  const size_t n = n_done.fetch_add(1) + 1;
  if (!failed && all_.goes_on(n)) {
    start();
  } else {
    all_.ended();
  }
}

double Stream::bytes_until(double us) const {
  double begin_us = all_.start_us();
  double chunks = 0.0;
  for (const double end_us : ends_us) {
    if (end_us > us) return chunk_bytes_ * (chunks + (us - begin_us) / (end_us - begin_us));
    chunks += 1.0;
    begin_us = end_us;
  }
  return chunk_bytes_ * chunks;
}

}  // namespace

plan::ReadRate measure_bandwidth(lanes::Machine& machine, const std::vector<int>& lanes,
                                 tensor::Type type, Arena& arena) {
  Streams streams(machine, lanes, chunk_shape(type, arena.bytes()), arena);
  return streams.run(lanes);
}

}  // namespace troika::solve
