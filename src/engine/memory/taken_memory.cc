#include "engine/memory/taken_memory.h"

#include "engine/engine.h"
#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neurons.h"

namespace troika::engine {

using plan::Owner;

void enter_taken(const Engine& engine, plan::Ledger* ledger) {
  const weights::Store& weights = engine.weights();
  if (prepare::LayoutLoader* layouts = engine.loaded().layouts.get(); layouts != nullptr) {
    const weights::SwitchedBlocks& blocks = layouts->blocks();
    size_t of_file = 0;
    for (const weights::FileRead& range : blocks.file_ranges()) of_file += range.bytes;
    ledger->set(Owner::kWeights, weights.total_bytes() - of_file);
    ledger->set(Owner::kLayouts, blocks.copy_bytes() + blocks.largest_bytes());
  }
  if (const prepare::WeightStream* stream = engine.loaded().stream.get(); stream != nullptr) {
    const prepare::ExpertStream* const experts = stream->experts();
    ledger->set(Owner::kWeights,
                stream->most_bytes() + (experts != nullptr ? experts->bytes() : 0));
  }
  ledger->set(Owner::kPacked, weights.packed_bytes() + weights.measured_bytes());
  const weights::Neurons* neurons = weights.neurons();
  const weights::HotNeurons* hot = weights.hot();
  ledger->set(Owner::kNeurons,
              (neurons != nullptr ? neurons->bytes() + neurons->predictor_bytes() : 0) +
                  (hot != nullptr ? hot->bytes() : 0));
  const weights::Channels* channels = weights.channels();
  ledger->set(Owner::kChannels, channels != nullptr ? channels->resident_bytes() : 0);
  const lanes::ShadowAreas* shadow = engine.graphs().shadow();
  const lanes::HeadAreas* heads = engine.graphs().head_areas();
  ledger->set(Owner::kBuffers,
              engine.graphs().buffer_bytes() + (shadow != nullptr ? shadow->held_bytes() : 0));
  ledger->set(Owner::kHeads, heads != nullptr ? heads->bytes() : 0);
  size_t held = 0;
  for (const lanes::Lane* lane : engine.machine().lanes()) held += lane->held_bytes();
  ledger->set(Owner::kLanes, held);
}

}  // namespace troika::engine
