#include "prepare/streaming/weight_stream.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {
namespace {

using schedule::RowsBeside;
using weights::Matrix;

double clock_us() { return RealClock().now_us(); }

bool contains(std::span<const model::WeightId> ids, model::WeightId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

MappedFile& map_of(const gguf::File& file, const FileRange& range) {
  return *file.shards()[static_cast<size_t>(range.shard)].map;
}

}  // namespace

size_t WeightStream::least_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                                 const StreamedWeights& which) {
  return least_turns(weight_parts(blueprint, weights, which)).bytes();
}

size_t WeightStream::whole_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                                 const StreamedWeights& which) {
  return weight_parts(blueprint, weights, which).whole_bytes();
}

WeightStream::WeightStream(const model::Blueprint& blueprint, const gguf::File& file,
                           size_t most_bytes, weights::Store* weights, const StreamedWeights& which,
                           const StripMatrices& strips, const DiskWay& way)
    : file_(file),
      is_for_prompts_(!which.for_prompts.empty()),
      turning_(static_cast<size_t>(blueprint.n_layers)),
      weights_(*weights),
      n_threads_(strips.n_threads),
      disk_(disk_options(file, way)),
      read_(disk_.make_read()) {
  const WeightParts planned = weight_parts(blueprint, *weights, which);
  for (const WeightPart& part : planned.of_blocks) add_part(part);
  add_part(planned.of_none);
  name_weights(blueprint, *weights);
  const Turns turns = choose_turns(planned, most_bytes);
  TROIKA_ASSERT(turns.bytes() <= most_bytes);
  make_slots(turns);
  choose_strips(strips);
  if (planned.table && table_room(*planned.table) < planned.table->bytes()) {
    table_ = file_range(file, planned.table->data, planned.table->bytes());
    map_of(file, *table_).expect_few({table_->offset, table_->offset + table_->bytes});
  }
  for (const auto& part : parts_) place(part.get(), weights);
  reserve_reads();
  // What was read of the file until now, as for the scales of int8 prompts, is not to stay in
  // memory.
  forget_mapped(file);
}

WeightStream::~WeightStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  ended_.wait(lock, [this] { return n_reading_ == 0; });
}

void WeightStream::add_part(const WeightPart& planned) {
  auto part = std::make_unique<Part>();
  part->owner = this;
  part->block = planned.block;
  part->bytes = planned.bytes;
  for (const Matrix& matrix : planned.matrices) {
    auto streamed = std::make_unique<StreamedMatrix>();
    streamed->part = part.get();
    streamed->from = file_range(file_, matrix.data, matrix.bytes());
    part->matrices.push_back(std::move(streamed));
  }
  parts_.push_back(std::move(part));
}

// Lets matrices know the weights that begin where they do.
void WeightStream::name_weights(const model::Blueprint& blueprint, const weights::Store& weights) {
  std::map<const std::byte*, StreamedMatrix*> by_begin;
  for (const auto& part : parts_) {
    for (const auto& streamed : part->matrices) by_begin[streamed->from.begin] = streamed.get();
  }
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    const auto at = by_begin.find(weights.matrix(op.weight).data);
    if (at != by_begin.end() && !contains(at->second->ids, op.weight)) {
      at->second->ids.push_back(op.weight);
    }
  }
}

void WeightStream::make_slots(const Turns& turns) {
  order_ = turns.order;
  kept_bytes_ = turns.kept_bytes;
  shared_bytes_ = turns.shared_bytes();
  for (const size_t bytes : turns.slot_bytes) slots_.push_back({PageBuffer(bytes)});
  for (size_t i = 0; i < order_.size(); ++i) {
    Part& part = *parts_[order_[i]];
    part.state = State::kAbsent;
    part.slot = i % turns.slot_bytes.size();
    turning_[static_cast<size_t>(part.block)].push_back(&part);
  }
  for (const auto& part : parts_) {
    if (part->state != State::kKept) continue;
    part->slot = slots_.size();
    slots_.push_back({PageBuffer(part->bytes)});
  }
}

// Chooses which matrices of kept parts are brought into strips. Steps read single rows of what is
// there for prompts only.
void WeightStream::choose_strips(const StripMatrices& strips) {
  if (is_for_prompts_) return;
  const std::vector<model::WeightId> chosen = weights_.alone_in_place(strips.ids);
  for (const auto& part : parts_) {
    if (part->state != State::kKept) continue;
    for (const auto& streamed : part->matrices) {
      const auto is_chosen = [&](model::WeightId id) { return contains(chosen, id); };
      if (!std::all_of(streamed->ids.begin(), streamed->ids.end(), is_chosen)) continue;
      kept_in_strips_.insert(kept_in_strips_.end(), streamed->ids.begin(), streamed->ids.end());
    }
  }
}

