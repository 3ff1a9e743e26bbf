#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "grammar/grammar_test_support.h"

namespace troika::grammar {
namespace {

// Writes a number of hundredths with as many digits behind the point as are asked for.
std::string hundredths(int n, int n_places) {
  std::string text = std::to_string(std::abs(n));
  text.insert(0, text.size() < 3 ? 3 - text.size() : 0, '0');
  text.insert(text.size() - 2, ".");
  text.erase(text.size() - 2 + static_cast<size_t>(n_places) - (n_places == 0 ? 1 : 0));
  return (n < 0 ? "-" : "") + text;
}

struct NumberCase {
  bool is_integer = false;
  std::vector<int> multiples{}, not_multiples{};  // in hundredths, as all that follows
  int least = 0, most = 0;
  bool has_least = false, has_most = false, is_open = false;
};

std::string schema_of(const NumberCase& c) {
  std::string all;
  for (const int n : c.multiples) {
    all += R"(,{"multipleOf":)" + hundredths(n, 2) + "}";
  }
  for (const int n : c.not_multiples) {
    all += R"(,{"not":{"multipleOf":)" + hundredths(n, 2) + "}}";
  }
  std::string text = std::string(R"({"type":")") + (c.is_integer ? "integer" : "number") + "\"";
  const char* const least = c.is_open ? "exclusiveMinimum" : "minimum";
  const char* const most = c.is_open ? "exclusiveMaximum" : "maximum";
  if (c.has_least) text += std::string(",\"") + least + "\":" + hundredths(c.least, 2);
  if (c.has_most) text += std::string(",\"") + most + "\":" + hundredths(c.most, 2);
  return text + R"(,"allOf":[true)" + all + "]}";
}

bool is_number_of(const NumberCase& c, int n) {
  if (c.is_integer && n % 100 != 0) return false;
  for (const int of : c.multiples) {
    if (n % of != 0) return false;
  }
  for (const int of : c.not_multiples) {
    if (n % of == 0) return false;
  }
  if (c.has_least && (c.is_open ? n <= c.least : n < c.least)) return false;
  return !c.has_most || (c.is_open ? n < c.most : n <= c.most);
}

// Says whether no number of the schema needs a fraction, so that none is written with one.
bool are_whole(const NumberCase& c) {
  int all = 1;
  for (const int n : c.multiples) all = std::lcm(all, n);
  return c.is_integer || (!c.multiples.empty() && all % 100 == 0);
}

// Checks the hundredths from -21 to 21 in random schemas with multiples, bounds and negations.
TEST(Multiples, AgreeWithArithmetic) {
  uint32_t random = 11;
  const int kNumbers[] = {100, 200, 300, 700, 1000, 50, 25, 10, 5, 30, 150};
  const auto some = [&] { return kNumbers[next_random(&random, std::size(kNumbers))]; };
  const auto maybe = [&] { return next_random(&random, 2) == 0; };
  int n_read = 0, n_in = 0;
  for (int i = 0; i < 150; ++i) {
    NumberCase c{.is_integer = maybe()};
    for (uint32_t k = next_random(&random, 3); k > 0; --k) c.multiples.push_back(some());
    for (uint32_t k = next_random(&random, 2); k > 0; --k) c.not_multiples.push_back(some());
    c.has_least = maybe(), c.has_most = maybe(), c.is_open = maybe();
    // Every second bound is a whole number, which is where mistakes are likely.
    const int unit = maybe() ? 100 : 1;
    c.least = (static_cast<int>(next_random(&random, 4001)) - 2500) / unit * unit;
    c.most = (static_cast<int>(next_random(&random, 4001)) - 1500) / unit * unit;
    const std::string schema = schema_of(c);
    bool is_any = false;
    for (int n = -2100; n <= 2100; ++n) is_any |= is_number_of(c, n);
    if (!is_any) continue;  // there may be no number at all, which is refused
    const auto grammar = compiled(schema, Format::kJsonSchema);
    ++n_read;
    for (int n = -2100; n <= 2100; ++n) {
      for (int places = n % 100 == 0 ? 0 : n % 10 == 0 ? 1 : 2; places < 3; ++places) {
        const bool is_in = is_number_of(c, n) && (places == 0 || !are_whole(c));
        n_in += is_in;
        ASSERT_EQ(reads(grammar, hundredths(n, places)), is_in) << schema << hundredths(n, places);
      }
    }
    ASSERT_FALSE(reads(grammar, "05"));
    ASSERT_FALSE(reads(grammar, "-"));
    ASSERT_FALSE(reads(grammar, "0."));
  }
  EXPECT_GT(n_read, 80);
  EXPECT_GT(n_in, 10'000);
}

TEST(Multiples, OfManyDigits) {
  const auto grammar = compiled(R"({"type":"integer","multipleOf":86400,"minimum":86401,
      "maximum":10000000})",
                                Format::kJsonSchema);
  for (int n = 0; n < 120; ++n) {
    EXPECT_EQ(reads(grammar, std::to_string(n * 86400)), n > 1 && n <= 115) << n;
    EXPECT_FALSE(reads(grammar, std::to_string(n * 86400 + 43200))) << n;
  }
  for (const char* const bounds : {"", R"(,"maximum":1000000000)", R"(,"minimum":1)"}) {
    const std::string schema =
        std::string(R"({"type":"integer","multipleOf":86400)") + bounds + "}";
    EXPECT_NE(error_of(schema, Format::kJsonSchema).find("#/multipleOf"), std::string::npos);
  }
}

TEST(Multiples, OfSmallNumbersAreWholeNumbers) {
  const auto grammar =
      compiled(R"({"type":"integer","multipleOf":0.00000001,"minimum":2.5})", Format::kJsonSchema);
  for (const char* const text : {"3", "12391239123"}) EXPECT_TRUE(reads(grammar, text));
  for (const char* const text : {"2", "3.5", "-4", "10.0"})
    EXPECT_FALSE(reads(grammar, text)) << text;
}

// Zeros behind the point of a number that has no fraction are where small models go on without end.
TEST(Multiples, OfWholeNumbersHaveNoPoint) {
  for (const char* const schema :
       {R"({"type":"number","multipleOf":1})", R"({"type":"number","multipleOf":7,"minimum":-3})",
        R"({"multipleOf":7,"not":{"multipleOf":0.4}})"}) {
    const auto grammar = compiled(schema, Format::kJsonSchema);
    EXPECT_TRUE(reads(grammar, "7")) << schema;
    for (const char* const text : {"7.0", "7.000", "14.0"}) {
      EXPECT_FALSE(reads(grammar, text)) << schema << text;
    }
  }
  EXPECT_TRUE(reads(compiled(R"({"multipleOf":0.5})", Format::kJsonSchema), "7.0"));
}

// A number that need not be a multiple may have more digits behind the point than any that is
// named.
TEST(Multiples, NoneOfThemMayHaveAnyDigits) {
  const auto grammar = compiled(R"({"type":"number","not":{"multipleOf":0.5},"minimum":-1.25,
      "exclusiveMaximum":2})",
                                Format::kJsonSchema);
  for (const char* const text : {"0.1", "-1.25", "-1.2500", "1.99999", "0.500001", "-0.001"}) {
    EXPECT_TRUE(reads(grammar, text)) << text;
  }
  for (const char* const text : {"0", "0.5", "-1.0", "-1.25001", "2.01", "1.50", "-0"}) {
    EXPECT_FALSE(reads(grammar, text)) << text;
  }
}

