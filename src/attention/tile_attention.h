// Attention of a prompt over some of the positions (S1, S2), by tiles of 64 tokens. The queries of
// a tile that share a head of keys share a list of positions. So keys and values are read and
// unpacked once for all of them, and the exact part is dense attention over a shorter list. Where
// the list has all positions, the bits are those of dense attention.
//
// A tile keeps the first positions, those close by and its own, and of the others those that its
// estimate finds worth keeping. A position is worth as much as the better of its two neighbours,
// for two reasons: a head that looks for what followed an earlier token moves on to the next
// position with the next token, and only every second token is estimated.
//
// There are two ways to choose the others: either those that weigh enough to a token, seen from
// that token on, so that no token sees what a later one chose; or a share of them, those that weigh
// most to any token, seen by all tokens.
#pragma once

#include "attention/choose/estimate.h"
#include "attention/panel_attention.h"

namespace troika::attention {

struct TileRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tiles;

  size_t bytes() const;  // a multiple of 64
  // Returns the bytes of the part that grows with the text.
  size_t list_bytes(size_t n_positions) const;
};

// How a tile chooses among the positions between the first and the close ones: those that weigh
// more than `above` times what each would if all weighed the same, the best share, or whole blocks.
enum class ChoiceRule : unsigned char { kWeighty, kPositions, kBlocks };
struct TileChoice {
  ChoiceRule choice = ChoiceRule::kPositions;
  double share = 1.0;
  double above = 0.0;
};

// Computes consecutive tiles from position `begin` on. Where the share is 1, nothing is estimated.
// REQUIRES: what estimate_tiles requires; the positions end with the last token of the last tile;
// both areas are at multiples of 64 bytes.
void attend_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, TileChoice choice, const TileRoom& room, std::byte* workspace,
                  std::byte* lists);

}  // namespace troika::attention
