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

double time_us() { return RealClock().now_us(); }

// Returns the slots of two parts: then one finds room while another is computed.
uint64_t least_slots(const BundleShape& shape) {
  return std::min<uint64_t>(2 * kSegmentNeurons, shape.n_layers * shape.n_neurons);
}

// Returns twice the most bytes that reads of a part take, if its bundles are one stretch of the
// file. So the reads of the next part may begin meanwhile. A batch never reads more than its blocks
// have.
uint64_t staging_bytes(const BundleShape& shape, int n_experts) {
  const BundleLayout layout(shape);
  const auto n_blocks = static_cast<uint64_t>(weights::most_blocks_of_batch(n_experts));
  return std::min(2 * (kSegmentNeurons + 1) * layout.read_bytes(),
                  n_blocks * layout.bundles_bytes());
}

// The FFNs of a mixture are one group.
weights::NeuronCacheShape cache_shape(const BundleShape& shape, int n_experts, size_t place_bytes) {
  return {static_cast<int>(shape.n_layers) / n_experts,
          static_cast<int>(shape.n_neurons) * n_experts, kSegmentNeurons, place_bytes};
}

// Counts the parts that a batch has at most.
size_t most_parts(const BundleShape& shape, int n_experts) {
  return static_cast<size_t>(weights::n_segments(static_cast<int>(shape.n_neurons)) *
                             weights::most_blocks_of_batch(n_experts));
}

}  // namespace

uint64_t NeuronStream::fixed_bytes(const BundleShape& shape, int n_experts, size_t place_bytes,
                                   uint64_t n_slots) {
  constexpr size_t kOfNeuron =
      sizeof(Held) + sizeof(Missing) + sizeof(lanes::ReadRequest) + sizeof(ModelNeurons::Wanted);
  return weights::BundleTables::memory_bytes(shape) +
         shape.n_layers * shape.n_neurons * sizeof(uint32_t) + staging_bytes(shape, n_experts) +
         most_parts(shape, n_experts) * (sizeof(Part) + kSegmentNeurons * kOfNeuron) +
         NeuronCache::list_bytes(cache_shape(shape, n_experts, place_bytes), n_slots) +
         n_slots * (sizeof(weights::NeuronId) + sizeof(uint8_t));
}

size_t NeuronStream::least_bytes(std::span<const model::GatedFfn> ffns,
                                 const weights::Store& weights) {
  const BundleMaker maker(ffns, weights, 1);
  const uint64_t n_slots = least_slots(maker.shape());
  return fixed_bytes(maker.shape(), ffns.front().n_experts, maker.place_bytes(), n_slots) +
         n_slots * maker.place_bytes() + ModelNeurons::bytes_for(ffns, weights);
}

size_t NeuronStream::most_bytes(std::span<const model::GatedFfn> ffns,
                                const weights::Store& weights, int64_t n_hot) {
  const BundleMaker maker(ffns, weights, 1);
  const uint64_t n_all = maker.shape().n_layers * maker.shape().n_neurons;
  const uint64_t n_slots =
      std::max(n_all - static_cast<uint64_t>(n_hot), least_slots(maker.shape()));
  return fixed_bytes(maker.shape(), ffns.front().n_experts, maker.place_bytes(), n_slots) +
         n_slots * maker.place_bytes() + ModelNeurons::bytes_for(ffns, weights);
}

