// Helps interfaces whose answers are lists of blocks. A block is a text, a call or thoughts, and is
// opened and closed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/writer.h"

namespace troika::server {

struct Block {
  enum class Kind : uint8_t { kText, kThought, kCall };
  Kind kind = Kind::kText;
  std::string text;      // for a call its arguments
  std::string id, name;  // for a call
};

// A writer of one answer, which is made of blocks.
class BlockWriter : public Writer {
 public:
  void write(int answer, const Delta& delta) final;
  void end(int answer, const Ending& ending) final;

 protected:
  // These functions are called when the last block has begun, has grown by a delta, and has ended.
  virtual void open_block() {}
  virtual void grow_block(const Delta& /*delta*/) {}
  virtual void close_block() {}

  const std::vector<Block>& blocks() const { return blocks_; }
  // Returns what the answer took until the last block grew; empty if the client does not ask.
  const std::optional<Timings>& timings() const { return timings_; }
  // Says that the answer has ended. When close_block() is called for the last block, it has.
  bool has_ended() const { return has_ended_; }
  // REQUIRES: the answer has ended.
  const Ending& ending() const { return ending_; }

 private:
  void open(Block block);
  void close();

  std::vector<Block> blocks_;
  bool is_open_ = false, has_ended_ = false;
  std::optional<Timings> timings_;
  Ending ending_;
};

}  // namespace troika::server
