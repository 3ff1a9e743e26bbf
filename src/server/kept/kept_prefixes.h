// Beginnings of texts that stay on disk with their keys and values, so that whoever sends the same
// text later, after a restart too, does not wait until it is computed again. They are kept in
// blocks of tokens; a block's key is a hash of everything that its bits depend on: model, plan,
// program, whose text it is, and all tokens up to its end.
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
  std::string folder;       // empty: nothing is kept
  uint64_t most_bytes = 0;  // of all files together
  bool is_shared = false;   // between clients with different keys
};

// All but `figures` is called by the thread that computes; another one writes to the disk.
class KeptPrefixes {
 public:
  // `on_room` is called by the thread that writes, once there is something to do again. The engine
  // must outlive this. Throws Error where nothing can be kept.
  KeptPrefixes(engine::Engine& engine, const KeepOptions& options, std::function<void()> on_room);
  // Ends what is being written.
  ~KeptPrefixes();
  KeptPrefixes(const KeptPrefixes&) = delete;
  KeptPrefixes& operator=(const KeptPrefixes&) = delete;

  // Brings one more block of a prompt into the cache, where the disk knows more of it than the
  // cache. False: there is no more to bring.
  bool load_part(std::span<const engine::Token> prompt, const std::string& owner);
  // What the cache has of this text is to be kept: a prompt of so many tokens, and its answer.
  void note(std::vector<engine::Token> tokens, int n_prompt, const std::string& owner);
  // Hands one more block to the thread that writes. False: there is none, or it has enough to do.
  bool save_part();
  // The same for all, as far as that is done within so many seconds.
  void save_all(double most_seconds);

  struct Figures {
    uint64_t bytes = 0, most_bytes = 0;
    uint64_t n_files = 0;
    int64_t n_tokens_loaded = 0;
    int64_t n_tokens_saved = 0;
    int64_t n_failed = 0;  // writes that the disk did not take
    std::string problem;   // of the last of these
  };
  Figures figures() const;
  int block_tokens() const { return block_; }

 private:
  struct Text {
    std::vector<engine::Token> tokens;
    std::vector<cache::Tag> tags;
    std::vector<std::string> keys;  // of its whole blocks
    size_t next = 0;                // the first that may have to be saved
  };
  struct Block {
    std::string key;
    std::vector<std::byte> rows;
  };
  std::vector<std::string> keys_of(std::span<const engine::Token> tokens,
                                   std::span<const cache::Tag> tags,
                                   const std::string& owner) const;
  int n_in_cache(const Text& text, size_t n_blocks) const;
  bool append(const Text& text, size_t block, std::span<const std::byte> rows);
  void touch(const std::vector<std::string>& keys);
  bool is_known(const std::string& key) const;
  bool has_room() const;
  void write();

  engine::Engine& engine_;
  const KeepOptions options_;
  const std::function<void()> on_room_;
  const int block_;  // tokens
  const size_t block_bytes_;
  const std::string identity_;  // of all that the bits depend on but the text
  BlockFolder folder_;
  std::deque<Text> texts_;  // to be saved
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> blocks_;         // to be written
  std::set<std::string> under_way_;  // their keys
  Figures figures_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace troika::server
