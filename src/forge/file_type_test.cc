#include "forge/file_type.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "tests/support/temp_folder.h"

namespace troika::forge {
namespace {

using tensor::Type;

Type choose(std::string_view file_type, std::string_view name, std::vector<uint64_t> shape,
            ModelFacts facts = {.n_layers = 32}) {
  return choose_type(get_file_type(file_type), name, shape, facts);
}

TEST(FileType, NamesInAnyCase) {
  EXPECT_EQ(get_file_type("Q4_K_M").number, 15u);
  EXPECT_EQ(get_file_type("bf16").number, 32u);
  EXPECT_NE(test::message_of<UsageError>([] { (void)get_file_type("q9"); }).find("known are f32, "),
            std::string::npos);
}

TEST(FileType, VectorsAndRoutersStayFloat) {
  EXPECT_EQ(choose("q4_0", "blk.0.attn_norm.weight", {4096}), Type::kF32);
  EXPECT_EQ(choose("f16", "blk.0.attn_q.bias", {4096}), Type::kF32);
  EXPECT_EQ(choose("q8_0", "rope_freqs.weight", {64}), Type::kF32);
  EXPECT_EQ(choose("q8_0", "blk.0.x.weight", {256, 1}), Type::kF32);
  EXPECT_EQ(choose("q4_k_m", "blk.0.ffn_gate_inp.weight", {4096, 8}), Type::kF32);
  EXPECT_EQ(choose("q4_0", "blk.0.attn_q.weight", {4096, 4096}), Type::kQ4_0);
}

TEST(FileType, PlainTypesAreTheSameEverywhere) {
  for (const char* name : {"output.weight", "token_embd.weight", "blk.0.ffn_down.weight"}) {
    EXPECT_EQ(choose("q4_k", name, {4096, 32000}), Type::kQ4_K) << name;
  }
}

// Layers 0 to 3, 28 to 31, and 6, 9, 12, ... between get more bits where there are 32.
TEST(FileType, TheMixGivesSensitiveMatricesMoreBits) {
  EXPECT_EQ(choose("q4_k_m", "output.weight", {4096, 32000}), Type::kQ6_K);
  EXPECT_EQ(choose("q4_k_m", "token_embd.weight", {4096, 32000}), Type::kQ4_K);
  EXPECT_EQ(choose("q4_k_m", "token_embd.weight", {4096, 32000},
                   {.n_layers = 32, .tied_embeddings = true}),
            Type::kQ6_K);
  const std::pair<const char*, Type> kCases[] = {
      {"blk.3.attn_v.weight", Type::kQ6_K},      {"blk.4.attn_v.weight", Type::kQ4_K},
      {"blk.6.attn_v.weight", Type::kQ6_K},      {"blk.27.attn_v.weight", Type::kQ6_K},
      {"blk.26.ffn_down.weight", Type::kQ4_K},   {"blk.28.ffn_down.weight", Type::kQ6_K},
      {"blk.31.ffn_down.weight", Type::kQ6_K},   {"blk.0.attn_qkv.weight", Type::kQ6_K},
      {"blk.0.attn_q.weight", Type::kQ4_K},      {"blk.0.ffn_up.weight", Type::kQ4_K},
      {"blk.0.attn_output.weight", Type::kQ4_K},
  };
  for (const auto& [name, type] : kCases)
    EXPECT_EQ(choose("q4_k_m", name, {4096, 4096}), type) << name;
}

// The types are those that llama.cpp's quantize chose for the same tensors.
TEST(FileType, EveryMixHasItsOwnSensitiveMatrices) {
  struct Case {
    const char* file_type;
    const char* name;
    Type type;
  };
  const Case kCases[] = {
      {"q2_k", "blk.9.attn_v.weight", Type::kQ3_K},
      {"q2_k", "blk.9.ffn_down.weight", Type::kQ3_K},
      {"q2_k", "blk.9.attn_output.weight", Type::kQ3_K},
      {"q2_k", "blk.9.ffn_up.weight", Type::kQ2_K},
      {"q3_k_s", "blk.9.attn_v.weight", Type::kQ3_K},
      {"q3_k_m", "blk.1.attn_v.weight", Type::kQ5_K},
      {"q3_k_m", "blk.2.attn_v.weight", Type::kQ4_K},
      {"q3_k_m", "blk.1.ffn_down.weight", Type::kQ5_K},
      {"q3_k_m", "blk.2.ffn_down.weight", Type::kQ4_K},
      {"q3_k_m", "blk.2.attn_output.weight", Type::kQ4_K},
      {"q3_k_m", "blk.2.ffn_gate.weight", Type::kQ3_K},
      {"q3_k_l", "blk.9.ffn_down.weight", Type::kQ5_K},
      {"q4_k_s", "blk.3.attn_v.weight", Type::kQ5_K},
      {"q4_k_s", "blk.4.attn_v.weight", Type::kQ4_K},
      {"q4_k_s", "blk.3.ffn_down.weight", Type::kQ5_K},
      {"q4_k_s", "blk.4.ffn_down.weight", Type::kQ4_K},
      {"q5_k_s", "blk.0.attn_v.weight", Type::kQ5_K},
      {"q5_k_m", "blk.6.ffn_down.weight", Type::kQ6_K},
      {"q5_k_m", "blk.7.ffn_down.weight", Type::kQ5_K},
      {"iq4_xs", "blk.3.ffn_down.weight", Type::kQ5_K},
      {"iq4_xs", "blk.4.ffn_down.weight", Type::kIQ4_XS},
      {"iq4_nl", "blk.9.attn_v.weight", Type::kIQ4_NL},
      {"mxfp4_moe", "blk.9.attn_v.weight", Type::kQ8_0},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(choose(c.file_type, c.name, {4096, 4096}), c.type) << c.file_type << " " << c.name;
  }
  const ModelFacts shared{.n_layers = 32, .heads_per_kv = 4};
  EXPECT_EQ(choose("q2_k", "blk.9.attn_v.weight", {4096, 1024}, shared), Type::kQ4_K);
  EXPECT_EQ(choose("iq4_xs", "blk.9.attn_v.weight", {4096, 1024}, shared), Type::kQ5_K);
  EXPECT_EQ(choose("mxfp4_moe", "blk.9.ffn_up_exps.weight", {4096, 14336, 8}), Type::kMXFP4);
  const ModelFacts large{.n_layers = 80, .heads_per_kv = 8};
  EXPECT_EQ(choose("q4_k_s", "blk.9.attn_v.weight", {8192, 1024}, large), Type::kQ5_K);
}

TEST(FileType, EightExpertsGetABetterAttention) {
  const ModelFacts facts{.n_layers = 32, .n_experts = 8};
  EXPECT_EQ(choose("q4_k_m", "blk.4.attn_v.weight", {4096, 1024}, facts), Type::kQ8_0);
  EXPECT_EQ(choose("q4_k_m", "blk.4.attn_k.weight", {4096, 1024}, facts), Type::kQ8_0);
  EXPECT_EQ(choose("q4_k_m", "blk.4.attn_output.weight", {4096, 4096}, facts), Type::kQ5_K);
  EXPECT_EQ(choose("q3_k_l", "blk.4.attn_output.weight", {4096, 4096}, facts), Type::kQ3_K);
  EXPECT_EQ(choose("q4_k_m", "blk.4.ffn_down_exps.weight", {14336, 4096, 8}, facts), Type::kQ4_K);
  EXPECT_EQ(choose("q4_k", "blk.4.attn_v.weight", {4096, 1024}, facts), Type::kQ4_K);
}

TEST(FileType, RowsThatDoNotFitFallBack) {
  EXPECT_EQ(choose("q4_k", "blk.0.attn_q.weight", {896, 896}), Type::kQ5_0);
  EXPECT_EQ(choose("q6_k", "blk.0.attn_q.weight", {896, 896}), Type::kQ8_0);
  EXPECT_EQ(choose("q5_k", "blk.0.attn_q.weight", {896, 896}), Type::kQ5_1);
  EXPECT_EQ(choose("q2_k", "blk.0.attn_q.weight", {896, 896}), Type::kQ4_0);
  EXPECT_EQ(choose("q3_k_m", "blk.0.attn_q.weight", {896, 896}), Type::kQ4_0);
  EXPECT_EQ(choose("iq4_xs", "blk.0.attn_q.weight", {896, 896}), Type::kIQ4_NL);
  EXPECT_EQ(choose("q4_k_m", "blk.0.attn_v.weight", {896, 128}), Type::kQ8_0);
  EXPECT_EQ(choose("q4_0", "blk.0.attn_q.weight", {896, 896}), Type::kQ4_0);
  EXPECT_EQ(choose("q4_k", "blk.0.attn_q.weight", {100, 100}), Type::kF16);
  EXPECT_EQ(choose("q8_0", "blk.0.attn_q.weight", {100, 100}), Type::kF16);
  EXPECT_EQ(choose("bf16", "blk.0.attn_q.weight", {100, 100}), Type::kBF16);
}

}  // namespace
}  // namespace troika::forge