NeuronStream::NeuronStream(const NeuronStreamOptions& options,
                           std::span<const model::GatedFfn> ffns, const weights::Store& weights)
    : options_(options), n_experts_(ffns.front().n_experts), model_(ffns, weights, options.model) {
  TROIKA_ASSERT(options.reads == BundleReads::kOnce || options.pipeline == ReadPipeline::kCluster);
  BundleMaker maker(ffns, weights, options.n_threads, options.heat, options.model);
  forms_ = maker.forms();
  place_bytes_ = maker.place_bytes();
  const BundleFile::Options file = {
      options.path, {options.model_key, maker.key(), maker.order_key()}, options.progress};
  try {
    file_ = std::make_unique<BundleFile>(file, maker.shape(), maker);
    reads_gates_first_ = options.reads == BundleReads::kTwice && maker.shape().first_bytes > 0;
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

std::vector<std::string> NeuronStream::notes() const {
  std::vector<std::string> all = disk_->notes();
  all.insert(all.end(), notes_.begin(), notes_.end());
  return all;
}

void NeuronStream::make_ranks() {
  const BundleShape& shape = file_->layout().shape();
  ranks_.resize(shape.n_layers * shape.n_neurons);
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    const std::span<const uint32_t> order = file_->tables().order(layer);
    for (uint32_t i = 0; i < order.size(); ++i) ranks_[layer * shape.n_neurons + order[i]] = i;
  }
}

// Chooses which neurons keep which of the places for good. Some places are never pinned: there
// parts with other neurons take turns.
void NeuronStream::choose_pins(uint64_t n_slots, weights::NeuronCacheOptions* how) {
  const uint64_t n_most_pins = n_slots - std::min(n_slots, least_slots(file_->layout().shape()));
  const auto n = static_cast<double>(n_slots);
  uint64_t n_hottest = 0;
  for (const double share : options_.pinned_share) {
    const uint64_t n_pins = std::min(static_cast<uint64_t>(share * n), n_most_pins);
    n_hottest = std::max(n_hottest, n_pins);
    // Half a place more, so that rounding takes none away.
    how->pinned_share.push_back((static_cast<double>(n_pins) + 0.5) / n);
  }
  const bool wants_some = std::any_of(options_.pinned_share.begin(), options_.pinned_share.end(),
                                      [](double share) { return share > 0.0; });
  if (wants_some && n_hottest == 0) {
    notes_.push_back(
        fmt::format("‹neuron-pins› pins nothing here: all of the {} places are needed for parts "
                    "that take turns",
                    n_slots));
  }
  how->frequent = hottest(n_hottest);
  for (weights::NeuronId& id : how->frequent) id = cached(id);
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
    } else if (options_.reads_hottest_ahead) {  // else nobody has asked for it
      notes_.emplace_back(
          "‹neuron-ahead› does nothing here: all of the memory is needed for parts that take "
          "turns");
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
  how.n_under_way = 2 * options_.way.depth;
  if (options_.heat != nullptr && n_slots < n_all) choose_pins(n_slots, &how);
  cache_ = std::make_unique<NeuronCache>(cache_shape(shape, n_experts_, place_bytes_), how);
  places_ = PageBuffer(n_slots * place_bytes_);
  is_whole_.assign(n_slots, 1);
  const size_t n_parts = most_parts(shape, n_experts_);
  staging_ = Staging(staging_bytes(shape, n_experts_), n_parts);
  parts_ = std::vector<Part>(n_parts);
  unsubmitted_.reserve(n_parts);
  for (Part& part : parts_) {
    part.owner = this;
    part.held.reserve(kSegmentNeurons);
    part.missing.reserve(kSegmentNeurons);
    part.reads.reserve(kSegmentNeurons);
    part.lost.reserve(kSegmentNeurons);
  }
}

void NeuronStream::open_disk() {
  lanes::DiskOptions disk;
  disk.files = {fmt::format("/proc/self/fd/{}", file_->descriptor())};
  disk.names = {file_->path()};
  disk.depth = options_.way.depth;
  disk.may_use_io_uring = options_.way.may_use_io_uring;
  disk.spoil = options_.way.spoil;
  disk_ = std::make_unique<lanes::DiskLane>(disk);
  read_ = disk_->make_read();
  // Threads of the disk submit some reads, and could tell nobody that there is no memory for them.
  // One batch is read ahead at a time, of a segment as parts are.
  disk_->reserve(parts_.size() + 1, (parts_.size() + 1) * kSegmentNeurons);
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
  is_prompt_ = false;
  if (n_tokens == n_step_tokens_) return;
  n_step_tokens_ = n_tokens;
  cache_->set_batch(n_tokens);  // moves nothing, as there is no hot region
}

void NeuronStream::begin_prompt() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_prompt_ = true;
}

void NeuronStream::begin_batch(int n_parts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TROIKA_ASSERT(n_parts_ == 0 && static_cast<size_t>(n_parts) <= parts_.size());
  n_parts_ = static_cast<size_t>(n_parts);
  n_last_handed_ = 0;
}

