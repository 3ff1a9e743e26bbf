// Holds the pre-tokenizers: how each family of models cuts text into words before byte-level BPE. A
// model works only with the one that it was trained with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/characters.h"

namespace troika::text {

// Returns the end of the match that begins at `at`, or `at` if there is none.
using Match = size_t (*)(const View& view, size_t at);

// Appends the ends of the pieces into which a view is cut; the last one is the end of the view.
using Cut = void (*)(const View& view, std::vector<size_t>* ends);

// Makes pieces of the leftmost matches, and of what lies between them.
template <Match match>
void split_by(const View& view, std::vector<size_t>* ends) {
  size_t piece = view.begin();
  for (size_t at = view.begin(); at < view.end();) {
    const size_t end = match(view, at);
    if (end == at) {
      ++at;
      continue;
    }
    if (at > piece) ends->push_back(at);
    ends->push_back(end);
    piece = at = end;
  }
  if (piece < view.end()) ends->push_back(view.end());
}

struct Splitter {
  std::vector<Cut> cuts;  // each takes the pieces of the one before
  // Says that a word which is a token as a whole is not built by merges.
  bool ignore_merges = false;
};

// Throws Error, with the known names, where no pre-tokenizer has this name (tokenizer.ggml.pre).
Splitter find_splitter(std::string_view name);
// Throws UsageError, with the known names, where no pre-tokenizer has the name that somebody gave.
void check_given_splitter(std::string_view name);
std::vector<std::string_view> splitter_names();

// Returns the words of a text: views of it, without gaps.
std::vector<std::string_view> split(const Splitter& splitter, std::string_view text);

}  // namespace troika::text
