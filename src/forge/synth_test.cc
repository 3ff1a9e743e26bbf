#include "forge/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "forge/file_type.h"
#include "gguf/file.h"
#include "model/architecture.h"
#include "model/known.h"
#include "tensor/codec.h"
#include "tests/support/temp_folder.h"
#include "text/tokenizer.h"
#include "weights/store.h"

namespace troika::forge {
namespace {

using test::TempFolder;

gguf::File make(const TempFolder& folder, std::string_view like, std::string_view type,
                uint64_t seed = 1, int n_threads = 2) {
  const std::string path = folder.file("model.gguf");
  synth({.like = std::string(like),
         .output = path,
         .type = std::string(type),
         .seed = seed,
         .n_threads = n_threads});
  return gguf::File::open(path);
}

std::vector<float> decode(const gguf::File& file, std::string_view name) {
  const gguf::TensorInfo& tensor = file.get_tensor(name);
  std::vector<float> values(tensor.n_elements());
  tensor::dequantize_row(tensor.type, file.data(tensor).data(), values.data(), values.size());
  return values;
}

std::vector<std::string_view> tiny_names() {
  std::vector<std::string_view> names;
  for (const model::KnownModel& model : model::known_models()) {
    if (model.name.starts_with("tiny-")) names.push_back(model.name);
  }
  return names;
}

// Takes file_type_names() apart.
std::vector<std::string> type_names() {
  std::vector<std::string> names;
  std::istringstream text(file_type_names());
  for (std::string word; text >> word;) {
    if (word == "and" || word == "the" || word == "mixes") continue;
    if (word.back() == ',') word.pop_back();
    names.push_back(word);
  }
  return names;
}

void expect_tensors(const gguf::File& file, std::string_view name, const FileType& type) {
  const model::KnownModel& known = model::get_known(name);
  EXPECT_EQ(file.find_uint("general.file_type"), type.number);
  const auto expected = model::known_tensors(known);
  ASSERT_EQ(file.tensors().size(), expected.size());
  const ModelFacts facts{known.n_layers, known.n_experts, known.tied_embeddings,
                         known.n_heads / known.n_kv_heads};
  for (size_t i = 0; i < expected.size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    EXPECT_EQ(tensor.name, expected[i].name);
    EXPECT_EQ(tensor.shape, expected[i].shape);
    EXPECT_EQ(tensor.type, choose_type(type, tensor.name, tensor.shape, facts));
  }
}

TEST(Synth, EveryTinyModelHasItsTensors) {
  TempFolder folder;
  for (const std::string_view name : tiny_names()) {
    expect_tensors(make(folder, name, "f16"), name, get_file_type("f16"));
  }
}

TEST(Synth, EveryFileTypeHasItsElementTypes) {
  TempFolder folder;
  const std::vector<std::string> names = type_names();
  EXPECT_EQ(names.front(), "f32");
  EXPECT_EQ(names.back(), "mxfp4_moe");
  for (const std::string& name : names) {
    expect_tensors(make(folder, "tiny-llama", name), "tiny-llama", get_file_type(name));
  }
}

TEST(Synth, ModelsOfKnownArchitecturesCanBeLoaded) {
  TempFolder folder;
  for (const char* name :
       {"tiny-llama", "tiny-llama3", "tiny-relu-llama", "tiny-qwen2", "tiny-gemma", "tiny-phi2"}) {
    const gguf::File file = make(folder, name, "f16");
    const model::Blueprint blueprint = model::read(file);
    const weights::Store store(file, blueprint);
    EXPECT_GT(store.bytes_per_step(), 0u) << name;
  }
}

TEST(Synth, TokenizersHaveTheExactSizeAndGiveTextBack) {
  TempFolder folder;
  for (const std::string_view name : tiny_names()) {
    const gguf::File file = make(folder, name, "f16");
    const auto tokens = file.strings("tokenizer.ggml.tokens");
    EXPECT_EQ(tokens.size(), model::get_known(name).n_vocab) << name;
    const std::set<std::string_view> unique(tokens.begin(), tokens.end());
    EXPECT_EQ(unique.size(), tokens.size()) << name;
    const auto tokenizer = text::make_tokenizer(file);
    const std::string text = "The tree in the garden,\n\t42 caf\xc3\xa9s \xe2\x82\xac!";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << name;
    // " the" is made of common letters, so it has fewer tokens than bytes.
    EXPECT_LT(tokenizer->encode("the the the the the").size(), 17u) << name;
  }
}

TEST(Synth, MergesLeadToTokens) {
  TempFolder folder;
  const gguf::File file = make(folder, "tiny-qwen2", "q4_0");
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  const std::set<std::string_view> known(tokens.begin(), tokens.end());
  const auto merges = file.strings("tokenizer.ggml.merges");
  EXPECT_EQ(merges.size(), 768u - 256u - 3u);
  for (const std::string_view merge : merges) {
    const size_t space = merge.find(' ');
    const std::string left(merge.substr(0, space));
    const std::string right(merge.substr(space + 1));
    EXPECT_TRUE(known.contains(left) && known.contains(right) && known.contains(left + right))
        << merge;
  }
}

TEST(Synth, TheFileDependsOnTheSeedAndNotOnTheThreads) {
  TempFolder folder;
  const auto text_of = [&](uint64_t seed, int n_threads) {
    (void)make(folder, "tiny-mixtral", "q4_k", seed, n_threads);
    return test::read_whole(folder.file("model.gguf"));
  };
  const std::string first = text_of(1, 1);
  EXPECT_EQ(first, text_of(1, 3));
  EXPECT_NE(first, text_of(2, 1));
}

TEST(Synth, TheFirstBlocksAreThoseOfTheWholeModel) {
  TempFolder folder;
  const std::string path = folder.file("part.gguf");
  synth({.like = "tiny-llama", .output = path, .type = "q8_0", .n_blocks = 2});
  const gguf::File part = gguf::File::open(path);
  EXPECT_EQ(part.find_tensor("blk.2.ffn_up.weight"), nullptr);
  EXPECT_EQ(decode(part, "blk.1.ffn_up.weight"),
            decode(make(folder, "tiny-llama", "q8_0"), "blk.1.ffn_up.weight"));
  EXPECT_NE(test::message_of<UsageError>([&] {
              synth({.like = "tiny-llama", .output = path, .n_blocks = 4});
            }).find("has 3 blocks"),
            std::string::npos);
}

TEST(Synth, ATensorDependsOnItsNameAlone) {
  TempFolder folder;
  const auto values = decode(make(folder, "tiny-llama", "f32"), "blk.2.ffn_up.weight");
  EXPECT_EQ(values, decode(make(folder, "tiny-internlm2", "f32"), "blk.2.ffn_up.weight"));
  EXPECT_NE(values, decode(make(folder, "tiny-llama", "f32"), "blk.1.ffn_up.weight"));
}

// The golden values hold on every machine, because they come from integers, products and square
// roots alone.
TEST(Synth, TheNumbersAreAlwaysTheSame) {
  TempFolder folder;
  const gguf::File file = make(folder, "tiny-llama", "f32");
  const auto values = decode(file, "blk.0.attn_q.weight");
  uint64_t hash = 1469598103934665603u;
  for (const std::byte byte : file.data(file.get_tensor("blk.0.attn_q.weight"))) {
    hash = (hash ^ std::to_integer<uint64_t>(byte)) * 1099511628211u;
  }
  EXPECT_EQ(hash, 11494844260587603107u) << values[0];
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};
Moments moments(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  for (const float x : values) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

TEST(Synth, WeightsHaveASensibleSpread) {
  TempFolder folder;
  const gguf::File file = make(folder, "tiny-mixtral", "f32");
  const double spread = 1.0 / 16;  // the spread of weights in rows of 256
  const Moments small = moments(decode(file, "blk.0.attn_q.weight"));
  EXPECT_NEAR(small.mean, 0, 0.01 * spread);
  EXPECT_NEAR(small.deviation, spread, 0.02 * spread);
  // The matrix is so large that it is put together from pieces.
  const Moments large = moments(decode(file, "blk.0.ffn_up_exps.weight"));
  EXPECT_NEAR(large.mean, 0, 0.01 * spread);
  EXPECT_NEAR(large.deviation, spread, 0.02 * spread);
  EXPECT_NEAR(moments(decode(file, "output_norm.weight")).mean, 1.0, 0.03);
}

TEST(Synth, LargeMatricesDoNotRepeatRows) {
  TempFolder folder;
  const auto values = decode(make(folder, "tiny-mixtral", "f32"), "blk.0.ffn_down_exps.weight");
  std::set<std::vector<float>> rows;
  for (size_t i = 0; i < values.size(); i += 512) {
    rows.emplace(values.begin() + static_cast<long>(i),
                 values.begin() + static_cast<long>(i) + 512);
  }
  EXPECT_EQ(rows.size(), values.size() / 512);
}

TEST(Synth, ProgressReachesTheEnd) {
  TempFolder folder;
  for (const std::string name : {"tiny-llama", "tiny-llama3"}) {
    uint64_t last = 0;
    uint64_t whole = 0;
    const SynthReport report = synth({.like = name,
                                      .output = folder.file("a.gguf"),
                                      .progress = [&](uint64_t done, uint64_t total) {
                                        EXPECT_GE(done, last);
                                        last = done;
                                        whole = total;
                                      }});
    EXPECT_EQ(last, whole) << name;
    EXPECT_GT(report.bytes, whole) << name;
    EXPECT_EQ(report.n_parameters, model::n_parameters(model::get_known(name))) << name;
  }
}

TEST(Synth, WrongNamesAndPathsAreSentences) {
  TempFolder folder;
  EXPECT_THROW(synth({.like = "tiny-x", .output = folder.file("a")}), UsageError);
  EXPECT_THROW(synth({.like = "tiny-llama", .output = folder.file("a"), .type = "q3"}), UsageError);
  EXPECT_THROW(synth({.like = "tiny-llama", .output = folder.file("no/a")}), Error);
  EXPECT_EQ(folder.n_files(), 0u);
}

}  // namespace
}  // namespace troika::forge
