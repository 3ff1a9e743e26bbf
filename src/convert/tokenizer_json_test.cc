#include "convert/tokenizer_json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "convert/sentencepiece.h"
#include "tests/support/temp_folder.h"

namespace troika::convert {
namespace {

using test::message_of;

// What is replaced in a token costs time that grows with the square of its length.
TEST(AddToken, RefusesATokenThatIsLongerThanAny) {
  const std::string spaces = "\xe2\x96\x81\xe2\x96\x81";
  const auto longest = [&](size_t n_more) {
    return spaces + std::string(kMostTokenBytes - spaces.size() + n_more, 'a');
  };
  text::Vocabulary v;
  add_token(0, longest(0), false, "tokenizer.json", &v);
  EXPECT_EQ(v.tokens.at(0), "  " + longest(0).substr(spaces.size()));
  for (const bool is_special : {false, true}) {
    const std::string message =
        message_of<Error>([&] { add_token(1, longest(1), is_special, "tokenizer.json", &v); });
    EXPECT_TRUE(message.starts_with("tokenizer.json: token 1 has 4097 bytes")) << message;
  }
}

}  // namespace
}  // namespace troika::convert
