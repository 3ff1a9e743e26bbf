#include "model/architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
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
gguf::Value flag(bool value) { return {gguf::ValueType::kBool, uint64_t{value}}; }
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

std::vector<std::string> tiny_names() {
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) {
    if (model.name.starts_with("tiny-")) names.emplace_back(model.name);
  }
  return names;
}

class Architecture : public testing::TestWithParam<std::string> {};

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
                             weight.name.find(".bias") != std::string::npos ||
                             weight.name.find("inp_shexp") != std::string::npos;
      if (!is_vector) shape.push_back(static_cast<uint64_t>(weight.n_tensor_rows));
      n_rows_used[weight.name] += is_vector ? 0 : weight.n_rows;
    }
    std::map<std::string, std::vector<uint64_t>> wanted;
    for (const KnownTensor& t : known.tensors) {
      if (t.role == TensorRole::kRopeFactors) continue;
      wanted[t.name] = t.shape;
      // The rows of all experts are joined.
      if (t.shape.size() == 3) wanted[t.name] = {t.shape[0], t.shape[1] * t.shape[2]};
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

INSTANTIATE_TEST_SUITE_P(Every, Architecture, testing::ValuesIn(tiny_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

Blueprint read_known(const KnownFile& known) {
  const gguf::File file = known.open();
  return read(file);
}

// Returns, for each block, how many positions its attention sees.
std::vector<int> windows_of(const Blueprint& b) {
  std::vector<int> windows;
  for (const Op& op : b.ops) {
    if (op.kind == OpKind::kAttention) windows.push_back(op.window);
  }
  return windows;
}

TEST(ReadModel, BlocksHaveTheWindowsOfTheirArchitecture) {
  KnownModel gemma2 = small_known("tiny-gemma2"), gemma3 = small_known("tiny-gemma3");
  gemma2.n_layers = 4, gemma3.n_layers = 8;
  EXPECT_EQ(windows_of(read_known(KnownFile(gemma2))), (std::vector<int>{64, 0, 64, 0}));
  const Blueprint b = read_known(KnownFile(gemma3));
  EXPECT_EQ(windows_of(b), (std::vector<int>{64, 64, 64, 64, 64, 0, 64, 64}));
  ASSERT_EQ(b.ropes.size(), 2u);
  EXPECT_EQ(b.ropes[0].base, 1e6);
  EXPECT_EQ(b.ropes[1].base, 1e4);
  for (const Op& op : b.ops) {
    if (op.kind != OpKind::kRope) continue;
    EXPECT_EQ(op.rope, op.layer == 5 ? 0 : 1);
  }
  gemma2.window_period = 3;
  EXPECT_EQ(windows_of(read_known(KnownFile(gemma2))), (std::vector<int>{64, 64, 0, 64}));
  EXPECT_EQ(windows_of(read_known(KnownFile(small_known("tiny-phi3")))),
            (std::vector<int>{64, 64}));
}

// Only one of six blocks sees all, and with the base of the others it finds nothing that is far.
TEST(ReadModel, BlocksOfGemma3ThatSeeAllHaveABaseOfTheirOwn) {
  KnownModel model = small_known("tiny-gemma3");
  model.n_layers = 6;
  struct Case {
    std::map<std::string, double> keys;
    double whole, local;
  };
  const Case cases[] = {{{}, 1e6, 1e4},
                        {{{"rope.freq_base", 5e5}}, 5e5, 1e4},
                        {{{"rope.global.freq_base", 2e6}, {"rope.local.freq_base", 2e4}}, 2e6, 2e4},
                        {{{"rope.global.freq_base", 2e6}, {"rope.freq_base", 3e6}}, 3e6, 1e4},
                        {{{"rope.local.freq_base", 2e4}, {"rope.freq_base_swa", 3e4}}, 1e6, 3e4}};
  for (const Case& one : cases) {
    KnownFile known(model);
    known.without_keys = {"gemma3.rope.freq_base"};
    for (const auto& [key, value] : one.keys) known.values["gemma3." + key] = number(value);
    const Blueprint b = read_known(known);
    EXPECT_EQ(windows_of(b), (std::vector<int>{64, 64, 64, 64, 64, 0}));
    for (const Op& op : b.ops) {
      if (op.kind != OpKind::kRope) continue;
      EXPECT_EQ(b.ropes[static_cast<size_t>(op.rope)].base, op.layer == 5 ? one.whole : one.local);
    }
  }
  KnownFile wrong(model);
  wrong.without_keys = {"gemma3.rope.freq_base"};
  wrong.values["gemma3.rope.global.freq_base"] = number(-1.0);
  EXPECT_NE(error_of(wrong).find("gemma3.rope.global.freq_base"), std::string::npos);
}

TEST(ReadModel, APatternOfWindowsMayBeAList) {
  KnownModel model = small_known("tiny-gemma3");
  KnownFile known(model);
  std::vector<std::byte> bytes = {std::byte{0}, std::byte{1}};
  known.values["gemma3.attention.sliding_window_pattern"] = {
      gguf::ValueType::kArray, gguf::Array{gguf::ValueType::kBool, 2, bytes}};
  EXPECT_EQ(windows_of(read_known(known)), (std::vector<int>{0, 64}));
  bytes.resize(1);
  known.values["gemma3.attention.sliding_window_pattern"] = {
      gguf::ValueType::kArray, gguf::Array{gguf::ValueType::kBool, 1, bytes}};
  EXPECT_NE(error_of(known).find("lists 1 blocks"), std::string::npos) << error_of(known);
}

TEST(ReadModel, ScoresAndLogitsOfGemma2AreCapped) {
  const Blueprint b = read_known(KnownFile(small_known("tiny-gemma2")));
  EXPECT_EQ(b.ops.back().kind, OpKind::kSoftCap);
  EXPECT_EQ(b.ops.back().soft_cap, 30.0f);
  for (const Op& op : b.ops) {
    if (op.kind != OpKind::kAttention) continue;
    EXPECT_EQ(op.soft_cap, 50.0f);
  }
  KnownFile wrong(small_known("tiny-gemma2"));
  wrong.values["gemma2.final_logit_softcapping"] = number(-3.0);
  EXPECT_NE(error_of(wrong).find("final_logit_softcapping"), std::string::npos);
}

TEST(ReadModel, ExpertsOfAnotherKindAreRefused) {
  KnownFile known(small_known("tiny-qwen3moe"));
  known.values["qwen3moe.expert_gating_func"] = integer(2);
  EXPECT_NE(error_of(known).find("knows softmax"), std::string::npos) << error_of(known);
  known = KnownFile(small_known("tiny-mixtral"));
  known.remove("blk.0.ffn_gate_exps.weight");
  known.tensors.push_back({"blk.0.ffn_gate.0.weight", {48, 80}, TensorRole::kMatrix});
  EXPECT_NE(error_of(known).find("Convert the model again"), std::string::npos);
  known = KnownFile(small_known("tiny-qwen3moe"));
  known.values["qwen3moe.expert_used_count"] = integer(9);
  EXPECT_NE(error_of(known).find("expert_used_count"), std::string::npos);
}

// Returns whether the shares of experts are normalised.
bool normalizes_shares(const KnownFile& known) {
  for (const Op& op : read_known(known).ops) {
    if (op.kind == OpKind::kRoute) return op.normalizes_shares;
  }
  ADD_FAILURE() << "no experts";
  return false;
}

TEST(ReadModel, TheFileMaySayWhetherSharesAreNormalised) {
  const std::pair<const char*, bool> usual[] = {
      {"tiny-mixtral", true}, {"tiny-qwen2moe", false}, {"tiny-qwen3moe", true}};
  for (const auto& [name, normalizes] : usual) {
    KnownFile known(small_known(name));
    EXPECT_EQ(normalizes_shares(known), normalizes) << name;
    for (const bool is_wanted : {false, true}) {
      known.values[std::string(known.model.architecture) + ".expert_weights_norm"] =
          flag(is_wanted);
      EXPECT_EQ(normalizes_shares(known), is_wanted) << name;
    }
  }
}

TEST(ReadModel, WhatAnyArchitectureMayAskForIsNotIgnored) {
  for (const std::string& name : tiny_names()) {
    KnownFile known(small_known(name));
    const std::string prefix = std::string(known.model.architecture) + ".";
    known.values[prefix + "attention.causal"] = flag(true);
    known.values[prefix + "expert_group_count"] = integer(1);
    EXPECT_EQ(error_of(known), "") << name;
    known.values[prefix + "expert_group_count"] = integer(2);
    EXPECT_NE(error_of(known).find("groups of experts are chosen"), std::string::npos) << name;
    known.values[prefix + "attention.causal"] = flag(false);
    EXPECT_NE(error_of(known).find("tokens look at those behind them"), std::string::npos) << name;
  }
}

// The converter of this program ends the context there, too.
TEST(ReadModel, TheContextEndsWhereAWindowThatNoBlockHasWouldBegin) {
  for (const char* name : {"tiny-llama", "tiny-qwen2", "tiny-phi3", "tiny-gemma2"}) {
    KnownFile known(small_known(name));
    const std::string key = std::string(known.model.architecture) + ".attention.sliding_window";
    const int whole = static_cast<int>(known.model.n_context);
    const bool has_windows = known.model.window > 0;
    for (const int window : {0, 100, 1 << 20}) {
      known.values[key] = integer(window);
      const int wanted = has_windows || window != 100 ? whole : window;
      EXPECT_EQ(read_known(known).trained_context, wanted) << name << ", " << window;
    }
  }
}

TEST(ReadModel, PredictorsOfSparseModelsAreReadAndChecked) {
  KnownFile known(small_known("tiny-bamboo"));
  for (const char* block : {"blk.0.", "blk.1."}) {
    known.tensors.push_back({std::string(block) + "fc1.weight", {48, 12}, TensorRole::kMatrix});
    known.tensors.push_back({std::string(block) + "fc2.weight", {12, 80}, TensorRole::kMatrix});
  }
  const Blueprint b = read_known(known);
  ASSERT_EQ(b.predictors.size(), 2u);
  EXPECT_EQ(b.predictors[1].layer, 1);
  const Weight& up = b.weights[static_cast<size_t>(b.predictors[1].up)];
  EXPECT_EQ(up.name, "blk.1.fc2.weight");
  EXPECT_EQ(up.n_rows, 80);
  EXPECT_EQ(up.row_length, 12);
  known.values["powerinfer.sparse_threshold"] = number(0.25);
  EXPECT_EQ(read_known(known).predictor_threshold, 0.25f);
  known.tensor("blk.1.ffn_down.weight").name = "blk.1.ffn_down_t.weight";
  EXPECT_NE(error_of(known).find("PowerInfer"), std::string::npos) << error_of(known);
}

// Returns the error for a file that has these tensors beside its own.
std::string error_with(const std::string& known_name, const std::vector<std::string>& more) {
  KnownFile known(small_known(known_name));
  for (const std::string& name : more) known.tensors.push_back({name, {4}, TensorRole::kBias});
  return error_of(known);
}

TEST(ReadModel, TensorsThatNothingReadsAreRefused) {
  const std::pair<const char*, const char*> unread[] = {
      {"tiny-llama", "blk.0.attn_norm.bias"},        // RMS norms have none
      {"tiny-llama", "blk.1.attn_sinks.weight"},     // is of another architecture
      {"tiny-llama", "blk.2.attn_q.weight"},         // stands in a block too many
      {"tiny-llama", "blk.1.attn_k_norm.weight"},    // has no norm of queries beside it
      {"tiny-llama", "blk.1.nextn.eh_proj.weight"},  // says that a block is none of the model's
      {"tiny-phi2", "blk.0.post_ffw_norm.weight"},   // Phi-2 has none
      {"tiny-phi3", "blk.0.attn_q.bias"},            // belongs to products that are one
      {"tiny-mixtral", "blk.0.exp_probs_b.bias"},    // changes which experts are chosen
      {"tiny-qwen2", "token_embd_norm.weight"},
      {"tiny-qwen2", "blk.x.ffn_up.weight"},
      {"tiny-qwen2", "\x1b[2J"}};
  for (const auto& [known_name, name] : unread) {
    const std::string message = error_with(known_name, {name});
    EXPECT_NE(message.find("has no place in a model of the architecture"), std::string::npos)
        << name << ": " << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << name;
  }
  for (const char* name : {"blk.0.attn_q.scale", "blk.1.ffn_down.scale", "output.scale"}) {
    const std::string message = error_with("tiny-llama", {name});
    EXPECT_NE(message.find("is a factor of weights"), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(ReadModel, TensorsWithoutWhichTheTextIsRightAreLeftAlone) {
  for (const char* name : {"v.blk.0.attn_q.weight", "mm.input_projection.weight",
                           "a.conv1d.1.weight", "cls.output.weight", "dense_2.weight",
                           "rope_factors_long.weight", "blk.0.attn_rot_embd.weight",
                           "blk.1.ffn_up.input_scale", "blk.0.gpu_idx", "blk.1.gpu_bucket"}) {
    EXPECT_EQ(error_with("tiny-llama3", {name}), "") << name;
  }
  // Blocks behind the last one guess tokens, which nobody has to ask for.
  EXPECT_EQ(error_with("tiny-qwen2", {"blk.2.nextn.eh_proj.weight", "blk.2.attn_q.weight"}), "");
}

TEST(ReadModel, AnUnknownArchitectureIsNamed) {
  expect_error("general.architecture", text("rwkv"), "\"rwkv\" is not supported");
}

TEST(ReadModel, WhatSteersATerminalIsNotPrinted) {
  for (const char* key :
       {"general.architecture", "llama.rope.scaling.type", "llama.feed_forward_activation"}) {
    expect_error(key, text("\x1b]0;x\x07"), " \"\\x1b]0;x\\x07\"");
  }
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
  expect_error("llama.rope.scaling.type", text("spiral"), "\"spiral\" is not known");
  expect_error("llama.feed_forward_activation", text("tanh"), "silu, gelu, relu and drelu");
  expect_error("llama.block_count", text("two"), "llama.block_count");
}

// A part of a head is rotated in Phi alone. With such a number another model would be wrong in
// silence.
TEST(ReadModel, APartialRotationIsForThoseWhoHaveOne) {
  for (const std::string& name : tiny_names()) {
    KnownFile known(small_known(name));
    known.remove("rope_freqs.weight");  // holds divisors of a whole head
    const std::string architecture(known.model.architecture);
    const bool may_be_partial = architecture == "phi2" || architecture == "phi3";
    if (architecture.starts_with("gemma")) continue;  // llama.cpp rotates the part, too
    for (const int64_t n : {0, 8}) {
      known.values[architecture + ".rope.dimension_count"] = integer(n);
      const std::string message = error_of(known);
      const std::string part = std::to_string(n) + " of 16 elements of a head are rotated";
      EXPECT_EQ(message.empty(), may_be_partial) << name << ": " << message;
      EXPECT_EQ(message.find(part) == std::string::npos, may_be_partial) << name << ": " << message;
    }
  }
}

// Who looks for a key in the file must find the one that the sentence names.
TEST(ReadModel, ErrorsOfRopeScalingNameTheKeyThatTheFileHas) {
  for (const auto& [key, kind] : {std::pair{"llama.rope.scale_linear", "linear"},
                                  {"llama.rope.scaling.factor", "linear"},
                                  {"llama.rope.scaling.attn_factor", "yarn"},
                                  {"llama.rope.scaling.yarn_attn_factor", "yarn"}}) {
    KnownFile known(small_known("tiny-llama"));
    known.values["llama.rope.scaling.type"] = text(kind);
    known.values[key] = number(1e8);
    const gguf::File file = known.open();
    const std::string message = test::message_of<Error>([&] { read(file); });
    EXPECT_NE(message.find(std::string("'") + key + "' is 1"), std::string::npos) << message;
  }
}

TEST(ReadModel, AScalingFactorOfZeroMeansNotScaled) {
  KnownFile known(small_known("tiny-llama"));
  known.values["llama.rope.scaling.factor"] = number(0.0);
  const gguf::File file = known.open();
  const Blueprint b = read(file);
  EXPECT_EQ(b.ropes.front().scaling, RopeScaling::kNone);
  EXPECT_EQ(b.ropes.front().factor, 1.0);
}

// YaRN divides by logarithms of these numbers, and no value of them may make an angle that is no
// number.
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
      const RopeAngles angles(b.ropes, 512);
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
