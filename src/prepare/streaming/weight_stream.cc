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
#include "prepare/streaming/model_disk.h"
#include "prepare/streaming/neurons/neuron_stream.h"

namespace troika::prepare {
namespace {

using schedule::RowsBeside;
using weights::Matrix;

// Is the least number of slots: for the block at work and the one that is read meanwhile.
constexpr size_t kLeastSlots = 2;

double clock_us() { return RealClock().now_us(); }

bool contains(std::span<const model::WeightId> ids, model::WeightId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Returns each block's matrices that nothing else reads, and behind the blocks those matrices of no
// block that products read. Tables that are read by rows stay in the map. Where some are named for
// prompts, it returns these alone.
std::vector<std::vector<Matrix>> matrices_of(const model::Blueprint& blueprint,
                                             const weights::Store& weights,
                                             WeightStream::Elsewhere elsewhere,
                                             WeightStream::ForPrompts for_prompts = {}) {
  const int n_blocks = blueprint.n_layers;
  constexpr int kMapped = -1;
  struct Use {
    Matrix matrix;
    int block;
  };
  std::map<const std::byte*, Use>
      uses;  // by the matrix's begin, which differs among fused matrices
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    if (contains(elsewhere, op.weight)) continue;
    if (!for_prompts.empty() && !contains(for_prompts, op.weight)) continue;
    const Matrix& matrix = weights.matrix(op.weight);
    const int block = op.layer != model::kNone ? op.layer : n_blocks;
    const auto [at, is_first] = uses.try_emplace(matrix.data, Use{matrix, block});
    Use& use = at->second;
    if (matrix.bytes() > use.matrix.bytes()) use.matrix = matrix;
    if (use.block != block) use.block = n_blocks;
    if (op.kind == model::OpKind::kEmbed && is_first) use.block = kMapped;
  }
  // The head may also be the table of embeddings. Then it is read as a whole.
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    const auto at = uses.find(weights.matrix(op.weight).data);
    if (at == uses.end()) continue;
    Use& use = at->second;
    if (use.block == kMapped && op.kind != model::OpKind::kEmbed) use.block = n_blocks;
  }
  std::vector<std::vector<Matrix>> matrices(static_cast<size_t>(n_blocks) + 1);
  for (const auto& [place, use] : uses) {
    if (use.block != kMapped) matrices[static_cast<size_t>(use.block)].push_back(use.matrix);
  }
  return matrices;
}

// Returns the memory that matrices take at most. They are read in whole pages.
size_t room_of_all(const std::vector<Matrix>& matrices) {
  size_t bytes = 0;
  for (const Matrix& matrix : matrices) bytes += room_of(matrix.bytes());
  return bytes;
}

// Returns the bytes of all weights that are in none of these matrices.
size_t bytes_beside(const weights::Store& weights, const std::vector<std::vector<Matrix>>& matrices,
                    WeightStream::Elsewhere elsewhere) {
  size_t bytes = weights.total_bytes();
  for (const model::WeightId id : elsewhere) bytes -= std::min(bytes, weights.matrix(id).bytes());
  for (const std::vector<Matrix>& of_block : matrices) {
    for (const Matrix& matrix : of_block) bytes -= std::min(bytes, matrix.bytes());
  }
  return bytes;
}

}  // namespace

size_t WeightStream::least_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                                 Elsewhere elsewhere, ForPrompts for_prompts) {
  const std::vector<std::vector<Matrix>> matrices =
      matrices_of(blueprint, weights, elsewhere, for_prompts);
  size_t largest = 0;
  for (size_t i = 0; i + 1 < matrices.size(); ++i)
    largest = std::max(largest, room_of_all(matrices[i]));
  const size_t beside = for_prompts.empty() ? bytes_beside(weights, matrices, elsewhere) : 0;
  return beside + room_of_all(matrices.back()) + kLeastSlots * largest;
}

size_t WeightStream::whole_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                                 Elsewhere elsewhere) {
  const std::vector<std::vector<Matrix>> matrices = matrices_of(blueprint, weights, elsewhere);
  size_t bytes = bytes_beside(weights, matrices, elsewhere);
  for (const std::vector<Matrix>& of_block : matrices) bytes += room_of_all(of_block);
  return bytes;
}

