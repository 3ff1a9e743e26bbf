// Keeps beginnings of texts on disk with their keys and values, so that a text that is sent again,
// even after a restart, need not be computed again. Texts are kept in blocks of tokens. The name of
// a block's file is a hash of everything that the block's bits depend on: model, plan, program,
// whose text it is, and all tokens up to the block's end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "server/kept/block_folder.h"

namespace troika::server {

struct KeepOptions {
  std::string folder;       // if empty, nothing is kept
  uint64_t most_bytes = 0;  // limits all files together
  bool is_shared = false;   // says that clients with different keys share texts, here and in memory
};

// Says whose text it is: the key that a client shows, and the owner that this makes in the cache.
struct Asker {
  std::string key{};
  cache::Owner owner = cache::kAnybody;
};

// The thread that computes calls all functions but figures(). A thread of its own writes to the
// disk.
class KeptPrefixes {
 public:
  // The thread that writes calls `on_room` when it can take another block. The engine must outlive
  // this. Throws Error if nothing can be kept.
  KeptPrefixes(engine::Engine& engine, const KeepOptions& options, std::function<void()> on_room);
  // Waits for the writes under way.
  ~KeptPrefixes();
  KeptPrefixes(const KeptPrefixes&) = delete;
  KeptPrefixes& operator=(const KeptPrefixes&) = delete;

  // A text with the keys of its whole blocks.
  struct Text {
    std::vector<engine::Token> tokens{};
    std::vector<cache::Tag> tags{};
    std::vector<std::string> keys{};
    cache::Owner owner = cache::kAnybody;
    size_t next = 0;  // the first block that may have to be saved
  };
  // Returns what can be loaded of a prompt, which is hashed for that as a whole.
  Text loadable(std::span<const engine::Token> prompt, const Asker& asker) const;
  // Brings one more block of a prompt into the cache, if the disk has more of the prompt than the
  // cache. Returns false if there is no more to bring.
  bool load_part(const Text& text);
  // Notes a text to be kept, as far as the cache has it: a prompt of `n_prompt` tokens and its
  // answer.
  void note(std::vector<engine::Token> tokens, int n_prompt, const Asker& asker);
  // Hands one more block to the thread that writes. Returns false if there is none, or if that
  // thread has enough to do.
  bool save_part();
  // Saves all blocks that are left, as far as most_seconds suffice.
  void save_all(double most_seconds);

  struct Figures {
    uint64_t bytes = 0, most_bytes = 0;
    uint64_t n_files = 0;
    int64_t n_tokens_loaded = 0;
    int64_t n_tokens_saved = 0;
    int64_t n_failed = 0;  // counts writes that the disk did not take
    std::string problem;   // why the last of these writes failed
  };
  Figures figures() const;
  int block_tokens() const { return block_; }

 private:
  struct Block {
    std::string key;
    std::vector<std::byte> rows;
  };
  std::vector<std::string> keys_of(std::span<const engine::Token> tokens,
                                   std::span<const cache::Tag> tags, const std::string& key) const;
  int n_in_cache(const Text& text, size_t n_blocks) const;
  bool append(const Text& text, size_t block, std::span<const std::byte> rows);
  void touch(const std::vector<std::string>& keys);
  bool is_known(const std::string& key) const;
  bool has_room() const;
  void write();

  engine::Engine& engine_;
  const KeepOptions options_;
  const std::function<void()> on_room_;
  const int block_;  // counts the tokens of a block
  const size_t block_bytes_;
  const std::string identity_;  // names all that the bits depend on but the text
  BlockFolder folder_;
  std::deque<Text> texts_;  // the texts to be saved
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> blocks_;         // the blocks to be written
  std::set<std::string> under_way_;  // the keys of these blocks
  Figures figures_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troika::server
