#include "prepare/streaming/neurons/neuron_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "prepare/streaming/neurons/bundle_maker.h"
#include "prepare/streaming/neurons/joined_reads.h"

namespace troika::prepare {
namespace {

using weights::BundleFile;
using weights::BundleLayout;
using weights::BundleShape;
using weights::kSegmentNeurons;
using weights::NeuronCache;
using weights::NeuronForm;

constexpr int kDepth = 128;

double time_us() { return RealClock().now_us(); }

// Returns the slots of two segments: then one finds room while another is computed.
uint64_t least_slots(const BundleShape& shape) {
  return std::min<uint64_t>(2 * kSegmentNeurons, shape.n_layers * shape.n_neurons);
}

// Returns twice the most bytes that reads of a segment take, if its bundles are one stretch of the
// file. So the reads of the next segment may begin meanwhile.
uint64_t staging_bytes(const BundleShape& shape) {
  const BundleLayout layout(shape);
  return std::min(2 * (kSegmentNeurons + 1) * layout.read_bytes(), layout.bundles_bytes());
}

// The FFNs of a mixture are one group.
weights::NeuronCacheShape cache_shape(const BundleShape& shape, int n_experts, size_t place_bytes) {
  return {static_cast<int>(shape.n_layers) / n_experts,
          static_cast<int>(shape.n_neurons) * n_experts, kSegmentNeurons, place_bytes};
}

// Returns the bytes of all memory but the places of neurons, for n_slots places that are all
// pinned.
uint64_t fixed_bytes(const BundleShape& shape, int n_experts, size_t place_bytes,
                     uint64_t n_slots) {
  return weights::BundleTables::memory_bytes(shape) +
         shape.n_layers * shape.n_neurons * sizeof(uint32_t) + staging_bytes(shape) +
         NeuronCache::list_bytes(cache_shape(shape, n_experts, place_bytes), n_slots) +
         n_slots * sizeof(weights::NeuronId);
}

}  // namespace

size_t NeuronStream::least_bytes(std::span<const model::GatedFfn> ffns,
                                 const weights::Store& weights) {
  const BundleMaker maker(ffns, weights, 1);
  const uint64_t n_slots = least_slots(maker.shape());
  return fixed_bytes(maker.shape(), ffns.front().n_experts, maker.place_bytes(), n_slots) +
         n_slots * maker.place_bytes() + ModelNeurons::bytes_for(ffns, weights);
}

size_t NeuronStream::most_bytes(std::span<const model::GatedFfn> ffns,
                                const weights::Store& weights) {
  const BundleMaker maker(ffns, weights, 1);
  const uint64_t n_slots = maker.shape().n_layers * maker.shape().n_neurons;
  return fixed_bytes(maker.shape(), ffns.front().n_experts, maker.place_bytes(), n_slots) +
         n_slots * maker.place_bytes() + ModelNeurons::bytes_for(ffns, weights);
}

NeuronStream::NeuronStream(const NeuronStreamOptions& options,
                           std::span<const model::GatedFfn> ffns, const weights::Store& weights)
    : options_(options), n_experts_(ffns.front().n_experts), model_(ffns, weights) {
  BundleMaker maker(ffns, weights, options.n_threads, options.heat);
  forms_ = maker.forms();
  place_bytes_ = maker.place_bytes();
  const BundleFile::Options file = {
      options.path, {options.model_key, maker.key()}, options.progress};
  try {
    file_ = std::make_unique<BundleFile>(file, maker.shape(), maker);
    make_ranks();
    make_cache();
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "There is no memory for {} of neurons. End other programs, or set a smaller ‹memory›.",
        bytes_text(options.most_bytes)));
  }
  open_disk();
  choose_gap();
  knows_heat_ = options.heat != nullptr;
  if (knows_heat_) read_hottest();
  options_.heat = nullptr;  // the heat need not outlive this call
  for (size_t i = 0; i < ffns.size(); ++i) {
    weights::NeuronFfn ffn;
    ffn.index = static_cast<int>(i);
    ffn.ffn = ffns[i];
    ffn.layout = forms_[i].columns();
    ffn.planes = forms_[i].planes(file_->tables().resident(i).data());
    ffn.source = this;
    ffn.reads_gates = ffns[i].has_gate_by_neuron;
    Neurons::ffns().push_back(ffn);
  }
}

