// Checks that schemas of strangers cost what they are allowed to cost, and mean what the standard
// says, however they are made.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/error.h"
#include "base/system.h"
#include "grammar/grammar_test_support.h"
#include "grammar/pool.h"
#include "tests/support/sanitized.h"

namespace troika::grammar {
namespace {

// Returns n times the same text, as the parts of a list.
std::string listed(const std::string& text, int n) {
  std::string list = text;
  for (int i = 1; i < n; ++i) list += "," + text;
  return list;
}

// Returns so many texts of JSON, all different, as the parts of a list.
std::string different_texts(int n) {
  std::string list = "\"0\"";
  for (int i = 1; i < n; ++i) list += ",\"" + std::to_string(i) + "\"";
  return list;
}

CompileOptions with_steps(uint64_t n_steps) {
  CompileOptions options;
  options.limits.n_compile_steps = n_steps;
  return options;
}

// Negated schemas have keywords of their own, and a user's unknown keyword is a remark.
TEST(UntrustedSchemas, CannotUseTheReadersOwnKeywords) {
  for (const char* const schema :
       {R"({"$wanted":{}})", R"({"anyOf":[{"$wanted":{"names":[]}},{}]})", R"({"$notValues":[1]})",
        R"({"$notMultipleOf":1})", R"({"$notPattern":"1"})", R"({"$notFormat":"date"})",
        R"({"$ref":"#/mine","mine":{"$notValues":[1],"$wanted":{}}})"}) {
    EXPECT_TRUE(accepts(compiled(schema, Format::kJsonSchema), "1")) << schema;
  }
  EXPECT_TRUE(accepts(compiled(R"({"$notPattern":"a","$notFormat":"date"})", Format::kJsonSchema),
                      "\"a\""));
  const auto either = compiled(R"({"oneOf":[{"const":1},{"type":"integer","$notValues":[1]}]})",
                               Format::kJsonSchema);
  EXPECT_TRUE(accepts(either, "2"));
  EXPECT_FALSE(accepts(either, "1"));
  const std::string error = error_of(R"({"type":"$fraction"})", Format::kJsonSchema);
  EXPECT_NE(error.find("there is no type \"$fraction\""), std::string::npos) << error;
  EXPECT_NE(error_of("{\"\xffwanted\":{}}", Format::kJsonSchema).find("no JSON"),
            std::string::npos);
  // An error names the user's keyword.
  const std::string regex = error_of(R"x({"not":{"pattern":"a(?=b)"}})x", Format::kJsonSchema);
  EXPECT_NE(regex.find("#/not: in the regular expression"), std::string::npos) << regex;
}

// 2^49 counted members of 2^15 keys are 2^64 states, a number that a word of 64 bits has no room
// for.
TEST(UntrustedSchemas, NumbersOfCountedMembersDoNotOverflow) {
  const std::string error =
      error_of(R"({"type":"object","minProperties":562949953421312,"required":[)" +
                   different_texts((1 << 15) - 1) + "]}",
               Format::kJsonSchema);
  EXPECT_NE(error.find("so many counted properties"), std::string::npos) << error;
}

// What each of many schemas says is asked for each key and each element, and each question is work.
TEST(UntrustedSchemas, WhatManySchemasSayOfManyPartsIsCounted) {
  constexpr int kMany = 2000;
  const auto object = [](int n_schemas) {
    return R"({"type":"object","required":[)" + different_texts(200) + R"(],"allOf":[)" +
           listed(R"({"additionalProperties":{}})", n_schemas) + "]}";
  };
  const auto array = [](int n_schemas) {
    return R"({"type":"array","prefixItems":[)" + listed("true", 200) + R"(],"allOf":[)" +
           listed(R"({"items":true})", n_schemas) + "]}";
  };
  const CompileOptions options = with_steps(150'000);
  EXPECT_NE(compiled(object(2), Format::kJsonSchema, options), nullptr);
  EXPECT_THROW(compiled(object(kMany), Format::kJsonSchema, options), TooMuchWork);
  EXPECT_NE(compiled(array(2), Format::kJsonSchema, options), nullptr);
  EXPECT_THROW(compiled(array(kMany), Format::kJsonSchema, options), TooMuchWork);
}

// A schema with many required keys is compared with many that declare none.
TEST(UntrustedSchemas, ComparisonsWithSchemasWithoutKeysAreCounted) {
  const auto schema = [](int n_ways) {
    return R"({"allOf":[{"type":"object","properties":{"z":false},"required":[)" +
           different_texts(3000) + R"(]}],"anyOf":[)" +
           listed(R"({"type":"object","required":["z"]})", n_ways) + "]}";
  };
  const CompileOptions options = with_steps(100'000);
  try {
    compiled(schema(2), Format::kJsonSchema, options);
    FAIL() << "no object has the key and has it not";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No text fits"), std::string::npos) << error.what();
  }
  EXPECT_THROW(compiled(schema(1000), Format::kJsonSchema, options), TooMuchWork);
}

// A long key stands above each of many values, and none of them keeps a copy of it.
TEST(UntrustedSchemas, LongKeysAreNotCopiedForWhatStandsBelow) {
  const std::string key(100'000, 'k');
  const std::string schema = R"({"$ref":"#/$defs/)" + key + R"(","$defs":{")" + key +
                             R"(":{"enum":[)" + listed("1", 20'000) + "]}}}";
  const size_t most =
      std::max(peak_resident_bytes(), resident_bytes() + (size_t{1} << 30));  // copies take 2 GB
  const auto grammar = compiled(schema, Format::kJsonSchema);
  EXPECT_LE(peak_resident_bytes(), most);
  EXPECT_TRUE(accepts(grammar, "1"));
  EXPECT_FALSE(accepts(grammar, "2"));
}

// A request that was read before a grammar leaves written pages behind, and the grammar must not
// keep them for room that it may never need.
TEST(UntrustedSchemas, RoomThatNobodyHasWrittenToTakesNoPages) {
#ifndef __GLIBC__
  GTEST_SKIP() << "Only malloc() of glibc can be told to give free pages back.";
#else
  if (test::kIsSanitized) GTEST_SKIP() << "Sanitizers have a malloc() of their own.";
  constexpr size_t kMany = 12, kLarge = size_t{20} << 20;
  // malloc() takes pages anew for so large a block until the first of them is freed.
  { const std::vector<char> first(kLarge, 1); }
  std::vector<std::vector<char>> read, between;
  for (size_t i = 0; i < kMany; ++i) {
    read.emplace_back(kLarge - 4096, 1);
    between.emplace_back(size_t{100'000}, 1);
  }
  read.clear();
  std::vector<std::unique_ptr<Pool>> pools;
  const Limits limits;
  for (size_t i = 0; i < kMany; ++i) pools.push_back(std::make_unique<Pool>(limits));
  malloc_trim(0);
  const size_t with_pools = resident_anonymous_bytes();
  pools.clear();
  malloc_trim(0);
  // Each pool writes to the first pages of three lists, which may be huge ones of 2 MiB. The list
  // that would lie in written pages has 8 MiB.
  EXPECT_LE(with_pools, resident_anonymous_bytes() + kMany * (size_t{7} << 20));
#endif
}

// Each value of a text is work, so a large text is not read where there is little time.
TEST(UntrustedSchemas, ValuesOfATextAreCounted) {
  const std::string schema = R"({"type":"null","examples":[)" + listed("1", 3000) + "]}";
  EXPECT_THROW(compiled(schema, Format::kJsonSchema, with_steps(2000)), TooMuchWork);
  EXPECT_NE(compiled(schema, Format::kJsonSchema, with_steps(10'000)), nullptr);
}

// Long texts are copied, however few they are.
TEST(UntrustedSchemas, BytesOfATextAreCounted) {
  const std::string schema =
      R"({"type":"null","description":")" + std::string(1'000'000, 'a') + "\"}";
  EXPECT_THROW(compiled(schema, Format::kJsonSchema, with_steps(50'000)), TooMuchWork);
  EXPECT_NE(compiled(schema, Format::kJsonSchema, with_steps(100'000)), nullptr);
}

// Addresses of schemas below a long address are as long, whatever they say themselves.
TEST(UntrustedSchemas, AddressesBelowALongAddressAreCounted) {
  const std::string schema = R"({"type":"null","$id":"http://x/)" + std::string(100'000, 'a') +
                             R"(/","allOf":[)" + listed(R"({"$id":"b"})", 200) + "]}";
  EXPECT_THROW(compiled(schema, Format::kJsonSchema, with_steps(500'000)), TooMuchWork);
}

// A reference of a long text is looked up once, however many schemas lead through it.
TEST(UntrustedSchemas, ReferencesAreLookedUpOnce) {
  const std::string key(100'000, 'k');
  const std::string schema = R"({"oneOf":[)" + listed(R"({"$ref":"#/$defs/s"})", 40) +
                             R"(],"$defs":{"s":{"$ref":"#/$defs/)" + key + R"("},")" + key +
                             R"(":false}})";
  const std::string error = error_of(schema, Format::kJsonSchema);
  EXPECT_NE(error.find("No text fits"), std::string::npos) << error;
  try {
    compiled(schema, Format::kJsonSchema, with_steps(40'000));
    FAIL() << "no text fits this";
  } catch (const TooMuchWork& error) {
    FAIL() << error.what();
  } catch (const Error&) {
  }
}

TEST(UntrustedSchemas, PointersNameWhatStandsThere) {
  const auto grammar = compiled(R"({"prefixItems":[{"$ref":"#/$defs/a~1b~0c/0"},
      {"$ref":"#/$defs/a~1b~0c/1"},{"$ref":"#/prefixItems/1"}],"type":"array","items":false,
      "$defs":{"a/b~c":[{"type":"null"},{"type":"integer"}]}})",
                                Format::kJsonSchema);
  EXPECT_TRUE(accepts(grammar, "[null,1,2]"));
  EXPECT_FALSE(accepts(grammar, "[1,1,2]"));
  EXPECT_FALSE(accepts(grammar, "[null,1,null]"));
  for (const char* const pointer : {"#/$defs/2", "#/$defs/01", "#/$defs/-", "#/$defs/0/", "#/a~b",
                                    "#/$defs/99999999999999999999", "#/$defs/"}) {
    const std::string error =
        error_of(std::string(R"({"$ref":")") + pointer + R"(","a~b":true,"$defs":[true,true]})",
                 Format::kJsonSchema);
    EXPECT_NE(error.find(std::string("there is no '") + pointer), std::string::npos) << error;
  }
}

// A long text that is kept out is read once, and not for each value that is named beside it.
TEST(UntrustedSchemas, TextsThatAreKeptOutAreReadOnce) {
  const std::string schema = R"({"type":"string","enum":[)" + different_texts(200) +
                             R"(],"not":{"const":")" + std::string(2000, 'a') + R"("}})";
  const auto grammar = compiled(schema, Format::kJsonSchema, with_steps(100'000));
  EXPECT_TRUE(accepts(grammar, "\"199\""));
  EXPECT_FALSE(accepts(grammar, "\"200\""));
}

// Many schemas may lead to the same large value, which is written once.
TEST(UntrustedSchemas, AValueThatManySchemasLeadToIsWrittenOnce) {
  const auto schema = [](const std::string& value, int n_ways) {
    std::string ways;
    for (int i = 0; i < n_ways; ++i) {
      ways += fmt::format(R"({}{{"$ref":"#/$defs/b","title":"{}"}})", i > 0 ? "," : "", i);
    }
    return R"({"$defs":{"b":{"const":)" + value + R"(}},"anyOf":[)" + ways + "]}";
  };
  const std::string list = "[" + listed("1", 5000) + "]";
  const auto grammar = compiled(schema(list, 200), Format::kJsonSchema, with_steps(100'000));
  EXPECT_TRUE(accepts(grammar, list));
  EXPECT_FALSE(accepts(grammar, "[1]"));
  const std::string text = "\"" + std::string(5000, 'a') + "\"";
  EXPECT_TRUE(accepts(compiled(schema(text, 100), Format::kJsonSchema, with_steps(100'000)), text));
}

// Values that differ at their ends only are compared as far.
TEST(UntrustedSchemas, ComparisonsOfLargeValuesAreCounted) {
  std::string values, same;
  for (int i = 0; i < 60; ++i) {
    values += (i > 0 ? "," : "") + ("[" + listed("1", 1000) + "," + std::to_string(i) + "]");
    same += (i > 0 ? "," : "") + ("[" + listed("[1]", 10) + "," + std::to_string(i) + "]");
  }
  const auto compile = [](const std::string& list) {
    return compiled(R"({"enum":[)" + list + R"(],"allOf":[{"enum":[)" + list + "]}]}",
                    Format::kJsonSchema, with_steps(150'000));
  };
  EXPECT_NE(compile(same), nullptr);
  EXPECT_THROW(compile(values), TooMuchWork);
}

// Whoever writes what is known already adds no expression, and is counted nevertheless.
TEST(UntrustedSchemas, ExpressionsThatAreFoundAgainAreCounted) {
  Limits limits;
  limits.n_compile_steps = 1000;
  Pool pool(limits);
  const auto write = [&](int n) {
    for (int i = 0; i < n; ++i) pool.literal("known");
  };
  write(50);
  EXPECT_THROW(write(100'000), TooMuchWork);
}

TEST(UntrustedSchemas, CharactersOfTextsAreCounted) {
  // Behind the first one, the texts have all characters and their ends in common.
  std::string texts;
  for (int i = 0; i < 100; ++i) {
    texts += (i > 0 ? "," : "") + std::string("\"") + std::string(static_cast<size_t>(i), 'a') +
             std::string(1000, 'b') + "\"";
  }
  const std::string schema = R"({"type":"string","maxLength":1,"not":{"enum":[)" + texts + "]}}";
  EXPECT_THROW(compiled(schema, Format::kJsonSchema, with_steps(100'000)), TooMuchWork);
}

// The largest numbers have other bits than their signs tell.
TEST(UntrustedSchemas, LargestNumbersAreWhatTheyAre) {
  const auto large =
      compiled(R"({"enum":[18446744073709551615,-1],"not":{"const":-1}})", Format::kJsonSchema);
  EXPECT_TRUE(accepts(large, "18446744073709551615"));
  EXPECT_FALSE(accepts(large, "-1"));
  const auto bounded =
      compiled(R"({"enum":[18446744073709551600,-20],"maximum":-3})", Format::kJsonSchema);
  EXPECT_TRUE(accepts(bounded, "-20"));
  EXPECT_FALSE(accepts(bounded, "18446744073709551600"));
  const auto open = compiled(R"({"enum":[3,4,5,6.5],"exclusiveMinimum":3,"exclusiveMaximum":6.5})",
                             Format::kJsonSchema);
  EXPECT_FALSE(accepts(open, "3"));
  EXPECT_TRUE(accepts(open, "4"));
  EXPECT_FALSE(accepts(open, "6.5"));
  for (const char* const keyword : {"minLength", "maxLength", "minItems", "maxProperties"}) {
    for (const char* const n : {"9223372036854775807", "9223372036854775808",
                                "18446744073709551615", "1000000000000001"}) {
      const std::string error =
          error_of(std::string(R"({"not":{")") + keyword + "\":" + n + "}}", Format::kJsonSchema);
      EXPECT_NE(error.find(std::string("#/not: 'not' of '") + keyword), std::string::npos) << error;
    }
  }
}

}  // namespace
}  // namespace troika::grammar