WeightStream::WeightStream(const model::Blueprint& blueprint, const gguf::File& file,
                           size_t most_bytes, weights::Store* weights, Elsewhere elsewhere,
                           ForPrompts for_prompts, const StripMatrices& strips)
    : file_(file),
      is_for_prompts_(!for_prompts.empty()),
      weights_(*weights),
      n_threads_(strips.n_threads),
      disk_(disk_options(file)),
      read_(disk_.make_read()) {
  find_matrices(blueprint, *weights, file, elsewhere, for_prompts);
  choose_kept(most_bytes);
  choose_strips(strips);
  for (const auto& block : blocks_) place(block.get(), weights);
  // Pages of the file that were read until now are not to stay in the page cache.
  for (const gguf::File::Shard& shard : file.shards()) {
    (void)posix_fadvise(shard.map->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

WeightStream::~WeightStream() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_stopped_ = true;
  ended_.wait(lock, [this] { return n_reading_ == 0; });
}

void WeightStream::find_matrices(const model::Blueprint& blueprint, const weights::Store& weights,
                                 const gguf::File& file, Elsewhere elsewhere,
                                 ForPrompts for_prompts) {
  const std::vector<std::vector<Matrix>> matrices =
      matrices_of(blueprint, weights, elsewhere, for_prompts);
  mapped_bytes_ = is_for_prompts_ ? 0 : bytes_beside(weights, matrices, elsewhere);
  std::map<const std::byte*, StreamedMatrix*> by_begin;  // by the matrix's begin
  for (const std::vector<Matrix>& of_block : matrices) {
    auto block = std::make_unique<Block>();
    block->owner = this;
    block->index = static_cast<int>(blocks_.size());
    block->bytes = room_of_all(of_block);
    for (const Matrix& matrix : of_block) {
      auto streamed = std::make_unique<StreamedMatrix>();
      streamed->block = block.get();
      streamed->from = file_range(file, matrix.data, matrix.bytes());
      by_begin[matrix.data] = streamed.get();
      block->matrices.push_back(std::move(streamed));
    }
    blocks_.push_back(std::move(block));
  }
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    const auto at = by_begin.find(weights.matrix(op.weight).data);
    if (at != by_begin.end() && !contains(at->second->ids, op.weight)) {
      at->second->ids.push_back(op.weight);
    }
  }
}

// Chooses as few blocks as possible to stream, spread evenly among the others, so that the disk
// works all the time while the others compute. Memory that is left over becomes more slots, which
// make up for reads of uneven speed.
void WeightStream::choose_kept(size_t most_bytes) {
  const auto n = static_cast<size_t>(n_blocks());
  size_t largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, blocks_[i]->bytes);
  for (size_t n_streamed = 0; n_streamed <= n; ++n_streamed) {
    order_.clear();
    kept_bytes_ = mapped_bytes_ + blocks_.back()->bytes;
    for (size_t i = 0; i < n; ++i) {
      // A block may have nothing that is streamed here: no matrices of neurons, for one.
      const bool is_streamed =
          !blocks_[i]->matrices.empty() && (i + 1) * n_streamed / n > i * n_streamed / n;
      if (is_streamed) order_.push_back(static_cast<int>(i));
      if (!is_streamed) kept_bytes_ += blocks_[i]->bytes;
    }
    n_shared_ = std::min(kLeastSlots, order_.size());
    if (kept_bytes_ + n_shared_ * largest > most_bytes) continue;
    n_shared_ = std::min((most_bytes - kept_bytes_) / std::max<size_t>(largest, 1), order_.size());
    break;
  }
  shared_bytes_ = n_shared_ * largest;
  TROIKA_ASSERT(kept_bytes_ + shared_bytes_ <= most_bytes);
  for (size_t i = 0; i < order_.size(); ++i) {
    Block& block = *blocks_[static_cast<size_t>(order_[i])];
    block.state = State::kAbsent;
    block.slot = i % n_shared_;
  }
  for (size_t i = 0; i < n_shared_; ++i) slots_.push_back({PageBuffer(largest)});
  for (const auto& block : blocks_) {
    if (block->state != State::kKept) continue;
    block->slot = slots_.size();
    slots_.push_back({PageBuffer(block->bytes)});
  }
}

// Chooses which matrices of kept blocks are brought into strips. Steps read single rows of what is
// there for prompts only.
void WeightStream::choose_strips(const StripMatrices& strips) {
  if (is_for_prompts_) return;
  const std::vector<model::WeightId> chosen = weights_.alone_in_place(strips.ids);
  for (const auto& block : blocks_) {
    if (block->state != State::kKept) continue;
    for (const auto& streamed : block->matrices) {
      const auto is_chosen = [&](model::WeightId id) { return contains(chosen, id); };
      if (!std::all_of(streamed->ids.begin(), streamed->ids.end(), is_chosen)) continue;
      kept_in_strips_.insert(kept_in_strips_.end(), streamed->ids.begin(), streamed->ids.end());
    }
  }
}

// Gives a block its memory. Rows begin as far behind a page there as they do in the file, so that
// reads may be direct.
void WeightStream::place(Block* block, weights::Store* weights) {
  std::byte* to = slots_[block->slot].memory.get();
  for (const auto& streamed : block->matrices) {
    add_page_reads(streamed->from, to, &streamed->reads);
    streamed->to = to + lead_of(streamed->from);
    weights->move(streamed->from.begin, streamed->from.bytes, streamed->to);
    to += room_of(streamed->from.bytes);
  }
}