NeuronStream::~NeuronStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  changed_.wait(lock,
                [this] { return n_reading_ == 0 && (ahead_ == nullptr || !ahead_->is_reading()); });
}

void NeuronStream::make_ranks() {
  const BundleShape& shape = file_->layout().shape();
  ranks_.resize(shape.n_layers * shape.n_neurons);
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    const std::span<const uint32_t> order = file_->tables().order(layer);
    for (uint32_t i = 0; i < order.size(); ++i) ranks_[layer * shape.n_neurons + order[i]] = i;
  }
}

// Makes a cache of as many neurons as the budget holds, with the lists that each takes.
void NeuronStream::make_cache() {
  const BundleShape& shape = file_->layout().shape();
  const uint64_t n_all = std::max(n_askable(), least_slots(shape));
  const auto needed = [&](uint64_t n) {
    return model_.bytes() + fixed_bytes(shape, n_experts_, place_bytes_, n) + n * place_bytes_;
  };
  uint64_t most_bytes = options_.most_bytes;
  if (options_.reads_ahead && needed(n_all) > most_bytes) {
    const uint64_t least = needed(least_slots(shape));
    const uint64_t ahead =
        NeuronAhead::layer_bytes(file_->layout(), most_bytes - std::min(most_bytes, least));
    if (ahead > 0) {
      ahead_ = std::make_unique<NeuronAhead>(
          file_->layout(), ahead,
          [this](AheadBatch* batch, lanes::Status status) { end_ahead(batch, status); });
    }
  }
  most_bytes -= ahead_bytes();
  uint64_t n_slots = std::min(n_all, most_bytes / place_bytes_);
  while (n_slots > 0 && needed(n_slots) > most_bytes) {
    n_slots -= std::min(n_slots, 1 + (needed(n_slots) - most_bytes) / (place_bytes_ + 64));
  }
  TROIKA_ASSERT(n_slots >= least_slots(shape));
  weights::NeuronCacheOptions how;
  how.fixed_bytes =
      model_.bytes() + fixed_bytes(shape, n_experts_, place_bytes_, n_slots) + ahead_bytes();
  how.capacity_bytes = how.fixed_bytes + n_slots * place_bytes_;
  how.keeps_last_steps = options_.keeps_last_steps;
  how.n_under_way = 2 * kDepth;
  // Some places are never pinned: there segments of other neurons take turns.
  const uint64_t n_most_pins = n_slots - std::min(n_slots, least_slots(shape));
  if (options_.heat != nullptr && n_slots < n_all) {
    const auto n = static_cast<double>(n_slots);
    uint64_t n_hottest = 0;
    for (const double share : options_.pinned_share) {
      const uint64_t n_pins = std::min(static_cast<uint64_t>(share * n), n_most_pins);
      n_hottest = std::max(n_hottest, n_pins);
      // Half a place more, so that rounding takes none away.
      how.pinned_share.push_back((static_cast<double>(n_pins) + 0.5) / n);
    }
    how.frequent = hottest(n_hottest);
    for (weights::NeuronId& id : how.frequent) id = cached(id);
  }
  cache_ = std::make_unique<NeuronCache>(cache_shape(shape, n_experts_, place_bytes_), how);
  places_ = PageBuffer(n_slots * place_bytes_);
  const auto n_segments =
      static_cast<size_t>(weights::n_segments(static_cast<int>(shape.n_neurons)));
  staging_ = Staging(staging_bytes(shape), n_segments);
  segments_ = std::vector<Segment>(n_segments);
  unsubmitted_.reserve(n_segments);
  for (Segment& segment : segments_) {
    segment.owner = this;
    segment.held.reserve(kSegmentNeurons);
    segment.missing.reserve(kSegmentNeurons);
    segment.reads.reserve(kSegmentNeurons);
    segment.lost.reserve(kSegmentNeurons);
  }
}

