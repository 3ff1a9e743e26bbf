// Attention of a prompt over some of the positions (S1, S2), by tiles of 64 tokens: the queries of
// a tile that share a head of keys share a list of positions, so that what is read of keys and
// values is unpacked once for all of them, and the exact part is dense attention over a shorter
// list. With all positions in the list it is dense attention to the bit.
//
// A tile keeps the first positions, those close by and its own, and of the others those that its
// estimate finds worth it. A position is worth as much as its two neighbours: heads that look for
// what followed a token earlier go on to the next position with the next token, and only every
// second token is estimated.
//
// Which others: those that weigh enough to a token, seen from that token on, so that no token sees
// what a later one chose; or a share of them, those that weigh most to any token, seen by all.
#pragma once

#include "attention/choose/estimate.h"
#include "attention/panel_attention.h"

namespace troika::attention {

struct TileRoom {
  size_t head_size;
  size_t n_group;
  size_t n_tiles;

  size_t bytes() const;  // a multiple of 64
  // What grows with the text.
  size_t list_bytes(size_t n_positions) const;
};

// What a tile chooses of the positions between the first and the close ones: those that weigh more
// than `above` times what each would if all weighed the same, the best share, or whole blocks.
enum class Choice : unsigned char { kWeighty, kPositions, kBlocks };
struct TileChoice {
  Choice choice = Choice::kPositions;
  double share = 1.0;
  double above = 0.0;
};

// Tiles that follow each other from position `begin` on. Where the share is 1, nothing is
// estimated. REQUIRES: as estimate_tiles; the positions end with the last token of the last tile;
// both areas at multiples of 64 bytes.
void attend_tiles(const kernels::Table& table, const Positions& positions, const Queries& queries,
                  size_t begin, TileChoice choice, const TileRoom& room, std::byte* workspace,
                  std::byte* lists);

}  // namespace troika::attention