void WeightStream::begin(Block* block) {
  slots_[block->slot].is_taken = true;
  block->state = State::kReading;
  block->has_failed = false;
  block->n_matrices_left = block->matrices.size();
  block->start_us = clock_us();
  if (n_reading_++ == 0) read_start_us_ = block->start_us;
  for (const auto& streamed : block->matrices) {
    lanes::Run run;
    run.reads = streamed->reads;
    disk_.submit(*read_, run, *streamed);
  }
}

void WeightStream::end(StreamedMatrix* streamed, lanes::Status status) {
  Block* const block = streamed->block;
  if (disk_.n_cached_reads() > 0) forget_cached(file_, streamed->from);
  const std::lock_guard<std::mutex> lock(mutex_);
  block->has_failed |= status != lanes::Status::kDone;
  if (--block->n_matrices_left > 0) return;
  block->end_us = clock_us();
  // Others may be under way, so that there is never a moment without reads.
  counters_.read_us += block->end_us - read_start_us_;
  read_start_us_ = block->end_us;
  --n_reading_;
  block->state = block->has_failed ? State::kFailed : State::kReady;
  ++counters_.n_blocks;
  counters_.read_bytes += block->bytes;
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
    Block& block = *blocks_[static_cast<size_t>(order_[next_])];
    if (block.state != State::kAbsent || slots_[block.slot].is_taken) return;
    begin(&block);
    next_ = (next_ + 1) % order_.size();
    if (n_left_ > 0) --n_left_;
  }
}

void WeightStream::forget(Block* block) {
  slots_[block->slot].is_taken = false;
  block->state = State::kAbsent;
}

// Begins to read at another block, as a pass did not go on where the one before it ended. Blocks
// that were read ahead make room.
void WeightStream::start_again_at(int block, std::unique_lock<std::mutex>* lock) {
  next_ = static_cast<size_t>(std::find(order_.begin(), order_.end(), block) - order_.begin());
  n_left_ = order_.size() - next_;
  is_stopped_ = true;
  ended_.wait(*lock, [this] { return n_reading_ == 0; });
  for (const int other : order_) {
    Block& held = *blocks_[static_cast<size_t>(other)];
    if (held.state != State::kAbsent) forget(&held);
  }
  is_stopped_ = false;
  read_ahead();
}

void WeightStream::load_kept(const ProgressFunction& progress) {
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t n_done = 0;
  for (const auto& block : blocks_) {
    if (block->state != State::kKept) continue;
    if (progress) progress(n_done, kept_bytes_);
    if (block->matrices.empty()) continue;
    begin(block.get());
    ended_.wait(lock, [this] { return n_reading_ == 0; });
    if (block->state != State::kReady) {
      throw Error(fmt::format("The weights cannot be read: {}.", disk_.problem()));
    }
    n_done += block->bytes;
    block->state = State::kKept;
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
  if (current_ >= 0 && current_ != block) {
    Block& before = *blocks_[static_cast<size_t>(current_)];
    if (before.state != State::kKept) forget(&before);
  }
  current_ = -1;
  Block& wanted = *blocks_[static_cast<size_t>(block)];
  if (wanted.state == State::kKept) {
    read_ahead();
    return;
  }
  read_ahead();
  const double start_us = clock_us();
  if (wanted.state == State::kAbsent) start_again_at(block, &lock);
  ended_.wait(lock, [&] { return wanted.state != State::kReading; });
  counters_.wait_us += clock_us() - start_us;
  if (wanted.state == State::kFailed) {
    forget(&wanted);
    throw Error(fmt::format("Block {} of the model cannot be read: {}.", block, disk_.problem()));
  }
  current_ = block;
  // The disk is one row: blocks that are asked for together come one after the other.
  const double from_us = std::min(std::max(wanted.start_us, traced_until_us_), wanted.end_us);
  // Prompts read no single neurons, whose row is then free.
  const auto row = is_for_prompts_ ? RowsBeside::kReads : RowsBeside::kBlocks;
  rows.add({row, "read", block, 0, from_us, wanted.end_us, is_prompt_});
  traced_until_us_ = std::max(traced_until_us_, wanted.end_us);
}

void WeightStream::after_blocks(const RowsBeside& rows) {
  if (prompts_ != nullptr) prompts_->after_blocks(rows);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_ < 0) return;
  forget(blocks_[static_cast<size_t>(std::exchange(current_, -1))].get());
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
  if (experts_ != nullptr) record("experts", experts_->take_reads());
}

uint64_t WeightStream::bytes_per_pass() const {
  uint64_t bytes = 0;
  for (const int block : order_) bytes += blocks_[static_cast<size_t>(block)]->bytes;
  return bytes;
}

WeightStream::Counters WeightStream::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

std::string WeightStream::text() const {
  if (order_.empty()) return fmt::format("{} of all blocks stay", bytes_text(kept_bytes_));
  return fmt::format(
      "{} of {} blocks are read while the others compute, {} for each pass; {} at most in memory",
      n_streamed(), n_blocks(), bytes_text(bytes_per_pass()), bytes_text(most_bytes()));
}

}  // namespace troika::prepare
