#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/error.h"
#include "tests/support/vocabularies.h"

namespace troika::text {
namespace {

// Texts that nobody may read stand for texts that take more memory than there is.
TEST(Tokenizer, RefusesTextsWhosePlacesAreNoNumbersOf32Bits) {
  constexpr size_t kBytes = size_t{1} << 32;
  void* const pages =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const std::string_view long_text(static_cast<const char*>(pages), kBytes);
  const auto expect_refused = [](auto encode) {
    try {
      encode();
      FAIL() << "no error";
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("at most 1073741824"), std::string::npos) << message;
    }
  };
  for (const Vocabulary& vocabulary :
       {test::bpe_vocabulary({"a b"}, "gpt-2"), test::spm_vocabulary({"a"})}) {
    const auto tokenizer = make_tokenizer(vocabulary);
    for (const size_t n : {(size_t{1} << 30) + 1, kBytes}) {
      expect_refused([&] { tokenizer->encode(long_text.substr(0, n)); });
      const Tokenizer::TextPart parts[] = {{long_text.substr(0, n / 2)},
                                           {long_text.substr(n / 2, n - n / 2)}};
      expect_refused([&] { tokenizer->encode_parts(parts); });
    }
  }
  munmap(pages, kBytes);
}

}  // namespace
}  // namespace troika::text
