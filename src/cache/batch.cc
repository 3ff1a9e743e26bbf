#include "cache/batch.h"

namespace troika::cache {

void Batch::add_chain(std::span<const Token> tokens, int position, SequenceId sequence,
                      bool all_logits, Tag tag) {
  int parent = -1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_last = i + 1 == tokens.size();
    rows.push_back(
        {tokens[i], position + static_cast<int>(i), sequence, parent, all_logits || is_last, tag});
    parent = size() - 1;
  }
}

}  // namespace troika::cache
