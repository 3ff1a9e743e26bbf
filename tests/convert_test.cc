// Files that were converted from folders of Hugging Face compute what the reference computes from
// the weights that went into the folders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "convert/convert_folder.h"
#include "forge/quantize_file.h"
#include "tests/support/hf_folder.h"
#include "tests/support/logits.h"
#include "text/tokenizer.h"

namespace troika {
namespace {

using test_support::HfFolder;
using test_support::TinyModel;
using test_support::TinyModelFile;

TinyModel with(TinyModel model, const std::string& tokenizer) {
  model.tokenizer = tokenizer;
  return model;
}

double largest_difference(const std::vector<reference::Vector>& a,
                          const std::vector<reference::Vector>& b) {
  double difference = 0, largest = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i) {
      const double apart = std::abs(double{a[row][i]} - b[row][i]);
      difference = std::max(difference, std::isnan(apart) ? INFINITY : apart);
      largest = std::max(largest, std::abs(double{b[row][i]}));
    }
  }
  return difference / largest;
}

class Converted : public testing::TestWithParam<const char*> {
 protected:
  static TinyModel tiny() {
    const std::string name = GetParam();
    for (const auto& variant : test_support::tiny_model_variants()) {
      if (variant.name == name && name.starts_with("phi3")) return variant.model;
    }
    if (name == "phi2") {  // folders of phi2 have a matrix each for q, k and v
      TinyModel model = test_support::tiny_model(name);
      model.fused_qkv = false;
      return model;
    }
    if (name == "gemma3") {  // sees everything in its sixth layer
      TinyModel model = test_support::tiny_model(name);
      model.n_layers = 7, model.window_period = 6;
      return model;
    }
    if (name == "llama with bpe") return with(test_support::tiny_model("llama"), "bpe");
    if (name == "llama with biases") {
      TinyModel model = test_support::tiny_model("llama");
      model.attention_biases = true;
      model.tied = true;
      return model;
    }
    return test_support::tiny_model(name);
  }

  const TinyModelFile source_{tiny()};
  const gguf::File file_ = gguf::File::open(source_.path());
  const test::TempFolder temp_;
  const std::string folder_ = temp_.file("folder");
  const std::string out_ = temp_.file("out.gguf");
};

TEST_P(Converted, ComputesWhatTheSourceDoes) {
  const HfFolder folder = test_support::hf_folder(file_);
  folder.write(folder_);
  const auto report = convert::convert_folder({.folder = folder_, .output = out_, .type = "f32"});
  EXPECT_EQ(report.n_tensors, file_.tensors().size());
  const auto tokens = test_support::random_tokens(tiny(), 24);
  prepare::Options options = source_.float_options();
  options.model.file = out_;
  options.prompts.prefill = plan::Prefill::kF32;
  const auto logits = test_support::engine_logits(options, tokens);
  EXPECT_LT(largest_difference(logits, test_support::reference_logits(tiny(), tokens)), 1e-3);
}

TEST_P(Converted, EveryDivisionIntoFilesGivesTheSameFile) {
  const HfFolder folder = test_support::hf_folder(file_);
  folder.write(folder_);
  convert::convert_folder({.folder = folder_, .output = out_, .type = "q4_k_m", .n_threads = 2});
  const std::string whole = test::read_whole(out_);
  for (const bool has_index : {true, false}) {
    std::filesystem::remove_all(folder_);
    folder.write_parts(folder_, has_index);
    convert::convert_folder({.folder = folder_, .output = out_, .type = "q4_k_m"});
    EXPECT_EQ(test::read_whole(out_), whole) << has_index;
  }
}

TEST_P(Converted, TheTokenizerIsTheSame) {
  test_support::hf_folder(file_).write(folder_);
  convert::convert_folder({.folder = folder_, .output = out_});
  const auto before = text::make_tokenizer(file_);
  const gguf::File converted = gguf::File::open(out_);
  const auto after = text::make_tokenizer(converted);
  EXPECT_EQ(converted.strings("tokenizer.ggml.tokens"), file_.strings("tokenizer.ggml.tokens"));
  for (const char* text : {"a text of words", "  two  spaces\n", "x", "the then there"}) {
    EXPECT_EQ(after->encode(text, {.add_special = false}),
              before->encode(text, {.add_special = false}))
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Converted,
                         testing::Values("llama", "llama with bpe", "llama with biases", "qwen2",
                                         "qwen3", "gemma", "gemma2", "gemma3", "phi2", "phi3",
                                         "phi3-window", "phi3-long", "phi3-short"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Converting to a type and converting to floats and quantizing give the same types, also where
// heads share keys and values.
TEST(ConvertedTypes, AreThoseThatQuantizeChooses) {
  TinyModel model = test_support::tiny_model("qwen2");
  model.n_kv_heads = 1;
  const TinyModelFile source(model);
  const test::TempFolder temp;
  const std::string folder = temp.file("folder"), floats = temp.file("f32.gguf");
  test_support::hf_folder(gguf::File::open(source.path())).write(folder);
  convert::convert_folder({.folder = folder, .output = floats, .type = "f32"});
  for (const std::string name : {"q2_k", "q3_k_m", "q4_k_m", "iq4_xs"}) {
    const std::string converted = temp.file(name + ".gguf"), quantized = temp.file("q" + name);
    convert::convert_folder({.folder = folder, .output = converted, .type = name});
    forge::quantize_file({.input = floats, .output = quantized, .type = name});
    const gguf::File a = gguf::File::open(converted), b = gguf::File::open(quantized);
    for (const gguf::TensorInfo& tensor : b.tensors()) {
      EXPECT_EQ(tensor::type_name(a.get_tensor(tensor.name).type), tensor::type_name(tensor.type))
          << name << ", " << tensor.name;
    }
  }
}

}  // namespace
}  // namespace troika
