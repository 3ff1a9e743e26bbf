// Cuts a feed-forward part whose hot neurons are a task of their own (P1, P3). They are computed
// densely, on a lane that is good at that, while another one computes the rest by neuron.
#pragma once

#include <vector>

#include "schedule/cut/piece.h"
#include "weights/neurons/hot_neurons.h"

namespace troika::schedule {

// Returns what comes before the products, the hot neurons, the others, and what puts both together,
// as pieces of which each stands behind those it waits for. None: the subgraph has no hot neurons.
// Throws Error where it holds only a part of the block.
std::vector<Piece> hot_pieces(const lanes::Subgraph& subgraph, const weights::HotNeurons& hot,
                              int lane, int hot_lane);

}  // namespace troika::schedule
