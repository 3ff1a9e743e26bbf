#include "base/timeline/timeline_kinds.h"

#include <algorithm>
#include <iterator>

namespace troika {
namespace {

// Has the colours of Okabe and Ito, which people with any kind of colour vision can tell apart, and
// tints of them for kinds of tasks that seldom stand beside these.
constexpr TaskKind kKinds[] = {
    {"qkv", "#56B4E9", "queries, keys, values"},
    {"attention", "#E69F00", "attention"},
    {"estimate", "#332288", "estimate of heads"},
    {"select", "#999933", "selection of positions"},
    {"exact", "#E69F00", "exact attention"},
    {"out", "#0072B2", "projection behind attention"},
    {"ffn", "#009E73", "feed-forward"},
    {"norm", "#F0E442", "norms"},
    {"embed", "#CC79A7", "embedding"},
    {"head", "#D55E00", "logits"},
    {"extract", "#E8B4D0", "outliers found"},
    {"shadow", "#8C5A9E", "outliers in float"},
    {"sum", "#C9A0DC", "outliers added"},
    {"read", "#999999", "read from disk"},
    {"panels", "#B8B8E0", "block in the layout of prompts"},
    {"blocks", "#5B5EA6", "block in the layout of steps"},
    {"load", "#C44536", "block loaded for steps"},
    {"load back", "#7B2D26", "block made for prompts again"},
    {"predict", "#8C5A9E", "prediction of neurons that fire"},
    {"hot", "#009E73", "hot neurons, dense"},
    {"in memory", "#66C2A4", "cold neurons in memory"},
    {"gate read", "#999999", "neurons read"},
    {"up-down read", "#555555", "up and down read"},
    {"gate", "#F4A582", "gates that were read"},
    {"up-down", "#D6604D", "up and down that were read"},
    {"hot read", "#BBBB88", "hot neurons read"},
    {"read ahead", "#BBBB88", "next block read"},
    {"neurons", "#777777", "neurons read from disk"},
    {"neurons ahead", "#BBBB88", "next layer's neurons read"},
    {"experts", "#777777", "experts read from disk"},
    {"merge", "#C9A0DC", "sums of the lanes"},
};

}  // namespace

std::span<const TaskKind> task_kinds() { return kKinds; }

const TaskKind& task_kind(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const TaskKind& kind) { return kind.name == name; });
  return found != std::end(kKinds) ? *found : kOtherTasks;
}

}  // namespace troika
