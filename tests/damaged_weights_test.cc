// A weight that is no number shows, whatever arithmetic meets it: nobody gets a text that was made
// of zeros in its place.
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "engine/generate.h"
#include "gguf/file.h"
#include "measure/evaluate.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

// Makes the first scale of a matrix in Q8_0 no number.
void damage(const std::string& path, const std::string& tensor) {
  size_t at = 0;
  {
    const gguf::File file = gguf::File::open(path);
    at = file.shards()[0].data_offset + file.get_tensor(tensor).offset;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  const char no_number[] = {0x00, 0x7e};
  file.write(no_number, sizeof no_number);
}

class DamagedWeights : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DamagedWeights, EveryPrecisionSaysThatNothingIsANumber) {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.type = test_support::kQ8_0;
  model.activation = GetParam().second;
  for (const char* const tensor : {"blk.0.ffn_down.weight", "blk.0.ffn_gate.weight",
                                   "blk.0.attn_v.weight", "blk.1.attn_output.weight"}) {
    const test_support::TinyModelFile file(model);
    damage(file.path(), tensor);
    for (const char* const prefill : {"same", "q8", "bf16", "int8"}) {
      prepare::Options options;
      options.model.file = file.path();
      options.prompts.prefill = plan::prefill_from_name(prefill);
      options.memory.kv_type = prepare::kv_type_from_name(GetParam().first);
      engine::Engine engine(options);
      for (const float temperature : {0.0f, 1.0f}) {
        engine::Session session(engine);
        session.prefill(std::vector<cache::Token>{1, 20, 35, 7, 99});
        engine::SamplerOptions sampling;
        sampling.temperature = temperature;
        engine::Sampler sampler(sampling);
        EXPECT_THROW(session.next(sampler), Error) << tensor << " " << prefill;
      }
      engine::Session session(engine);
      EXPECT_THROW(measure::perplexity_of_text(session, "Once upon a time there was.", nullptr),
                   Error)
          << tensor << " " << prefill;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedWeights,
                         testing::Values(std::pair("f16", ""), std::pair("q8_0", ""),
                                         std::pair("f32", "relu")));

}  // namespace
}  // namespace troika
