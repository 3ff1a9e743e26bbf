#include "papers/phone_passes.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace troika::papers {
namespace {

constexpr double kUsPerS = 1e6;
constexpr int kBlocksRow = 0, kFlashRow = 1;

// The tasks of a block stand together.
schedule::Pass pass_of_block(const schedule::TaskList& list, int block) {
  const auto is_of = [&](const schedule::Task& task) { return task.block == block; };
  const auto begin = std::find_if(list.tasks.begin(), list.tasks.end(), is_of);
  const auto end = std::find_if_not(begin, list.tasks.end(), is_of);
  return schedule::pass_of({begin, end}, static_cast<int>(begin - list.tasks.begin()));
}

}  // namespace

PhonePasses::PhonePasses(engine::Engine& engine, engine::Engine* prompts)
    : engine_(engine),
      prompts_(prompts),
      n_blocks_(engine.blueprint().n_layers),
      slots_(static_cast<size_t>(engine.plan().context)),
      visible_(static_cast<size_t>(engine.plan().chunk())) {
  TROIKA_ASSERT(engine.phone() != nullptr && !engine.has_values());
  if (prompts == nullptr) return;
  TROIKA_ASSERT(prompts->phone() != nullptr && !prompts->has_values());
  visible_.resize(static_cast<size_t>(std::max(prompts->plan().chunk(), engine.plan().chunk())));
}

engine::Engine& PhonePasses::engine_of(int shape) {
  const bool is_prompt = prompts_ != nullptr && shape == prompts_->plan().chunk();
  return is_prompt ? *prompts_ : engine_;
}

double PhonePasses::now_us() const {
  const double us = engine_.phone()->clock().now_us();
  return prompts_ == nullptr ? us : us + prompts_->phone()->clock().now_us();
}

template <typename Run>
PhoneCost PhonePasses::timed(const Run& run) {
  const double start_us = now_us();
  std::vector<std::pair<const lanes::VirtualPhone*, lanes::PhoneUse>> phones;
  for (const engine::Engine* engine : {&engine_, prompts_}) {
    if (engine != nullptr) phones.emplace_back(engine->phone(), engine->phone()->use());
  }
  run();
  PhoneCost cost{(now_us() - start_us) / kUsPerS, 0.0};
  for (const auto& [phone, start] : phones) {
    const lanes::PhoneUse end = phone->use();
    cost.joules += phone->energy_j(start, end);
    cost.cpu_busy_s += phone->busy_us(lanes::Processor::kCpu, start, end) / kUsPerS;
  }
  return cost;
}

// Time goes by how many positions a row sees, not by which.
lanes::Run PhonePasses::rows(int n_rows, int n_past) {
  TROIKA_ASSERT(n_past + n_rows <= static_cast<int>(slots_.size()));
  const std::span<const cache::Slot> slots(slots_);
  for (int i = 0; i < n_rows; ++i) {
    visible_[static_cast<size_t>(i)] = {slots.first(static_cast<size_t>(n_past)),
                                        slots.first(static_cast<size_t>(i) + 1)};
  }
  lanes::Run run;
  run.n_tokens = n_rows;
  run.visible = std::span<const cache::VisibleSlots>(visible_).first(static_cast<size_t>(n_rows));
  return run;
}

void PhonePasses::run_block(int shape, int block, int n_rows, int n_past) {
  engine::Engine& engine = engine_of(shape);
  engine.passes().runner.run(
      pass_of_block(engine.graphs().body(plan::Phase::kPrompt, shape), block),
      rows(n_rows, n_past));
}

void PhonePasses::run_block_in_layout(schedule::Layout layout, int prompt_shape, int step_shape,
                                      int block, int n_rows, int n_past) {
  if (layout == schedule::Layout::kPrompt) {
    run_block(prompt_shape, block, n_rows, n_past);
    return;
  }
  for (int done = 0; done < n_rows; done += step_shape) {
    run_block(step_shape, block, std::min(step_shape, n_rows - done), n_past + done);
  }
}

void PhonePasses::run_head(int n_rows) {
  const int widest = engine_.plan().output_shapes.back();
  for (int done = 0; done < n_rows; done += widest) {
    const int n = std::min(widest, n_rows - done);
    lanes::Run run = rows(n, 0);
    run.n_outputs = n;
    engine_.passes().runner.run(engine_.graphs().head(n).pass, run);
  }
}

