#include "prepare/layouts/layout_loader.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "prepare/streaming/awaited_read.h"
#include "prepare/streaming/model_disk.h"
#include "schedule/plan_switch.h"

namespace troika::prepare {
namespace {

using schedule::BlockLoad;
using schedule::Layout;
using schedule::RowsBeside;
using weights::BlockCopy;

double now_us() { return RealClock().now_us(); }

}  // namespace

bool apply_layouts(const Options& options, plan::Plan* plan) {
  if (!options.memory.layouts || !is_here(options)) return false;
  const Layouts layouts = *options.memory.layouts;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("‹layouts› {}: {}", layouts_name(layouts), why));
  };
  // Options of prompts and lanes do nothing beside a plan from a file.
  const auto advice = [&](const char* about_options, const char* about_plan) {
    return options.plan.file.empty() ? about_options : about_plan;
  };
  if (layouts == Layouts::kBlocks) {
    plan->packed_bytes = 0;
    return false;
  }
  if (layouts == Layouts::kSwitch && plan->ffn.is_by_neuron()) {
    refuse(
        fmt::format("the plan computes feed-forward blocks {}, which needs the rows of the file, "
                    "and they come and go. Add ‹ffn› by-output, or leave ‹layouts› out.",
                    plan::ffn_form_name(plan->ffn.form)));
  }
  if (plan->prefill != plan::Prefill::kInt8) {
    refuse(
        fmt::format("prompts in {} have no layout of their own, they read the file's blocks. "
                    "{}",
                    plan::prefill_name(plan->prefill),
                    advice("Add ‹prefill› int8.",
                           "Give a ‹plan› of prompts in int8, or leave ‹layouts› out.")));
  }
  if (layouts == Layouts::kBoth) {
    plan->packed_bytes = std::numeric_limits<int64_t>::max();
    return false;
  }
  plan->packed_bytes = 0;
  if (plan->int8.method == plan::Int8Method::kGroup ||
      plan->int8.weight_scales != plan::WeightScales::kRow ||
      plan->int8.method == plan::Int8Method::kSmooth) {
    refuse(std::string("blocks that have changed are unpacked to what the panels held, which needs "
                       "int8 weights with a scale for each row and no more. ") +
           advice("Leave ‹int8-weights›, ‹int8› smooth and ‹int8› group out.",
                  "Give a ‹plan› without other scales, or leave ‹layouts› out."));
  }
  if (plan->lanes.size() > 1) {
    refuse(std::string("with several lanes chunks of a prompt stand at different blocks, and each "
                       "block would need both layouts. ") +
           advice("Use one lane.", "Give a ‹plan› of one lane, or leave ‹layouts› out."));
  }
  if (options.memory.load == Load::kCopy) {
    refuse("‹load› copy keeps the whole file in memory, which is the second copy. Leave it out.");
  }
  return true;
}

LayoutLoader::LayoutLoader(const gguf::File& file, weights::SwitchedBlocks& blocks, int n_threads,
                           const DiskWay& way)
    : file_(file),
      blocks_(blocks),
      n_threads_(n_threads),
      switch_(std::vector<schedule::BlockTimes>(static_cast<size_t>(blocks.n_blocks())),
              Layout::kPrompt),
      learned_(static_cast<size_t>(blocks.n_blocks())),
      disk_(disk_options(file, way)),
      read_(disk_.make_read()),
      thread_([this] { work(); }) {}

LayoutLoader::~LayoutLoader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LayoutLoader::read_rows(int block, Made* made) {
  std::vector<weights::FileRead> wanted;
  std::unique_ptr<BlockCopy> copy = blocks_.begin_rows(block, &wanted);
  std::vector<lanes::ReadRequest> reads;
  for (const weights::FileRead& read : wanted) {
    reads.push_back({read.shard, read.offset, read.bytes, read.to});
    made->read_bytes += read.bytes;
  }
  lanes::Run run;
  run.reads = reads;
  const uint64_t n_direct = disk_.n_direct_reads();
  AwaitedRead end;
  disk_.submit(*read_, run, end);
  if (end.wait() != lanes::Status::kDone) {
    throw Error(
        fmt::format("Block {} cannot change to the layout of steps: {}.", block, disk_.problem()));
  }
  const uint64_t n_direct_now = disk_.n_direct_reads() - n_direct;
  if (n_direct_now < reads.size()) {
    // What came through the page cache must not stay there.
    made->n_buffered_reads += reads.size() - n_direct_now;
    for (const weights::FileRead& read : wanted) {
      const MappedFile& map = *file_.shards()[static_cast<size_t>(read.shard)].map;
      (void)posix_fadvise(map.descriptor(), static_cast<off_t>(read.offset),
                          static_cast<off_t>(read.bytes), POSIX_FADV_DONTNEED);
    }
  }
  made->copy = std::move(copy);
}

