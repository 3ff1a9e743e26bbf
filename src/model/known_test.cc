#include "model/known.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "gguf/file.h"
#include "tests/support/temp_folder.h"

namespace troika::model {
namespace {

TEST(Known, NamesAreUniqueAndFound) {
  std::set<std::string_view> names;
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(&get_known(model.name), &model);
    EXPECT_FALSE(model.architecture.empty()) << model.name;
  }
  EXPECT_EQ(find_known("gpt-5"), nullptr);
  const std::string message = test::message_of<UsageError>([] { (void)get_known("gpt-5"); });
  EXPECT_NE(message.find("qwen2.5-1.5b, "), std::string::npos) << message;
}

// The numbers are the published counts of parameters, in millions.
TEST(Known, NumbersOfParametersAreThePublishedOnes) {
  const std::pair<const char*, double> kMillions[] = {
      {"qwen1.5-1.8b", 1836.8},
      {"qwen2-0.5b", 494.0},
      {"qwen2-1.5b", 1543.7},
      {"qwen2-7b", 7615.6},
      {"qwen3-0.6b", 596.0},
      {"llama-2-7b", 6738.4},
      {"llama-2-13b", 13015.9},
      {"llama-3-8b", 8030.3},
      {"llama-3.2-1b", 1235.8},
      {"llama-3.2-3b", 3212.7},
      {"gemma-2b", 2506.2},
      {"phi-2", 2779.7},
      {"mistral-7b", 7241.7},
      {"internlm-1.8b", 1889.1},
      {"mixtral-8x7b", 46702.8},
      {"qwen3-1.7b", 1720.6},
      {"gemma2-2b", 2614.3},
      {"gemma3-1b", 999.9},
      {"phi3-mini", 3821.1},
      {"internlm2-1.8b", 1889.1},
      {"qwen3-30b-a3b", 30532.1},
      {"qwen1.5-moe-a2.7b", 14315.8},
      {"turbosparse-mixtral-47b", 46702.8},
  };
  for (const auto& [name, millions] : kMillions) {
    EXPECT_NEAR(static_cast<double>(n_parameters(get_known(name))) / 1e6, millions, 0.06) << name;
  }
}

TEST(Known, ShapesAreConsistent) {
  for (const KnownModel& model : known_models()) {
    EXPECT_EQ(model.n_heads % model.n_kv_heads, 0u) << model.name;
    EXPECT_EQ(model.head_dim % 2, 0u) << model.name;
    EXPECT_LE(model.rope_dims, model.head_dim) << model.name;
    EXPECT_EQ(model.tokenizer == "gpt2", !model.pre.empty()) << model.name;
    std::set<std::string> names;
    for (const KnownTensor& tensor : known_tensors(model)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      if (model.name.starts_with("tiny-") && tensor.shape.size() > 1) {
        EXPECT_EQ(tensor.shape[0] % 256, 0u) << model.name << " " << tensor.name;
      }
    }
    EXPECT_EQ(names.contains("output.weight"), !model.tied_embeddings) << model.name;
  }
}

TEST(Known, ArchitecturesHaveTheirTensors) {
  const auto shape_of = [](std::string_view model, std::string_view name) {
    for (const KnownTensor& tensor : known_tensors(get_known(model))) {
      if (tensor.name == name) return tensor.shape;
    }
    return std::vector<uint64_t>{};
  };
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(shape_of("qwen2-0.5b", "blk.23.attn_k.bias"), Shape{128});
  EXPECT_EQ(shape_of("llama-2-7b", "blk.0.attn_k.bias"), Shape{});
  EXPECT_EQ(shape_of("gemma-2b", "blk.0.attn_k.weight"), (Shape{2048, 256}));
  EXPECT_EQ(shape_of("phi-2", "blk.0.attn_qkv.weight"), (Shape{2560, 7680}));
  EXPECT_EQ(shape_of("phi-2", "output.bias"), Shape{51200});
  EXPECT_EQ(shape_of("phi-2", "blk.0.ffn_gate.weight"), Shape{});
  EXPECT_EQ(shape_of("qwen3-0.6b", "blk.0.attn_q_norm.weight"), Shape{128});
  EXPECT_EQ(shape_of("qwen3-0.6b", "blk.0.attn_output.weight"), (Shape{2048, 1024}));
  EXPECT_EQ(shape_of("mixtral-8x7b", "blk.0.ffn_down_exps.weight"), (Shape{14336, 4096, 8}));
  EXPECT_EQ(shape_of("qwen3-30b-a3b", "blk.0.ffn_down_exps.weight"), (Shape{768, 2048, 128}));
  EXPECT_EQ(shape_of("qwen1.5-moe-a2.7b", "blk.0.ffn_up_shexp.weight"), (Shape{2048, 5632}));
  EXPECT_EQ(shape_of("phi3-mini", "blk.0.ffn_up.weight"), (Shape{3072, 16384}));
  EXPECT_EQ(shape_of("phi3-mini", "blk.0.attn_qkv.bias"), Shape{});
  EXPECT_EQ(shape_of("gemma3-1b", "blk.0.post_ffw_norm.weight"), Shape{1152});
  EXPECT_EQ(shape_of("llama-3.2-1b", "rope_freqs.weight"), Shape{32});
}

TEST(Known, LongContextFactorsRunFromOneToTheFactor) {
  EXPECT_TRUE(rope_factors(get_known("llama-3-8b")).empty());
  const std::vector<float> factors = rope_factors(get_known("llama-3.2-1b"));
  ASSERT_EQ(factors.size(), 32u);
  EXPECT_EQ(factors.front(), 1.0f);
  EXPECT_EQ(factors.back(), 32.0f);
  for (size_t i = 1; i < factors.size(); ++i) EXPECT_GE(factors[i], factors[i - 1]);
  // Pair 15 turns 8192 / (2 pi 500000^(30/64)) = 2.776 times, which is between 1 and 4.
  const double smooth = (8192 / (2 * 3.14159265358979 * std::pow(5e5, 30.0 / 64)) - 1) / 3;
  EXPECT_NEAR(factors[15], 1 / ((1 - smooth) / 32 + smooth), 1e-5);
}

TEST(Known, MetadataCanBeReadBack) {
  test::TempFolder folder;
  gguf::Writer writer(folder.file("a.gguf"));
  add_known_metadata(get_known("tiny-relu-llama"), writer);
  writer.begin_data();
  writer.finish();
  const gguf::File file = gguf::File::open(folder.file("a.gguf"));
  EXPECT_EQ(file.get_string("general.architecture"), "llama");
  EXPECT_EQ(file.find_uint("llama.block_count"), 3u);
  EXPECT_EQ(file.get_string("llama.feed_forward_activation"), "relu");
}

}  // namespace
}  // namespace troika::model
