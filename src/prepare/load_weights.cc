#include "prepare/load_weights.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "prepare/hot_neurons.h"
#include "prepare/int8/outlier_channels.h"
#include "prepare/layouts/weight_strips.h"
#include "prepare/memory.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "prepare/streaming/page_reads.h"
#include "prepare/streaming/stream_weights.h"
#include "weights/content_key.h"

namespace troika::prepare {
namespace {

std::unique_ptr<LayoutLoader> make_layouts(const Options& options,
                                           const model::Blueprint& blueprint,
                                           const gguf::File& file, const kernels::Table& kernels,
                                           const plan::Plan& plan, weights::Store* weights) {
  std::vector<model::WeightId> in_strips;
  if (options.memory.load != Load::kMap && reads_strips(plan)) {
    in_strips = strip_matrices(blueprint, kernels, *weights);
  }
  auto blocks = std::make_unique<weights::SwitchedBlocks>(blueprint, *weights, file, in_strips);
  auto layouts = std::make_unique<LayoutLoader>(file, *blocks, plan.n_threads());
  weights->set_switched(std::move(blocks));
  layouts->load_all(options.progress);
  return layouts;
}

// `done` is told each matrix that was only looked at.
void pack_for_prompts(const Options& options, const model::Blueprint& blueprint,
                      const weights::Int8Packing& packing, const plan::Plan& plan,
                      const weights::Store::MatrixFunction& done, weights::Store* weights) {
  const int n_threads = plan.n_threads();
  // Experts are unpacked when they are needed, by whatever method the rest is computed.
  weights->measure_int8(weights::expert_matrices(blueprint), n_threads, options.progress, done);
  const std::vector<model::WeightId> ids = weights::prompt_matrices(blueprint);
  if (plan.int8.method == plan::Int8Method::kGroup) {
    weights->group_int8(ids, n_threads, options.progress);
  } else if (packing.is_plain()) {
    if (plan.packed_bytes > 0) {
      weights->pack_int8(weights->packable(ids, plan.packed_bytes), n_threads, options.progress);
    }
    weights->measure_int8(ids, n_threads, options.progress, done);
  } else {
    weights->pack_int8(ids, n_threads, options.progress, packing);
  }
}

// Returns a note where scales of the rest of the weights are not those of experts; empty: there is
// nothing to say.
std::string note_of_experts(const model::Blueprint& blueprint, const plan::Plan& plan) {
  const bool is_row = plan.int8.weight_scales == plan::WeightScales::kRow;
  if (plan.prefill != plan::Prefill::kInt8 || blueprint.n_experts == 0 || is_row) return {};
  return fmt::format(
      "‹int8-weights› {} is not for experts, which have 8 bits and a scale for each row in "
      "prompts; "
      "the other weights follow it",
      plan::weight_scales_name(plan.int8.weight_scales));
}

// Says whether the plan of neurons is for the memory that there is; empty: there is no such plan.
std::string note_of_budget(const plan::Ledger& ledger, const plan::Plan& plan) {
  if (!plan.streamed_neurons) return {};
  const uint64_t planned = plan.streamed_neurons->budget_bytes;
  const uint64_t limit = ledger.limit_bytes();
  if (limit == planned) return fmt::format("as planned for ‹memory› {}", bytes_text(planned));
  return fmt::format(
      "planned for ‹memory› {} and run with {}: form, gates and the share of pins stay, places are "
      "scaled, and what the plan predicts does not hold",
      bytes_text(planned), bytes_text(limit));
}

}  // namespace

void LoadedWeights::add_note(const std::string& more) {
  if (!more.empty()) note += (note.empty() ? "" : "; ") + more;
}

LoadedWeights load_weights(const Options& options, const kernels::Table& kernels,
                           const plan::Ledger& ledger, OpenedModel* model, plan::Plan* plan) {
  gguf::File& file = model->file;
  weights::Store& weights = model->weights;
  const model::Blueprint& blueprint = model->blueprint;
  const bool is_on_host = is_here(options);
  const bool has_values = is_on_host || options.phone.has_values;
  LoadedWeights loaded;
  const bool is_streamed = is_on_host && are_streamed(blueprint, weights, *plan, ledger) &&
                           options.memory.layouts != Layouts::kSwitch;
  if (has_values && !is_streamed) {
    loaded.pages = place_weights(options, file, unread_ranges(blueprint, file),
                                 cache_bytes(kv_shape(*plan, blueprint), plan->context));
  }
  loaded.int8 = Int8Binding(options, blueprint, weights, plan);
  const auto start = std::chrono::steady_clock::now();
  if (apply_layouts(options, plan)) {
    loaded.layouts = make_layouts(options, blueprint, file, kernels, *plan, &weights);
    std::vector<weights::FileRead> elsewhere = loaded.layouts->blocks().file_ranges();
    for (const weights::FileRead& range : unread_ranges(blueprint, file))
      elsewhere.push_back(range);
    loaded.pages = place_weights_beside(options, file, elsewhere);
  }
  // Where blocks will be streamed, the file's pages would count as memory that nobody has room for.
  weights::Store::MatrixFunction give_back;
  if (is_streamed) {
    give_back = [&](const weights::Matrix& matrix) {
      forget_mapped(file, matrix.data, matrix.bytes());
    };
  }
  if (is_on_host && plan->prefill == plan::Prefill::kInt8) {
    pack_for_prompts(options, blueprint, loaded.int8.packing(), *plan, give_back, &weights);
    loaded.pack_seconds = seconds_since(start);
  }
  OutlierChannels outliers =
      make_channels(options, file, blueprint, weights, *plan, loaded.int8, give_back);
  weights.set_channels(std::move(outliers.channels));
  loaded.channel_file = std::move(outliers.side_file);
  loaded.note = std::move(outliers.note);
  if (is_on_host) loaded.add_note(note_of_experts(blueprint, *plan));
  if (is_on_host) loaded.add_note(note_of_budget(ledger, *plan));
  std::string by_neuron;
  const std::vector<model::GatedFfn> ffns = neuron_blocks(blueprint, *plan);
  std::unique_ptr<weights::NeuronPredictor> predictor =
      is_on_host ? load_predictor(options, *plan, file, ffns, weights) : nullptr;
  if (is_on_host && plan->ffn.hot.is_there()) {
    loaded.add_note(place_hot(kernels, *plan, ffns, is_streamed, model));
  }
  if (is_streamed) {
    stream_weights({options, kernels, ledger, *plan, *model}, ffns, std::move(predictor), &loaded);
  } else if (is_on_host) {
    if (loaded.layouts == nullptr) {
      by_neuron = place_neurons(blueprint, *plan, std::move(predictor), options.progress, &weights);
    }
    place_in_strips(file, blueprint, kernels, *plan, &weights, &loaded.pages);
  }
  if (!by_neuron.empty()) loaded.pages.text += "; " + by_neuron;
  return loaded;
}

}  // namespace troika::prepare
