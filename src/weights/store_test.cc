#include "weights/store.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/architecture.h"
#include "tests/support/known_file.h"

namespace troika::weights {
namespace {

using test_support::KnownFile;
using test_support::small_known;

std::string error_of(const KnownFile& known) {
  const gguf::File file = known.open();
  const model::Blueprint blueprint = model::read(file);
  return test::message_of<Error>([&] { Store store(file, blueprint); });
}

void expect_error(const KnownFile& known, const std::string& tensor, const std::string& part) {
  const std::string message = error_of(known);
  EXPECT_NE(message.find("'" + tensor + "'"), std::string::npos) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Store, TakesTheFilesOfEveryArchitecture) {
  for (const model::KnownModel& model : model::known_models()) {
    if (!model.name.starts_with("tiny-")) continue;
    EXPECT_EQ(error_of(KnownFile(small_known(model.name))), "") << model.name;
  }
}

TEST(Store, MissingTensorsAreErrors) {
  for (const char* name : {"token_embd.weight", "blk.1.attn_q.weight", "blk.0.ffn_norm.weight"}) {
    KnownFile known(small_known("tiny-llama"));
    known.remove(name);
    expect_error(known, name, "missing");
  }
}

TEST(Store, WrongShapesAreErrors) {
  KnownFile known(small_known("tiny-llama"));
  known.tensor("blk.0.attn_q.weight").shape = {64, 48};
  expect_error(known, "blk.0.attn_q.weight",
               "is 64 x 48, but the model's metadata asks for 48 x 64");
  known = KnownFile(small_known("tiny-llama"));
  known.tensor("blk.0.ffn_up.weight").shape[1] += 1;
  expect_error(known, "blk.0.ffn_up.weight", "48 x 80");
  known = KnownFile(small_known("tiny-llama"));
  known.tensor("output_norm.weight").shape = {49};
  expect_error(known, "output_norm.weight", "48");
  known.tensor("output_norm.weight").shape = {24, 2};
  expect_error(known, "output_norm.weight", "48");
}

// A bias must have exactly as many elements as its matrix has rows; a fused one, as all have
// together.
TEST(Store, BiasesAreExactlyAsLongAsTheirRows) {
  for (const auto& [model, name] :
       {std::pair("tiny-qwen2", "blk.1.attn_k.bias"), std::pair("tiny-phi2", "blk.0.attn_qkv.bias"),
        std::pair("tiny-phi2", "blk.0.ffn_up.bias"), std::pair("tiny-phi2", "output.bias")}) {
    for (const int difference : {-1, 1, 16}) {
      KnownFile known(small_known(model));
      auto& length = known.tensor(name).shape[0];
      const std::string wanted = "asks for " + std::to_string(length);
      length += static_cast<uint64_t>(difference);
      expect_error(known, name, wanted);
    }
  }
}

TEST(Store, PartsOfAFusedBiasAreTheRightOnes) {
  KnownFile known(small_known("tiny-phi2"));
  std::vector<float> bias;
  for (uint64_t i = 0; i < known.tensor("blk.1.attn_qkv.bias").shape[0]; ++i) {
    bias.push_back(static_cast<float>(i));
  }
  known.floats["blk.1.attn_qkv.bias"] = bias;
  const gguf::File file = known.open();
  const model::Blueprint blueprint = model::read(file);
  const Store store(file, blueprint);
  std::vector<float> firsts, lasts;
  for (const model::Op& op : blueprint.ops) {
    if (op.bias == model::kNone) continue;
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.bias)];
    if (weight.name != "blk.1.attn_qkv.bias") continue;
    firsts.push_back(store.vector(op.bias)[0]);
    lasts.push_back(store.vector(op.bias)[weight.row_length - 1]);
  }
  const auto kv = static_cast<float>(known.model.kv_width());
  EXPECT_EQ(firsts, (std::vector<float>{0, 64, 64 + kv}));
  EXPECT_EQ(lasts, (std::vector<float>{63, 63 + kv, 63 + 2 * kv}));
}

