#include "prepare/streaming/expert_stream.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/threads/team.h"
#include "model/gated_ffns.h"
#include "prepare/streaming/weight_stream.h"
#include "weights/panels.h"

namespace troika::prepare {
namespace {

using weights::NeuronCache;

// Counts the experts that are read ahead at once. They are few, so that a guess hardly delays what
// is wanted a moment later, but enough that the disk has several requests.
constexpr int kGuessesAtOnce = 2;
// Counts the experts that are surely needed next and are read at once, behind what is wanted.
constexpr int kSureAtOnce = 8;

double stream_time_us() { return RealClock().now_us(); }

size_t expert_bytes(const weights::Matrix& matrix, int n_experts) {
  return matrix.row_bytes * static_cast<size_t>(matrix.n_rows / n_experts);
}

}  // namespace

RoutedExperts all_of_experts(const model::Blueprint& blueprint, const weights::Store& weights) {
  return {blueprint, weights, model::mixtures(blueprint), weights::expert_matrices(blueprint)};
}

RoutedExperts gates_of_experts(const model::Blueprint& blueprint, const weights::Store& weights) {
  RoutedExperts routed = all_of_experts(blueprint, weights);
  std::set<model::WeightId> gates;
  for (const model::GatedFfn& ffn : model::expert_ffns(blueprint)) gates.insert(ffn.gate);
  for (model::Mixture& mixture : routed.mixtures) {
    std::erase_if(mixture.products, [&](model::WeightId id) { return !gates.contains(id); });
  }
  return routed;
}

weights::NeuronCacheShape ExpertStream::Places::cache_shape() const {
  return {n_mixtures, n_experts, 1, place_bytes};
}

size_t ExpertStream::Places::bytes_for(uint64_t n_places) const {
  const size_t beside = sizeof(ExpertPlace) + n_requests * sizeof(lanes::ReadRequest);
  return n_places * (place_bytes + beside) + NeuronCache::list_bytes(cache_shape(), n_places);
}

uint64_t ExpertStream::Places::n_within(size_t bytes) const {
  uint64_t n_places = std::min(n_all(), uint64_t{bytes / place_bytes});
  while (n_places > 0 && bytes_for(n_places) > bytes) --n_places;
  return n_places;
}

size_t ExpertStream::place_bytes(const RoutedExperts& routed) {
  return places_of(routed).place_bytes;
}

int64_t ExpertStream::n_places_within(size_t bytes, const RoutedExperts& routed) {
  return static_cast<int64_t>(places_of(routed).n_within(bytes));
}

ExpertStream::Places ExpertStream::places_of(const RoutedExperts& routed) {
  Places places;
  places.n_experts = routed.blueprint.n_experts;
  places.has_gates_alone = routed.mixtures.front().products.size() == 1;
  std::array<size_t, kMostProducts> rooms = {};
  for (const model::Mixture& mixture : routed.mixtures) {
    ++places.n_mixtures;
    TROIKA_ASSERT(mixture.products.size() <= kMostProducts);
    for (size_t i = 0; i < mixture.products.size(); ++i) {
      const size_t bytes =
          expert_bytes(routed.weights.matrix(mixture.products[i]), places.n_experts);
      rooms[i] = std::max(rooms[i], room_of(bytes));
    }
  }
  for (size_t i = 0; i < kMostProducts; ++i) {
    places.offsets[i] = places.place_bytes;
    places.place_bytes += rooms[i];
    places.n_requests += most_page_reads(rooms[i]);
  }
  return places;
}

size_t ExpertStream::least_bytes(const RoutedExperts& routed) {
  const Places places = places_of(routed);
  // All experts of one mixture may be wanted at once.
  return places.bytes_for(static_cast<uint64_t>(places.n_experts)) +
         WeightStream::least_bytes(routed.blueprint, routed.weights, {routed.matrices});
}

size_t ExpertStream::whole_bytes(const RoutedExperts& routed) {
  const Places places = places_of(routed);
  return places.bytes_for(places.n_all()) +
         WeightStream::whole_bytes(routed.blueprint, routed.weights, {routed.matrices});
}

ExpertStream::Shares ExpertStream::shares_of(size_t most_bytes, const RoutedExperts& routed) {
  const Places places = places_of(routed);
  const StreamedWeights other = {routed.matrices};
  const size_t least = places.bytes_for(static_cast<uint64_t>(places.n_experts));
  const size_t most = places.bytes_for(places.n_all());
  const size_t whole = WeightStream::whole_bytes(routed.blueprint, routed.weights, other);
  const size_t others =
      std::min(whole, std::max(WeightStream::least_bytes(routed.blueprint, routed.weights, other),
                               most_bytes - std::min(most_bytes, least)));
  return {others, std::min(most, std::max(most_bytes - std::min(most_bytes, others), least))};
}

ExpertStream::ExpertStream(const ExpertStreamOptions& options, const RoutedExperts& routed,
                           const gguf::File& file)
    : ExpertSource(routed.mixtures), file_(file), places_(places_of(routed)) {
  for (const model::Mixture& mixture : mixtures()) {
    std::vector<FileRange>& parts = files_.emplace_back();
    for (const model::WeightId id : mixture.products) {
      const weights::Matrix& matrix = routed.weights.matrix(id);
      parts.push_back(file_range(file, matrix.data, expert_bytes(matrix, places_.n_experts)));
    }
  }
  const uint64_t n_places = places_.n_within(options.most_bytes);
  TROIKA_ASSERT(n_places >= static_cast<uint64_t>(places_.n_experts));
  try {
    make_cache(n_places);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "There is no memory for {} of experts. End other programs, or set a smaller ‹memory›.",
        bytes_text(options.most_bytes)));
  }
  disk_ = std::make_unique<lanes::DiskLane>(disk_options(file, options.way));
  read_ = disk_->make_read();
  reserve_reads();
}

