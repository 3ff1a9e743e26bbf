#include "base/option_names.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

std::string flag(std::string_view name) { return "--" + std::string(name); }

TEST(OptionNames, EveryMarkIsNamed) {
  EXPECT_EQ(with_option_names("‹context› 5 and ‹kv› q8_0.", flag), "--context 5 and --kv q8_0.");
  EXPECT_EQ(with_option_names("‹kv›", flag), "--kv");
}

TEST(OptionNames, OtherTextStays) {
  for (const char* text : {"", "a plain sentence", "‹ never closed", "› ‹", "never opened ›"}) {
    EXPECT_EQ(with_option_names(text, flag), text);
  }
}

}  // namespace
}  // namespace troika
