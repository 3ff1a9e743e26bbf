// Model files that are damaged, wrong or of an unknown kind are refused with a sentence and status
// 1.
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

using test_support::TinyModel;

template <typename T>
void put_at(std::string* bytes, size_t at, T value) {
  ASSERT_LE(at + sizeof(T), bytes->size());
  std::memcpy(bytes->data() + at, &value, sizeof(T));
}

// Returns where a string ends that is stored behind its length.
size_t end_of_string(const std::string& bytes, const std::string& text) {
  const uint64_t length = text.size();
  const std::string with_length(reinterpret_cast<const char*>(&length), sizeof length);
  const size_t at = bytes.find(with_length + text);
  EXPECT_NE(at, std::string::npos) << text;
  return at + sizeof length + text.size();
}

void replace_first(std::string* bytes, const std::string& old, const std::string& by) {
  ASSERT_EQ(old.size(), by.size());
  const size_t at = bytes->find(old);
  ASSERT_NE(at, std::string::npos) << old;
  bytes->replace(at, old.size(), by);
}

// Describes a tensor: number of dimensions, lengths, type, offset.
struct Description {
  Description(std::string* bytes, const std::string& name)
      : bytes(bytes), lengths_at(end_of_string(*bytes, name) + 4) {
    uint32_t n = 0;
    std::memcpy(&n, bytes->data() + lengths_at - 4, sizeof n);
    type_at = lengths_at + n * sizeof(uint64_t);
  }
  void set_length(size_t dimension, uint64_t value) {
    put_at(bytes, lengths_at + dimension * sizeof(uint64_t), value);
  }
  void set_type(uint32_t type) { put_at(bytes, type_at, type); }
  void set_offset(uint64_t offset) { put_at(bytes, type_at + 4, offset); }

  std::string* bytes;
  size_t lengths_at, type_at;
};

class BadFile : public ProgramTest {
 protected:
  Finished run(const std::string& path) const {
    return troika({"run", path, "-p", "Once upon a time", "-n", "2", "--temp", "0"});
  }
  // Writes the bytes, runs them, and expects a refusal that names the file and the parts.
  void expect_refused(const std::string& bytes, std::vector<std::string> parts) const {
    const std::string path = write(bytes);
    parts.push_back(path);
    expect_refusal(run(path), 1, parts);
    EXPECT_EQ(folder_.n_files(), 1u);
  }
  std::string bytes_ = model_bytes(small_model());
};

TEST_F(BadFile, IsFineAsItStands) { expect_success(run(write(bytes_))); }

TEST_F(BadFile, Truncated) {
  // These lengths end in the header, the metadata, the vocabulary, the descriptions and the data.
  const size_t n = bytes_.size();
  for (const size_t length :
       {size_t{1}, size_t{4}, size_t{7}, size_t{16}, size_t{23}, size_t{24}, size_t{31},
        size_t{100}, size_t{500}, size_t{3000}, n / 16, n / 4, n / 2, n - 4096, n - 1}) {
    SCOPED_TRACE(length);
    expect_refused(bytes_.substr(0, length), {});
  }
}

TEST_F(BadFile, EveryCommandRefusesATruncatedOne) {
  const std::string path = write(bytes_.substr(0, bytes_.size() / 2));
  for (const std::vector<std::string>& command : {std::vector<std::string>{"inspect", path},
                                                  {"tokenize", path, "-p", "a"},
                                                  {"bench", path, "-p", "8", "-n", "1"},
                                                  {"chat", path},
                                                  {"eval", path, "--perplexity", path},
                                                  {"quantize", path, folder_.file("out.gguf")}}) {
    SCOPED_TRACE(command[0]);
    expect_refusal(troika(command), 1, {path});
  }
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(BadFile, WrongMagic) {
  replace_first(&bytes_, "GGUF", "GGML");
  expect_refused(bytes_, {"GGUF"});
}

TEST_F(BadFile, WrongVersion) {
  put_at<uint32_t>(&bytes_, 4, 77);
  expect_refused(bytes_, {"77", "version"});
}

TEST_F(BadFile, Empty) { expect_refused("", {}); }

TEST_F(BadFile, NoModelAtAll) {
  const std::string text = write("Dear diary, today I met a little girl named Lily.\n");
  expect_refusal(run(text), 1, {text, "GGUF"});
}

TEST_F(BadFile, AFolder) {
  const std::string folder = folder_.file("folder");
  std::filesystem::create_directory(folder);
  expect_refusal(run(folder), 1, {folder});
}

TEST_F(BadFile, Missing) {
  const std::string path = folder_.file("none.gguf");
  expect_refusal(run(path), 1, {path, "no such file"});
}

TEST_F(BadFile, NotReadable) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string path = write(bytes_);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  expect_refusal(run(path), 1, {path, "permission"});
}