// Takes the memory that reads need while they are under way: threads of the disk submit some, and
// could tell nobody that there is none.
void ExpertStream::reserve_reads() {
  size_t n_reads = 0;
  for (const ExpertPlace& slot : slots_) {
    for (const ProductRead& part : slot.parts) n_reads += part.reads.capacity();
  }
  disk_->reserve(slots_.size() * kMostProducts, n_reads);
}

void ExpertStream::make_cache(uint64_t n_places) {
  weights::NeuronCacheOptions how;
  how.capacity_bytes = n_places * places_.place_bytes;
  how.keeps_last_steps = true;
  cache_ = std::make_unique<NeuronCache>(places_.cache_shape(), how);
  memory_ = PageBuffer(n_places * places_.place_bytes);
  bytes_ = places_.bytes_for(n_places);
  slots_ = std::vector<ExpertPlace>(n_places);
  for (size_t i = 0; i < slots_.size(); ++i) {
    for (size_t p = 0; p < kMostProducts; ++p) {
      ProductRead& part = slots_[i].parts[p];
      part.owner = this;
      part.place = static_cast<int64_t>(i);
      const size_t end = p + 1 < kMostProducts ? places_.offsets[p + 1] : places_.place_bytes;
      part.reads.reserve(most_page_reads(end - places_.offsets[p]));
    }
  }
  const auto n = static_cast<size_t>(places_.n_experts);
  wanted_.reserve(n);
  is_wanted_.resize(n);
  held_.resize(n);
  missing_.reserve(n);
  order_ = std::vector<std::atomic<int32_t>>(kMostProducts * n);
  for (std::atomic<int32_t>& one : order_) one.store(model::kNone, std::memory_order_relaxed);
  is_chosen_.resize(kMostProducts * n);
  heat_.resize(mixtures().size() * n);
  named_.reserve(n);
  guesses_.reserve(n);
  n_reading_of_.resize(mixtures().size());
}

