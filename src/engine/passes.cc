#include "engine/passes.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <exception>

#include "base/system.h"
#include "engine/engine.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/heads_here.h"
#include "machines/phone_prompts.h"
#include "machines/phone_setup.h"

namespace troika::engine {
namespace {

// At most this many closed texts stay in the cache, for later texts that begin alike.
constexpr int kMostIdleTexts = 64;

// Says how many texts at most are assumed to grow to a full context at the same time.
constexpr int kMostTexts = 64;

// Limits the cache to as many whole pages as lie in one piece of memory.
void limit_slots(size_t most_bytes, cache::KvShape* shape) {
  constexpr uint32_t kPage = cache::KvCache::kPageSlotsLog2;
  const size_t n_pages = (most_bytes / shape->bytes_per_token()) >> kPage;
  const size_t most = std::min(static_cast<size_t>(INT_MAX) >> kPage, n_pages) << kPage;
  shape->most_slots = std::min(shape->most_slots, static_cast<int>(most));
}

// Returns the shape of a cache that could grow to as many slots as there may ever be; `count_texts`
// says how many there are now. Where nothing is computed, positions count, but keys and values need
// no memory.
cache::KvShape largest_shape(const Engine& engine, Passes::AvailableBytes available) {
  cache::KvShape shape = prepare::kv_shape(engine.plan(), engine.blueprint());
  shape.most_positions = engine.plan().context;
  lanes::Memory* const memory = lanes::owned_memory(engine.machine());
  const bool counts_texts =
      memory != nullptr && memory->is_taken_at_once() && engine.most_texts() > 0;
  const int n_texts = counts_texts ? std::min(engine.most_texts(), kMostTexts) : kMostTexts;
  const int64_t n_slots = engine.phone().machine == nullptr
                              ? prepare::most_slots(engine.ledger(), shape, n_texts, available())
                              : int64_t{shape.most_slots} * kMostTexts;
  shape.most_slots = static_cast<int>(std::min<int64_t>(n_slots, INT_MAX));
  if (!engine.has_values()) shape.n_layers = 0;
  if (memory != nullptr && shape.n_layers > 0) limit_slots(memory->most_bytes(), &shape);
  return shape;
}

// Returns how many bytes the cache may have in all. Where nothing says how much memory is free, so
// much is that adding to it would go round to nothing.
size_t with_taken(size_t available_bytes, size_t taken_bytes) {
  return available_bytes > SIZE_MAX - taken_bytes ? SIZE_MAX : available_bytes + taken_bytes;
}

bool orders_heads(const Engine& engine) {
  const machines::PhoneSetup* const phone = engine.phone().setup;
  return phone != nullptr ? phone->orders_heads() : machines::orders_heads(engine.plan());
}

}  // namespace

size_t Passes::available_here() { return available_memory_bytes(); }

Passes::Passes(Engine& engine, plan::Ledger* ledger, AvailableBytes available)
    : runner(engine.machine()),
      chunk_policy(schedule::make_policy(engine.plan().order, orders_heads(engine))),
      kv(largest_shape(engine, available), lanes::pieces_of(lanes::owned_memory(engine.machine()))),
      sequences(kv, kMostIdleTexts),
      batches(engine),
      engine_(engine),
      ledger_(ledger),
      available_bytes_(available) {
  runner.reserve(engine.graphs().most_nodes());
  runner.set_watch(prompt_watch());
}

// Sets how many slots there are where texts become n_texts. Finding out what memory is free may
// throw, so this comes before anything changes.
void Passes::limit_slots_for(int n_texts) {
  const cache::KvShape shape = prepare::kv_shape(engine_.plan(), engine_.blueprint());
  const int n_counted = std::clamp(n_texts, 1, kMostTexts);
  int64_t n_slots = kv.shape().most_slots;
  if (engine_.phone().machine == nullptr) {
    // Memory that the cache has taken already stays available to it.
    const size_t available = with_taken(available_bytes_(), kv.bytes());
    n_slots = std::min(n_slots, prepare::most_slots(*ledger_, shape, n_counted, available));
    // No text needs more than its context.
    const int64_t promised = std::min<int64_t>(kv.n_limit(), int64_t{shape.limit()} * n_texts);
    if (n_texts_ > 0) n_slots = std::max(n_slots, promised);
    ledger_->set(plan::Owner::kCache, prepare::cache_bytes(shape, n_slots));
  }
  kv.limit_slots(static_cast<int>(n_slots));
}

void Passes::count_texts(int n_more) {
  limit_slots_for(n_texts_ + n_more);
  n_texts_ += n_more;
}

void Passes::end_texts(int n) noexcept {
  try {
    limit_slots_for(n_texts_ - n);
  } catch (const std::exception&) {
    // The limit stays as it is until texts are counted again.
  }
  n_texts_ -= n;
}

cache::Tag Passes::tag_of(plan::Phase phase) const {
  const plan::Plan& plan = engine_.plan();
  if (plan.has_one_class()) return 0;
  const bool is_unlike = phase == plan::Phase::kPrompt && plan.attention.is_sparse();
  return is_unlike ? plan::kMostClasses : static_cast<cache::Tag>(phase);
}

cache::Tag Passes::tag_at(int position, int n_prompt, int first) const {
  return static_cast<cache::Tag>(engine_.plan().class_at(position, n_prompt, first));
}

schedule::PromptWatch* Passes::prompt_watch() const {
  machines::PhonePrompts* const prompts = engine_.phone().prompts;
  if (prompts != nullptr && prompts->has_layouts()) return prompts;
  const prepare::LoadedWeights& loaded = engine_.loaded();
  if (loaded.stream != nullptr) return loaded.stream.get();
  return loaded.layouts.get();
}

std::vector<std::string> Passes::trace_rows() const {
  std::vector<std::string> rows;
  for (const lanes::Lane* lane : engine_.machine().lanes()) rows.push_back(lane->info().name);
  if (const prepare::WeightStream* const stream = engine_.loaded().stream.get()) {
    rows.push_back("reads of blocks");
    rows.push_back(stream->experts() == nullptr   ? "reads of neurons"
                   : stream->neurons() == nullptr ? "reads of experts"
                                                  : "reads of gates and neurons");
  } else if (prompt_watch() != nullptr) {
    rows.insert(rows.end(), {"layout", "loads"});
  }
  return rows;
}

}  // namespace troika::engine