TEST_F(BadFile, HugeCounts) {
  for (const size_t at : {size_t{8}, size_t{16}}) {  // counts tensors, then metadata entries
    std::string bytes = bytes_;
    put_at<uint64_t>(&bytes, at, uint64_t{1} << 60);
    expect_refused(bytes, {});
  }
}

TEST_F(BadFile, HugeStringAndArray) {
  std::string bytes = bytes_;
  put_at<uint64_t>(&bytes, 24, uint64_t{1} << 60);  // is the length of the first key
  expect_refused(bytes, {});
  bytes = bytes_;
  const size_t tokens = end_of_string(bytes, "tokenizer.ggml.tokens");
  put_at<uint64_t>(&bytes, tokens + 8, uint64_t{1} << 60);
  expect_refused(bytes, {"tokenizer.ggml.tokens"});
}

TEST_F(BadFile, OverlappingTensors) {
  Description(&bytes_, "blk.0.ffn_up.weight").set_offset(32);
  expect_refused(bytes_, {"blk.0.ffn_up.weight"});
}

TEST_F(BadFile, TensorBeyondTheEnd) {
  Description(&bytes_, "blk.1.ffn_down.weight").set_offset(uint64_t{1} << 40);
  expect_refused(bytes_, {"blk.1.ffn_down.weight"});
}

TEST_F(BadFile, HugeDimensions) {
  for (const uint64_t length :
       {uint64_t{1} << 60, uint64_t{1} << 32, (uint64_t{1} << 58) + 1, ~uint64_t{0}, uint64_t{0}}) {
    SCOPED_TRACE(length);
    std::string bytes = bytes_;
    Description(&bytes, "blk.0.ffn_up.weight").set_length(1, length);
    expect_refused(bytes, {"blk.0.ffn_up.weight"});
  }
  Description(&bytes_, "blk.0.ffn_up.weight").set_length(0, uint64_t{1} << 60);
  expect_refused(bytes_, {"blk.0.ffn_up.weight"});
}

TEST_F(BadFile, MissingTensor) {
  replace_first(&bytes_, "blk.1.ffn_up.weight", "blk.1.ffn_xx.weight");
  expect_refused(bytes_, {"blk.1.ffn_up.weight", "onvert or download"});
}

TEST_F(BadFile, MissingEmbedding) {
  replace_first(&bytes_, "token_embd.weight", "token_embx.weight");
  expect_refused(bytes_, {"token_embd.weight"});
}

TEST_F(BadFile, WrongShape) {
  TinyModel other = small_model();
  other.ffn_width = 96;
  bytes_ = model_bytes(other);
  put_at<uint32_t>(&bytes_, end_of_string(bytes_, "llama.feed_forward_length") + 4, 128);
  expect_refused(bytes_, {"blk.0.ffn_", "64 x 128", "64 x 96"});
}

TEST_F(BadFile, WrongLengthOfANorm) {
  Description(&bytes_, "output_norm.weight").set_length(0, 32);
  expect_refused(bytes_, {"output_norm.weight", "64", "32"});
}

TEST_F(BadFile, UnsupportedElementTypes) {
  // The types are IQ2_XXS, TQ1_0 and one that does not exist.
  for (const auto& [number, name] :
       {std::pair<uint32_t, std::string>{16, "IQ2_XXS"}, {34, "TQ1_0"}, {999, "999"}}) {
    SCOPED_TRACE(name);
    std::string bytes = bytes_;
    Description(&bytes, "blk.0.ffn_up.weight").set_type(number);
    expect_refused(bytes, {"blk.0.ffn_up.weight", name, "onvert"});
  }
}

TEST_F(BadFile, UnsupportedElementTypesCanBeInspected) {
  Description(&bytes_, "blk.0.ffn_up.weight").set_type(999);
  expect_success(troika({"inspect", write(bytes_), "--tensors"}));
  expect_success(troika({"inspect", write(bytes_), "--json"}));
}

TEST_F(BadFile, UnknownArchitecture) {
  const size_t at = end_of_string(bytes_, "general.architecture") + 4 + 8;
  bytes_.replace(at, 5, "camel");
  expect_refused(bytes_, {"camel", "llama", "qwen2"});
}

TEST_F(BadFile, MissingHyperParameters) {
  for (const std::string key : {"block_count", "embedding_length", "attention.head_count",
                                "feed_forward_length", "context_length"}) {
    SCOPED_TRACE(key);
    std::string bytes = bytes_;
    std::string other = "llama." + key;
    other.back() = '_';
    // The key is looked for with its length, because a longer key may contain it.
    const size_t end = end_of_string(bytes, "llama." + key);
    bytes[end - 1] = '_';
    expect_refused(bytes, {"llama." + key, "missing"});
  }
}