bool ExpertStream::take_memory(int n_threads) {
  std::atomic<bool> is_given = true;
  Team team(n_threads);
  team.run([&](int worker) {
    const Share share =
        share_of(static_cast<int64_t>(memory_.size()), worker, n_threads, int64_t{kHugePageBytes});
    const auto bytes = static_cast<size_t>(share.end - share.begin);
    if (bytes > 0 && madvise(memory_.get() + share.begin, bytes, MADV_POPULATE_WRITE) != 0)
      is_given = false;
  });
  return is_given;
}

ExpertStream::~ExpertStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  changed_.wait(lock, [this] { return n_reading_ == 0; });
}

FileRange ExpertStream::part_of(int mixture, int product, int expert) const {
  FileRange part = files_[static_cast<size_t>(mixture)][static_cast<size_t>(product)];
  const size_t before = static_cast<size_t>(expert) * part.bytes;
  part.begin += before;
  part.offset += before;
  return part;
}

void ExpertStream::wait(std::unique_lock<std::mutex>* lock) {
  const double start_us = stream_time_us();
  wait_for_others(lock);
  counters_.wait_us += stream_time_us() - start_us;
}

void ExpertStream::wait_for_others(std::unique_lock<std::mutex>* lock) {
  waits_.begin(stream_time_us());
  changed_.wait(*lock);
  waits_.end(stream_time_us());
}

void ExpertStream::want(int mixture, std::span<const int32_t> experts, plan::Phase phase) {
  std::unique_lock<std::mutex> lock(mutex_);
  leave(&lock);
  mixture_ = mixture;
  cache_->begin_group(mixture);
  wanted_.assign(experts.begin(), experts.end());
  for (const int32_t expert : wanted_) is_wanted_[static_cast<size_t>(expert)] = true;
  missing_.clear();
  // What is in memory gets its lease first, lest it makes room for another one that is wanted.
  for (const bool is_there : {true, false}) {
    for (const int32_t expert : wanted_) {
      const bool is_held = held_[static_cast<size_t>(expert)].is_held();
      if (!is_held && (!is_there || cache_->is_resident({mixture, expert}))) hold(expert, &lock);
    }
  }
  for (int product = 0; product < static_cast<int>(n_products(mixture)); ++product) {
    for (const int64_t place : missing_) submit(&slots_[static_cast<size_t>(place)], product);
  }
  end_guesses();
  name_next(phase);
  is_begun_ = true;
  read_ahead();
  changed_.notify_all();
}

// Names experts of the next mixture that a prompt takes without asking its router. Several answers
// may take all experts of a small mixture too, yet the next step takes others.
void ExpertStream::name_next(plan::Phase phase) {
  const size_t n_wanted = wanted_.size(), n_experts = heat_.size() / mixtures().size();
  uint32_t* heat = heat_.data() + static_cast<size_t>(mixture_) * n_experts;
  for (const int32_t expert : wanted_) ++heat[expert];
  const bool is_prompt = phase == plan::Phase::kPrompt;
  const bool is_sure = is_prompt && 4 * n_wanted >= 3 * n_experts;
  const bool is_likely = is_prompt && 4 * n_wanted >= n_experts;
  is_scan_ = is_likely && n_wanted * mixtures().size() > static_cast<size_t>(n_places());
  ahead_ = is_sure ? Ahead::kSure : is_scan_ ? Ahead::kHeat : Ahead::kRouter;
  if (ahead_ == Ahead::kRouter || places_.n_mixtures == 1) return;
  // Behind the last one the next part of the prompt begins anew.
  guessed_mixture_ = (mixture_ + 1) % places_.n_mixtures;
  for (int32_t i = 0; i < places_.n_experts; ++i) named_.push_back(i);
  if (is_sure) return;
  heat = heat_.data() + static_cast<size_t>(guessed_mixture_) * n_experts;
  std::sort(named_.begin(), named_.end(),
            [&](int32_t a, int32_t b) { return heat[a] != heat[b] ? heat[a] > heat[b] : a < b; });
}

