#include "model/architecture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "model/rope.h"
#include "tests/support/known_file.h"

namespace troika::model {
namespace {

using test_support::KnownFile;
using test_support::small_known;

gguf::Value integer(int64_t value) { return {gguf::ValueType::kInt64, value}; }
gguf::Value number(double value) { return {gguf::ValueType::kFloat64, value}; }
gguf::Value text(std::string_view value) { return {gguf::ValueType::kString, value}; }

std::string error_of(const KnownFile& known) {
  const gguf::File file = known.open();
  return test::message_of<Error>([&] { read(file); });
}

void expect_error(const std::string& key, const gguf::Value& value, const std::string& part) {
  KnownFile known(small_known("tiny-llama"));
  known.values[key] = value;
  const std::string message = error_of(known);
  EXPECT_NE(message.find(part), std::string::npos) << key << ": " << message;
}

class Architecture : public testing::TestWithParam<const char*> {};

// The blueprint names exactly the tensors that files of the architecture hold, in their shapes.
TEST_P(Architecture, UsesEveryTensorInItsShape) {
  for (const bool tied : {false, true}) {
    KnownModel model = small_known(GetParam());
    if (model.tied_embeddings && !tied) continue;
    model.tied_embeddings = tied;
    const KnownFile known(model);
    const gguf::File file = known.open();
    const Blueprint b = read(file);
    EXPECT_EQ(b.n_layers, 2);
    EXPECT_EQ(b.head_dim, 16);
    EXPECT_EQ(b.n_vocab, 20);

    std::map<std::string, std::vector<uint64_t>> used;
    std::map<std::string, int> n_rows_used;
    for (const Weight& weight : b.weights) {
      auto& shape = used[weight.name];
      shape = {static_cast<uint64_t>(weight.tensor_length())};
      const bool is_vector = weight.name.find("norm") != std::string::npos ||
                             weight.name.find(".bias") != std::string::npos;
      if (!is_vector) shape.push_back(static_cast<uint64_t>(weight.n_tensor_rows));
      n_rows_used[weight.name] += is_vector ? 0 : weight.n_rows;
    }
    std::map<std::string, std::vector<uint64_t>> wanted;
    for (const KnownTensor& t : known.tensors) {
      if (t.role != TensorRole::kRopeFactors) wanted[t.name] = t.shape;
    }
    EXPECT_EQ(used, wanted);
    for (const auto& [name, n_rows] : n_rows_used) {
      if (n_rows == 0 || name == "token_embd.weight") continue;
      EXPECT_EQ(static_cast<uint64_t>(n_rows), wanted[name][1]) << name;
    }
  }
}

// Every op reads what an op before it has written, in widths that fit.
TEST_P(Architecture, OpsReadWhatWasWritten) {
  const KnownFile known(small_known(GetParam()));
  const gguf::File file = known.open();
  const Blueprint b = read(file);
  std::set<ValueId> written;
  int n_attentions = 0;
  for (const Op& op : b.ops) {
    for (const ValueId input : op.inputs) {
      EXPECT_TRUE(input == kNone || written.contains(input)) << op_kind_name(op.kind);
    }
    written.insert(op.output);
    if (op.kind == OpKind::kLinear) {
      const Weight& w = b.weights[static_cast<size_t>(op.weight)];
      EXPECT_EQ(w.row_length, b.values[static_cast<size_t>(op.inputs[0])].width) << w.name;
      EXPECT_EQ(w.n_rows, b.values[static_cast<size_t>(op.output)].width) << w.name;
    }
    if (op.kind == OpKind::kAttention) {
      EXPECT_EQ(op.layer, n_attentions++);
      EXPECT_FLOAT_EQ(op.scale, 0.25f);  // 1 / sqrt(16)
      EXPECT_EQ(b.values[static_cast<size_t>(op.inputs[0])].width, 64);
      EXPECT_EQ(b.values[static_cast<size_t>(op.inputs[1])].width, b.kv_width());
    }
  }
  EXPECT_EQ(n_attentions, 2);
  EXPECT_TRUE(written.contains(b.logits));
  EXPECT_EQ(b.values[static_cast<size_t>(b.logits)].width, 20);
  EXPECT_TRUE(b.values[static_cast<size_t>(b.logits)].per_output);
}

INSTANTIATE_TEST_SUITE_P(Every, Architecture,
                         testing::Values("tiny-llama", "tiny-relu-llama", "tiny-qwen2",
                                         "tiny-gemma", "tiny-phi2"));

TEST(ReadModel, AnUnknownArchitectureIsNamed) {
  expect_error("general.architecture", text("rwkv"), "'rwkv' is not supported");
}

TEST(ReadModel, MissingKeysAreNamed) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    KnownFile known(small_known("tiny-llama"));
    known.without_keys = {key};
    const std::string message = error_of(known);
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST(ReadModel, SenselessValuesAreErrors) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                            "llama.feed_forward_length", "llama.attention.head_count"}) {
      expect_error(key, integer(wrong), key);
    }
  }
  expect_error("llama.attention.head_count_kv", integer(3), "cannot share 3");
  expect_error("llama.attention.head_count_kv", integer(5), "between 1 and 4");
  expect_error("llama.attention.key_length", integer(1 << 20), "key_length");
  expect_error("llama.attention.value_length", integer(8), "only equal lengths");
  expect_error("llama.rope.dimension_count", integer(7), "pairs");
  expect_error("llama.rope.dimension_count", integer(18), "between 0 and 16");
  for (const double wrong : {kNan, kInfinity, 0.0, -1.0}) {
    expect_error("llama.rope.freq_base", number(wrong), "rope.freq_base");
    if (wrong == 0.0) continue;  // some files write a factor of 0 for "not scaled"
    expect_error("llama.rope.scaling.factor", number(wrong), "rope.scaling.factor");
    expect_error("llama.attention.layer_norm_rms_epsilon", number(wrong), "rms_epsilon");
  }
  expect_error("llama.rope.scaling.type", text("spiral"), "'spiral' is not known");
  expect_error("llama.feed_forward_activation", text("tanh"), "silu, gelu, relu and drelu");
  expect_error("llama.block_count", text("two"), "llama.block_count");
}

