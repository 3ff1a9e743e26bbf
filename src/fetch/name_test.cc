#include "fetch/name.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace troika::fetch {
namespace {

TEST(ModelName, PartsOfAName) {
  ModelName name = parse_model_name("hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0");
  EXPECT_EQ(name.org, "Qwen");
  EXPECT_EQ(name.repo, "Qwen2.5-0.5B-Instruct-GGUF");
  EXPECT_EQ(name.quant, "Q8_0");
  EXPECT_EQ(name.text(), "hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0");
  name = parse_model_name("hf:a/b");
  EXPECT_EQ(name.quant, "");
  EXPECT_EQ(name.text(), "hf:a/b");
  EXPECT_EQ(parse_model_name("hf:a/b:model.Q4_0.gguf").quant, "model.Q4_0.gguf");
  EXPECT_EQ(parse_model_name("hf:a/b:Q4 0/model.gguf").quant, "Q4 0/model.gguf");
}

TEST(ModelName, WhatIsNone) {
  for (const char* text : {"", "hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/b:", "hf:a/b/c", "hf:../b",
                           "hf:a/..", "hf:a/.b", "hf:a/b:../c", "hf:a/b:/c", "hf:a/b:c/../d",
                           "hf:a b/c", "hf:a/b?x", "hf:a/b\n", "a/b", "hf:\xc3\xa4/b"}) {
    EXPECT_THROW(parse_model_name(text), UsageError) << text;
  }
  EXPECT_THROW(parse_model_name("hf:a/" + std::string(97, 'b')), UsageError);
  EXPECT_FALSE(is_model_name("model.gguf"));
  EXPECT_FALSE(is_model_name("./hf:a/b"));
  EXPECT_TRUE(is_model_name("hf:x"));
}

TEST(SafePath, StaysBelowItsFolder) {
  for (const char* path : {"a.gguf", "Q4_K_M/a-00001-of-00002.gguf", "a b.gguf", "\xc3\xa4.gguf"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const char* path : {"", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a/.hidden",
                           "a\\b", "a\nb", "a\x7f", "a\xc2\x80",
                           "\xc2\x9b"
                           "2J.gguf"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
  EXPECT_TRUE(is_safe_path("\xc2\xa0"));
  // The name of a download's part is longer than that of the file, and must fit too.
  EXPECT_TRUE(is_safe_path(std::string(227, 'a')));
  EXPECT_FALSE(is_safe_path(std::string(228, 'a')));
  EXPECT_FALSE(is_safe_path(std::string("a\0b", 3)));
}

TEST(SafePath, WhatLeadsOut) {
  for (const char* path : {"..", "../a", "a/..", "a/../b", "/a", "/"}) {
    EXPECT_TRUE(leads_out(path)) << path;
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
  for (const char* path : {"", "a", "...", "..a/b", ".a", "a..b", "a//b"}) {
    EXPECT_FALSE(leads_out(path)) << path;
  }
}

}  // namespace
}  // namespace troika::fetch
