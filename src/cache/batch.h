// The unit of work of a pass: tokens with position, sequence and parent. A prompt chunk, one step
// of decoding, a tree of drafts and several answers at once are all batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troika::cache {

using Token = int32_t;
using SequenceId = int32_t;
// Names the numerics class of every op that makes the keys and values of a token: equal tags behind
// equal beginnings mean equal bits. The engine decides what a number stands for.
using Tag = uint16_t;

struct Batch {
  struct Row {
    Token token;
    int position;  // counts from 0 in the token's sequence
    SequenceId sequence;
    // The earlier row of this batch that it continues; -1: it continues the sequence's end.
    int parent;
    bool wants_logits;
    Tag tag = 0;
  };
  std::vector<Row> rows;

  int size() const { return static_cast<int>(rows.size()); }
  void clear() { rows.clear(); }

  // Adds tokens that follow each other from `position` on, all with one tag. Logits are wanted for
  // the last token only, or for all.
  void add_chain(std::span<const Token> tokens, int position, SequenceId sequence,
                 bool all_logits = false, Tag tag = 0);
};

}  // namespace troika::cache