TEST(ReadModel, AScalingFactorOfZeroMeansNotScaled) {
  KnownFile known(small_known("tiny-llama"));
  known.values["llama.rope.scaling.factor"] = number(0.0);
  const gguf::File file = known.open();
  const Blueprint b = read(file);
  EXPECT_EQ(b.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(b.rope.factor, 1.0);
}

// YaRN divides by logarithms of these: no value may turn the angles into what is no number.
TEST(ReadModel, YarnWithOddNumbersIsAnErrorOrFinite) {
  const std::pair<const char*, double> odd[] = {{"llama.rope.freq_base", 1.0},
                                                {"llama.rope.scaling.yarn_beta_fast", 0.0},
                                                {"llama.rope.scaling.yarn_beta_slow", -1.0},
                                                {"llama.rope.scaling.factor", 1e-300},
                                                {"llama.rope.scaling.factor", 1e300}};
  for (const auto& [key, value] : odd) {
    KnownFile known(small_known("tiny-llama"));
    known.values["llama.rope.scaling.type"] = text("yarn");
    known.values["llama.rope.scaling.factor"] = number(4.0);
    known.values[key] = number(value);
    const gguf::File file = known.open();
    try {
      const Blueprint b = read(file);
      const RopeAngles angles(b.rope);
      std::vector<float> cos(8), sin(8);
      angles.fill(77, cos.data(), sin.data());
      for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(cos[i] + sin[i])) << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

TEST(ReadModel, WrongFrequencyDivisorsAreAnError) {
  KnownFile known(small_known("tiny-llama3"));
  known.floats["rope_freqs.weight"] = {1, 1, 1, 2, 3, 4, 8, 8};
  EXPECT_EQ(error_of(known), "");
  known.floats.clear();
  known.tensor("rope_freqs.weight").shape = {9};
  EXPECT_NE(error_of(known).find("rope_freqs.weight"), std::string::npos);
  known = KnownFile(small_known("tiny-llama3"));
  known.floats["rope_freqs.weight"] = {1, 1, 1, 0, 1, 1, 1, 1};
  EXPECT_NE(error_of(known).find("rope_freqs.weight"), std::string::npos);
}

}  // namespace
}  // namespace troika::model
