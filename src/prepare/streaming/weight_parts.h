// Divides a model's matrices into parts, and decides which parts stay in memory and which take
// turns in a few slots of it (P10). A part is one large matrix of a block, or several small ones.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/blueprint.h"
#include "weights/store.h"

namespace troika::prepare {

// Names the weights that a stream of parts has to do with.
struct StreamedWeights {
  // Matrices that products read elsewhere.
  std::span<const model::WeightId> elsewhere{};
  // Matrices that are streamed for prompts; empty: the stream has all weights, for all passes.
  std::span<const model::WeightId> for_prompts{};
};

struct WeightPart {
  int block = 0;
  std::vector<weights::Matrix> matrices;
  size_t bytes = 0;  // counts the bytes of its memory, which is read in whole pages
};

// Counts the rows of a table that may be in memory: those that passes have read before the pages
// are given back, and as many of the pass at work. One of more tokens has more rows while it runs.
inline constexpr int kTableRows = 2048;
// Returns the memory that so many rows of a table take, or all of them.
size_t table_room(const weights::Matrix& table);

struct WeightParts {
  std::vector<WeightPart> of_blocks;  // in the order of blocks
  WeightPart of_none;                 // the matrices of no block that products read
  // The table of which single rows are read. It stays in the map, and has memory for some rows.
  std::optional<weights::Matrix> table;
  size_t mapped_bytes = 0;  // counts the bytes of memory of what stays in the map

  size_t whole_bytes() const;
};

WeightParts weight_parts(const model::Blueprint& blueprint, const weights::Store& weights,
                         const StreamedWeights& which);

// Tells which parts take turns.
struct Turns {
  std::vector<size_t> order;       // the numbers of these parts, in the order of blocks
  std::vector<size_t> slot_bytes;  // the n-th of the order has slot n % slot_bytes.size()
  size_t kept_bytes = 0;           // counts the bytes of all other weights

  size_t shared_bytes() const;
  size_t bytes() const { return kept_bytes + shared_bytes(); }
};

// Returns the turns that need the least memory, mostly those of all parts.
Turns least_turns(const WeightParts& parts);
// Lets as few bytes as possible take turns. REQUIRES: most_bytes >= least_turns(parts).bytes().
Turns choose_turns(const WeightParts& parts, size_t most_bytes);
// Returns the bytes of the parts that take turns. They are read in each pass.
size_t turning_bytes(const WeightParts& parts, const Turns& turns);

}  // namespace troika::prepare