void NeuronStream::want(int ffn, std::span<const uint32_t> neurons) {
  std::unique_lock<std::mutex> lock(mutex_);
  TROIKA_ASSERT(n_wanted_ < n_parts_);
  if (n_wanted_ == 0) {
    n_live_ = 0;
    // More tokens than go together are one step of the layer all the same.
    const int group = ffn / n_experts_;
    if (std::exchange(is_step_begun_, false) || group != ffn_ / n_experts_) {
      cache_->begin_group(group);
    }
    if (ahead_ != nullptr) ahead_->keep(ffn, (ffn + 1) % static_cast<int>(forms_.size()));
  }
  Part& part = parts_[n_wanted_++];
  part.ffn = ffn;
  part.segment = n_wanted_ > 1 && ffn == ffn_ ? parts_[n_wanted_ - 2].segment + 1 : 0;
  ffn_ = ffn;
  n_live_ += neurons.size();
  part.neurons = neurons;
  part.held.clear();
  part.missing.clear();
  part.has_failed = false;
  part.stage = weights::TakenPart::kWhole;
  part.state = neurons.empty() ? State::kReady : State::kWanted;
  begin_parts();
  if (next_ready() >= 0) changed_.notify_all();
  submit_begun(&lock);
}

void NeuronStream::begin_parts() {
  // Parts that hold places go on before others take what they wait for.
  for (size_t i = 0; n_wanting_rest_ > 0 && i < n_wanted_; ++i) {
    if (parts_[i].state == State::kWantsRest && !begin_rest(&parts_[i])) return;
  }
  for (; n_begun_ < n_wanted_; ++n_begun_) {
    Part& part = parts_[n_begun_];
    if (part.state != State::kWanted) continue;
    if (!acquire_neurons(&part) || !begin_reads(&part)) return;
  }
  read_ahead();
}

// Gets places for a part's neurons. Returns false if all places are in use; then the part goes on
// when another one is done.
bool NeuronStream::acquire_neurons(Part* part) {
  // Parts that have begun hold neurons until they are done. By matrices all are to begin first.
  const bool may_wait = options_.pipeline == ReadPipeline::kCluster &&
                        std::any_of(parts_.data(), part, [](const Part& other) {
                          return other.state != State::kNothing && !other.held.empty();
                        });
  while (part->held.size() < part->neurons.size()) {
    const size_t index = part->held.size();
    const uint64_t at = rank(part->ffn, part->neurons[index]);
    const Held held = cache_->acquire(cached({part->ffn, static_cast<int>(at)}), may_wait);
    if (held.found == NeuronCache::Found::kNoRoom) return false;
    TROIKA_ASSERT(held.is_held());
    part->held.push_back(held);
    if (held.found == NeuronCache::Found::kMiss) {
      part->missing.push_back({index, at});
    } else if (is_whole_[static_cast<size_t>(held.slot)] == 0) {
      part->stage = weights::TakenPart::kGates;
    }
  }
  return true;
}

bool NeuronStream::begin_reads(Part* part) {
  std::vector<Missing>& missing = part->missing;
  if (missing.empty()) {
    if (part->stage == weights::TakenPart::kGates) ++n_untold_;
    part->state = State::kReady;
    return true;
  }
  std::sort(missing.begin(), missing.end(),
            [](const Missing& a, const Missing& b) { return a.rank < b.rank; });
  AheadBatch* const ahead =
      ahead_ == nullptr ? nullptr : ahead_->find(part->ffn, static_cast<size_t>(part->segment));
  part->ahead = nullptr;
  const auto layer = static_cast<uint64_t>(part->ffn);
  const BundleLayout& layout = file_->layout();
  // A prompt needs most neurons, and reads neighbours together.
  const bool has_gates_first = reads_gates_first_ && !is_prompt_;
  JoinedReads joined(gap_bytes_, &part->reads);
  for (Missing& one : missing) {
    one.bundle = ahead != nullptr ? ahead_->use(ahead, one.rank) : nullptr;
    one.is_ahead = one.bundle != nullptr;
    if (one.is_ahead) {
      part->ahead = ahead;
    } else {
      joined.add(has_gates_first ? layout.pages(layer, one.rank, 0)
                                 : layout.pages(layer, one.rank));
    }
  }
  part->staging = {};
  if (joined.bytes() > 0) {
    part->staging = staging_.take(joined.bytes());
    if (part->staging.memory == nullptr) return false;
  }
  joined.read_to(part->staging.memory);
  for (Missing& one : missing) {
    if (one.is_ahead) continue;
    const uint64_t offset = layout.bundle_offset(layer, one.rank);
    one.bundle = joined.find(offset);
    // Where the next neuron's gate shares the request, it brings this one's rest too.
    one.is_whole = joined.reads_to(offset + layout.shape().bundle_bytes);
    if (one.is_whole) continue;
    part->stage = weights::TakenPart::kGates;
    ++counters_.n_gates;
  }
  if (part->stage == weights::TakenPart::kGates) ++n_untold_;
  begin_waiting(part, joined.bytes());
  return true;
}

