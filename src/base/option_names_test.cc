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

TEST(OptionNames, CommandsLoseTheirFlags) {
  EXPECT_EQ(
      without_flags("Make one with 'troika plan MODEL --calibrate TEXT --alternatives -o p.json',"
                    " or 'troika tune MODEL'."),
      "Make one with 'troika plan MODEL' (with calibrate, alternatives), or 'troika tune MODEL'.");
  EXPECT_EQ(without_flags("'troika cache --remove-all'"), "'troika cache' (with remove-all)");
  EXPECT_EQ(without_flags("'troika plan MODEL -o p.json'"), "'troika plan MODEL'");
  EXPECT_EQ(without_flags("Run 'troika plan MODEL -o o'brien/p.json'."),
            "Run 'troika plan MODEL'.");
}

TEST(OptionNames, TextThatIsNoCommandKeepsItsDashes) {
  for (const char* text : {"", "a - b --c", "'other --c'", "'troika never --closed"}) {
    EXPECT_EQ(without_flags(text), text);
  }
}

}  // namespace
}  // namespace troika
