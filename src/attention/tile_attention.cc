#include "attention/tile_attention.h"

#include <algorithm>

#include "attention/areas.h"
#include "attention/select.h"
#include "base/error.h"

namespace troika::attention {
namespace {

PanelRoom panels_of(const TileRoom& room) {
  const size_t most = tokens_together(room.n_group);
  const size_t n_parts = (kTileTokens + most - 1) / most;
  return {room.head_size, room.n_group, kTileTokens, (kTileTokens + n_parts - 1) / n_parts};
}

struct Lists {
  float* importance;  // (n_tiles, n_positions)
  uint32_t* kept;     // (n_positions): positions, then slots
  size_t bytes;

  Lists(const TileRoom& room, size_t n_positions, std::byte* begin) {
    Areas areas(begin);
    importance = areas.take<float>(room.n_tiles * n_positions);
    kept = areas.take<uint32_t>(n_positions);
    bytes = areas.bytes();
  }
};

// Each value becomes the largest of itself and its neighbours.
void spread(std::span<float> values) {
  float before = values.front();
  for (size_t i = 0; i < values.size(); ++i) {
    const float own = values[i], behind = i + 1 < values.size() ? values[i + 1] : own;
    values[i] = std::max({before, own, behind});
    before = own;
  }
}

}  // namespace

size_t TileRoom::bytes() const {
  return std::max(EstimateRoom{head_size, n_group, n_tiles}.bytes(), panels_of(*this).bytes());
}

size_t TileRoom::list_bytes(size_t n_positions) const {
  return Lists(*this, n_positions, nullptr).bytes;
}

size_t list_of_tile(double share, size_t begin, float* importance, uint32_t* out) {
  const size_t local = begin - kLocal;
  size_t n = 0;
  for (size_t p = 0; p < kFirst; ++p) out[n++] = static_cast<uint32_t>(p);
  const std::span<float> between(importance + kFirst, local - kFirst);
  spread(between);
  const size_t k = count_of_share(share, between.size());
  select_largest(between, k, out + n);
  for (const size_t end = n + k; n < end; ++n) out[n] += static_cast<uint32_t>(kFirst);
  for (size_t p = local; p < begin; ++p) out[n++] = static_cast<uint32_t>(p);
  return n;
}

void attend_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, TileChoice choice, const TileRoom& room, std::byte* workspace,
                  std::byte* lists) {
  const size_t n_positions = positions.size();
  TROIKA_ASSERT(begin + room.n_tiles * kTileTokens == n_positions);
  const Lists made(room, n_positions, lists);
  const bool keeps_all = choice.share >= 1.0;
  if (!keeps_all && choice.choice == Choice::kPositions) {
    const EstimateRoom estimate = {room.head_size, room.n_group, room.n_tiles};
    estimate_tiles(table, positions, queries, begin, estimate, workspace, made.importance,
                   n_positions);
  }
  for (size_t tile = 0; tile < room.n_tiles; ++tile, begin += kTileTokens) {
    size_t n = begin;
    if (keeps_all) {
      for (size_t p = 0; p < begin; ++p) made.kept[p] = static_cast<uint32_t>(p);
    } else if (choice.choice == Choice::kBlocks) {
      n = list_of_blocks(table, positions, queries.from(tile * kTileTokens), begin, choice.share,
                         made.kept);
    } else {
      n = list_of_tile(choice.share, begin, made.importance + tile * n_positions, made.kept);
    }
    kernels::SeenPositions seen[kTileTokens];
    for (size_t i = 0; i < kTileTokens; ++i) {
      made.kept[n + i] = static_cast<uint32_t>(begin + i);
      seen[i] = {0, n + i + 1};
    }
    for (size_t i = 0; i < n + kTileTokens; ++i) made.kept[i] = positions.slot(made.kept[i]);
    const Positions kept = {positions.k, positions.v, {made.kept, n + kTileTokens}, {}};
    attend_in_panels(table, kept, queries.from(tile * kTileTokens), seen, panels_of(room),
                     workspace);
  }
}

}  // namespace troika::attention