// Gets a lease of an expert of the mixture at work, and notes what must be read.
void ExpertStream::hold(int expert, std::unique_lock<std::mutex>* lock) {
  for (;;) {
    const Held held = cache_->acquire({mixture_, expert});
    if (!held.is_held()) {
      // Guesses take its place, or are the last to hold an expert whose read failed.
      if (!give_back_guesses()) wait(lock);
      continue;
    }
    held_[static_cast<size_t>(expert)] = held;
    ExpertPlace& slot = slot_of(held);
    if (held.found == Found::kMiss) {
      ++counters_.misses;
      begin(held, mixture_, expert);
      missing_.push_back(held.slot);
    } else {
      ++(slot.was_guessed ? counters_.right_guesses : counters_.hits);
    }
    slot.was_guessed = false;
    // Reads of this expert may still be under way for a guess that was given up.
    if (held.found != Found::kHit) slot.is_new = true;
    if (held.found != Found::kHit && !slot.is_wanted) {
      slot.is_wanted = true;
      ++n_wanted_reading_;
    }
    return;
  }
}

void ExpertStream::begin(const Held& held, int mixture, int expert) {
  ExpertPlace& slot = slot_of(held);
  slot.read_as = held;
  slot.mixture = mixture;
  slot.n_coming = static_cast<int>(n_products(mixture));
  slot.has_failed = false;
  slot.problem.clear();
  slot.is_new = true;
  for (int product = 0; product < slot.n_coming; ++product) {
    ProductRead& part = slot.parts[static_cast<size_t>(product)];
    part.file = part_of(mixture, product, expert);
    part.is_there = false;
    part.reads.clear();
    counters_.read_bytes += add_page_reads(part.file, room(held.slot, product), &part.reads);
  }
  if (n_reading_++ == 0) read_start_us_ = counted_until_us_ = stream_time_us();
  ++n_reading_of_[static_cast<size_t>(mixture)];
}

void ExpertStream::submit(ExpertPlace* slot, int product) {
  ProductRead& part = slot->parts[static_cast<size_t>(product)];
  lanes::Run run;
  run.reads = part.reads;
  disk_->submit(*read_, run, part);
}

void ExpertStream::end(ProductRead* part, lanes::Status status) {
  std::string problem;
  if (status != lanes::Status::kDone) problem = disk_->problem();
  std::unique_lock<std::mutex> lock(mutex_);
  const bool may_be_cached = disk_->n_cached_reads() > 0;
  lock.unlock();
  if (may_be_cached) forget_cached(file_, part->file);
  lock.lock();
  ExpertPlace& slot = slots_[static_cast<size_t>(part->place)];
  part->is_there = true;
  if (status != lanes::Status::kDone) {
    slot.has_failed = true;
    slot.problem = std::move(problem);
  }
  if (--slot.n_coming == 0) settle(&slot);
  changed_.notify_all();
}

// Ends the reading of an expert once all of its parts have come or failed.
void ExpertStream::settle(ExpertPlace* slot) {
  const double now_us = stream_time_us();
  // Others may be under way, so that there is never a moment without reads.
  counters_.read_us += now_us - counted_until_us_;
  counted_until_us_ = now_us;
  --n_reading_;
  note_end(slot->mixture, now_us);
  slot->has_failed ? cache_->failed(slot->read_as) : cache_->filled(slot->read_as);
  if (slot->is_wanted) {
    slot->is_wanted = false;
    --n_wanted_reading_;
    if (slot->has_failed) {
      if (problem_.empty()) problem_ = slot->problem;
      has_problem_.store(true, std::memory_order_release);
    }
  }
  for (; slot->n_left_behind > 0; --slot->n_left_behind) cache_->drop(slot->read_as);
  read_ahead();
}