TEST(Store, NormsInHalfPrecisionAreDecoded) {
  KnownFile known(small_known("tiny-llama"));
  known.types["blk.0.attn_norm.weight"] = tensor::Type::kF16;
  known.types["output_norm.weight"] = tensor::Type::kBF16;
  EXPECT_EQ(error_of(known), "");
}

TEST(Store, CountsWhatAStepReads) {
  for (const bool tied : {false, true}) {
    model::KnownModel model = small_known("tiny-llama");
    model.tied_embeddings = tied;
    KnownFile known(model);
    const gguf::File file = known.open();
    const model::Blueprint blueprint = model::read(file);
    const Store store(file, blueprint);
    size_t n_matrix = 0;
    for (const model::KnownTensor& t : known.tensors) {
      if (t.shape.size() == 2 && (tied || t.name != "token_embd.weight")) {
        n_matrix += t.shape[0] * t.shape[1];
      }
    }
    EXPECT_EQ(store.bytes_per_step(), 4 * n_matrix) << tied;
    size_t bytes = 0;
    for (const model::KnownTensor& t : known.tensors) {
      bytes += 4 * t.shape[0] * (t.shape.size() == 2 ? t.shape[1] : 1);
    }
    EXPECT_EQ(store.total_bytes(), bytes) << tied;
    EXPECT_EQ(store.main_type(), tensor::Type::kF32);
  }
}

TEST(Store, PredictorsAreReadAndTheirShapesChecked) {
  KnownFile known(small_known("tiny-bamboo"));
  const size_t bytes_without = [&] {
    const gguf::File file = known.open();
    return Store(file, model::read(file)).total_bytes();
  }();
  for (const char* block : {"blk.0.", "blk.1."}) {
    using Role = model::TensorRole;
    known.tensors.push_back({std::string(block) + "fc1.weight", {48, 12}, Role::kMatrix});
    known.tensors.push_back({std::string(block) + "fc2.weight", {12, 80}, Role::kMatrix});
  }
  {
    const gguf::File file = known.open();
    const model::Blueprint blueprint = model::read(file);
    const Store store(file, blueprint);
    ASSERT_EQ(blueprint.predictors.size(), 2u);
    EXPECT_EQ(store.matrix(blueprint.predictors[1].up).n_rows, 80);
    EXPECT_EQ(store.matrix(blueprint.predictors[1].down).row_length, 48);
    EXPECT_EQ(store.total_bytes(), bytes_without) << "no op reads them";
  }
  known.tensor("blk.1.fc2.weight").shape = {12, 79};
  expect_error(known, "blk.1.fc2.weight", "12 x 79");
}

// Matrices that may be unpacked have magnitudes of their rows, until they have packed copies.
TEST(Store, MeasuresRowsAndPacksThem) {
  const KnownFile known(small_known("tiny-llama"));
  const gguf::File file = known.open();
  const model::Blueprint blueprint = model::read(file);
  Store store(file, blueprint);
  const model::WeightId id = prompt_matrices(blueprint).front();
  EXPECT_FALSE(store.is_switched(id));
  EXPECT_EQ(store.row_largest(id), nullptr);
  const std::vector<model::WeightId> ids = {id};
  std::vector<const std::byte*> measured;
  store.measure_int8(ids, 1, {}, [&](const Matrix& one) { measured.push_back(one.data); });
  EXPECT_EQ(measured.size(), ids.size());
  EXPECT_NE(store.row_largest(id), nullptr);
  EXPECT_EQ(store.measured_bytes(), static_cast<size_t>(store.matrix(id).n_rows) * sizeof(float));
  EXPECT_EQ(store.int8_panels(id), nullptr);
  store.pack_int8(ids, 1);
  EXPECT_NE(store.int8_panels(id), nullptr);
}

}  // namespace
}  // namespace troika::weights
