#include "prepare/streaming/stream_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes_text.h"
#include "base/error.h"
#include "prepare/layouts/weight_strips.h"
#include "prepare/memory.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/bundle_maker.h"
#include "prepare/streaming/neurons/bundle_paths.h"
#include "prepare/streaming/neurons/neuron_blocks.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "weights/content_key.h"

namespace troika::prepare {
namespace {

// Says what the disk could not be asked for, once where several of its lanes say the same.
void add_notes_of_disk(LoadedWeights* loaded) {
  std::vector<std::string> all = loaded->stream->notes();
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& one : more) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    }
  };
  if (loaded->experts != nullptr) add(loaded->experts->notes());
  if (loaded->stream->neurons() != nullptr) add(loaded->stream->neurons()->notes());
  for (std::string& one : all) {
    if (one.ends_with('.')) one.pop_back();  // notes are parts of one sentence
    loaded->add_note(one);
  }
}

// Says what is read ahead. REQUIRES: `how` has the heat.
void choose_ahead(const Options& options, const plan::Plan& plan, NeuronStreamOptions* how) {
  how->reads_hottest_ahead = options.ffn.reads_hottest_ahead && how->heat != nullptr;
  how->reads_ahead =
      how->reads_hottest_ahead || (options.ffn.reads_ahead && plan.prefill == plan::Prefill::kSame);
}

// Tells people which side file was written, and what could not be read of one.
void add_notes(const NeuronStream& stream, LoadedWeights* loaded) {
  const weights::BundleFile& file = stream.file();
  if (file.is_new()) {
    const std::string why =
        file.problem().empty() ? "" : fmt::format(": the one there {}", file.problem());
    loaded->add_note(fmt::format("wrote {} ({} of neurons in bundles{})", file.path(),
                                 bytes_text(file.bytes()), why));
  }
  const std::string problem = stream.problem();
  if (problem.empty()) return;
  loaded->add_note(
      fmt::format("some neurons come from the model's own file, which is slow: {}", problem));
}

// Makes the stream of neurons that are read when they are needed.
NeuronStream* stream_neurons(const StreamedModel& of, std::span<const model::GatedFfn> ffns,
                             std::unique_ptr<weights::NeuronPredictor> predictor,
                             LoadedWeights* loaded) {
  const Options& options = of.options;
  const plan::Plan& plan = of.plan;
  if (!options.memory.has_side_files) {
    throw UsageError(
        "Neurons that memory has no room for are read from a side file, and ‹no-cache› forbids it. "
        "Leave that out, or use ‹ffn› by-output, which reads whole blocks of the model.");
  }
  NeuronStreamOptions how;
  // A name has no order of heat, so that bundles in a new order replace the old ones.
  how.path = bundle_file_path(of.model.file, BundleMaker(ffns, of.model.weights, 1).key());
  how.model_key = weights::content_key(of.model.file);
  how.model = &of.model.file;
  for (const std::string& name : remove_old_bundles(of.model.file, how.model_key)) {
    loaded->add_note(
        fmt::format("removed {}, which was for another content of the model or by "
                    "another version of this program",
                    name));
  }
  how.most_bytes = of.ledger.bytes(plan::Owner::kNeurons) - plan.ffn.predictor.bytes -
                   hot_neuron_bytes(of.model.blueprint, of.model.weights, plan);
  how.hot = of.model.weights.hot();
  const plan::StreamedNeurons planned = plan.streamed_neurons.value_or(plan::StreamedNeurons());
  const std::vector<int> pinned_percent = options.ffn.pinned_percent.empty()
                                              ? plan::pins_by_tokens(planned)
                                              : options.ffn.pinned_percent;
  const bool has_pins = std::ranges::any_of(pinned_percent, [](int pins) { return pins > 0; });
  const NeuronReads reads = neuron_reads(options.ffn, plan);
  how.pipeline = reads.pipeline;
  how.reads = reads.reads;
  how.gap_bytes = options.ffn.gap_bytes ? options.ffn.gap_bytes : planned.gap_bytes;
  how.n_threads = plan.n_threads();
  how.progress = options.progress;
  std::string about_heat;
  const std::optional<weights::NeuronHeat> heat =
      kept_heat(of.model.file, ffns, plan.ffn.thresholds, of.model.weights, &about_heat);
  loaded->add_note(about_heat);
  if (heat) how.heat = &*heat;
  if (has_pins && !heat) {
    throw UsageError(fmt::format(
        "‹neuron-pins›, or the plan, keeps hot neurons in memory, and {}. Run 'troika neurons' "
        "with this model first.",
        about_heat.empty() ? "nobody has counted which are hot" : about_heat));
  }
  how.keeps_neurons = options.ffn.keeps_neurons;
  how.keeps_last_steps = options.ffn.keeps_last_steps;
  // Which experts the next block takes is not known yet.
  if (!ffns.front().is_expert()) choose_ahead(options, plan, &how);
  for (const int percent : pinned_percent) how.pinned_share.push_back(0.01 * percent);
  auto neurons = std::make_unique<NeuronStream>(how, ffns, of.model.weights);
  NeuronStream* const stream = neurons.get();
  add_notes(*stream, loaded);
  set_neurons(plan, std::move(neurons), std::move(predictor), &of.model.weights);
  return stream;
}

