// Reads any bytes as a history. The result must be texts of known tokens, or an error with a
// sentence.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "draft/history.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using troika::draft::Token;
  constexpr int kVocab = 4096;
  constexpr uint64_t kTokenizer = 0x5eed;
  const troika::draft::HistoryFile file("fuzzed", kTokenizer, kVocab);
  try {
    size_t n_valid = 0;
    std::string problem;
    auto texts = std::make_shared<troika::draft::Texts>(
        file.parse(std::as_bytes(std::span(data, size)), &n_valid, &problem));
    if (n_valid > size || (n_valid < size && problem.empty())) std::abort();
    for (const auto& text : *texts) {
      for (const Token token : text) {
        if (token < 0 || token >= kVocab) std::abort();
      }
    }
    troika::draft::HistorySource source(texts);
    if (texts->empty()) return 0;
    source.observe(texts->front());
    troika::draft::Tree tree;
    source.propose(31, &tree);
    if (tree.size() > 31) std::abort();
  } catch (const troika::Error&) {
  }
  return 0;
}
