// Compares the reference forward pass (and for the larger mixture of experts the engine too) with
// llama.cpp on synthetic models:
//   troika_beside_llama plain|decoded [--large] [MODEL...]
// Prints a line of JSON for each model and element type: the largest difference of 40 x 512 logits
// in parts of the largest logit, and how many of 64 greedy tokens agree. `plain` gives llama.cpp
// the file as it is; `decoded` turns block formats into F32 first, so that its kernels round
// nothing. It compares the named models. If none is named, it compares every variant in F32 and
// every architecture in every type.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/median.h"
#include "llama.h"
#include "tests/reference/decode.h"
#include "tests/reference/forward.h"
#include "tests/support/logits.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace {

using namespace troika;
using reference::Vector;
using test_support::NamedModel;
using test_support::TinyModel;

constexpr size_t kTokens = 40, kPrompt = 8, kGreedy = 64;
constexpr size_t kLargePrompt = 160;  // gives 40 tokens to each expert of a layer

// llama.cpp does not know these, or computes them as if a key of the file were not there.
constexpr const char* kUnknown[] = {"llama-relu", "phi3-window", "turbosparse",
                                    "phonelm",    "bamboo",      "relu-llama"};

void decode_to_floats(uint32_t* type, std::vector<uint8_t>* data, size_t n_elements) {
  if (*type == test_support::kF32) return;
  const std::vector<double> values = reference::decode(*type, data->data(), n_elements);
  const std::vector<float> floats(values.begin(), values.end());
  data->resize(floats.size() * sizeof(float));
  std::memcpy(data->data(), floats.data(), data->size());
  *type = test_support::kF32;
}

// llama.cpp with one thread, F32 keys and values, no flash attention and no repacked weights.
class Llama {
 public:
  explicit Llama(const std::string& path) {
    llama_model_params model = llama_model_default_params();
    model.use_extra_bufts = false;
    model.n_gpu_layers = 0;
    model_ = llama_model_load_from_file(path.c_str(), model);
    if (model_ == nullptr) throw std::runtime_error("llama.cpp cannot load the model");
    llama_context_params context = llama_context_default_params();
    context.n_ctx = 512;
    context.n_batch = context.n_ubatch = 256;
    context.n_threads = context.n_threads_batch = 1;
    context.type_k = context.type_v = GGML_TYPE_F32;
    context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context_ = llama_init_from_model(model_, context);
    if (context_ == nullptr) throw std::runtime_error("llama.cpp makes no context");
    n_vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model_));
  }
  ~Llama() {
    if (context_ != nullptr) llama_free(context_);
    if (model_ != nullptr) llama_model_free(model_);
  }
  Llama(const Llama&) = delete;
  Llama& operator=(const Llama&) = delete;

  // Computes a fresh sequence in one batch.
  std::vector<Vector> forward(const std::vector<int>& tokens) {
    llama_memory_clear(llama_get_memory(context_), true);
    n_past_ = 0;
    return next(tokens);
  }

  std::vector<int> greedy(const std::vector<int>& prompt, size_t n) {
    Vector logits = forward(prompt).back();
    std::vector<int> generated;
    while (generated.size() < n) {
      generated.push_back(reference::largest(logits));
      logits = next({generated.back()}).back();
    }
    return generated;
  }

 private:
  std::vector<Vector> next(const std::vector<int>& tokens) {
    const auto n = static_cast<int32_t>(tokens.size());
    llama_batch batch = llama_batch_init(n, 0, 1);
    for (int32_t i = 0; i < n; ++i) {
      batch.token[i] = tokens[static_cast<size_t>(i)];
      batch.pos[i] = n_past_ + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    batch.n_tokens = n;
    const int status = llama_decode(context_, batch);
    llama_batch_free(batch);
    if (status != 0) throw std::runtime_error("llama.cpp cannot decode");
    n_past_ += n;
    std::vector<Vector> rows;
    for (int32_t i = 0; i < n; ++i) {
      const float* row = llama_get_logits_ith(context_, i);
      rows.emplace_back(row, row + n_vocab_);
    }
    return rows;
  }

  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  int32_t n_vocab_ = 0, n_past_ = 0;
};

