#include "server/blocks.h"

#include <utility>

namespace troika::server {

void BlockWriter::open(Block block) {
  close();
  blocks_.push_back(std::move(block));
  is_open_ = true;
  open_block();
}

void BlockWriter::close() {
  if (std::exchange(is_open_, false)) close_block();
}

void BlockWriter::write(int /*answer*/, const Delta& delta) {
  const bool is_thought = delta.kind == Delta::Kind::kThought;
  if (delta.kind == Delta::Kind::kCall) {
    open({.kind = Block::Kind::kCall, .text = {}, .id = delta.id, .name = delta.text});
    return;
  }
  if (delta.text.empty()) return;
  if (delta.kind != Delta::Kind::kArguments) {
    const Block::Kind kind = is_thought ? Block::Kind::kThought : Block::Kind::kText;
    if (!is_open_ || blocks_.back().kind != kind)
      open({.kind = kind, .text = {}, .id = {}, .name = {}});
  }
  blocks_.back().text += delta.text;
  timings_ = delta.timings;
  grow_block(delta);
}

void BlockWriter::end(int /*answer*/, const Ending& ending) {
  ending_ = ending;
  has_ended_ = true;
  close();
}

}  // namespace troika::server
