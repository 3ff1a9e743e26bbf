// Remembers the tokens of words, because the same words come again and again within one call of
// encode.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "text/vocabulary.h"

namespace troika::text {

class WordCache {
 public:
  // Appends the tokens of `word` to `out` if it was seen before, otherwise calls `encode(word)`,
  // which must append them. `out` must be the same vector in all calls and only grow, and the bytes
  // of all words must stay where they are.
  template <typename Encode>
  void append(std::string_view word, std::vector<Token>* out, const Encode& encode) {
    if (word.size() > kMaxWordBytes) {
      encode(word);
      return;
    }
    const auto it = words_.find(word);
    if (it == words_.end()) {
      const size_t begin = out->size();
      encode(word);
      if (words_.size() < kMaxWords) words_.emplace(word, Range{begin, out->size() - begin});
      return;
    }
    const Range range = it->second;
    for (size_t i = 0; i < range.count; ++i) out->push_back((*out)[range.begin + i]);
  }

 private:
  static constexpr size_t kMaxWordBytes = 64;
  static constexpr size_t kMaxWords = size_t{1} << 18;
  struct Range {
    size_t begin;
    size_t count;
  };
  std::unordered_map<std::string_view, Range, HashOfNames> words_;
};

}  // namespace troika::text