void NeuronStream::open_disk() {
  lanes::DiskOptions disk;
  disk.files = {fmt::format("/proc/self/fd/{}", file_->descriptor())};
  disk.names = {file_->path()};
  disk.depth = kDepth;
  disk.may_use_io_uring = options_.may_use_io_uring;
  disk.spoil = options_.spoil;
  disk_ = std::make_unique<lanes::DiskLane>(disk);
  read_ = disk_->make_read();
}

void NeuronStream::choose_gap() {
  if (options_.gap_bytes) {
    gap_bytes_ = *options_.gap_bytes;
    return;
  }
  const Staging::Loan loan = staging_.take(staging_.size());
  gap_bytes_ = measured_gap(*disk_, file_->layout(), {loan.memory, loan.bytes});
  staging_.give_back(loan);
}

size_t NeuronStream::bytes() const { return cache_->capacity_bytes(); }

void NeuronStream::begin_step(int n_tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TROIKA_ASSERT(n_wanted_ == 0);
  is_step_begun_ = true;
  if (n_tokens == n_step_tokens_) return;
  n_step_tokens_ = n_tokens;
  cache_->set_batch(n_tokens);  // moves nothing, as there is no hot region
}

void NeuronStream::want(int ffn, std::span<const uint32_t> neurons) {
  std::unique_lock<std::mutex> lock(mutex_);
  TROIKA_ASSERT(n_wanted_ < segments_.size() && (n_wanted_ == 0 || ffn == ffn_));
  if (n_wanted_ == 0) {
    n_live_ = 0;
    // More tokens than go together are one step of the layer all the same.
    const int group = ffn / n_experts_;
    if (std::exchange(is_step_begun_, false) || group != ffn_ / n_experts_) {
      cache_->begin_group(group);
    }
    if (ahead_ != nullptr) ahead_->keep(ffn, (ffn + 1) % static_cast<int>(forms_.size()));
  }
  ffn_ = ffn;
  n_live_ += neurons.size();
  Segment& segment = segments_[n_wanted_++];
  segment.neurons = neurons;
  segment.held.clear();
  segment.missing.clear();
  segment.has_failed = false;
  segment.state = neurons.empty() ? State::kReady : State::kWanted;
  begin_segments();
  if (next_ready() >= 0) changed_.notify_all();
  submit_begun(&lock);
}

void NeuronStream::begin_segments() {
  for (; n_begun_ < n_wanted_; ++n_begun_) {
    Segment& segment = segments_[n_begun_];
    if (segment.state != State::kWanted) continue;
    if (!acquire_neurons(&segment) || !begin_reads(&segment)) return;
  }
  read_ahead();
}

// Gets places for a segment's neurons. Returns false if all places are in use; then the segment
// goes on when another one is done.
bool NeuronStream::acquire_neurons(Segment* segment) {
  // Segments that have begun hold neurons until they are done. By matrices all are to begin first.
  const bool may_wait = options_.pipeline == ReadPipeline::kCluster &&
                        std::any_of(segments_.data(), segment, [](const Segment& other) {
                          return other.state != State::kNothing && !other.held.empty();
                        });
  while (segment->held.size() < segment->neurons.size()) {
    const size_t index = segment->held.size();
    const uint64_t at = rank(ffn_, segment->neurons[index]);
    const Held held = cache_->acquire(cached({ffn_, static_cast<int>(at)}), may_wait);
    if (held.found == NeuronCache::Found::kNoRoom) return false;
    TROIKA_ASSERT(held.is_held());
    segment->held.push_back(held);
    if (held.found != NeuronCache::Found::kMiss) continue;
    segment->missing.push_back({index, at});
  }
  return true;
}

