// Answers of earlier runs of a task, in a file (D5). Programs may share it: each reads and writes
// under a lock, appends whole records with a checksum, and drops what a cut-off write left behind.
//
// The file is a header of 32 bytes and records. Header: "TROIKAHI", version (u32), 0 (u32),
// identity of the tokenizer (u64), checksum of these 24 bytes (u64). Record: number of tokens
// (u32), 0 (u32), checksum of number and tokens (u64), tokens (u32 each). Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/batch.h"

namespace troika::draft {

using cache::Token;
using Texts = std::vector<std::vector<Token>>;

// Limits the tokens that all texts of a file have together; when there are more, the oldest texts
// are dropped.
inline constexpr size_t kMostHistoryTokens = 64 * 1024;

class HistoryFile {
 public:
  // `tokenizer` is an identity: equal ones mean the same by each token. REQUIRES: n_vocab >= 1.
  HistoryFile(std::string path, uint64_t tokenizer, int n_vocab);

  // Returns the texts, the oldest first; none where there is no file yet. `problem` says what was
  // dropped, if anything was. Throws Error for a file that is no history, or one of another
  // tokenizer.
  Texts read(std::string* problem) const;
  // Adds a text, cut to the most that a history holds, and makes the file and its folder where they
  // are missing. Throws Error.
  void append(std::span<const Token> text) const;

  const std::string& path() const { return path_; }

  // Reads the texts from the bytes of a file. Throws Error as `read` does. `n_valid` gets the
  // number of bytes before the first that makes no sense.
  Texts parse(std::span<const std::byte> bytes, size_t* n_valid, std::string* problem) const;

 private:
  std::string header() const;
  void rewrite(Texts texts, std::span<const Token> text) const;

  std::string path_;
  uint64_t tokenizer_;
  int n_vocab_;
};

// Returns a number that is equal where all tokens are.
uint64_t identity_of_tokens(const std::vector<std::string>& tokens);

}  // namespace troika::draft
