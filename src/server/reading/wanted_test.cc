#include "server/reading/wanted.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace troika::server {
namespace {

Wanted sampling_of(const std::string& body, const engine::SamplerOptions& own) {
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {text::TokenType::kUnknown, text::TokenType::kControl, text::TokenType::kControl};
  v.scores.assign(v.tokens.size(), 0.0f);
  const auto tokenizer = text::make_tokenizer(v);
  const Json json = object_from(body);
  Fields fields(json);
  Wanted wanted;
  read_sampling(fields, *tokenizer, own, &wanted);
  fields.finish();
  return wanted;
}

Wanted sampling_of(const std::string& body, uint64_t own_seed = 0) {
  engine::SamplerOptions own;
  own.seed = own_seed;
  return sampling_of(body, own);
}

// The limits are those of requests. What the server's own options say is no field of a request.
TEST(WantedSampling, DefaultsOfTheServerAreNotHeldToTheLimitsOfRequests) {
  engine::SamplerOptions own;
  own.temperature = 200.0f;
  own.min_p = 0.9995f;
  own.repetition_penalty = 200.0f;
  own.frequency_penalty = own.presence_penalty = 200.0f;
  own.top_k = 1000;
  const engine::SamplerOptions taken = sampling_of("{}", own).sampler;
  EXPECT_EQ(taken.temperature, own.temperature);
  EXPECT_EQ(taken.min_p, own.min_p);
  EXPECT_EQ(taken.repetition_penalty, own.repetition_penalty);
  EXPECT_EQ(taken.frequency_penalty, own.frequency_penalty);
  EXPECT_EQ(taken.presence_penalty, own.presence_penalty);
  EXPECT_EQ(taken.top_k, own.top_k);
}

TEST(WantedSampling, SamplersThatAreNotHereMayBeNamedWhereTheyAreOff) {
  const Wanted wanted = sampling_of(
      R"({"temperature":0.5,"typical_p":1.0,"mirostat":0,"mirostat_tau":5.0,"mirostat_eta":0.1,)"
      R"("dynatemp_range":0.0,"xtc_probability":0,"xtc_threshold":0.1,"top_n_sigma":-1,)"
      R"("dry_multiplier":0,"dry_base":1.75,"dry_sequence_breakers":["\n"],"adaptive_target":-1.0})");
  EXPECT_EQ(wanted.sampler.temperature, 0.5f);
}

TEST(WantedSampling, SamplersThatAreNotHereAreRefusedByNameWhereTheyAreAskedFor) {
  for (const char* const body :
       {R"({"typical_p":0.9})", R"({"mirostat":2})", R"({"dynatemp_range":0.5})",
        R"({"xtc_probability":0.1})", R"({"top_n_sigma":1})", R"({"dry_multiplier":0.8})",
        R"({"adaptive_target":0.7})"}) {
    try {
      sampling_of(body);
      ADD_FAILURE() << body;
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.status, 400);
      EXPECT_EQ(std::string(body).substr(2, refused.field.size()), refused.field);
      EXPECT_NE(std::string(refused.what()).find("no such sampler"), std::string::npos);
    }
  }
}

std::string field_refused(const std::string& body) {
  try {
    sampling_of(body);
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, 400);
    return refused.field;
  }
  return "";
}

