#include "machines/phone_prompts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "schedule/plan_switch.h"

namespace troika::machines {
namespace {

using schedule::Layout;
using schedule::RowsBeside;

constexpr uint64_t kFirstRead = 512 << 10;

// Makes a pass of a block's tasks, which stand together in the list.
schedule::Pass pass_of_block(const schedule::TaskList& list, int block) {
  const auto is_of = [&](const schedule::Task& task) { return task.block == block; };
  const auto begin = std::find_if(list.tasks.begin(), list.tasks.end(), is_of);
  const auto end = std::find_if_not(begin, list.tasks.end(), is_of);
  return schedule::pass_of({begin, end}, static_cast<int>(begin - list.tasks.begin()));
}

// Returns how many bytes the products of a block have, those of all experts among them: which
// experts a token takes is not known when graphs are loaded.
uint64_t block_bytes(const model::Blueprint& blueprint, const weights::Store& weights) {
  uint64_t bytes = 0;
  for (const model::Op& op : blueprint.ops) {
    const bool is_product =
        op.kind == model::OpKind::kLinear || op.kind == model::OpKind::kExpertLinear;
    if (is_product && op.layer == 0) bytes += weights.matrix(op.weight).bytes();
  }
  return bytes;
}

}  // namespace

PhonePrompts::PhonePrompts(const schedule::Graphs& graphs, const model::Blueprint& blueprint,
                           const weights::Store& weights, lanes::VirtualPhone& phone)
    : graphs_(graphs), phone_(phone), n_blocks_(blueprint.n_layers) {
  if (phone.options().part_rows == 0) return;
  layouts_.emplace(std::vector<schedule::BlockTimes>(static_cast<size_t>(n_blocks_)));
  phone.blocks_in_parts().assign(static_cast<size_t>(n_blocks_), 0);
  // Everything but its beginning is read in a row.
  const uint64_t bytes = block_bytes(blueprint, weights);
  const uint64_t n_first = std::min(bytes, kFirstRead);
  reads_ = {{{0, 0, n_first, nullptr}, {0, n_first, bytes - n_first, nullptr}}};
  create_us_ = kUsPerMs * phone.model().stack().graph.create_ms / static_cast<double>(n_blocks_);
  load_task_ = phone.flash()->make_read(create_us_);
}

double PhonePrompts::block_load_us() const { return create_us_ + phone_.flash()->read_us(reads_); }

// Returns what a chunk in the middle of the prompt takes in each block, on a phone of the same kind
// where nothing else goes on.
std::vector<schedule::BlockTimes> PhonePrompts::profile(int n_tokens, int chunk) const {
  lanes::VirtualPhone twin(phone_.model(), phone_.options(), nullptr);
  twin.blocks_in_parts().assign(phone_.blocks_in_parts().size(), 0);
  schedule::Runner runner(twin);
  const int n_rows = std::min(chunk, n_tokens);
  const auto n_past = static_cast<size_t>((n_tokens - n_rows) / 2);
  // The time depends on how many positions a row sees, not on which ones.
  const std::vector<cache::Slot> slots(n_past + static_cast<size_t>(n_rows));
  std::vector<cache::VisibleSlots> visible;
  for (size_t i = 0; i < static_cast<size_t>(n_rows); ++i) {
    visible.push_back({std::span(slots).first(n_past), std::span(slots).first(i + 1)});
  }
  lanes::Run run;
  run.phase = plan::Phase::kPrompt;
  run.n_tokens = n_rows;
  run.visible = visible;
  const schedule::TaskList& tasks = graphs_.body(plan::Phase::kPrompt, n_rows);
  const double load_us = block_load_us();
  std::vector<schedule::BlockTimes> times;
  for (int block = 0; block < layouts_->n_blocks(); ++block) {
    const schedule::Pass pass = pass_of_block(tasks, block);
    const auto us = [&](bool is_in_parts) {
      twin.blocks_in_parts()[static_cast<size_t>(block)] = is_in_parts ? 1 : 0;
      const double start_us = twin.clock().now_us();
      runner.run(pass, run);
      return twin.clock().now_us() - start_us;
    };
    const double whole_us = us(false);
    times.push_back({whole_us, us(true), load_us, load_us});
  }
  return times;
}

void PhonePrompts::plan_prompt(int n_tokens, int chunk, bool is_first) {
  if (!is_first || n_tokens == 0) return;
  const std::vector<schedule::BlockTimes> times = profile(n_tokens, chunk);
  layouts_->expect(times);
  const int n_chunks = (n_tokens + chunk - 1) / chunk;
  layouts_->follow(schedule::plan_switch(times, layouts_->layouts(), n_chunks));
}

void PhonePrompts::before_block(int block, plan::Phase phase, int n_tokens,
                                const RowsBeside& rows) {
  note_block_end(rows);
  take_ended(rows);
  is_prompt_ = phase == plan::Phase::kPrompt;
  if (is_prompt_) {
    if (const auto load = layouts_->before_block(block)) begin(*load);
  }
  block_ = block;
  n_tokens_ = n_tokens;
  layout_ = layouts_->layout(block);
  block_start_us_ = phone_.clock().now_us();
}

void PhonePrompts::note_block_end(const RowsBeside& rows) {
  if (block_ < 0) return;
  // The block ends here whether or not there is memory for its row: else the next pass would end
  // it.
  const int block = std::exchange(block_, -1);
  rows.add({RowsBeside::kBlocks, layout_ == Layout::kPrompt ? "panels" : "blocks", block, n_tokens_,
            block_start_us_, phone_.clock().now_us(), is_prompt_});
}

void PhonePrompts::begin(const schedule::BlockLoad&) {
  load_latch_.close();
  load_start_us_ = phone_.clock().now_us();
  lanes::Run run;
  run.reads = reads_;
  phone_.flash()->submit(*load_task_, run, *this);
}

// A block that is being computed ends as it began: the loaded graphs count from the next block on.
void PhonePrompts::finished(lanes::Status status) {
  TROIKA_ASSERT(status == lanes::Status::kDone);
  load_end_us_ = phone_.clock().now_us();
  load_latch_.open();
}

void PhonePrompts::take_ended(const RowsBeside& rows) {
  if (!layouts_->loading() || !load_latch_.is_open()) return;
  const schedule::BlockLoad load = *layouts_->loading();
  const bool is_back = load.into == Layout::kPrompt;
  ++(is_back ? counters_.n_loads_back : counters_.n_loads);
  counters_.load_us += load_end_us_ - load_start_us_;
  rows.add({RowsBeside::kReads, is_back ? "load back" : "load", load.block, 0, load_start_us_,
            load_end_us_, /*is_prompt=*/true});
  layouts_->loaded();
  phone_.blocks_in_parts()[static_cast<size_t>(load.block)] = is_back ? 0 : 1;
}

int PhonePrompts::n_switched() const {
  return static_cast<int>(
      std::count(layouts_->layouts().begin(), layouts_->layouts().end(), Layout::kStep));
}

void PhonePrompts::assume(Layout layout) {
  if (!has_layouts()) return;
  TROIKA_ASSERT(!layouts_->loading());
  // The times are copied, because the old ones end before the new object begins.
  const std::vector<schedule::BlockTimes> times = layouts_->times();
  layouts_.emplace(times, layout);
  std::fill(phone_.blocks_in_parts().begin(), phone_.blocks_in_parts().end(),
            layout == Layout::kStep ? 1 : 0);
}

void PhonePrompts::calibrate(int n_positions) {
  const lanes::CostModel& model = phone_.model();
  const double ms = model.stack().draft.calibrate_ms_per_token / model.used_cores().count();
  phone_.add_background(kUsPerMs * ms * n_positions);
}

void PhonePrompts::finish(const RowsBeside& rows) {
  const double start_us = phone_.clock().now_us();
  if (has_layouts()) take_ended(rows);
  for (int block = 0; has_layouts() && block < layouts_->n_blocks(); ++block) {
    while (layouts_->layout(block) != Layout::kStep) {
      if (const auto load = layouts_->before_step(block)) begin(*load);
      phone_.wait(load_latch_);
      take_ended(rows);
    }
  }
  counters_.wait_us += phone_.clock().now_us() - start_us;
  phone_.finish_background();
}

}  // namespace troika::machines