// Gives a part its memory. Rows begin as far behind a page there as they do in the file, so that
// reads may be direct.
void WeightStream::place(Part* part, weights::Store* weights) {
  std::byte* to = slots_[part->slot].memory.get();
  for (const auto& streamed : part->matrices) {
    add_page_reads(streamed->from, to, &streamed->reads);
    streamed->to = to + lead_of(streamed->from);
    weights->move(streamed->from.begin, streamed->from.bytes, streamed->to);
    to += room_of(streamed->from.bytes);
  }
}

// Takes the memory that reads need while they are under way: what begins a part is a thread of the
// disk mostly, which could tell nobody that there is none.
void WeightStream::reserve_reads() {
  size_t n_matrices = 0, n_reads = 0;
  for (const auto& part : parts_) {
    n_matrices += part->matrices.size();
    for (const auto& streamed : part->matrices) n_reads += streamed->reads.size();
  }
  disk_.reserve(n_matrices, n_reads);
}

void WeightStream::begin(Part* part) {
  slots_[part->slot].is_taken = true;
  part->state = State::kReading;
  part->problem.clear();
  part->n_matrices_left = part->matrices.size();
  part->start_us = clock_us();
  if (n_reading_++ == 0) read_start_us_ = part->start_us;
  for (const auto& streamed : part->matrices) {
    lanes::Run run;
    run.reads = streamed->reads;
    disk_.submit(*read_, run, *streamed);
  }
}

void WeightStream::end(StreamedMatrix* streamed, lanes::Status status) {
  Part* const part = streamed->part;
  if (disk_.n_cached_reads() > 0) forget_cached(file_, streamed->from);
  std::string problem;
  if (status != lanes::Status::kDone) problem = disk_.problem();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!problem.empty()) part->problem = std::move(problem);
  if (--part->n_matrices_left > 0) return;
  part->end_us = clock_us();
  // Others may be under way, so that there is never a moment without reads.
  counters_.read_us += part->end_us - read_start_us_;
  read_start_us_ = part->end_us;
  --n_reading_;
  part->state = part->problem.empty() ? State::kReady : State::kFailed;
  ++counters_.n_parts;
  counters_.read_bytes += part->bytes;
  read_ahead();
  ended_.notify_all();
}

void WeightStream::read_ahead() {
  while (!order_.empty() && !is_stopped_) {
    // The pass behind a prompt is a step mostly, which needs nothing of the prompt's blocks.
    if (is_for_prompts_ && n_left_ == 0) {
      if (n_more_passes_ == 0) return;
      --n_more_passes_;
      n_left_ = order_.size();
    }
    Part& part = *parts_[order_[next_]];
    if (part.state != State::kAbsent || slots_[part.slot].is_taken) return;
    begin(&part);
    next_ = (next_ + 1) % order_.size();
    if (n_left_ > 0) --n_left_;
  }
}

void WeightStream::forget(Part* part) {
  slots_[part->slot].is_taken = false;
  part->state = State::kAbsent;
}

void WeightStream::forget_block(int block) {
  for (Part* part : turning_[static_cast<size_t>(block)]) forget(part);
}

// Begins to read at another block, as a pass did not go on where the one before it ended. Parts
// that were read ahead make room.
void WeightStream::start_again_at(int block, std::unique_lock<std::mutex>* lock) {
  const auto at = std::find_if(order_.begin(), order_.end(),
                               [&](size_t number) { return parts_[number]->block == block; });
  next_ = static_cast<size_t>(at - order_.begin());
  n_left_ = order_.size() - next_;
  is_stopped_ = true;
  ended_.wait(*lock, [this] { return n_reading_ == 0; });
  for (const size_t number : order_) {
    if (parts_[number]->state != State::kAbsent) forget(parts_[number].get());
  }
  is_stopped_ = false;
  read_ahead();
}

void WeightStream::load_kept(const ProgressFunction& progress) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::vector<Part*> kept;
  for (const auto& part : parts_) {
    if (part->state == State::kKept && !part->matrices.empty()) kept.push_back(part.get());
  }
  uint64_t n_done = 0;
  if (!kept.empty()) begin(kept.front());
  for (size_t i = 0; i < kept.size(); ++i) {
    if (progress) progress(n_done, kept_bytes_);
    // The next one is asked for before this one is there, so that the disk has no pause.
    if (i + 1 < kept.size()) begin(kept[i + 1]);
    ended_.wait(lock, [&] { return kept[i]->state != State::kReading; });
    if (kept[i]->state != State::kReady) {
      throw Error(fmt::format("The weights cannot be read: {}.", kept[i]->problem));
    }
    n_done += kept[i]->bytes;
    kept[i]->state = State::kKept;
  }
  if (progress) progress(kept_bytes_, kept_bytes_);
  (void)weights_.place_in_strips(kept_in_strips_, n_threads_);
  counters_ = {};
  read_ahead();
}