PhoneCost PhonePasses::prompt(int n_tokens, int shape) {
  return timed([&] {
    for (int done = 0; done < n_tokens; done += shape) {
      for (int block = -1; block < n_blocks_; ++block) {
        run_block(shape, block, std::min(shape, n_tokens - done), done);
      }
    }
    run_head(1);
  });
}

PhoneCost PhonePasses::pass(int n_rows, int n_past) {
  return timed([&] {
    for (int block = -1; block < n_blocks_; ++block) run_block(n_rows, block, n_rows, n_past);
    run_head(n_rows);
  });
}

PhoneCost PhonePasses::block_and_head(int n_rows, int n_past) {
  return timed([&] {
    run_block(n_rows, 0, n_rows, n_past);
    run_head(n_rows);
  });
}

double PhonePasses::block_load_us() const {
  const model::Blueprint& blueprint = engine_.blueprint();
  double bytes = 0.0;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear || op.layer != 0) continue;
    const weights::Matrix& matrix = engine_.weights().matrix(op.weight);
    bytes += static_cast<double>(matrix.row_bytes) * static_cast<double>(matrix.n_rows);
  }
  lanes::FlashRead read;
  read.request_bytes = static_cast<int64_t>(bytes);
  read.is_sequential = true;
  const lanes::CostModel& model = engine_.phone()->model();
  return model.flash_us(read) +
         1e3 * model.stack().graph.create_ms / static_cast<double>(n_blocks_);
}

std::vector<schedule::BlockTimes> PhonePasses::profile(int n_tokens, int prompt_shape,
                                                       int step_shape) {
  std::vector<schedule::BlockTimes> times;
  const int n_rows = std::min(prompt_shape, n_tokens);
  const int n_past = (n_tokens - n_rows) / 2;
  const double load_us = block_load_us();
  for (int block = 0; block < n_blocks_; ++block) {
    const auto us = [&](schedule::Layout layout) {
      return kUsPerS *
             timed([&] {
               run_block_in_layout(layout, prompt_shape, step_shape, block, n_rows, n_past);
             }).seconds;
    };
    times.push_back({us(schedule::Layout::kPrompt), us(schedule::Layout::kStep), load_us, load_us});
  }
  return times;
}

SwitchedPrompt PhonePasses::switched_prompt(int n_tokens, int prompt_shape, int step_shape,
                                            schedule::LayoutSwitch* layouts, Trace* trace) {
  SwitchedPrompt result;
  const double start_us = now_us();
  double load_end_us = 0.0;
  // Flash shares no bus with the lanes, so that a load is a moment at which it will have ended.
  const auto look = [&] {
    if (!layouts->loading() || now_us() < load_end_us) return;
    layouts->loaded();
    result.switched_s = (load_end_us - start_us) / kUsPerS;
  };
  const auto add = [&](int row, const char* name, int block, int n, double from_us, double to_us) {
    if (trace == nullptr) return;
    trace->add({row, name, block, n, from_us - start_us, to_us - start_us, /*is_prompt=*/true});
  };
  for (int done = 0; done < n_tokens; done += prompt_shape) {
    result.chunks.push_back(timed([&] {
      const int n_rows = std::min(prompt_shape, n_tokens - done);
      run_block(prompt_shape, -1, n_rows, done);
      for (int block = 0; block < n_blocks_; ++block) {
        look();
        const double begin_us = now_us();
        if (const auto load = layouts->before_block(block)) {
          const schedule::BlockTimes& times = layouts->times()[static_cast<size_t>(load->block)];
          load_end_us = begin_us + times.load_us(load->into);
          add(kFlashRow, load->into == schedule::Layout::kStep ? "load" : "load back", load->block,
              0, begin_us, load_end_us);
        }
        const schedule::Layout layout = layouts->layout(block);
        run_block_in_layout(layout, prompt_shape, step_shape, block, n_rows, done);
        add(kBlocksRow, layout == schedule::Layout::kPrompt ? "panels" : "blocks", block, n_rows,
            begin_us, now_us());
      }
      look();
    }));
    result.cost += result.chunks.back();
  }
  result.cost += timed([&] { run_head(1); });
  result.n_switched = static_cast<int>(
      std::count(layouts->layouts().begin(), layouts->layouts().end(), schedule::Layout::kStep));
  return result;
}

}  // namespace troika::papers