TEST(WantedSampling, EveryNumberButMinusOneIsASeed) {
  constexpr uint64_t kOwn = 7;
  const auto seed = [](const std::string& body) { return sampling_of(body, kOwn).sampler.seed; };
  EXPECT_EQ(seed("{}"), kOwn);
  EXPECT_EQ(seed(R"({"seed":-1})"), kOwn);
  EXPECT_EQ(seed(R"({"seed":0})"), 0u);
  EXPECT_EQ(seed(R"({"seed":-2})"), std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_NE(seed(R"({"seed":-2})"), seed(R"({"seed":-3})"));
  EXPECT_EQ(seed(R"({"seed":9223372036854775808})"), uint64_t{1} << 63);
  EXPECT_EQ(seed(R"({"seed":18446744073709551615})"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(field_refused(R"({"seed":18446744073709551616})"), "seed");
}

TEST(WantedSampling, ATokenHasOneBiasHoweverOftenItIsNamed) {
  std::string list = "[2,0.5]";
  for (int i = 0; i < 100; ++i) list += ",[1,-1],[2,false]";
  const Wanted wanted = sampling_of(R"({"logit_bias":[)" + list + "]}");
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<std::pair<engine::Token, float>> expected = {{1, -100.0f}, {2, kNever}};
  EXPECT_EQ(wanted.sampler.logit_bias, expected);
}

TEST(WantedSampling, BiasesAreNumbersThatCanBeAdded) {
  EXPECT_EQ(field_refused(R"({"logit_bias":{"1":1e300}})"), "logit_bias");
  EXPECT_EQ(field_refused(R"({"logit_bias":[[1,-1e300]]})"), "logit_bias");
  EXPECT_EQ(field_refused(R"({"logit_bias":{"1":-1e9,"2":false}})"), "");
}

// While texts are made tokens of, nobody else's request is read.
TEST(WantedSampling, TextsOfBiasesAreNotEndless) {
  const std::string half(size_t{32} << 10, 'x');
  EXPECT_EQ(field_refused(R"({"logit_bias":[[")" + half + R"(",1],[")" + half + R"(",1]]})"), "");
  EXPECT_EQ(field_refused(R"({"logit_bias":[[")" + half + R"(",1],[")" + half + R"(y",1]]})"),
            "logit_bias");
  EXPECT_EQ(field_refused(R"({"logit_bias":{")" + half + half + R"(y":1}})"), "logit_bias");
}

TEST(WantedSampling, SomeTokenMustBeAllowed) {
  EXPECT_EQ(field_refused(R"({"logit_bias":{"0":false,"1":false,"2":false}})"), "logit_bias");
  EXPECT_EQ(field_refused(R"({"logit_bias":{"0":false,"1":false}})"), "");
}

TEST(WantedSampling, StopStringsAreNotEndless) {
  const std::string half(size_t{32} << 10, 'x');
  EXPECT_EQ(field_refused(R"({"stop":[")" + half + R"(",")" + half + R"("]})"), "");
  EXPECT_EQ(field_refused(R"({"stop":[")" + half + R"(",")" + half + R"(","y"]})"), "stop");
  EXPECT_EQ(field_refused(R"({"stop":")" + half + half + R"(y"})"), "stop");
}

TEST(Decimals, AreThoseThatAClientHasWritten) {
  for (const char* const text : {"0.7", "0.8", "0.95", "0.05", "1e-06", "-1.1", "100.0", "0.0"}) {
    const float number = Json::parse(text).get<float>();
    EXPECT_EQ(Json(decimal_of(number)).dump(), text);
    EXPECT_EQ(static_cast<float>(decimal_of(number)), number);
  }
}

TEST(Fields, NameWhatIsNoObjectByItsPath) {
  try {
    const Fields fields("a", "messages[0].");
    FAIL();
  } catch (const Refused& refused) {
    EXPECT_STREQ(refused.what(), "\"messages[0]\" must be an object.");
    EXPECT_EQ(refused.field, "messages[0]");
  }
}

TEST(WholeFields, MayBeWrittenWithAPoint) {
  const Json body = Json::parse(R"({"a":100.0,"b":1e3,"c":1.5,"d":1e300})");
  Fields fields(body);
  EXPECT_EQ(fields.whole("a", 0), 100);
  EXPECT_EQ(fields.whole("b", 0), 1000);
  EXPECT_THROW(fields.whole("c", 0), Refused);
  EXPECT_THROW(fields.whole("d", 0), Refused);
}

TEST(WholeFields, AreToldFromThoseThatAreTooLarge) {
  const Json body = Json::parse(R"({"a":9223372036854775808,"b":1e300,"c":1.5})");
  Fields fields(body);
  const auto problem = [&](const char* name) -> std::string {
    try {
      fields.whole(name, 0);
    } catch (const Refused& refused) {
      return refused.what();
    }
    return "it was taken";
  };
  for (const char* const name : {"a", "b"}) {
    EXPECT_NE(problem(name).find("too large"), std::string::npos) << problem(name);
  }
  EXPECT_NE(problem("c").find("must be a whole number"), std::string::npos) << problem("c");
}

}  // namespace
}  // namespace troika::server