bool NeuronStream::begin_reads(Segment* segment) {
  std::vector<Missing>& missing = segment->missing;
  if (missing.empty()) {
    segment->state = State::kReady;
    return true;
  }
  std::sort(missing.begin(), missing.end(),
            [](const Missing& a, const Missing& b) { return a.rank < b.rank; });
  AheadBatch* const ahead =
      ahead_ == nullptr ? nullptr
                        : ahead_->find(ffn_, static_cast<size_t>(segment - segments_.data()));
  segment->ahead = nullptr;
  JoinedReads joined(gap_bytes_, &segment->reads);
  for (Missing& one : missing) {
    one.bundle = ahead != nullptr ? ahead_->use(ahead, one.rank) : nullptr;
    one.is_ahead = one.bundle != nullptr;
    if (one.is_ahead) {
      segment->ahead = ahead;
    } else {
      joined.add(file_->layout().pages(static_cast<uint64_t>(ffn_), one.rank));
    }
  }
  segment->staging = {};
  if (joined.bytes() > 0) {
    segment->staging = staging_.take(joined.bytes());
    if (segment->staging.memory == nullptr) return false;
  }
  joined.read_to(segment->staging.memory);
  for (Missing& one : missing) {
    if (one.is_ahead) continue;
    one.bundle = joined.find(file_->layout().bundle_offset(static_cast<uint64_t>(ffn_), one.rank));
  }
  begin_waiting(segment, joined.bytes());
  return true;
}

// Makes a segment wait for its own reads, if it has any, and for what is being read ahead.
void NeuronStream::begin_waiting(Segment* segment, uint64_t read_bytes) {
  const bool is_ahead_awaited =
      segment->ahead != nullptr && segment->ahead->state == AheadBatch::State::kReading;
  segment->n_awaited = (read_bytes > 0 ? 1 : 0) + (is_ahead_awaited ? 1 : 0);
  if (segment->n_awaited == 0) {
    segment->state = State::kReady;
    return;
  }
  segment->state = State::kReading;
  if (n_reading_++ == 0) read_start_us_ = time_us();
  if (read_bytes == 0) return;
  counters_.n_reads += static_cast<int64_t>(segment->reads.size());
  counters_.read_bytes += read_bytes;
  unsubmitted_.push_back(segment);
}

// Submits the reads of segments that have begun. That takes longer than all else here, so others
// may have the mutex meanwhile.
void NeuronStream::submit_begun(std::unique_lock<std::mutex>* lock) {
  while (!unsubmitted_.empty()) {
    Segment* const segment = unsubmitted_.front();
    unsubmitted_.erase(unsubmitted_.begin());
    lock->unlock();
    lanes::Run run;
    run.reads = segment->reads;
    disk_->submit(*read_, run, *segment);
    lock->lock();
  }
}

void NeuronStream::end(Segment* segment, lanes::Status status) {
  std::string problem;
  if (status != lanes::Status::kDone) problem = disk_->problem();
  const std::lock_guard<std::mutex> lock(mutex_);
  segment->has_failed = status != lanes::Status::kDone;
  if (segment->has_failed) note(std::move(problem));
  arrived(segment);
}

// Is told that something has ended which the segment waits for.
void NeuronStream::arrived(Segment* segment) {
  if (--segment->n_awaited > 0) return;
  segment->state = State::kReady;
  if (--n_reading_ == 0) {
    const double now_us = time_us();
    counters_.read_us += now_us - read_start_us_;
    note_reads({Neurons::ffns()[static_cast<size_t>(ffn_)].ffn.layer, read_start_us_, now_us});
    read_ahead();
  }
  changed_.notify_all();
}

