#include "prepare/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "base/bytes_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "prepare/int8/outlier_channels.h"
#include "prepare/memory.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "prepare/weight_strips.h"
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

void pack_for_prompts(const Options& options, const model::Blueprint& blueprint,
                      const weights::Int8Packing& packing, const plan::Plan& plan,
                      weights::Store* weights) {
  const int n_threads = plan.n_threads();
  // Experts are unpacked when they are needed, by whatever method the rest is computed.
  weights->measure_int8(weights::expert_matrices(blueprint), n_threads, options.progress);
  const std::vector<model::WeightId> ids = weights::prompt_matrices(blueprint);
  if (plan.int8.method == plan::Int8Method::kGroup) {
    weights->group_int8(ids, n_threads, options.progress);
  } else if (packing.is_plain()) {
    if (plan.packed_bytes > 0) {
      weights->pack_int8(weights->packable(ids, plan.packed_bytes), n_threads, options.progress);
    }
    weights->measure_int8(ids, n_threads, options.progress);
  } else {
    weights->pack_int8(ids, n_threads, options.progress, packing);
  }
}

void add_note(const std::string& more, std::string* note) {
  if (!more.empty()) *note += (note->empty() ? "" : "; ") + more;
}

// Says what the disk could not be asked for, once where several of its lanes say the same.
void add_notes_of_disk(const LoadedWeights& loaded, std::string* note) {
  std::vector<std::string> all = loaded.stream->notes();
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& one : more) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    }
  };
  if (loaded.experts != nullptr) add(loaded.experts->notes());
  if (loaded.stream->neurons() != nullptr) add(loaded.stream->neurons()->notes());
  for (std::string& one : all) {
    if (one.ends_with('.')) one.pop_back();  // notes are parts of one sentence
    add_note(one, note);
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
std::string note_of_budget(const Options& options, const plan::Plan& plan) {
  if (!plan.streamed_neurons) return {};
  const uint64_t planned = plan.streamed_neurons->budget_bytes;
  const uint64_t limit = options.memory.limit_bytes > 0 ? options.memory.limit_bytes : planned;
  if (limit == planned) return fmt::format("as planned for ‹memory› {}", bytes_text(planned));
  return fmt::format(
      "planned for ‹memory› {} and run with {}: form, gates and the share of pins stay, places are "
      "scaled, and what the plan predicts does not hold",
      bytes_text(planned), bytes_text(limit));
}

// Makes the stream of neurons that are read when they are needed.
NeuronStream* stream_neurons(const Options& options, const OpenedModel& model,
                             std::span<const model::GatedFfn> ffns, const plan::Plan& plan,
                             size_t most_bytes, std::unique_ptr<weights::NeuronPredictor> predictor,
                             std::string* note, weights::Store* weights) {
  if (!options.memory.has_side_files) {
    throw UsageError(
        "Neurons that memory has no room for are read from a side file, and ‹no-cache› forbids it. "
        "Leave that out, or use ‹ffn› by-output, which reads whole blocks of the model.");
  }
  NeuronStreamOptions how;
  how.path = neuron_file_path("bundles", model.file);
  how.model_key = weights::content_key(model.file);
  how.most_bytes = most_bytes - plan.ffn.predictor.bytes;
  const plan::StreamedNeurons planned = plan.streamed_neurons.value_or(plan::StreamedNeurons());
  const int pinned_percent = options.ffn.pinned_percent.value_or(planned.pinned_percent);
  how.pipeline = options.ffn.pipeline.value_or(planned.pipeline);
  how.gap_bytes = options.ffn.gap_bytes ? options.ffn.gap_bytes : planned.gap_bytes;
  how.n_threads = plan.n_threads();
  how.progress = options.progress;
  std::string about_heat;
  const std::optional<weights::NeuronHeat> heat =
      kept_heat(model.file, ffns, model.weights, &about_heat);
  add_note(about_heat, note);
  if (heat) how.heat = &*heat;
  if (pinned_percent > 0 && !heat) {
    throw UsageError(
        "‹neuron-pins›, or the plan, keeps hot neurons in memory, and nobody has counted which are "
        "hot. Run 'troika neurons' with this model first.");
  }
  how.keeps_neurons = options.ffn.keeps_neurons;
  // Generation reads ahead what is known to be hot, and prompts what they need of neurons.
  how.reads_ahead =
      options.ffn.reads_ahead && (heat.has_value() || plan.prefill == plan::Prefill::kSame);
  how.pinned_share = 0.01 * pinned_percent;
  auto neurons = std::make_unique<NeuronStream>(how, ffns, *weights);
  NeuronStream* const stream = neurons.get();
  if (const weights::BundleFile& made = stream->file(); made.is_new()) {
    const std::string why =
        made.problem().empty() ? "" : fmt::format(": the one there {}", made.problem());
    add_note(fmt::format("wrote {} ({} of neurons in bundles{})", made.path(),
                         bytes_text(made.bytes()), why),
             note);
  }
  set_neurons(plan, std::move(neurons), std::move(predictor), weights);
  return stream;
}

// Blocks but for what is read elsewhere.
void stream_blocks(const Options& options, const OpenedModel& model, size_t most_bytes,
                   WeightStream::Elsewhere elsewhere, LoadedWeights* loaded,
                   weights::Store* weights) {
  loaded->stream =
      std::make_unique<WeightStream>(model.blueprint, model.file, most_bytes, weights, elsewhere);
  loaded->stream->load_kept(options.progress);
  loaded->pages = {false, loaded->stream->text()};
}

// Neurons that are read when they live, and all else in blocks. Returns a text for people.
std::string stream_by_neuron(const Options& options, const OpenedModel& model,
                             std::span<const model::GatedFfn> ffns, const plan::Plan& plan,
                             const plan::Ledger& ledger,
                             std::unique_ptr<weights::NeuronPredictor> predictor,
                             LoadedWeights* loaded, weights::Store* weights) {
  NeuronStream* const neurons =
      stream_neurons(options, model, ffns, plan, ledger.bytes(plan::Owner::kNeurons),
                     std::move(predictor), &loaded->note, weights);
  const std::vector<model::WeightId> by_neuron = neuron_matrices(ffns);
  const size_t for_prompts = prompt_bytes(model.blueprint, *weights, plan);
  stream_blocks(options, model, ledger.bytes(plan::Owner::kWeights) - for_prompts, by_neuron,
                loaded, weights);
  loaded->stream->set_neurons(neurons);
  if (for_prompts == 0) return neurons->text();
  loaded->prompts = std::make_unique<WeightStream>(model.blueprint, model.file, for_prompts,
                                                   weights, WeightStream::Elsewhere(), by_neuron);
  loaded->prompts->load_kept(options.progress);
  loaded->stream->set_prompts(loaded->prompts.get());
  return neurons->text() + "; for prompts " + loaded->prompts->text();
}

// Blocks without experts, and experts when a router asks for them.
void stream_experts(const Options& options, const OpenedModel& model, size_t most_bytes,
                    int n_threads, LoadedWeights* loaded, weights::Store* weights) {
  const ExpertStream::Shares shares =
      ExpertStream::shares_of(most_bytes, model.blueprint, *weights);
  loaded->experts = std::make_unique<ExpertStream>(ExpertStreamOptions{shares.experts},
                                                   model.blueprint, model.file, *weights);
  // While the disk reads the other weights, the places get their memory.
  const std::jthread memory([&] {
    try {
      (void)loaded->experts->take_memory(n_threads);
    } catch (const std::exception&) {
      // Without more threads, places get their memory when they are read to.
    }
  });
  stream_blocks(options, model, shares.others, weights::expert_matrices(model.blueprint), loaded,
                weights);
  const bool is_guessed = options.memory.expert_reads == ExpertReads::kGuessed;
  loaded->experts->set_takes_guesses(is_guessed && loaded->stream->n_streamed() == 0);
  loaded->stream->set_experts(loaded->experts.get());
  loaded->pages.text += "; " + loaded->experts->text();
  weights->set_experts(loaded->experts.get());
}

}  // namespace

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
  if (has_values && !is_streamed) loaded.pages = place_weights(options, file);
  loaded.int8 = Int8Binding(options, blueprint, weights, plan);
  const auto start = std::chrono::steady_clock::now();
  if (apply_layouts(options, plan)) {
    loaded.layouts = make_layouts(options, blueprint, file, kernels, *plan, &weights);
    loaded.pages = place_weights_beside(options, file, loaded.layouts->blocks().file_ranges());
  }
  if (is_on_host && plan->prefill == plan::Prefill::kInt8) {
    pack_for_prompts(options, blueprint, loaded.int8.packing(), *plan, &weights);
    loaded.pack_seconds = seconds_since(start);
  }
  OutlierChannels outliers = make_channels(options, file, blueprint, weights, *plan, loaded.int8);
  weights.set_channels(std::move(outliers.channels));
  loaded.channel_file = std::move(outliers.side_file);
  loaded.note = std::move(outliers.note);
  if (is_on_host) add_note(note_of_experts(blueprint, *plan), &loaded.note);
  add_note(note_of_budget(options, *plan), &loaded.note);
  std::string by_neuron;
  const std::vector<model::GatedFfn> ffns = neuron_blocks(blueprint, *plan);
  std::unique_ptr<weights::NeuronPredictor> predictor =
      is_on_host ? load_predictor(*plan, file, ffns, weights) : nullptr;
  if (is_streamed) {
    if (!ffns.empty()) {
      by_neuron = stream_by_neuron(options, *model, ffns, *plan, ledger, std::move(predictor),
                                   &loaded, &weights);
    } else if (reads_experts(options, blueprint, *plan)) {
      stream_experts(options, *model, ledger.bytes(plan::Owner::kWeights), plan->n_threads(),
                     &loaded, &weights);
    } else {
      stream_blocks(options, *model, ledger.bytes(plan::Owner::kWeights), {}, &loaded, &weights);
    }
    add_notes_of_disk(loaded, &loaded.note);
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
