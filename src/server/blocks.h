// For interfaces whose answers are lists of blocks: a text, a call, thoughts, each opened and
// closed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/writer.h"

namespace troika::server {

struct Block {
  enum class Kind : uint8_t { kText, kThought, kCall };
  Kind kind = Kind::kText;
  std::string text;      // of a call: its arguments
  std::string id, name;  // of a call
};

// A writer of one answer, which is made of blocks.
class BlockWriter : public Writer {
 public:
  void write(int answer, const Delta& delta) final;
  void end(int answer, const Ending& ending) final;

 protected:
  // The last block has begun, has grown by this text, has ended.
  virtual void open_block() {}
  virtual void grow_block(const std::string& /*text*/) {}
  virtual void close_block() {}

  const std::vector<Block>& blocks() const { return blocks_; }
  // What the answer took until the last block grew; empty where nobody asks.
  const std::optional<Timings>& timings() const { return timings_; }
  // REQUIRES: the answer has ended.
  const Ending& ending() const { return ending_; }

 private:
  void open(Block block);
  void close();

  std::vector<Block> blocks_;
  bool is_open_ = false;
  std::optional<Timings> timings_;
  Ending ending_;
};

}  // namespace troika::server
