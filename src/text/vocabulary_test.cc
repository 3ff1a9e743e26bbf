#include "text/vocabulary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tests/support/raw_gguf_bytes.h"
#include "tests/support/temp_folder.h"
#include "text/tokenizer.h"

namespace troika::text {
namespace {

// The contents of a file: a test changes some of a file that is otherwise good.
struct Contents {
  std::string architecture = "llama";
  std::string model = "llama";
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "a", "▁"};
  std::vector<float> scores = {0, 0, 0, -1, -2};
  std::vector<int32_t> types = {2, 3, 3, 1, 1};
  std::vector<std::string> merges;
  std::map<std::string, int64_t> ids;
  std::map<std::string, bool> flags;
  std::map<std::string, std::string> strings;
  std::string name;
  std::vector<int32_t> stripping;
};

class ReadVocabulary : public ::testing::Test {
 protected:
  Vocabulary read(const Contents& c) {
    const std::string path = folder_.file("vocabulary.gguf");
    gguf::Writer writer(path);
    writer.add_string("general.architecture", c.architecture);
    if (!c.model.empty()) writer.add_string("tokenizer.ggml.model", c.model);
    if (!c.tokens.empty()) writer.add_strings("tokenizer.ggml.tokens", c.tokens);
    if (!c.scores.empty()) writer.add_floats("tokenizer.ggml.scores", c.scores);
    if (!c.types.empty()) writer.add_int32s("tokenizer.ggml.token_type", c.types);
    if (!c.merges.empty()) writer.add_strings("tokenizer.ggml.merges", c.merges);
    for (const auto& [key, id] : c.ids) {
      writer.add_uint32("tokenizer.ggml." + key, static_cast<uint32_t>(id));
    }
    for (const auto& [key, flag] : c.flags) writer.add_bool("tokenizer.ggml." + key, flag);
    for (const auto& [key, text] : c.strings) writer.add_string("tokenizer." + key, text);
    if (!c.name.empty()) writer.add_string("general.name", c.name);
    if (!c.stripping.empty()) writer.add_int32s(kStripsRightKey, c.stripping);
    writer.begin_data();
    writer.finish();
    return read_vocabulary(gguf::File::open(path));
  }