// Notes a mixture's reads where these were the last ones under way. The disk is one row of a trace,
// so what is read ahead has it from when what was asked for before has come.
void ExpertStream::note_end(int mixture, double now_us) {
  if (--n_reading_of_[static_cast<size_t>(mixture)] > 0) return;
  const double start_us = std::max(read_start_us_, traced_until_us_);
  traced_until_us_ = now_us;
  const int layer = mixtures()[static_cast<size_t>(mixture)].layer;
  if (is_traced_) traced_.push_back({layer, start_us, now_us});
}

void ExpertStream::set_tracing(bool is_traced) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_traced_ = is_traced;
  if (!is_traced) traced_.clear();  // a pass that failed may have left some
}

std::vector<ExpertStream::LayerReads> ExpertStream::take_reads() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(traced_, {});
}

void ExpertStream::guess(int mixture, std::span<const int32_t> experts) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (mixture_ != mixture - 1 || !is_begun_) wait_for_others(&lock);
  if (ahead_ != Ahead::kRouter) return;
  guessed_mixture_ = mixture;
  named_.assign(experts.begin(), experts.end());
  n_named_begun_ = 0;
  read_ahead();
}

// Guesses are read as long as no wanted expert is. What is sure is read behind those.
bool ExpertStream::may_read_ahead() const {
  if (ahead_ == Ahead::kSure) return n_reading_ - n_wanted_reading_ < kSureAtOnce;
  const int most = ahead_ == Ahead::kHeat ? 2 * kGuessesAtOnce : kGuessesAtOnce;
  return n_wanted_reading_ == 0 && n_reading_ < most;
}

void ExpertStream::read_ahead() {
  while (!is_stopped_ && n_named_begun_ < named_.size() && may_read_ahead()) {
    const int32_t expert = named_[n_named_begun_++];
    // A guess that names all experts skips those that are in memory already.
    if (ahead_ == Ahead::kHeat && cache_->is_resident({guessed_mixture_, expert})) continue;
    const Held held = cache_->acquire({guessed_mixture_, expert});
    if (held.found == Found::kNoRoom) {  // no place is free until the mixture at work has ended
      --n_named_begun_;
      return;
    }
    if (!held.is_held()) continue;
    guesses_.push_back({expert, held});  // an expert that is in memory is kept there too
    if (held.found != Found::kMiss) continue;
    begin(held, guessed_mixture_, expert);
    ExpertPlace& slot = slot_of(held);
    slot.was_guessed = true;
    for (int product = 0; product < slot.n_coming; ++product) submit(&slot, product);
  }
}

// Gives back the guesses' leases of experts that are not being read. Returns false if there are
// none.
bool ExpertStream::give_back_guesses() {
  const auto is_read = [this](const Guess& guess) { return slot_of(guess.held).n_coming > 0; };
  bool is_any = false;
  for (const Guess& guess : guesses_) {
    if (is_read(guess)) continue;
    is_any = true;
    ExpertPlace& slot = slot_of(guess.held);
    const bool is_right =
        guessed_mixture_ == mixture_ && is_wanted_[static_cast<size_t>(guess.expert)];
    const bool is_wrong = slot.was_guessed && !is_right;
    if (is_wrong) {
      ++counters_.wrong_guesses;
      slot.was_guessed = slot.is_new = false;
    }
    // What a scan has read and names again in vain still makes room first.
    is_wrong ? cache_->drop(guess.held) : cache_->give_back(guess.held, !is_right && slot.is_new);
  }
  std::erase_if(guesses_, [&](const Guess& guess) { return !is_read(guess); });
  return is_any;
}

// Ends all guesses: a mixture has named the experts that it wants.
void ExpertStream::end_guesses() {
  give_back_guesses();
  for (const Guess& guess : guesses_) {  // guesses that are left are being read
    ExpertPlace& slot = slot_of(guess.held);
    ++slot.n_left_behind;
    if (!slot.was_guessed) continue;
    ++counters_.wrong_guesses;
    slot.was_guessed = slot.is_new = false;
  }
  guesses_.clear();
  named_.clear();
  n_named_begun_ = 0;
}

