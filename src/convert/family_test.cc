#include "convert/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/limits.h"
#include "tests/support/temp_folder.h"

namespace troika::convert {
namespace {

using test::message_of;

// Returns the configuration of two layers with two heads of 32 that share keys and values.
Json config_of(const std::string& class_name) {
  Json config = {{"architectures", {class_name}}, {"hidden_size", 64},
                 {"num_hidden_layers", 2},        {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},      {"head_dim", 32},
                 {"intermediate_size", 96},       {"vocab_size", 128},
                 {"max_position_embeddings", 256}};
  if (class_name.starts_with("Gemma")) {
    config["query_pre_attn_scalar"] = 32;
    config["hidden_activation"] = "gelu_pytorch_tanh";
  }
  return config;
}

ConversionPlan plan_with(const std::string& class_name, const Json& changes) {
  Json config = config_of(class_name);
  config.update(changes);
  // The text is parsed as from a file, where whole numbers are unsigned.
  return plan_model(parse_json(config.dump(), "config.json"), "config.json");
}

void expect_refused(const std::string& class_name, const Json& changes,
                    const std::string& problem) {
  const std::string message = message_of<Error>([&] { plan_with(class_name, changes); });
  EXPECT_NE(message.find(problem), std::string::npos) << message << "\nnot: " << problem;
  EXPECT_TRUE(message.starts_with("config.json: ")) << message;
}

template <class T>
std::optional<T> find(const ConversionPlan& plan, const std::string& key) {
  for (const auto& [name, value] : plan.metadata) {
    if (name == key) return std::get<T>(value);
  }
  return std::nullopt;
}

const PlannedTensor* find_tensor(const ConversionPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.tensors.begin(), plan.tensors.end(),
                                  [&](const PlannedTensor& t) { return t.name == name; });
  return found == plan.tensors.end() ? nullptr : &*found;
}

// Says whether a bias must be there, may be there, or has no place.
std::string bias(const ConversionPlan& plan, const std::string& matrix) {
  const PlannedTensor* found = find_tensor(plan, "blk.1." + matrix + ".bias");
  return found == nullptr ? "none" : found->is_optional ? "optional" : "needed";
}

// A file that is converted is read again, by a reader with limits of its own.
TEST(Families, RefuseWhatReadersOfTheFileWouldRefuse) {
  for (const auto& [key, most] : {std::pair{"max_position_embeddings", model::kMostContext},
                                  {"hidden_size", model::kMostWidth},
                                  {"vocab_size", model::kMostVocabulary},
                                  {"num_hidden_layers", model::kMostLayers}}) {
    expect_refused("LlamaForCausalLM", {{key, most + 1}}, key);
  }
  EXPECT_EQ(find<uint32_t>(
                plan_with("LlamaForCausalLM", {{"max_position_embeddings", model::kMostContext}}),
                "context_length"),
            uint32_t{model::kMostContext});
}

TEST(Families, TheOriginalContextHasTheLimitsOfTheContext) {
  const auto original = [](const Json& count) {
    return find<uint32_t>(
        plan_with("Phi3ForCausalLM", {{"original_max_position_embeddings", count}}),
        "rope.scaling.original_context_length");
  };
  EXPECT_EQ(original(1), 1u);
  EXPECT_EQ(original(model::kMostContext), uint32_t{model::kMostContext});
  const Json too_many = {{"original_max_position_embeddings", model::kMostContext + 1}};
  expect_refused("Phi3ForCausalLM", too_many, "'original_max_position_embeddings' is");
  Json inner = too_many;
  inner["type"] = "default";
  expect_refused("Phi3ForCausalLM", {{"rope_scaling", inner}},
                 "'original_max_position_embeddings' is");
}

// Only the code of Gemma reads "hidden_activation".
TEST(Families, TheActivationIsReadWhereTheClassReadsIt) {
  for (const char* class_name : {"LlamaForCausalLM", "Qwen2ForCausalLM", "Phi3ForCausalLM"}) {
    plan_with(class_name, {{"hidden_act", "silu"}, {"hidden_activation", "gelu"}});
    expect_refused(class_name, {{"hidden_act", "gelu"}, {"hidden_activation", "silu"}},
                   "the activation \"gelu\"");
  }
  for (const char* class_name : {"GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    plan_with(class_name, {{"hidden_act", "silu"}});  // has another hidden_activation
    plan_with(class_name, {{"hidden_activation", nullptr}, {"hidden_act", "gelu_pytorch_tanh"}});
    expect_refused(class_name, {{"hidden_activation", nullptr}, {"hidden_act", "silu"}},
                   "the activation \"silu\"");
  }
}

TEST(Families, HaveTheNamesAndShapesThatReadersKnow) {
  const std::vector<std::pair<std::string, std::string>> kClasses = {
      {"LlamaForCausalLM", "llama"},   {"MistralForCausalLM", "llama"},
      {"Qwen2ForCausalLM", "qwen2"},   {"Qwen3ForCausalLM", "qwen3"},
      {"GemmaForCausalLM", "gemma"},   {"Gemma2ForCausalLM", "gemma2"},
      {"Gemma3ForCausalLM", "gemma3"}, {"PhiForCausalLM", "phi2"},
      {"Phi3ForCausalLM", "phi3"}};
  for (const auto& [class_name, architecture] : kClasses) {
    const ConversionPlan plan = plan_with(class_name, Json::object());
    EXPECT_EQ(plan.architecture, architecture);
    EXPECT_EQ(find<uint32_t>(plan, "block_count"), 2u) << class_name;
    EXPECT_EQ(find<uint32_t>(plan, "attention.head_count_kv"), 1u) << class_name;
    const bool is_phi3 = architecture == "phi3";
    const PlannedTensor* matrix =
        find_tensor(plan, is_phi3 ? "blk.1.attn_qkv.weight" : "blk.1.attn_k.weight");
    ASSERT_NE(matrix, nullptr) << class_name;
    EXPECT_EQ(matrix->shape, (std::vector<uint64_t>{64, is_phi3 ? 128u : 32u})) << class_name;
    EXPECT_EQ(matrix->n_rotated_heads, architecture == "llama" ? 1u : 0u) << class_name;
  }
}

TEST(Families, BiasesAreNeededWhereTheClassOrTheConfigurationSaysSo) {
  const auto plan = [](const char* class_name, const Json& changes = Json::object()) {
    return plan_with(class_name, changes);
  };
  for (const char* class_name : {"LlamaForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM"}) {
    for (const char* matrix : {"attn_q", "attn_v", "attn_output"}) {
      EXPECT_EQ(bias(plan(class_name), matrix), "optional") << class_name;
      EXPECT_EQ(bias(plan(class_name, {{"attention_bias", false}}), matrix), "optional");
      EXPECT_EQ(bias(plan(class_name, {{"attention_bias", nullptr}}), matrix), "optional");
      EXPECT_EQ(bias(plan(class_name, {{"attention_bias", true}}), matrix), "needed") << class_name;
    }
  }
  EXPECT_EQ(bias(plan("LlamaForCausalLM"), "ffn_down"), "optional");
  EXPECT_EQ(bias(plan("LlamaForCausalLM", {{"mlp_bias", true}}), "ffn_down"), "needed");
  EXPECT_EQ(bias(plan("Qwen2ForCausalLM"), "attn_k"), "needed");
  // Qwen2, Qwen3 and Phi ignore the flags of biases.
  EXPECT_EQ(bias(plan("Qwen2ForCausalLM"), "attn_output"), "optional");
  EXPECT_EQ(bias(plan("Qwen2ForCausalLM", {{"attention_bias", true}}), "attn_output"), "optional");
  EXPECT_EQ(bias(plan("Qwen3ForCausalLM", {{"mlp_bias", true}}), "ffn_down"), "optional");
  EXPECT_EQ(bias(plan("PhiForCausalLM"), "ffn_up"), "needed");
  EXPECT_EQ(bias(plan("Phi3ForCausalLM"), "attn_qkv"), "optional");
  expect_refused("LlamaForCausalLM", {{"attention_bias", "yes"}}, "'attention_bias' is neither");
}

TEST(Gemma2, CapsMayBeAbsentOrNull) {
  const auto cap = [](const Json& changes) {
    return find<float>(plan_with("Gemma2ForCausalLM", changes), "final_logit_softcapping");
  };
  EXPECT_EQ(cap(Json::object()), 30.0F);
  EXPECT_EQ(cap({{"final_logit_softcapping", 25.5}}), 25.5F);
  EXPECT_EQ(cap({{"final_logit_softcapping", nullptr}}), 0.0F);
  const ConversionPlan none = plan_with("Gemma2ForCausalLM", {{"attn_logit_softcapping", nullptr}});
  EXPECT_EQ(find<float>(none, "attn_logit_softcapping"), 0.0F);
  EXPECT_EQ(find<float>(none, "final_logit_softcapping"), 30.0F);
  for (const Json& wrong : {Json(0), Json(-1), Json("x"), Json(1e30)}) {
    expect_refused("Gemma2ForCausalLM", {{"final_logit_softcapping", wrong}},
                   "'final_logit_softcapping' is");
  }
}

TEST(Gemma3, OnlyTheLogitsMayHaveACap) {
  const auto cap = [](const Json& changes) {
    return find<float>(plan_with("Gemma3ForCausalLM", changes), "final_logit_softcapping");
  };
  EXPECT_EQ(cap(Json::object()), std::nullopt);
  EXPECT_EQ(cap({{"final_logit_softcapping", nullptr}, {"attn_logit_softcapping", nullptr}}),
            std::nullopt);
  EXPECT_EQ(cap({{"final_logit_softcapping", 20}}), 20.0F);
  expect_refused("Gemma3ForCausalLM", {{"attn_logit_softcapping", 50}},
                 "'attn_logit_softcapping' is set");
}

// The file has a place for the rotation of the layers without windows only.
TEST(Gemma3, WindowsTurnWholeHeadsPlainly) {
  const auto with_local = [](const Json& local) {
    return Json{{"rope_parameters",
                 {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}},
                  {"sliding_attention", local}}}};
  };
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const ConversionPlan plan = plan_with("Gemma3ForCausalLM", with_local(plain));
  EXPECT_EQ(find<std::string>(plan, "rope.scaling.type"), "linear");
  Json other = plain;
  other["rope_type"] = "linear", other["factor"] = 8.0;
  expect_refused("Gemma3ForCausalLM", with_local(other), "windows is of the kind \"linear\"");
  other = plain;
  other["partial_rotary_factor"] = 0.5;
  expect_refused("Gemma3ForCausalLM", with_local(other), "only a part of each head");
  other["rope_theta"] = 500.0;
  expect_refused("Gemma3ForCausalLM", with_local(other), "a base of its own");
  expect_refused("Gemma3ForCausalLM", {{"partial_rotary_factor", 0.5}}, "only a part of each head");
  // An older file says this of the layers without windows alone.
  plan_with("Gemma3ForCausalLM", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
}

TEST(Gemma, WhatFilesCannotSayIsRefused) {
  for (const char* class_name : {"Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    expect_refused(class_name, {{"query_pre_attn_scalar", 144}}, "'query_pre_attn_scalar' is 144");
    expect_refused(class_name, {{"layer_types", {"full_attention", "sliding_attention"}}},
                   "'layer_types' is not what models of this class have");
    expect_refused(class_name, {{"layer_types", {"sliding_attention"}}}, "'layer_types' is not");
    expect_refused(class_name, {{"use_bidirectional_attention", true}}, "looks forward");
    expect_refused(class_name, {{"hidden_activation", "relu"}}, "the activation \"relu\"");
    expect_refused(class_name, {{"sliding_window", 0}}, "'sliding_window' is");
  }
  plan_with("Gemma2ForCausalLM", {{"layer_types", {"sliding_attention", "full_attention"}}});
  expect_refused("Gemma3ForCausalLM", {{"sliding_window_pattern", 5}}, "is not 6");
  expect_refused("Gemma3ForCausalLM", {{"rope_local_base_freq", 500}}, "a base of its own");
}

TEST(Phi2, TurnsHalfOfAHeadUnlessToldOtherwise) {
  const auto n_rotated = [](const Json& changes) {
    return find<uint32_t>(plan_with("PhiForCausalLM", changes), "rope.dimension_count");
  };
  EXPECT_EQ(n_rotated(Json::object()), 16u);
  EXPECT_EQ(n_rotated({{"partial_rotary_factor", 0.25}}), 8u);
  expect_refused("PhiForCausalLM", {{"partial_rotary_factor", 0.01}}, "of 32 elements of a head");
  expect_refused("PhiForCausalLM", {{"partial_rotary_factor", 1.5}}, "'partial_rotary_factor' is");
  expect_refused("PhiForCausalLM", {{"qk_layernorm", true}}, "its heads have norms");
}

Json long_rope() {
  return {{"type", "longrope"},
          {"long_factor", std::vector<double>(16, 4.0)},
          {"short_factor", std::vector<double>(16, 1.5)}};
}

TEST(Phi3, LongRopeIsTwoSetsOfDivisors) {
  const ConversionPlan plan = plan_with(
      "Phi3ForCausalLM", {{"rope_scaling", long_rope()}, {"original_max_position_embeddings", 64}});
  EXPECT_EQ(find<uint32_t>(plan, "rope.scaling.original_context_length"), 64u);
  EXPECT_NEAR(*find<float>(plan, "rope.scaling.attn_factor"),
              std::sqrt(1.0 + std::log(4.0) / std::log(64.0)), 1e-6);
  const PlannedTensor* divisors = find_tensor(plan, "rope_factors_long.weight");
  ASSERT_NE(divisors, nullptr);
  EXPECT_EQ(divisors->values, std::vector<float>(16, 4.0F));
  EXPECT_TRUE(divisors->source.empty());
  ASSERT_NE(find_tensor(plan, "rope_factors_short.weight"), nullptr);
  Json told = long_rope();
  told["attention_factor"] = 1.25;
  EXPECT_EQ(find<float>(plan_with("Phi3ForCausalLM", {{"rope_scaling", told}}),
                        "rope.scaling.attn_factor"),
            1.25F);
}

TEST(Phi3, YarnHasOneOriginalContext) {
  const auto original = [](const Json& changes) {
    Json all = {{"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}};
    all.merge_patch(changes);
    return find<uint32_t>(plan_with("Phi3ForCausalLM", all),
                          "rope.scaling.original_context_length");
  };
  EXPECT_EQ(original(Json::object()), 256u);
  EXPECT_EQ(original({{"original_max_position_embeddings", 64}}), 64u);
  EXPECT_EQ(original({{"original_max_position_embeddings", 64},
                      {"rope_scaling", {{"original_max_position_embeddings", 128}}}}),
            128u);
}

// A window says how far attention looks, not for which context the rotation was made.
TEST(Families, YarnDoesNotTakeTheWindowForTheOriginalContext) {
  for (const char* class_name : {"MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    Json changes = {{"sliding_window", 64},
                    {"use_sliding_window", true},
                    {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}}};
    const auto number = [&](const char* key) {
      return find<uint32_t>(plan_with(class_name, changes), key);
    };
    EXPECT_EQ(number("context_length"), 64u) << class_name;
    EXPECT_EQ(number("rope.scaling.original_context_length"), 256u) << class_name;
    changes["rope_scaling"]["original_max_position_embeddings"] = 128;
    EXPECT_EQ(number("rope.scaling.original_context_length"), 128u) << class_name;
  }
}

TEST(Families, NoKindOfRotationSetsAKeyTwice) {
  const Json llama3 = {{"type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  const std::vector<Json> kinds = {{{"type", "default"}},
                                   {{"type", "dynamic"}},
                                   {{"type", "linear"}, {"factor", 4.0}},
                                   {{"type", "yarn"}, {"factor", 4.0}},
                                   llama3,
                                   long_rope()};
  size_t n_plans = 0;
  for (const char* class_name : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                                 "Qwen3ForCausalLM", "GemmaForCausalLM", "Gemma2ForCausalLM",
                                 "Gemma3ForCausalLM", "PhiForCausalLM", "Phi3ForCausalLM"}) {
    for (const Json& kind : kinds) {
      ConversionPlan plan;
      try {
        plan = plan_with(class_name, {{"rope_scaling", kind}});
      } catch (const Error&) {
        continue;  // not every class has every kind
      }
      ++n_plans;
      std::set<std::string> keys;
      for (const auto& [key, value] : plan.metadata) {
        EXPECT_TRUE(keys.insert(key).second) << class_name << ": " << key << "\n" << kind;
      }
    }
  }
  EXPECT_EQ(n_plans, 9u * 5 + 1);  // only Phi 3 has the last kind
}

TEST(Phi3, LongRopeThatCannotBeIsRefused) {
  const auto refused = [](const std::function<void(Json&)>& spoil, const std::string& problem) {
    Json scaling = long_rope();
    spoil(scaling);
    expect_refused("Phi3ForCausalLM", {{"rope_scaling", scaling}}, problem);
  };
  refused([](Json& s) { s.erase("long_factor"); },
          "'long_factor' of the rotation does not hold 16");
  refused([](Json& s) { s["short_factor"].push_back(1); },
          "'short_factor' of the rotation does not");
  refused([](Json& s) { s["long_factor"][3] = "x"; }, "holds what is no number above 0");
  refused([](Json& s) { s["long_factor"][3] = -1; }, "holds what is no number above 0");
  refused([](Json& s) { s["attention_factor"] = 0; }, "'attention_factor' is");
  for (const int count : {0, 1}) {
    expect_refused("Phi3ForCausalLM",
                   {{"rope_scaling", long_rope()}, {"original_max_position_embeddings", count}},
                   "'original_max_position_embeddings' is");
  }
}

TEST(Families, NumbersBeyondReasonAreRefused) {
  for (const char* class_name : {"LlamaForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM",
                                 "PhiForCausalLM", "Phi3ForCausalLM"}) {
    for (const char* key :
         {"hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim",
          "num_key_value_heads", "intermediate_size", "vocab_size", "max_position_embeddings"}) {
      for (const Json& wrong : {Json(uint64_t{1} << 62), Json(-1), Json(0), Json(1.5), Json("8")}) {
        expect_refused(class_name, {{key, wrong}}, std::string("'") + key + "' is");
      }
    }
    const bool is_phi2 = std::string(class_name) == "PhiForCausalLM";
    const std::string epsilon = is_phi2 ? "layer_norm_eps" : "rms_norm_eps";
    expect_refused(class_name, {{epsilon, 7}}, "'" + epsilon + "' is");
    expect_refused(class_name, {{"rope_theta", 0}}, "'rope_theta' is");
    expect_refused(class_name, {{"rope_scaling", 3}}, "description of the rotation is no object");
  }
  expect_refused("LlamaForCausalLM", {{"rope_scaling", {{"type", "linear"}, {"factor", 1e300}}}},
                 "'factor' is");
}

}  // namespace
}  // namespace troika::convert
