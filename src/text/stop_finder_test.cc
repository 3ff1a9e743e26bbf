#include "text/stop_finder.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace troika::text {
namespace {

// Returns a number below `end`.
size_t next_number(uint32_t* random, size_t end) {
  *random = *random * 1664525 + 1013904223;
  return (*random >> 8) % end;
}

// Finds stop strings by looking through all held text again for each piece.
struct PlainStopFinder {
  std::vector<std::string> stops;
  std::string held, found;

  std::string push(std::string_view text) {
    if (!found.empty()) return "";
    held += text;
    size_t first = 0;
    for (const std::string& stop : stops) {
      const size_t at = held.find(stop);
      if (stop.empty() || at == std::string::npos) continue;
      const size_t end = at + stop.size(), best = first + found.size();
      if (found.empty() || end < best || (end == best && at < first)) {
        first = at;
        found = stop;
      }
    }
    std::string out = held.substr(0, found.empty() ? held.size() - possible_stop_bytes() : first);
    held.erase(0, found.empty() ? out.size() : held.size());
    return out;
  }

  size_t possible_stop_bytes() const {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      for (size_t n = 1; n < stop.size() && n <= held.size(); ++n) {
        if (held.ends_with(stop.substr(0, n))) longest = std::max(longest, n);
      }
    }
    return longest;
  }
};

TEST(StopFinder, HoldsBackWhatMayBecomeAStop) {
  StopFinder finder({"END", "\n\n"});
  EXPECT_EQ(finder.push("text E"), "text ");
  EXPECT_EQ(finder.push("N"), "");
  EXPECT_EQ(finder.push("E\n"), "ENE");
  EXPECT_EQ(finder.push("x"), "\nx");
  EXPECT_EQ(finder.push("EN"), "");
  EXPECT_FALSE(finder.stopped());
  EXPECT_EQ(finder.push("D and more"), "");
  EXPECT_TRUE(finder.stopped());
  EXPECT_EQ(finder.found(), "END");
  EXPECT_EQ(finder.push("more"), "");
  EXPECT_EQ(finder.finish(), "");
}

TEST(StopFinder, FindsAStopThatBeginsInsideAFailedOne) {
  StopFinder finder({"aab"});
  EXPECT_EQ(finder.push("aaab!"), "a");
  EXPECT_TRUE(finder.stopped());
}

TEST(StopFinder, TheEarliestWins) {
  StopFinder finder({"second", "first", "firs"});
  EXPECT_EQ(finder.push("the first and second"), "the ");
  EXPECT_EQ(finder.found(), "firs");
}

TEST(StopFinder, PiecesFindWhatTheWholeFinds) {
  uint32_t random = 1;
  const auto random_text = [&](size_t most) {
    std::string text;
    for (size_t n = next_number(&random, most) + 1; n > 0; --n) {
      text += static_cast<char>('a' + next_number(&random, 3));
    }
    return text;
  };
  int n_stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (int i = 0; i < 3; ++i) stops.push_back(random_text(4));
    const std::string text = random_text(12);
    StopFinder whole(stops), bytes(stops);
    std::string out = whole.push(text);
    out += whole.finish();
    std::string pieces;
    for (const char& c : text) pieces += bytes.push({&c, 1});
    pieces += bytes.finish();
    EXPECT_EQ(pieces, out) << text;
    EXPECT_EQ(bytes.found(), whole.found()) << text;
    n_stopped += whole.stopped() ? 1 : 0;
  }
  EXPECT_GT(n_stopped, 500);
  EXPECT_LT(n_stopped, 2000);
  StopFinder finder({"abcd", "bc"});
  EXPECT_EQ(finder.push("abcd"), "a");
  EXPECT_EQ(finder.found(), "bc");
}

TEST(StopFinder, GivesTheRestAtTheEnd) {
  StopFinder finder({"", "END"});
  EXPECT_EQ(finder.push("E"), "");
  EXPECT_EQ(finder.finish(), "E");
  EXPECT_FALSE(finder.stopped());
}

// Few letters make stop strings begin and end with each other in all ways.
TEST(StopFinder, SaysPieceByPieceWhatThePlainOneSays) {
  uint32_t random = 1;
  int n_stopped = 0, n_held = 0;
  for (int round = 0; round < 20000; ++round) {
    const size_t n_letters = 1 + next_number(&random, 3);
    const auto random_text = [&](size_t end) {
      std::string text;
      for (size_t n = next_number(&random, end); n > 0; --n) {
        text += "a\xffz"[next_number(&random, n_letters)];
      }
      return text;
    };
    std::vector<std::string> stops;
    const size_t longest = 2 + next_number(&random, 9);
    for (size_t n = next_number(&random, 6); n > 0; --n) stops.push_back(random_text(longest));
    StopFinder finder(stops);
    PlainStopFinder plain{stops, "", ""};
    for (int piece = 0; piece < 8; ++piece) {
      const std::string text = random_text(6);
      ASSERT_EQ(finder.push(text), plain.push(text)) << "round " << round;
      ASSERT_EQ(finder.found(), plain.found) << "round " << round;
    }
    n_stopped += finder.stopped() ? 1 : 0;
    n_held += plain.held.empty() ? 0 : 1;
    ASSERT_EQ(finder.finish(), plain.held) << "round " << round;
    ASSERT_EQ(finder.finish(), "");
  }
  EXPECT_GT(n_stopped, 5000);
  EXPECT_GT(n_held, 1000);
}

// Quadratic time would mean hours.
TEST(StopFinder, LongStopsThatNearlyComeCostNoTime) {
  const std::string spaces(20000, ' ');
  StopFinder finder({spaces + spaces + "x", spaces + "y" + spaces, spaces + "z"});
  size_t n_out = 0;
  for (int i = 0; i < 1 << 20; ++i) n_out += finder.push(" ").size();
  EXPECT_EQ(n_out, (size_t{1} << 20) - 40000);
  EXPECT_EQ(finder.push("y" + spaces.substr(1)), spaces) << "what begins the second is held";
  EXPECT_FALSE(finder.stopped());
  EXPECT_EQ(finder.push(" x"), "");
  EXPECT_EQ(finder.found(), spaces + "y" + spaces);
}

}  // namespace
}  // namespace troika::text
