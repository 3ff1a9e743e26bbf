#include "attention/tile_attention.h"

#include <algorithm>
#include <numeric>

#include "attention/areas.h"
#include "attention/choose/key_levels.h"
#include "attention/choose/lists.h"
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

// Makes the lists of consecutive tiles, each with the tile's own positions.
class TileLists {
 public:
  TileLists(const kernels::Table& table, const Positions& positions, const Queries& queries,
            TileChoice choice, const TileRoom& room, std::byte* workspace, const Lists& made)
      : table_(table),
        positions_(positions),
        queries_(queries),
        choice_(choice),
        room_(room),
        workspace_(workspace),
        made_(made) {}

  void estimate(size_t begin) {
    if (keeps_all()) return;
    const EstimateRoom room = {room_.head_size, room_.n_group, room_.n_tiles};
    if (choice_.choice == ChoiceRule::kPositions) {
      first_odd_ = estimate_tiles(table_, positions_, queries_, begin, room, workspace_,
                                  made_.importance, positions_.size());
    } else if (choice_.choice == ChoiceRule::kWeighty) {
      first_odd_ = mark_tiles(table_, positions_, queries_, begin, choice_.above, room, workspace_,
                              made_.importance, positions_.size());
    }
  }

  // Makes a tile's list. Token i of the tile sees the first n_seen[i] of it.
  void list(size_t tile, size_t begin, std::span<size_t, kTileTokens> n_seen) const {
    float* const values = made_.importance + tile * positions_.size();
    const bool keeps_everything = keeps_all() || first_odd_ < begin - kLocal;
    if (!keeps_everything && choice_.choice == ChoiceRule::kWeighty) {
      list_of_marks(begin, values, made_.kept, n_seen);
      return;
    }
    size_t n = begin;
    if (keeps_everything) {
      std::iota(made_.kept, made_.kept + n, 0u);
    } else if (choice_.choice == ChoiceRule::kBlocks) {
      n = list_of_blocks(table_, positions_, queries_.from(tile * kTileTokens), begin,
                         choice_.share, made_.kept);
    } else {
      n = list_of_tile(table_, choice_.share, begin, values, made_.kept);
    }
    for (size_t i = 0; i < kTileTokens; ++i) {
      made_.kept[n + i] = static_cast<uint32_t>(begin + i);
      n_seen[i] = n + i + 1;
    }
  }

 private:
  bool keeps_all() const { return choice_.share >= 1.0; }

  const kernels::Table& table_;
  const Positions& positions_;
  const Queries& queries_;
  TileChoice choice_;
  TileRoom room_;
  std::byte* workspace_;
  const Lists& made_;
  // The first position whose key is no number. A tile that could lose it keeps everything, so that
  // its results are no numbers either, as those of full attention would be.
  size_t first_odd_ = kNoPosition;
};

}  // namespace

size_t TileRoom::bytes() const {
  return std::max(EstimateRoom{head_size, n_group, n_tiles}.bytes(), panels_of(*this).bytes());
}

size_t TileRoom::list_bytes(size_t n_positions) const {
  return Lists(*this, n_positions, nullptr).bytes;
}

void attend_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, TileChoice choice, const TileRoom& room, std::byte* workspace,
                  std::byte* lists) {
  const size_t n_positions = positions.size();
  TROIKA_ASSERT(begin + room.n_tiles * kTileTokens == n_positions);
  const Lists made(room, n_positions, lists);
  TileLists lists_of(table, positions, queries, choice, room, workspace, made);
  lists_of.estimate(begin);
  for (size_t tile = 0; tile < room.n_tiles; ++tile, begin += kTileTokens) {
    size_t n_seen[kTileTokens];
    lists_of.list(tile, begin, n_seen);
    const size_t n = n_seen[kTileTokens - 1];
    kernels::SeenPositions seen[kTileTokens];
    for (size_t i = 0; i < kTileTokens; ++i) seen[i] = {0, n_seen[i]};
    for (size_t i = 0; i < n; ++i) made.kept[i] = positions.slot(made.kept[i]);
    const Positions kept = {positions.k, positions.v, {made.kept, n}, {}};
    attend_in_panels(table, kept, queries.from(tile * kTileTokens), seen, panels_of(room),
                     workspace);
  }
}

}  // namespace troika::attention