TEST_F(BadFile, AbsurdHyperParameters) {
  for (const std::string key :
       {"block_count", "embedding_length", "attention.head_count", "attention.head_count_kv",
        "attention.key_length", "feed_forward_length", "context_length", "rope.dimension_count"}) {
    for (const uint32_t value : {0u, 3u, 1u << 30, ~0u}) {
      // A context of 3 is possible. (Three layers miss tensors.)
      if (key == "context_length" && value == 3) continue;
      SCOPED_TRACE(key + " = " + std::to_string(value));
      std::string bytes = bytes_;
      put_at<uint32_t>(&bytes, end_of_string(bytes, "llama." + key) + 4, value);
      expect_refused(bytes, {});
    }
  }
}

TEST_F(BadFile, HyperParameterOfAnotherType) {
  // The type becomes that of a float, where a count is wanted.
  put_at<uint32_t>(&bytes_, end_of_string(bytes_, "llama.block_count"), 6);
  expect_refused(bytes_, {"llama.block_count"});
}

TEST_F(BadFile, EpsilonAndRopeThatAreNoNumbers) {
  for (const std::string key : {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    for (const uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xbf800000u}) {  // NaN, infinity and -1
      SCOPED_TRACE(key + " " + std::to_string(bits));
      std::string bytes = bytes_;
      put_at<uint32_t>(&bytes, end_of_string(bytes, "llama." + key) + 4, bits);
      expect_refused(bytes, {"llama." + key});
    }
  }
}

TEST_F(BadFile, UnknownTokenizer) {
  const size_t at = end_of_string(bytes_, "tokenizer.ggml.model") + 4 + 8;
  bytes_.replace(at, 5, "morse");
  expect_refused(bytes_, {"morse"});
}

TEST_F(BadFile, UnknownPreTokenizerCanBeOverridden) {
  TinyModel model = small_model("qwen2");
  model.pre = "nosuch";
  const std::string path = write(model);
  expect_refusal(run(path), 1, {path, "nosuch", "--pre"});
  expect_success(troika({"run", path, "-p", "a", "-n", "1", "--pre", "qwen2"}));
}

// Such a file is good but for its age, so that a note is all that is said.
TEST_F(BadFile, APreTokenizerThatNobodyNamesIsNoted) {
  TinyModel model = small_model("qwen3");
  ASSERT_EQ(troika({"tokenize", write(model), "-p", "a"}).err.find("note:"), std::string::npos);
  std::string bytes = model_bytes(model);
  replace_first(&bytes, "tokenizer.ggml.pre", "tokenizer.ggml.xxx");
  const std::string path = write(bytes);
  const std::string text = write("Once upon a time there was a little girl.", "text.txt");
  const std::vector<std::vector<std::string>> commands = {{"run", path, "-p", "a", "-n", "1"},
                                                          {"eval", path, "--perplexity", text},
                                                          {"tokenize", path, "-p", "a"}};
  for (std::vector<std::string> words : commands) {
    SCOPED_TRACE(words[0]);
    const std::string part = "note: the file does not say how its tokenizer splits a text";
    const Finished finished = troika(words);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const size_t at = finished.err.find(part);
    ASSERT_NE(at, std::string::npos) << finished.err;
    EXPECT_NE(finished.err.find("with --pre (llama-bpe", at), std::string::npos) << finished.err;
    EXPECT_EQ(finished.err.find(part, at + 1), std::string::npos) << finished.err;
    words.insert(words.end(), {"--pre", "qwen2"});
    EXPECT_EQ(troika(words).err.find(part), std::string::npos);
  }
}

TEST_F(BadFile, TokenIdsBeyondTheVocabulary) {
  for (const std::string key : {"bos_token_id", "eos_token_id"}) {
    SCOPED_TRACE(key);
    std::string bytes = bytes_;
    put_at<uint32_t>(&bytes, end_of_string(bytes, "tokenizer.ggml." + key) + 4, 100000);
    expect_refused(bytes, {key});
  }
}

// A wrong byte in header, metadata or descriptions never crashes the program.
TEST_F(BadFile, AnyWrongByteIsSurvived) {
  const size_t end = end_of_string(bytes_, "blk.1.ffn_down.weight") + 40;
  const std::string path = folder_.file("small.gguf");
  for (size_t i = 0; i < 60; ++i) {
    const size_t at = i * 7919 % end;
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ (i % 2 == 0 ? 0x80 : 0x01));
    const Finished finished = run(write(bytes));
    EXPECT_TRUE(finished.status == 0 || finished.status == 1)
        << at << ": " << finished.status << " signal " << finished.signal << finished.err;
  }
}

}  // namespace
}  // namespace troika::test
