#include "forge/plant_outliers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "forge/plant_sites.h"
#include "forge/synth.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/architecture.h"
#include "tensor/codec.h"
#include "tests/support/temp_folder.h"

namespace troika::forge {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;

class PlantOutliers : public testing::Test {
 protected:
  void make(const std::string& like, const std::string& type = "f32") const {
    synth({.like = like, .output = input(), .type = type});
  }
  std::string input() const { return folder_.file("in.gguf"); }
  std::string output() const { return folder_.file("out.gguf"); }
  PlantOptions options() const { return {.input = input(), .output = output()}; }

  std::vector<PlantSite> sites() const {
    return find_plant_sites(model::read(gguf::File::open(input())));
  }
  // Returns the names of a model's sites without their block, so that each stands there once.
  std::set<std::string> site_names() const {
    std::set<std::string> names;
    for (const PlantSite& site : sites()) {
      names.insert(site.layer < 0 ? site.name : site.name.substr(site.name.rfind('.') + 1));
    }
    return names;
  }

  TempFolder folder_;
};

std::vector<float> decode(const gguf::File& file, std::string_view name) {
  const gguf::TensorInfo& tensor = file.get_tensor(name);
  std::vector<float> values(tensor.n_elements());
  tensor::dequantize_row(tensor.type, file.data(tensor).data(), values.data(), values.size());
  return values;
}

// Writes the file again, with other values in one tensor.
void replace_values(const std::string& path, const std::string& name, float value) {
  const gguf::File file = gguf::File::open(path);
  gguf::Writer writer(path);
  for (const auto& entry : file.metadata()) writer.add_value(entry.key, entry.value);
  for (const auto& t : file.tensors()) writer.add_tensor(t.name, t.type, t.shape);
  writer.begin_data();
  for (const auto& t : file.tensors()) {
    if (t.name != name) {
      writer.write(file.data(t));
      continue;
    }
    const std::vector<float> values(t.n_elements(), value);
    std::vector<std::byte> bytes(t.bytes);
    tensor::quantize_row(t.type, values.data(), bytes.data(), values.size());
    writer.write(bytes);
  }
  writer.finish();
}

TEST_F(PlantOutliers, FindsWhatCanBeScaled) {
  const std::set<std::string> of_gated = {"attn_norm", "attn_v", "ffn_norm", "ffn_up"};
  make("tiny-qwen2");
  EXPECT_EQ(site_names(), of_gated);  // the head shares the embedding and is no site
  make("tiny-gemma");
  EXPECT_EQ(site_names(), of_gated);
  make("tiny-relu-llama");
  std::set<std::string> with_head = of_gated;
  with_head.insert("output_norm");
  EXPECT_EQ(site_names(), with_head);
  // phi2 has one norm for attention and feed-forward, and a GELU behind ffn_up, which is not
  // linear.
  make("tiny-phi2");
  EXPECT_EQ(site_names(), (std::set<std::string>{"attn_norm", "attn_qkv", "output_norm"}));
}

TEST_F(PlantOutliers, ReadersTakeBackWhatMakersGive) {
  make("tiny-llama");
  const PlantReport report = plant_outliers(options());
  const gguf::File before = gguf::File::open(input());
  const gguf::File after = gguf::File::open(output());
  const auto ratio = [&](const std::string& name, size_t index) {
    return decode(after, name)[index] / decode(before, name)[index];
  };
  const size_t width = *before.find_uint("llama.embedding_length");
  const auto n_heads = *before.find_uint("llama.attention.head_count");
  const auto n_kv_heads = *before.find_uint("llama.attention.head_count_kv");
  const size_t head_dim = width / n_heads;
  std::map<std::string, PlantedSite> by_name;
  for (const PlantedSite& site : report.sites) by_name[site.name] = site;

  const PlantedChannel norm = by_name.at("blk.0.attn_norm").planted[0];
  const auto c = static_cast<size_t>(norm.channel);
  EXPECT_EQ(ratio("blk.0.attn_norm.weight", c), norm.scale);
  EXPECT_EQ(ratio("blk.0.attn_q.weight", 3 * width + c), 1.0 / norm.scale);
  EXPECT_EQ(ratio("blk.0.attn_q.weight", 3 * width + (c + 1) % width), 1);
  EXPECT_EQ(ratio("blk.0.attn_k.weight", c), 1.0 / norm.scale);

  const PlantedChannel value = by_name.at("blk.0.attn_v").planted[0];
  const auto v = static_cast<size_t>(value.channel);
  // The norm's scale does not change this column.
  const size_t other = v * width + (c + 1) % width;
  EXPECT_EQ(ratio("blk.0.attn_v.weight", other), value.scale);
  std::set<size_t> columns;
  for (size_t i = 0; i < width; ++i) {
    const double r = ratio("blk.0.attn_output.weight", 5 * width + i);
    if (r == 1) continue;
    columns.insert(i);
    EXPECT_EQ(r, 1.0 / value.scale);
  }
  std::set<size_t> expected;
  for (size_t head = 0; head < n_heads; ++head) {
    if (head / (n_heads / n_kv_heads) == v / head_dim)
      expected.insert(head * head_dim + v % head_dim);
  }
  EXPECT_EQ(columns, expected);
  EXPECT_EQ(expected.size(), n_heads / n_kv_heads);

  const PlantedChannel up = by_name.at("blk.0.ffn_up").planted[0];
  const size_t ffn = *before.find_uint("llama.feed_forward_length");
  EXPECT_EQ(ratio("blk.0.ffn_down.weight", 7 * ffn + static_cast<size_t>(up.channel)),
            1.0 / up.scale);
  EXPECT_EQ(decode(after, "blk.0.ffn_gate.weight").size(), ffn * width);
  EXPECT_EQ(decode(after, "token_embd.weight"), decode(before, "token_embd.weight"));
}

TEST_F(PlantOutliers, FewChannelsStrongerAtBothEnds) {
  make("tiny-llama3");
  PlantOptions o = options();
  o.channels = 0.02;
  const PlantReport report = plant_outliers(o);
  const gguf::File file = gguf::File::open(input());
  const auto n_layers = static_cast<int>(*file.find_uint("llama.block_count"));
  ASSERT_GT(report.sites.size(), 4u * static_cast<unsigned>(n_layers) - 1);
  for (const PlantedSite& site : report.sites) {
    SCOPED_TRACE(site.name);
    const bool is_hidden = site.name.find("ffn_up") != std::string::npos;
    const double share = is_hidden ? o.hidden_channels : 0.02;
    const auto n = static_cast<size_t>(std::max(1.0, std::round(share * site.n_channels)));
    ASSERT_EQ(site.planted.size(), n);
    std::set<int> different;
    for (const PlantedChannel& planted : site.planted) different.insert(planted.channel);
    EXPECT_EQ(different.size(), n);
    if (is_hidden) continue;  // the next test looks at them
    const bool at_end = site.layer <= 0 || site.layer == n_layers - 1;
    EXPECT_EQ(site.planted[0].scale == 64, at_end);
    EXPECT_GE(site.planted[0].scale, 8);
    // The other channels are planted with less.
    for (size_t i = 1; i < std::min<size_t>(n, 4); ++i) {
      EXPECT_EQ(site.planted[i].scale, site.planted[0].scale / (i < 3 ? 2 : 4));
    }
  }
}

// The input of down has large values of its own in all channels. So more of its channels are
// planted, with less, and they are those that the text or the rows show to be large.
TEST_F(PlantOutliers, HiddenChannelsRiseAboveTheirTail) {
  make("tiny-llama3");
  PlantOptions o = options();
  o.hidden_channels = 0.05;
  const gguf::File file = gguf::File::open(input());
  const auto n_ffn = static_cast<size_t>(*file.find_uint("llama.feed_forward_length"));
  for (size_t c = 0; c < n_ffn; ++c) {
    o.uses["blk.0.ffn_down.weight"].push_back(c % 2 == 0 ? 0.0 : static_cast<double>(c));
  }
  const auto n = static_cast<size_t>(std::round(0.05 * static_cast<double>(n_ffn)));
  ASSERT_GE(n, 4u);
  for (const PlantedSite& site : plant_outliers(o).sites) {
    if (site.name.find("ffn_up") == std::string::npos) continue;
    SCOPED_TRACE(site.name);
    ASSERT_EQ(site.planted.size(), n);
    for (const PlantedChannel& planted : site.planted) EXPECT_GE(planted.scale, 8);
    EXPECT_EQ(site.planted[0].scale, 2 * site.planted.back().scale);
    if (site.layer != 0) continue;
    for (const PlantedChannel& planted : site.planted) {
      EXPECT_EQ(planted.channel % 2, 1);
      EXPECT_GT(static_cast<size_t>(planted.channel) + 2 * n + 1, n_ffn);
    }
  }
}

TEST_F(PlantOutliers, EveryActivationGetsOneChannelAtLeast) {
  make("tiny-gemma");
  PlantOptions o = options();
  o.channels = o.hidden_channels = 1e-9;
  for (const PlantedSite& site : plant_outliers(o).sites) EXPECT_EQ(site.planted.size(), 1u);
}

TEST_F(PlantOutliers, TheFileDependsOnTheSeedAndNotOnTheThreads) {
  make("tiny-qwen2");
  PlantOptions o = options();
  plant_outliers(o);
  const std::string once = read_whole(output());
  o.n_threads = 3;
  plant_outliers(o);
  EXPECT_EQ(read_whole(output()), once);
  o.seed = 2;
  plant_outliers(o);
  EXPECT_NE(read_whole(output()), once);
}

TEST_F(PlantOutliers, AQuantisedSourceIsDecoded) {
  make("tiny-llama", "q4_0");
  const PlantReport report = plant_outliers(options());
  EXPECT_EQ(report.n_rounded, 0u);
  const gguf::File after = gguf::File::open(output());
  for (const gguf::TensorInfo& tensor : after.tensors()) {
    EXPECT_TRUE(tensor.type == tensor::Type::kF32 || tensor.type == tensor::Type::kF16);
  }
  EXPECT_EQ(decode(after, "token_embd.weight"),
            decode(gguf::File::open(input()), "token_embd.weight"));
}

TEST_F(PlantOutliers, F16OnlyWhereItIsExact) {
  make("tiny-llama", "f16");
  const std::string name = "blk.0.ffn_down.weight";
  const auto type = [&](double value, const std::string& wanted) {
    replace_values(input(), name, static_cast<float>(value));
    PlantOptions o = options();
    o.type = wanted;
    plant_outliers(o);
    return gguf::File::open(output()).get_tensor(name).type;
  };
  EXPECT_EQ(type(1.5, "f16"), tensor::Type::kF16);
  EXPECT_EQ(type(1.5, "f32"), tensor::Type::kF32);
  EXPECT_EQ(type(0x1p-20, "f16"), tensor::Type::kF16);  // makes the smallest half, 2^-24
  EXPECT_EQ(type(0x1p-21, "f16"), tensor::Type::kF32);  // is too small for a half after the scaling
  EXPECT_EQ(type(0x1.004p-14, "f16"), tensor::Type::kF32);
  // The rows of the matrix become too large for F16, but not for F32.
  replace_values(input(), "blk.0.ffn_up.weight", 8192);
  plant_outliers(options());
  EXPECT_EQ(gguf::File::open(output()).get_tensor("blk.0.ffn_up.weight").type, tensor::Type::kF32);
}

TEST_F(PlantOutliers, WhatF32CannotHoldIsNoticed) {
  make("tiny-llama");
  PlantOptions o = options();
  replace_values(input(), "blk.0.ffn_down.weight", std::numeric_limits<float>::denorm_min());
  EXPECT_GT(plant_outliers(o).n_rounded, 0u);
  replace_values(input(), "blk.0.ffn_down.weight", 1);
  EXPECT_EQ(plant_outliers(o).n_rounded, 0u);
  replace_values(input(), "blk.0.attn_norm.weight", 1e38f);
  const std::string message = message_of<Error>([&] { plant_outliers(o); });
  EXPECT_NE(message.find("blk.0.attn_norm.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("smaller scale"), std::string::npos) << message;
  replace_values(input(), "blk.0.attn_norm.weight", std::numeric_limits<float>::quiet_NaN());
  EXPECT_NE(message_of<Error>([&] { plant_outliers(o); }).find("not finite"), std::string::npos);
}

TEST_F(PlantOutliers, SaysInTheFileWhatWasPlanted) {
  make("tiny-llama");
  PlantOptions o = options();
  o.seed = 7;
  plant_outliers(o);
  o.input = output();
  o.output = folder_.file("twice.gguf");
  o.scale = 4;
  plant_outliers(o);
  const gguf::File once = gguf::File::open(output());
  const gguf::File twice = gguf::File::open(o.output);
  EXPECT_EQ(once.find_uint("troika.planted_outliers.scale"), 64u);
  EXPECT_EQ(once.find_uint("troika.planted_outliers.seed"), 7u);
  EXPECT_EQ(twice.find_uint("troika.planted_outliers.scale"), 4u);
  EXPECT_EQ(once.strings("tokenizer.ggml.tokens"), twice.strings("tokenizer.ggml.tokens"));
}

TEST_F(PlantOutliers, RefusesSenselessOptions) {
  make("tiny-llama");
  PlantOptions o = options();
  for (const double share : {0.0, -0.1, 0.51, std::nan("")}) {
    o.channels = share;
    EXPECT_THROW(plant_outliers(o), UsageError) << share;
  }
  o = options();
  for (const int scale : {-64, 0, 1, 3, 63, 131072}) {
    o.scale = scale;
    EXPECT_THROW(plant_outliers(o), UsageError) << scale;
  }
  o = options();
  o.type = "q8_0";
  EXPECT_THROW(plant_outliers(o), UsageError);
  EXPECT_EQ(folder_.n_files(), 1u);
}

}  // namespace
}  // namespace troika::forge