int32_t ExpertStream::next_there(int product) const {
  const auto first = static_cast<size_t>(product) * static_cast<size_t>(places_.n_experts);
  for (const int32_t expert : wanted_) {
    const auto index = static_cast<size_t>(expert);
    if (is_chosen_[first + index]) continue;
    const ExpertPlace& slot = slots_[static_cast<size_t>(held_[index].slot)];
    if (slot.parts[static_cast<size_t>(product)].is_there) return expert;
  }
  return model::kNone;
}

int32_t ExpertStream::choose(Place place, int i) {
  const auto first = static_cast<size_t>(place.product) * static_cast<size_t>(places_.n_experts);
  std::atomic<int32_t>& chosen = order_[first + static_cast<size_t>(i)];
  std::unique_lock<std::mutex> lock(mutex_);
  TROIKA_ASSERT(mixture_ == place.mixture && static_cast<size_t>(i) < wanted_.size());
  for (;;) {
    int32_t expert = chosen.load(std::memory_order_relaxed);
    if (expert != model::kNone) return expert;  // another worker chose it
    expert = next_there(place.product);
    if (expert != model::kNone) {
      is_chosen_[first + static_cast<size_t>(expert)] = true;
      chosen.store(expert, std::memory_order_release);
      return expert;
    }
    wait(&lock);
  }
}

ExpertStream::Rows ExpertStream::take(Place place, int i) {
  const size_t index = static_cast<size_t>(place.product) * static_cast<size_t>(places_.n_experts) +
                       static_cast<size_t>(i);
  int32_t expert = order_[index].load(std::memory_order_acquire);
  if (expert == model::kNone) expert = choose(place, i);
  const std::byte* const rows = room(held_[static_cast<size_t>(expert)].slot, place.product);
  return {expert, rows + lead_of(part_of(place.mixture, place.product, expert))};
}

void ExpertStream::finish(int mixture) {
  std::unique_lock<std::mutex> lock(mutex_);
  TROIKA_ASSERT(mixture == mixture_);
  leave(&lock);
  read_ahead();
}

// Gives back the leases of the mixture at work, if there is one.
void ExpertStream::leave(std::unique_lock<std::mutex>* lock) {
  if (mixture_ == model::kNone) return;
  while (n_wanted_reading_ > 0) wait(lock);
  for (const int32_t expert : wanted_) {
    const auto index = static_cast<size_t>(expert);
    ExpertPlace& slot = slot_of(held_[index]);
    cache_->give_back(std::exchange(held_[index], {}), is_scan_ && slot.is_new);
    if (!is_scan_) slot.is_new = false;
    is_wanted_[index] = false;
  }
  mixture_ = model::kNone;
  is_begun_ = false;
  std::fill(is_chosen_.begin(), is_chosen_.end(), false);
  for (std::atomic<int32_t>& one : order_) one.store(model::kNone, std::memory_order_relaxed);
}

WaitTimes ExpertStream::waited() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waits_.times();
}

std::optional<std::string> ExpertStream::take_problem() {
  if (!has_problem_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  has_problem_.store(false, std::memory_order_relaxed);
  return std::exchange(problem_, {});
}

ExpertStream::Counters ExpertStream::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Counters counters = counters_;
  counters.evictions = cache_->counters(NeuronCache::Region::kCold).evictions;
  return counters;
}

std::string ExpertStream::text() const {
  const int64_t n_all = int64_t{places_.n_experts} * places_.n_mixtures;
  const char* const what = places_.has_gates_alone ? "gates of experts" : "experts";
  if (n_places() == n_all)
    return fmt::format("{} of {}, read when they are used first", bytes_text(bytes_), what);
  return fmt::format("{} of {} {} have places ({}); the others are read when a router asks",
                     n_places(), n_all, what, bytes_text(bytes_));
}

}  // namespace troika::prepare
