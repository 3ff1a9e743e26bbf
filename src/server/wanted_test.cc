#include "server/wanted.h"

#include <gtest/gtest.h>

#include "text/vocabulary.h"

namespace troika::server {
namespace {

Wanted sampling_of(const std::string& body) {
  text::Vocabulary v = text::empty_vocabulary(text::VocabularyKind::kSpm, "");
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {text::TokenType::kUnknown, text::TokenType::kControl, text::TokenType::kControl};
  v.scores.assign(v.tokens.size(), 0.0f);
  const auto tokenizer = text::make_tokenizer(v);
  const Json json = object_from(body);
  Fields fields(json);
  Wanted wanted;
  read_sampling(fields, *tokenizer, {}, &wanted);
  fields.finish();
  return wanted;
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

}  // namespace
}  // namespace troika::server