void LayoutLoader::load_all(const ProgressFunction& progress) {
  Team team(n_threads_);
  const int n_blocks = blocks_.n_blocks();
  for (int block = 0; block < n_blocks; ++block) {
    if (progress) progress(static_cast<uint64_t>(block), static_cast<uint64_t>(n_blocks));
    Learned& learned = learned_[static_cast<size_t>(block)];
    const double start = now_us();
    Made rows;
    read_rows(block, &rows);
    learned.load_us = now_us() - start;
    blocks_.measure(*rows.copy, team);
    const double place_start = now_us();
    blocks_.place_in_strips(rows.copy.get(), team);
    learned.load_us += (now_us() - place_start) * n_threads_;  // later one thread does it alone
    const double unpack_start = now_us();
    blocks_.unpack(*rows.copy, team);
    const double pack_start = now_us();
    blocks_.use(blocks_.make_panels(*rows.copy, team));
    learned.unpack_us = pack_start - unpack_start;
    // Later one thread does it alone.
    learned.load_back_us = (now_us() - pack_start) * n_threads_;
  }
  if (progress) progress(static_cast<uint64_t>(n_blocks), static_cast<uint64_t>(n_blocks));
}

std::vector<schedule::BlockTimes> LayoutLoader::times(int n_tokens) const {
  std::vector<schedule::BlockTimes> times;
  for (const Learned& learned : learned_) {
    const double prompt_us = learned.us_per_token * n_tokens;
    times.push_back(
        {prompt_us, prompt_us + learned.unpack_us, learned.load_back_us, learned.load_us});
  }
  return times;
}

void LayoutLoader::plan_prompt(int n_tokens, int chunk, bool is_first) {
  problem_.clear();
  const int n_chunks = (n_tokens + chunk - 1) / chunk;
  if (n_chunks == 0) return;
  if (!is_first && (was_planned_by_profile_ || forced_)) return;
  if (forced_) {
    switch_.expect(times(chunk));
    switch_.follow(*forced_);
    return;
  }
  was_planned_by_profile_ =
      std::all_of(learned_.begin(), learned_.end(),
                  [](const Learned& learned) { return learned.us_per_token > 0.0; });
  if (was_planned_by_profile_) {
    const std::vector<schedule::BlockTimes> expected = times(std::min(n_tokens, chunk));
    switch_.expect(expected);
    switch_.follow(schedule::plan_switch(expected, switch_.layouts(), n_chunks));
  } else {
    // The first chunk of all shows how long chunks take. A single chunk cannot wait for that.
    switch_.follow({0, n_chunks > 1 ? blocks_.n_blocks() : 0});
  }
}

void LayoutLoader::before_block(int block, plan::Phase phase, int n_tokens,
                                const RowsBeside& rows) {
  note_block_end(rows);
  is_prompt_ = phase == plan::Phase::kPrompt;
  if (has_ended_.load(std::memory_order_acquire)) take_ended(rows);
  if (is_prompt_) {
    if (const auto load = switch_.before_block(block)) {
      if (problem_.empty()) {
        begin(*load);
      } else {
        switch_.failed();
      }
    }
  } else {
    bring_into_step_layout(block, rows);
  }
  block_ = block;
  n_tokens_ = n_tokens;
  layout_ = switch_.layout(block);
  block_start_us_ = now_us();
}

// Waits until a block is in the layout of steps. A load that an earlier pass began may fail; one
// that this pass begins may not.
void LayoutLoader::bring_into_step_layout(int block, const RowsBeside& rows) {
  bool is_own = false;
  while (true) {
    if (const auto load = switch_.before_step(block)) {
      begin(*load);
      is_own = true;
    }
    if (switch_.layout(block) == Layout::kStep) return;
    wait_for_load(rows);
    if (is_own && !problem_.empty()) throw Error(std::exchange(problem_, ""));
  }
}