// Streams blocks, and knows which of their matrices all passes can read in strips.
class BlockStreams {
 public:
  // REQUIRES: the store knows what is computed by neuron.
  explicit BlockStreams(const StreamedModel& of) : of_(of) {
    if (reads_strips(of.plan)) {
      in_strips_ = strip_matrices(of.model.blueprint, of.kernels, of.model.weights);
    }
  }

  std::unique_ptr<WeightStream> make(size_t most_bytes, const StreamedWeights& which) const {
    const StripMatrices strips = {in_strips_, of_.plan.n_threads()};
    auto stream = std::make_unique<WeightStream>(of_.model.blueprint, of_.model.file, most_bytes,
                                                 &of_.model.weights, which, strips);
    stream->load_kept(of_.options.progress);
    return stream;
  }

 private:
  const StreamedModel& of_;
  std::vector<model::WeightId> in_strips_;
};

// Lets the places of experts get their memory while the disk reads the other weights. Without more
// threads they get it when they are read to.
std::jthread take_memory_meanwhile(const StreamedModel& of, ExpertStream* experts) {
  const int n_threads = of.plan.n_threads();
  try {
    return std::jthread([experts, n_threads] {
      try {
        (void)experts->take_memory(n_threads);
      } catch (const std::exception&) {
      }
    });
  } catch (const std::system_error&) {
    return {};
  }
}

// Streams blocks without their experts, and experts, or their gates alone, when a router asks.
void stream_experts(const StreamedModel& of, const RoutedExperts& routed, size_t bytes,
                    LoadedWeights* loaded) {
  const ExpertStream::Shares shares = ExpertStream::shares_of(bytes, routed);
  loaded->experts =
      std::make_unique<ExpertStream>(ExpertStreamOptions{shares.experts}, routed, of.model.file);
  const std::jthread memory = take_memory_meanwhile(of, loaded->experts.get());
  loaded->stream = BlockStreams(of).make(shares.others, {routed.matrices});
  const bool is_guessed = of.options.memory.expert_reads == ExpertReads::kGuessed &&
                          reads_experts(of.options, of.model.blueprint, of.plan);
  loaded->experts->set_takes_guesses(is_guessed && loaded->stream->n_streamed() == 0);
  loaded->stream->set_experts(loaded->experts.get());
  loaded->pages = {false, loaded->stream->text() + "; " + loaded->experts->text()};
  of.model.weights.set_experts(loaded->experts.get());
}

// Neurons that are read when they live, and all else in blocks.
void stream_by_neuron(const StreamedModel& of, std::span<const model::GatedFfn> ffns,
                      std::unique_ptr<weights::NeuronPredictor> predictor, LoadedWeights* loaded) {
  NeuronStream* const neurons = stream_neurons(of, ffns, std::move(predictor), loaded);
  const std::vector<model::WeightId> by_neuron = neuron_matrices(ffns);
  const size_t for_prompts = prompt_bytes(of.model.blueprint, of.model.weights, of.plan);
  const BlockStreams blocks(of);
  const size_t bytes = of.ledger.bytes(plan::Owner::kWeights) - for_prompts;
  if (reads_gates(of.options, of.model.blueprint, of.model.weights, of.plan, bytes)) {
    stream_experts(of, gates_of_experts(of.model.blueprint, of.model.weights), bytes, loaded);
  } else {
    loaded->stream = blocks.make(bytes, {by_neuron});
    loaded->pages.text = loaded->stream->text();
  }
  loaded->stream->set_neurons(neurons);
  loaded->pages = {false, loaded->pages.text + "; " + neurons->text()};
  if (for_prompts == 0) return;
  loaded->prompts = blocks.make(for_prompts, {{}, by_neuron});
  loaded->stream->set_prompts(loaded->prompts.get());
  loaded->pages.text += "; for prompts " + loaded->prompts->text();
}

}  // namespace

void stream_weights(const StreamedModel& of, std::span<const model::GatedFfn> ffns,
                    std::unique_ptr<weights::NeuronPredictor> predictor, LoadedWeights* loaded) {
  if (!ffns.empty()) {
    stream_by_neuron(of, ffns, std::move(predictor), loaded);
  } else if (reads_experts(of.options, of.model.blueprint, of.plan)) {
    stream_experts(of, all_of_experts(of.model.blueprint, of.model.weights),
                   of.ledger.bytes(plan::Owner::kWeights), loaded);
  } else {
    loaded->stream = BlockStreams(of).make(of.ledger.bytes(plan::Owner::kWeights), {});
    loaded->pages = {false, loaded->stream->text()};
  }
  add_notes_of_disk(loaded);
}

}  // namespace troika::prepare