TEST(Multiples, BesideValuesThatAreNamed) {
  const auto grammar =
      compiled(R"({"enum":[0,0.3,1,1.5,-4,"x"],"multipleOf":0.1,"not":{"multipleOf":0.75}})",
               Format::kJsonSchema);
  for (const char* const text : {"0.3", "1", "-4"}) EXPECT_TRUE(reads(grammar, text)) << text;
  for (const char* const text : {"0", "1.5", "2", "\"x\""}) {
    EXPECT_FALSE(reads(grammar, text)) << text;
  }
}

TEST(Multiples, OfDraft4HaveNoPoint) {
  const auto grammar = compiled(R"({"$schema":"http://json-schema.org/draft-04/schema#",
      "type":"integer","multipleOf":3,"minimum":-3})",
                                Format::kJsonSchema);
  for (const char* const text : {"-3", "0", "12"}) EXPECT_TRUE(reads(grammar, text)) << text;
  for (const char* const text : {"3.0", "-6", "4"}) EXPECT_FALSE(reads(grammar, text)) << text;
}

TEST(Numbers, ThatAreNamedCanBeKeptOut) {
  const auto grammar = compiled(R"({"not":{"enum":[0,2.5,-10,true]},"type":["number","boolean"]})",
                                Format::kJsonSchema);
  for (const char* const text : {"1", "2.51", "10", "-1", "0.1", "false"}) {
    EXPECT_TRUE(reads(grammar, text)) << text;
  }
  for (const char* const text : {"0", "-0.0", "2.50", "-10", "-10.0", "true"}) {
    EXPECT_FALSE(reads(grammar, text)) << text;
  }
}

}  // namespace
}  // namespace troika::grammar