void LayoutLoader::after_blocks(const RowsBeside& rows) { note_block_end(rows); }

// Learns from what a chunk took in a block, for the plans of later prompts.
void LayoutLoader::note_block_end(const RowsBeside& rows) {
  if (block_ < 0) return;
  // The block ends here whether or not there is memory for its row: else the next pass would end
  // it.
  const int block = std::exchange(block_, -1);
  const double end_us = now_us();
  const double us = end_us - block_start_us_;
  Learned& learned = learned_[static_cast<size_t>(block)];
  rows.add({RowsBeside::kBlocks, layout_ == Layout::kPrompt ? "panels" : "blocks", block, n_tokens_,
            block_start_us_, end_us, is_prompt_});
  if (!is_prompt_) return;
  const double product_us = layout_ == Layout::kStep ? us - learned.unpack_us : us;
  // What unpacking takes is an estimate that may be too long, so at least half of the measured time
  // counts as that of products.
  learned.us_per_token = std::max(product_us, 0.5 * us) / n_tokens_;
}

void LayoutLoader::begin(const BlockLoad& load) {
  problem_.clear();
  auto job = std::make_unique<Job>();
  *job = {load, blocks_.in_use(load.block)};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TROIKA_ASSERT(job_ == nullptr);
    job_ = std::move(job);
  }
  wake_.notify_one();
}

void LayoutLoader::wait_for_load(const RowsBeside& rows) {
  const double start = now_us();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_.load(); });
  }
  counters_.wait_us += now_us() - start;
  take_ended(rows);
}

// Puts the loaded copy in place of the block's own, which the other thread gives back, or notes why
// there is none.
void LayoutLoader::take_ended(const RowsBeside& rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_ended_.store(false);
  Made made = std::move(made_);
  const BlockLoad load = *switch_.loading();
  if (made.copy == nullptr) {
    switch_.failed();
    problem_ = std::move(made.problem);
    return;
  }
  const bool is_back = load.into == Layout::kPrompt;
  Learned& learned = learned_[static_cast<size_t>(load.block)];
  (is_back ? learned.load_back_us : learned.load_us) = made.end_us - made.start_us;
  counters_.load_us += made.end_us - made.start_us;
  counters_.read_bytes += made.read_bytes;
  counters_.n_buffered_reads += made.n_buffered_reads;
  rows.add({RowsBeside::kReads, is_back ? "load back" : "load", load.block, 0, made.start_us,
            made.end_us, is_prompt_});
  if (is_back && !is_prompt_) {
    // A step has overtaken the load, and could not read the panels that it brings.
    old_ = std::move(made.copy);
    switch_.failed();
  } else {
    ++(is_back ? counters_.n_loads_back : counters_.n_loads);
    old_ = blocks_.use(std::move(made.copy));
    switch_.loaded();
  }
  wake_.notify_one();
}

LayoutLoader::Made LayoutLoader::make(const Job& job) {
  Made made;
  made.start_us = now_us();
  Team alone(1);
  try {
    if (job.load.into == Layout::kStep) {
      read_rows(job.load.block, &made);
      blocks_.place_in_strips(made.copy.get(), alone);
    } else {
      made.copy = blocks_.make_panels(*job.from, alone);
    }
  } catch (const std::exception& error) {
    made.problem = error.what();
    made.copy.reset();  // some of its matrices may be in the new order, and others not
  }
  made.end_us = now_us();
  return made;
}

void LayoutLoader::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || job_ != nullptr || old_ != nullptr; });
    if (stop_) return;
    std::unique_ptr<BlockCopy> old = std::move(old_);
    const std::unique_ptr<Job> job = std::move(job_);
    lock.unlock();
    old.reset();
    Made made;
    if (job != nullptr) made = make(*job);
    lock.lock();
    if (job == nullptr) continue;
    made_ = std::move(made);
    has_ended_.store(true, std::memory_order_release);
    ended_.notify_one();
  }
}

}  // namespace troika::prepare