// Begins to read what those of a part's neurons lack whose gates fire. Returns false if there is no
// memory for the reads now; then it goes on when another part is taken.
bool NeuronStream::begin_rest(Part* part) {
  const auto layer = static_cast<uint64_t>(part->ffn);
  JoinedReads joined(gap_bytes_, &part->reads);
  for (const Missing& one : part->missing) joined.add(file_->layout().pages(layer, one.rank, 1));
  part->staging = staging_.take(joined.bytes());
  if (part->staging.memory == nullptr) return false;
  joined.read_to(part->staging.memory);
  for (Missing& one : part->missing) {
    one.bundle = joined.find(file_->layout().pages(layer, one.rank, 1).offset);
  }
  --n_wanting_rest_;
  counters_.n_rests += static_cast<int64_t>(part->missing.size());
  begin_waiting(part, joined.bytes());
  return true;
}

// Makes a part wait for its own reads, if it has any, and for what is being read ahead.
void NeuronStream::begin_waiting(Part* part, uint64_t read_bytes) {
  const bool is_ahead_awaited =
      part->ahead != nullptr && part->ahead->state == AheadBatch::State::kReading;
  part->n_awaited = (read_bytes > 0 ? 1 : 0) + (is_ahead_awaited ? 1 : 0);
  if (part->n_awaited == 0) {
    part->state = State::kReady;
    return;
  }
  part->state = State::kReading;
  if (n_reading_++ == 0) read_start_us_ = time_us();
  if (read_bytes == 0) return;
  counters_.n_reads += static_cast<int64_t>(part->reads.size());
  counters_.read_bytes += read_bytes;
  unsubmitted_.push_back(part);
}

// Submits the reads of parts that have begun. That takes longer than all else here, so others
// may have the mutex meanwhile.
void NeuronStream::submit_begun(std::unique_lock<std::mutex>* lock) {
  while (!unsubmitted_.empty()) {
    Part* const part = unsubmitted_.front();
    unsubmitted_.erase(unsubmitted_.begin());
    lock->unlock();
    lanes::Run run;
    run.reads = part->reads;
    disk_->submit(*read_, run, *part);
    lock->lock();
  }
}

void NeuronStream::end(Part* part, lanes::Status status) {
  std::string problem;
  if (status != lanes::Status::kDone) problem = disk_->problem();
  const std::lock_guard<std::mutex> lock(mutex_);
  part->has_failed = status != lanes::Status::kDone;
  if (part->has_failed) note(std::move(problem));
  arrived(part);
}

// Is told that something has ended which the part waits for.
void NeuronStream::arrived(Part* part) {
  if (--part->n_awaited > 0) return;
  part->state = State::kReady;
  if (--n_reading_ == 0) {
    const double now_us = time_us();
    counters_.read_us += now_us - read_start_us_;
    note_reads({Neurons::ffns()[static_cast<size_t>(part->ffn)].ffn.layer, read_start_us_, now_us});
    read_ahead();
  }
  changed_.notify_all();
}