void write_model(const TinyModel& model, bool is_decoded, const std::string& path) {
  const std::vector<uint8_t> bytes =
      tiny_model_bytes(model, is_decoded ? decode_to_floats : test_support::Rewrite{});
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

size_t n_agree(const std::vector<int>& a, const std::vector<int>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

void compare(const NamedModel& named, const char* type, bool is_decoded) {
  const test::TempFolder folder;
  const std::string path = folder.file("tiny.gguf");
  write_model(named.model, is_decoded, path);
  const reference::Model model(reference::parse_gguf(tiny_model_bytes(named.model)));
  const std::vector<int> tokens = test_support::random_tokens(named.model, kTokens);
  const std::vector<int> prompt(tokens.begin(), tokens.begin() + kPrompt);
  Llama llama(path);
  std::printf("{\"model\": \"%s\", \"type\": \"%s\", \"difference\": %.3e, \"greedy\": %zu}\n",
              named.name.c_str(), type,
              reference::relative_error(llama.forward(tokens), reference::forward(model, tokens)),
              n_agree(llama.greedy(prompt, kGreedy), reference::greedy(model, prompt, kGreedy)));
  std::fflush(stdout);
}

// Returns the median over all positions of their errors, which are those of relative_error. Where
// two experts are nearly tied, a rounding sends a token to the other one, and then its logits, and
// those of tokens that see it, change.
double median_error(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  double largest = 0;
  for (const Vector& row : b) {
    for (const double value : row) largest = std::max(largest, std::abs(value));
  }
  std::vector<double> errors;
  for (size_t i = 0; i < b.size(); ++i) {
    double error = 0;
    for (size_t j = 0; j < b[i].size(); ++j) error = std::max(error, std::abs(a[i][j] - b[i][j]));
    errors.push_back(error / largest);
  }
  return median(std::move(errors));
}

void compare_large(const char* type, uint32_t number, bool is_decoded) {
  TinyModel tiny = test_support::larger_mixture();
  tiny.type = number;
  const test::TempFolder folder;
  const std::string path = folder.file("large.gguf"), own_path = folder.file("own.gguf");
  write_model(tiny, is_decoded, path);
  write_model(tiny, false, own_path);
  const std::vector<int> tokens = test_support::random_tokens(tiny, kLargePrompt);
  const std::vector<int> prompt(tokens.begin(), tokens.begin() + kPrompt);
  const reference::Model model(reference::read_gguf(own_path));
  reference::Sequence sequence(model);
  std::vector<Vector> judge;
  for (const int token : tokens) judge.push_back(sequence.next(token));
  size_t fewest = kLargePrompt;
  for (const auto& layer : sequence.expert_uses()) {
    fewest = std::min(fewest, *std::min_element(layer.begin(), layer.end()));
  }
  std::printf("{\"model\": \"large\", \"type\": \"%s\", \"fewest\": %zu", type, fewest);
  {
    Llama llama(path);
    const std::vector<Vector> logits = llama.forward(tokens);
    std::printf(", \"llama\": [%.3e, %.3e], \"greedy\": %zu",
                reference::relative_error(logits, judge), median_error(logits, judge),
                n_agree(llama.greedy(prompt, kGreedy), reference::greedy(model, prompt, kGreedy)));
  }
  if (!is_decoded) {  // `plain` has already asked the engine
    std::printf("}\n");
    std::fflush(stdout);
    return;
  }
  prepare::Options options;
  options.model.file = own_path;
  options.lanes.n_threads = 1;
  options.memory.context = 256;
  options.activations = plan::Activations::kF32;
  options.memory.kv_type = tensor::Type::kF32;
  for (const char* prefill : {"same", "f32", "bf16", "int8"}) {
    options.prompts.prefill = plan::prefill_from_name(prefill);
    const std::vector<Vector> logits = test_support::engine_logits(options, tokens);
    std::printf(", \"%s\": [%.3e, %.3e]", prefill, reference::relative_error(logits, judge),
                median_error(logits, judge));
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void compare_all(bool is_decoded, const std::vector<std::string>& wanted) {
  const auto& architectures = test_support::tiny_architectures();
  const auto is_in = [](const auto& list, const std::string& name) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  for (NamedModel& named : test_support::tiny_model_variants()) {
    if (is_in(kUnknown, named.name) || (!wanted.empty() && !is_in(wanted, named.name))) continue;
    for (const auto& [type, number] : test_support::tensor_types()) {
      if (number != test_support::kF32 && !is_in(architectures, named.name)) continue;
      named.model.type = number;
      compare(named, type, is_decoded);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] != "plain" && words[0] != "decoded")) {
    std::fprintf(stderr, "usage: troika_beside_llama plain|decoded [--large] [MODEL...]\n");
    return 2;
  }
  const bool is_decoded = words[0] == "decoded";
  words.erase(words.begin());
  const bool is_large = !words.empty() && words[0] == "--large";
  if (is_large) words.erase(words.begin());
  const auto log_errors = [](ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
  };
  llama_log_set(log_errors, nullptr);
  llama_backend_init();
  try {
    if (!is_large) compare_all(is_decoded, words);
    for (const auto& [type, number] : test_support::tensor_types()) {
      const bool is_wanted = std::find(words.begin(), words.end(), type) != words.end();
      if (is_large && is_wanted) compare_large(type, number, is_decoded);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "troika_beside_llama: %s\n", error.what());
    return 1;
  }
  return 0;
}
