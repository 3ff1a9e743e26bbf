#include "machines/phone_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace troika::machines {
namespace {

constexpr int kChunks[] = {32, 64, 128, 256, 512};  // the chunk lengths that are tried (N1)
constexpr int kSmallShapes[] = {1, 8};
constexpr int kSubChunk = 32;  // rows of a sub-chunk, where a block has graphs of steps only (D1)
constexpr int kMostOutputs = 32;  // rows of the widest head

// Returns the mean time of a prompt in chunks of one length, the last of them padded, over all
// prompts of up to `longest` tokens. Long chunks use a processor well; short ones waste less of the
// last chunk.
double mean_prompt_us(const solve::ShapeChoice& chunk, int longest) {
  const double n_whole = longest / chunk.shape.n_rows;
  const double rest = longest % chunk.shape.n_rows;
  const double n_chunks = chunk.shape.n_rows * n_whole * (n_whole + 1) / 2 + rest * (n_whole + 1);
  return chunk.us * n_chunks / longest;
}

std::vector<int> checked_shapes(const std::vector<int>& shapes) {
  constexpr int kMostTokens = 1 << 16;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const int before = i == 0 ? 0 : shapes[i - 1];
    if (shapes[i] > before && shapes[i] <= kMostTokens) continue;
    throw UsageError(fmt::format(
        "‹prompt-shapes› must be token counts in ascending order, each of them 1 to {}; {} stands "
        "behind {}.",
        kMostTokens, shapes[i], before));
  }
  return shapes;
}

// Leaves the shapes below a chunk, and the first one in any case: steps need one.
void leave_below(int chunk, std::vector<int>* shapes) {
  shapes->erase(
      std::remove_if(shapes->begin() + 1, shapes->end(), [&](int n) { return n >= chunk; }),
      shapes->end());
}

}  // namespace

int best_chunk(const solve::PlacementChoice& choice, const plan::Plan& plan) {
  const solve::ShapeChoice* best = nullptr;
  for (const solve::ShapeChoice& phase : choice.shapes) {
    if (phase.shape.phase == plan::Phase::kStep) continue;
    if (best == nullptr ||
        mean_prompt_us(phase, plan.context) < mean_prompt_us(*best, plan.context)) {
      best = &phase;
    }
  }
  // Where steps have the shape of the only chunk, it is placed as a step.
  return best == nullptr ? plan.chunk() : best->shape.n_rows;
}

void set_phone_shapes(const prepare::Options& options, plan::Plan* to) {
  plan::Plan& plan = *to;
  plan.step_shapes.assign(std::begin(kSmallShapes), std::end(kSmallShapes));
  if (options.memory.layouts) plan.step_shapes.push_back(kSubChunk);
  plan.output_shapes = {1, 8, 32};
  if (!options.phone.small_shapes.empty()) {
    plan.step_shapes = options.phone.small_shapes;
    plan.output_shapes = options.phone.small_shapes;
    std::erase_if(plan.output_shapes, [](int n) { return n > kMostOutputs; });
    if (plan.output_shapes.empty()) plan.output_shapes.push_back(kMostOutputs);
  }
  plan.prompt_shapes = checked_shapes(options.phone.prompt_shapes);
  if (!plan.prompt_shapes.empty()) {
    leave_below(plan.chunk(), &plan.step_shapes);
  } else if (options.prompts.chunk > 0) {
    leave_below(options.prompts.chunk, &plan.step_shapes);
    plan.prompt_shapes.push_back(options.prompts.chunk);
  } else {
    // A chunk of which even the longest prompt fills half or less is not worth a try, but there
    // must be one.
    for (const int n : kChunks) {
      if (n == kChunks[0] || n / 2 < plan.context) plan.prompt_shapes.push_back(n);
    }
  }
}

}  // namespace troika::machines