void NeuronStream::note(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

int NeuronStream::next_ready() const {
  for (size_t i = 0; i < n_wanted_; ++i) {
    if (parts_[i].state != State::kReady) continue;
    const bool may_go = options_.pipeline == ReadPipeline::kCluster ||
                        (n_reading_ == 0 && is_told()) || parts_[i].missing.empty();
    if (may_go) return static_cast<int>(i);
  }
  return -1;
}

int NeuronStream::next_part() {
  std::unique_lock<std::mutex> lock(mutex_);
  int ready = next_ready();
  if (ready < 0 && !is_all_handed()) {
    const double start_us = time_us();
    waits_.begin(start_us);
    changed_.wait(lock, [&] { return (ready = next_ready()) >= 0 || is_all_handed(); });
    const double end_us = time_us();
    waits_.end(end_us);
    counters_.wait_us += end_us - start_us;
  }
  if (ready < 0) return kNoPart;
  Part& part = parts_[static_cast<size_t>(ready)];
  part.state = State::kHanded;
  if (part.stage != weights::TakenPart::kGates && ++n_last_handed_ == n_parts_) {
    changed_.notify_all();
  }
  return ready;
}

bool NeuronStream::has_check(uint64_t layer, uint64_t rank, const std::byte* bundle) const {
  bool has = true;
  for (uint64_t piece = 0; piece < file_->layout().n_pieces(); ++piece) {
    has = has && has_check(layer, rank, piece, bundle + file_->layout().piece(piece).offset);
  }
  return has;
}

// Returns false where the neuron was not read, or has other bytes.
bool NeuronStream::assemble(const Part& part, const Missing& one) const {
  const bool has_failed =
      one.is_ahead ? part.ahead->state == AheadBatch::State::kFailed : part.has_failed;
  if (has_failed) return false;
  const auto layer = static_cast<uint64_t>(part.ffn);
  const std::byte* const resident = file_->tables().resident(layer).data();
  const NeuronForm& form = forms_[layer];
  const uint32_t neuron = part.neurons[one.index];
  std::byte* const to = place(part.held[one.index].slot);
  const uint64_t first_bytes = file_->layout().shape().first_bytes;
  if (part.stage == weights::TakenPart::kRest) {
    if (!has_check(layer, one.rank, 1, one.bundle)) return false;
    form.assemble_rest(resident, neuron, one.bundle, first_bytes, to);
  } else if (one.is_whole) {
    if (!has_check(layer, one.rank, one.bundle)) return false;
    form.assemble(resident, neuron, one.bundle, to);
  } else {
    if (!has_check(layer, one.rank, 0, one.bundle)) return false;
    form.assemble_first(resident, neuron, one.bundle, first_bytes, to);
  }
  return true;
}

void NeuronStream::assemble(Part* part) {
  for (const Missing& one : part->missing) {
    const int64_t slot = part->held[one.index].slot;
    const bool is_assembled = assemble(*part, one);
    if (!is_assembled) part->lost.push_back({part->neurons[one.index], place(slot)});
    const bool is_whole = !is_assembled || one.is_whole || part->stage == weights::TakenPart::kRest;
    is_whole_[static_cast<size_t>(slot)] = is_whole ? 1 : 0;
  }
}

weights::TakenPart NeuronStream::take(int ffn, int index, std::span<const uint32_t> neurons,
                                      weights::NeuronPlaces* places) {
  Part& part = parts_[static_cast<size_t>(index)];
  TROIKA_ASSERT(part.neurons.data() == neurons.data() && part.ffn == ffn);
  const NeuronForm& form = forms_[static_cast<size_t>(ffn)];
  for (size_t i = 0; i < neurons.size(); ++i) places[i] = form.places(place(part.held[i].slot));
  if (part.missing.empty()) return part.stage;
  std::vector<ModelNeurons::Wanted>& lost = part.lost;
  lost.clear();
  assemble(&part);
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
  if (part.stage != weights::TakenPart::kRest) {
    for (const Missing& one : part.missing) cache_->filled(part.held[one.index]);
  }
  if (part.staging.memory != nullptr) staging_.give_back(part.staging);
  begin_parts();
  changed_.notify_all();
  submit_begun(&lock);
  return part.stage;
}

bool NeuronStream::tell_live(int index, std::span<const uint32_t> live) {
  std::unique_lock<std::mutex> lock(mutex_);
  Part& part = parts_[static_cast<size_t>(index)];
  part.stage = weights::TakenPart::kRest;
  --n_untold_;
  part.missing.clear();
  size_t i = 0;
  for (const uint32_t neuron : live) {
    while (part.neurons[i] != neuron) ++i;
    const bool is_whole = is_whole_[static_cast<size_t>(part.held[i].slot)] != 0;
    if (!is_whole) part.missing.push_back({i, rank(part.ffn, neuron)});
  }
  const bool is_there = part.missing.empty();
  if (is_there) {
    ++n_last_handed_;
  } else {
    std::sort(part.missing.begin(), part.missing.end(),
              [](const Missing& a, const Missing& b) { return a.rank < b.rank; });
    part.ahead = nullptr;
    part.has_failed = false;
    part.state = State::kWantsRest;
    ++n_wanting_rest_;
  }
  begin_parts();
  changed_.notify_all();
  submit_begun(&lock);
  return is_there;
}

void NeuronStream::done(int index) {
  std::unique_lock<std::mutex> lock(mutex_);
  Part& part = parts_[static_cast<size_t>(index)];
  for (const Held& held : part.held) cache_->give_back(held);
  part.state = State::kNothing;
  begin_parts();
  changed_.notify_all();
  submit_begun(&lock);
}

void NeuronStream::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TROIKA_ASSERT(unsubmitted_.empty());
  n_parts_ = n_wanted_ = n_begun_ = 0;
  if (!options_.keeps_neurons) cache_->clear();
  read_ahead();
}

}  // namespace troika::prepare