  std::string error(const Contents& c) {
    try {
      read(c);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  void expect_error(const Contents& c, const std::string& part) {
    const std::string message = error(c);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

 private:
  test::TempFolder folder_;
};

Contents bpe_contents() {
  Contents c;
  c.model = "gpt2";
  c.tokens = {"a", "b", "ab", "<|x|>"};
  c.scores = {};
  c.types = {1, 1, 1, 3};
  c.merges = {"a b"};
  return c;
}

TEST_F(ReadVocabulary, KnowsWhichTokensTakeTheWhiteSpaceBehindThem) {
  EXPECT_TRUE(read({}).strips_right.empty());
  Contents c;
  c.name = "Phi 3 Mini 128k Instruct";
  EXPECT_EQ(read(c).strips_right, (std::vector<bool>{false, false, true, false, false}));
  c.stripping = {1, 3};
  EXPECT_EQ(read(c).strips_right, (std::vector<bool>{false, true, false, true, false}));
  c.stripping = {5};
  expect_error(c, "names token 5, but the vocabulary has 5 tokens");
}

TEST_F(ReadVocabulary, KnowsWhereASpaceIsPut) {
  EXPECT_EQ(read({}).space_rule, SpaceRule::kEachText);
  Contents c;
  c.strings = {{"troika.space_prefix", "first"}};
  EXPECT_EQ(read(c).space_rule, SpaceRule::kFirstOfAll);
  c.strings = {{"troika.space_prefix", "unless_there"}};
  EXPECT_EQ(read(c).space_rule, SpaceRule::kUnlessThere);
  c.strings = {{"troika.space_prefix", "last"}};
  expect_error(c, "\"last\", which this program does not know");
}

TEST_F(ReadVocabulary, TakesTheDefaultsThatFilesAreWrittenFor) {
  const Vocabulary v = read({});
  EXPECT_EQ(v.kind, VocabularyKind::kSpm);
  EXPECT_EQ(v.bos, 1);
  EXPECT_EQ(v.eos, 2);
  EXPECT_EQ(v.unk, 0);
  EXPECT_TRUE(v.add_bos);
  EXPECT_FALSE(v.add_eos);
  EXPECT_TRUE(v.add_space_prefix);
  EXPECT_EQ(v.types[3], TokenType::kNormal);
  EXPECT_EQ(v.chat_template, "");
}

TEST_F(ReadVocabulary, TakesWhatTheFileSays) {
  Contents c;
  c.ids = {{"bos_token_id", 3}, {"eos_token_id", 4}, {"eot_token_id", 0}};
  c.flags = {{"add_bos_token", false}, {"add_eos_token", true}, {"add_space_prefix", false}};
  c.strings = {{"chat_template", "{{ messages }}"}};
  const Vocabulary v = read(c);
  EXPECT_EQ(v.bos, 3);
  EXPECT_EQ(v.eos, 4);
  EXPECT_EQ(v.eot, 0);
  EXPECT_FALSE(v.add_bos);
  EXPECT_TRUE(v.add_eos);
  EXPECT_FALSE(v.add_space_prefix);
  EXPECT_EQ(v.chat_template, "{{ messages }}");
}

TEST_F(ReadVocabulary, RequestsWithToolsMayHaveATemplateOfTheirOwn) {
  Contents c;
  c.strings = {{"chat_template", "plain"}, {"chat_template.tool_use", "tools"}};
  EXPECT_EQ(read(c).chat_template, "plain");
  EXPECT_EQ(read(c).tool_template, "tools");
  c.strings.erase("chat_template");
  EXPECT_EQ(read(c).chat_template, "tools");
  EXPECT_EQ(read(c).tool_template, "");
}

TEST_F(ReadVocabulary, ByteLevelBpe) {
  Contents c = bpe_contents();
  c.strings = {{"ggml.pre", "qwen2"}};
  c.ids = {{"eos_token_id", 3}};
  const Vocabulary v = read(c);
  EXPECT_EQ(v.kind, VocabularyKind::kBpe);
  EXPECT_EQ(v.pre, "qwen2");
  EXPECT_EQ(v.merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(v.bos, kNoToken);
  EXPECT_FALSE(v.add_bos);
  // Llama 3 wants a BOS whether or not its file says so.
  c.strings = {{"ggml.pre", "llama-bpe"}};
  c.ids["bos_token_id"] = 3;
  EXPECT_TRUE(read(c).add_bos);
}

// A splitter that is no model's own gives other tokens than the model was trained on, so that it is
// never taken in silence.
TEST_F(ReadVocabulary, SaysWhereTheFileNamesNoPreTokenizer) {
  struct Case {
    std::string architecture, named, pre;
    PreOrigin origin;
    std::string part;
  };
  const Case cases[] = {
      {"llama", "", "default", PreOrigin::kNobody, "default is used, which is no model's own"},
      {"qwen3", "", "default", PreOrigin::kNobody, "with ‹pre› (llama-bpe, qwen2, gpt-2, ...)"},
      {"phi2", "", "gpt-2", PreOrigin::kArchitecture, "gpt-2 is used, as models of its"},
      {"qwen2", "", "qwen2", PreOrigin::kArchitecture, "qwen2 is used, as models of its"},
      {"qwen2moe", "", "qwen2", PreOrigin::kArchitecture, "qwen2 is used, as models of its"},
      {"qwen2", "deepseek-llm", "deepseek-llm", PreOrigin::kNamed, ""},
      {"llama", "default", "default", PreOrigin::kNamed, ""}};
  for (const Case& one : cases) {
    Contents c = bpe_contents();
    c.architecture = one.architecture;
    if (!one.named.empty()) c.strings = {{"ggml.pre", one.named}};
    const Vocabulary v = read(c);
    EXPECT_EQ(v.pre, one.pre) << one.architecture;
    EXPECT_EQ(v.pre_origin, one.origin) << one.architecture;
    const std::string note = note_on_pre(v);
    EXPECT_EQ(note.empty(), one.part.empty()) << note;
    EXPECT_NE(note.find(one.part), std::string::npos) << note;
    const auto named = make_tokenizer(v, {.pre = "gpt-2"});
    EXPECT_EQ(note_on_pre(named->vocabulary()), "") << one.architecture;
  }
  EXPECT_EQ(note_on_pre(read({})), "") << "SentencePiece splits nothing";
  Contents empty = bpe_contents();
  empty.strings = {{"ggml.pre", ""}};
  EXPECT_EQ(read(empty).pre_origin, PreOrigin::kNobody);
}

TEST_F(ReadVocabulary, RefusesWhatContradictsItself) {
  Contents c;
  c.model = "";
  expect_error(c, "has no tokenizer");
  c.model = "rwkv";
  expect_error(c, "\"rwkv\"");
  c.model = "\x1b]0;x\x07";
  expect_error(c, "of the kind \"\\x1b]0;x\\x07\"");
  c = {};
  c.tokens.clear();
  expect_error(c, "no tokens");
  c = {};
  c.scores.pop_back();
  expect_error(c, "5 tokens but 4 scores");
  c.scores.clear();
  expect_error(c, "5 tokens but 0 scores");
  c = {};
  c.scores[2] = std::nanf("");
  expect_error(c, "not a number");
  c = {};
  c.types.push_back(1);
  expect_error(c, "5 tokens but 6 token types");
  c = {};
  c.ids = {{"eos_token_id", 5}};
  expect_error(c, "tokenizer.ggml.eos_token_id is 5");
  c = bpe_contents();
  c.merges.clear();
  expect_error(c, "no merges");
  c = bpe_contents();
  c.flags = {{"add_bos_token", true}};
  expect_error(c, "none is named");
}

// An array of bytes, not of strings: its length is refused before its elements are looked at.
TEST_F(ReadVocabulary, RefusesListsThatNoTokenizerHasBeforeTheyAreRead) {
  const std::pair<std::string, uint64_t> lists[] = {{"tokenizer.ggml.tokens", 1 << 24},
                                                    {"tokenizer.ggml.scores", 1 << 24},
                                                    {"tokenizer.ggml.token_type", 1 << 24},
                                                    {"tokenizer.ggml.merges", 1 << 22},
                                                    {kStripsRightKey, 1 << 24}};
  for (const auto& [key, n_most] : lists) {
    test::RawGgufBytes raw;
    raw.header(3, 0, 2).entry("tokenizer.ggml.model", 8).string("llama");
    raw.entry(key, 9).u32(0).u64(n_most + 1).zeros(n_most + 1);
    const gguf::File file = gguf::File::parse(raw.bytes(), "long");
    const std::string message = test::message_of<Error>([&] { read_vocabulary(file); });
    EXPECT_TRUE(message.starts_with(fmt::format("long: the tokenizer has {} ", n_most + 1)))
        << key << ": " << message;
  }
}

TEST_F(ReadVocabulary, RefusesSpecialTokensThatAreLookedForWithoutEnd) {
  for (const int32_t type : {2, 3, 4}) {
    Contents c;
    c.tokens[0] = std::string(1024, 'a');
    c.types[0] = type;
    EXPECT_NO_THROW(read(c));
    c.tokens[0] += 'b';
    expect_error(c, "the special token 0 has 1025 bytes; at most 1024");
  }
  Contents c;
  c.tokens[3] = std::string(2000, 'a');
  EXPECT_NO_THROW(read(c)) << "other tokens are found by their pieces";
}

TEST_F(ReadVocabulary, IsLenientWhereNothingDependsOnIt) {
  Contents c;
  c.ids = {{"padding_token_id", 32000}, {"eot_token_id", 0xffffffff}};
  c.types.clear();
  const Vocabulary v = read(c);
  EXPECT_EQ(v.pad, kNoToken);
  EXPECT_EQ(v.eot, kNoToken);
  EXPECT_EQ(v.types, std::vector<TokenType>(5, TokenType::kNormal));
}

TEST_F(ReadVocabulary, AnUnknownPreTokenizerCanBeOverridden) {
  Contents c = bpe_contents();
  c.strings = {{"ggml.pre", "esperanto"}};
  const Vocabulary v = read(c);
  EXPECT_THROW(make_tokenizer(v), Error);
  EXPECT_NO_THROW(make_tokenizer(v, {.pre = "gpt-2"}));
}

std::vector<Token> ends(std::vector<std::pair<std::string, TokenType>> tokens, Token eos) {
  Vocabulary v = empty_vocabulary(VocabularyKind::kBpe, "gpt-2");
  for (auto& [token, type] : tokens) {
    v.tokens.push_back(token);
    v.types.push_back(type);
  }
  v.eos = eos;
  return end_tokens(v);
}

TEST(EndTokens, AreKnownByNameToo) {
  const auto control = TokenType::kControl;
  const auto normal = TokenType::kNormal;
  EXPECT_EQ(ends({{"<|end_of_text|>", control}, {"<|eot_id|>", control}, {"a", normal}}, 0),
            (std::vector<Token>{0, 1}));
  EXPECT_EQ(ends({{"</s>", normal}, {"<|im_end|>", normal}, {"x", control}}, 2),
            (std::vector<Token>{1, 2}));
  EXPECT_EQ(ends({{"</s>", control}}, kNoToken), (std::vector<Token>{0}));
  // In a model with channels, <|end|> does not end the answer.
  EXPECT_EQ(ends({{"<|end|>", control}, {"<|return|>", control}, {"<|call|>", control}}, 1),
            (std::vector<Token>{1, 2}));
}

TEST_F(ReadVocabulary, WhatStandsBehindAFilledGapEndsAnAnswer) {
  Contents c;
  c.tokens = {"<unk>", "<s>", "</s>", "a", "b", "c", "d"};
  c.scores = {0, 0, 0, -1, -2, -3, -4};
  c.types = {2, 3, 3, 1, 1, 1, 1};
  c.ids = {{"fim_pad_token_id", 3}, {"fim_rep_token_id", 4}, {"fim_sep_token_id", 5}};
  const auto tokenizer = make_tokenizer(read(c));
  EXPECT_EQ(tokenizer->ends(), (std::vector<Token>{2, 3, 4, 5}));
  EXPECT_TRUE(tokenizer->is_end(4));
  EXPECT_FALSE(tokenizer->is_end(6));
  c.ids = {{"fim_pad_token_id", 7}};
  EXPECT_EQ(make_tokenizer(read(c))->ends(), std::vector<Token>{2});
}

// A token of such a name that is not marked as control could be a word of a text.
TEST(EndTokens, BehindAFilledGapAreKnownByNameIfTheyAreControl) {
  for (const char* name :
       {"<fim_pad>", "<fim-pad>", "<PAD>", "[PAD]", "<reponame>", "<fim-repo>", "<REPO>"}) {
    EXPECT_EQ(ends({{"a", TokenType::kNormal}, {name, TokenType::kControl}}, kNoToken),
              std::vector<Token>{1})
        << name;
    for (const TokenType type : {TokenType::kNormal, TokenType::kUserDefined, TokenType::kUnused}) {
      EXPECT_TRUE(ends({{name, type}}, kNoToken).empty()) << name;
    }
  }
  EXPECT_TRUE(ends({{"[PAD7]", TokenType::kControl}}, kNoToken).empty());
}

TEST(EndTokens, ForgottenTypesAreRepaired) {
  Vocabulary v = empty_vocabulary(VocabularyKind::kBpe, "gpt-2");
  v.tokens = {"<|im_end|>", "</s>"};
  v.types = {TokenType::kNormal, TokenType::kNormal};
  repair_types(&v);
  EXPECT_EQ(v.types, (std::vector<TokenType>{TokenType::kControl, TokenType::kNormal}));
}

}  // namespace
}  // namespace troika::text