void WeightStream::plan_prompt(int n_tokens, int chunk, bool is_first) {
  if (prompts_ != nullptr) prompts_->plan_prompt(n_tokens, chunk, is_first);
  const std::lock_guard<std::mutex> lock(mutex_);
  n_more_passes_ = std::max(0, (n_tokens + chunk - 1) / chunk - 1);
}

void WeightStream::before_block(int block, plan::Phase phase, int n_tokens,
                                const RowsBeside& rows) {
  if (prompts_ != nullptr && phase == plan::Phase::kPrompt) {
    prompts_->before_block(block, phase, n_tokens, rows);
  }
  if (neurons_ != nullptr) neurons_->set_tracing(rows.are_recorded());
  if (experts_ != nullptr) experts_->set_tracing(rows.are_recorded());
  std::unique_lock<std::mutex> lock(mutex_);
  is_prompt_ = phase == plan::Phase::kPrompt;
  if (block == 0) count_table_rows(n_tokens);
  // A prompt's pass that finds nothing read ahead reads all parts for itself, and what the next
  // pass needs is behind these.
  const bool is_cold = block == 0 && n_left_ == 0 && next_ == 0 && !order_.empty() &&
                       parts_[order_.front()]->state == State::kAbsent;
  if (is_for_prompts_ && is_cold) n_left_ = order_.size();
  if (current_ >= 0 && current_ != block) forget_block(std::exchange(current_, -1));
  read_ahead();
  const std::vector<Part*>& wanted = turning_[static_cast<size_t>(block)];
  if (wanted.empty()) return;
  wait_for(block, wanted, &lock);
  current_ = block;
  for (const Part* part : wanted) {
    // The disk is one row: parts that are asked for together come one after the other.
    const double from_us = std::min(std::max(part->start_us, traced_until_us_), part->end_us);
    // Prompts read no single neurons, whose row is then free.
    const auto row = is_for_prompts_ ? RowsBeside::kReads : RowsBeside::kBlocks;
    rows.add({row, "read", block, 0, from_us, part->end_us, is_prompt_});
    traced_until_us_ = std::max(traced_until_us_, part->end_us);
  }
}

// Gives back the pages of the table before the next pass could bring more than there is room for.
void WeightStream::count_table_rows(int n_rows) {
  n_table_rows_ += n_rows;
  if (!table_ || n_table_rows_ <= kTableRows / 2) return;
  n_table_rows_ = 0;
  map_of(file_, *table_).let_go({table_->offset, table_->offset + table_->bytes});
  forget_cached(file_, *table_);
}

// Waits until all parts of a block are there. What could not be read ahead is asked for again, as
// that may have been in the time of another pass.
void WeightStream::wait_for(int block, std::span<Part* const> wanted,
                            std::unique_lock<std::mutex>* lock) {
  const double start_us = clock_us();
  const auto has = [&](State state) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [state](const Part* part) { return part->state == state; });
  };
  if (has(State::kAbsent) || has(State::kFailed)) start_again_at(block, lock);
  ended_.wait(*lock, [&] { return !has(State::kReading); });
  counters_.wait_us += clock_us() - start_us;
  for (const Part* part : wanted) {
    if (part->state != State::kFailed) continue;
    const std::string problem = part->problem;
    forget_block(block);
    throw Error(fmt::format("Block {} of the model cannot be read: {}.", block, problem));
  }
}

void WeightStream::after_blocks(const RowsBeside& rows) {
  if (prompts_ != nullptr) prompts_->after_blocks(rows);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_ < 0) return;
  forget_block(std::exchange(current_, -1));
  read_ahead();
}

void WeightStream::after_pass(const RowsBeside& rows) {
  const auto record = [&](const char* name, const auto& all) {
    for (const auto& reads : all) {
      rows.add(
          {RowsBeside::kReads, name, reads.layer, 0, reads.start_us, reads.end_us, is_prompt_});
    }
  };
  if (neurons_ != nullptr) {
    for (const NeuronStream::LayerReads& reads : neurons_->take_reads()) {
      record(reads.is_ahead ? "neurons ahead" : "neurons", std::span(&reads, 1));
    }
  }
  const char* const of_experts = neurons_ != nullptr ? "gates" : "experts";
  if (experts_ != nullptr) record(of_experts, experts_->take_reads());
}

uint64_t WeightStream::bytes_per_pass() const {
  uint64_t bytes = 0;
  for (const size_t number : order_) bytes += parts_[number]->bytes;
  return bytes;
}

WeightStream::Counters WeightStream::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

std::string WeightStream::text() const {
  if (order_.empty()) return fmt::format("{} of all blocks stay", bytes_text(kept_bytes_));
  return fmt::format("{} of {} are read for each pass while blocks compute; {} at most in memory",
                     bytes_text(bytes_per_pass()), bytes_text(bytes_per_pass() + kept_bytes_),
                     bytes_text(most_bytes()));
}

}  // namespace troika::prepare