void NeuronStream::note(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

bool NeuronStream::is_told() const {
  const auto n_neurons = static_cast<int>(forms_[static_cast<size_t>(ffn_)].n_neurons());
  return n_wanted_ == static_cast<size_t>(weights::n_segments(n_neurons));
}

int NeuronStream::next_ready() const {
  for (size_t i = 0; i < n_wanted_; ++i) {
    if (segments_[i].state != State::kReady) continue;
    const bool may_go = options_.pipeline == ReadPipeline::kCluster ||
                        (n_reading_ == 0 && is_told()) || segments_[i].missing.empty();
    if (may_go) return static_cast<int>(i);
  }
  return -1;
}

int NeuronStream::segment_of(int /*ffn*/, int /*i*/) {
  std::unique_lock<std::mutex> lock(mutex_);
  int ready = next_ready();
  if (ready < 0) {
    const double start_us = time_us();
    changed_.wait(lock, [&] { return (ready = next_ready()) >= 0; });
    counters_.wait_us += time_us() - start_us;
  }
  segments_[static_cast<size_t>(ready)].state = State::kHanded;
  return ready;
}

void NeuronStream::assemble(const Segment& segment, int ffn,
                            std::vector<ModelNeurons::Wanted>* lost) const {
  const auto layer = static_cast<uint64_t>(ffn);
  const std::byte* const resident = file_->tables().resident(layer).data();
  for (const Missing& one : segment.missing) {
    const uint32_t neuron = segment.neurons[one.index];
    std::byte* const to = place(segment.held[one.index].slot);
    const bool has_failed =
        one.is_ahead ? segment.ahead->state == AheadBatch::State::kFailed : segment.has_failed;
    const bool is_whole = !has_failed && has_check(layer, one.rank, one.bundle);
    if (is_whole) {
      forms_[layer].assemble(resident, neuron, one.bundle, to);
    } else {
      lost->push_back({neuron, to});
    }
  }
}

void NeuronStream::take(int ffn, int index, std::span<const uint32_t> neurons,
                        weights::NeuronPlaces* places) {
  Segment& segment = segments_[static_cast<size_t>(index)];
  TROIKA_ASSERT(segment.neurons.data() == neurons.data());
  const NeuronForm& form = forms_[static_cast<size_t>(ffn)];
  for (size_t i = 0; i < neurons.size(); ++i) places[i] = form.places(place(segment.held[i].slot));
  if (segment.missing.empty()) return;
  std::vector<ModelNeurons::Wanted>& lost = segment.lost;
  lost.clear();
  assemble(segment, ffn, &lost);
  if (!lost.empty()) {
    std::sort(lost.begin(), lost.end(),
              [](const auto& a, const auto& b) { return a.neuron < b.neuron; });
    model_.read(form, ffn, lost);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (!lost.empty()) {
    counters_.n_from_model += static_cast<int64_t>(lost.size());
    if (problem_.empty()) note(fmt::format("{} was changed while the model ran", file_->path()));
  }
  for (const Missing& one : segment.missing) cache_->filled(segment.held[one.index]);
  if (segment.staging.memory != nullptr) staging_.give_back(segment.staging);
  begin_segments();
  changed_.notify_all();
  submit_begun(&lock);
}

void NeuronStream::done(int /*ffn*/, int index) {
  std::unique_lock<std::mutex> lock(mutex_);
  Segment& segment = segments_[static_cast<size_t>(index)];
  for (const Held& held : segment.held) cache_->give_back(held);
  segment.state = State::kNothing;
  begin_segments();
  changed_.notify_all();
  submit_begun(&lock);
}

void NeuronStream::finish(int /*ffn*/) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TROIKA_ASSERT(unsubmitted_.empty());
  n_wanted_ = n_begun_ = 0;
  if (!options_.keeps_neurons) cache_->clear();
  read_ahead();
}

}  // namespace troika::prepare
