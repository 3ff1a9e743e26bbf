#include "model/known.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::model {
namespace {

// These functions fill in what the models of a family have in common; the caller gives the shape.
constexpr KnownModel llama2(KnownModel m) {
  m.architecture = "llama";
  m.tokenizer = "llama";
  m.activation = "silu";
  return m;
}
constexpr KnownModel relu_llama(KnownModel m) {
  m = llama2(m);
  m.activation = "relu";
  return m;
}
constexpr KnownModel llama3(KnownModel m) {
  m = llama2(m);
  m.tokenizer = "gpt2";
  m.pre = "llama-bpe";
  m.rope_base = 5e5;
  return m;
}
constexpr KnownModel llama32(KnownModel m) {
  m = llama3(m);
  m.rope_factor = 32.0;
  m.tied_embeddings = true;
  return m;
}
constexpr KnownModel mixtral(KnownModel m, uint32_t n_experts) {
  m = llama2(m);
  m.rope_base = 1e6;
  m.n_experts = n_experts;
  m.n_experts_used = 2;
  return m;
}
// A mixture whose experts have ReLU on both factors of the gate.
constexpr KnownModel turbosparse(KnownModel m) {
  m = mixtral(m, 8);
  m.activation = "drelu";
  return m;
}
// Says that a model's head is its embedding.
constexpr KnownModel tied(KnownModel m) {
  m.tied_embeddings = true;
  return m;
}
constexpr KnownModel qwen2(KnownModel m) {
  m.architecture = "qwen2";
  m.tokenizer = "gpt2";
  m.pre = "qwen2";
  m.activation = "silu";
  m.norm_eps = 1e-6;
  m.rope_base = 1e6;
  return m;
}
constexpr KnownModel qwen3(KnownModel m) {
  m = tied(qwen2(m));
  m.architecture = "qwen3";
  return m;
}
constexpr KnownModel of_experts(KnownModel m, uint32_t n, uint32_t n_used, uint32_t width,
                                uint32_t shared_width = 0) {
  m.architecture = shared_width > 0 ? "qwen2moe" : "qwen3moe";
  m.n_experts = n;
  m.n_experts_used = n_used;
  m.expert_width = width;
  m.shared_width = shared_width;
  return m;
}
constexpr KnownModel gemma(KnownModel m) {
  m.architecture = "gemma";
  m.tokenizer = "llama";
  m.activation = "gelu";
  m.norm_eps = 1e-6;
  m.tied_embeddings = true;
  return m;
}
constexpr KnownModel gemma2(KnownModel m, uint32_t window) {
  m = gemma(m);
  m.architecture = "gemma2";
  m.window = window;
  m.attention_cap = 50.0;
  m.logit_cap = 30.0;
  return m;
}
constexpr KnownModel gemma3(KnownModel m, uint32_t window) {
  m = gemma(m);
  m.architecture = "gemma3";
  m.window = window;
  m.rope_base = 1e6;
  return m;
}
constexpr KnownModel phi3(KnownModel m, uint32_t window) {
  m = llama2(m);
  m.architecture = "phi3";
  m.window = window;
  return m;
}
constexpr KnownModel phi2(KnownModel m, uint32_t rope_dims) {
  m.architecture = "phi2";
  m.tokenizer = "gpt2";
  m.pre = "gpt-2";
  m.activation = "gelu";
  m.rope_dims = rope_dims;
  return m;
}
constexpr KnownModel internlm2(KnownModel m) {
  m = llama2(m);
  m.architecture = "internlm2";
  m.rope_base = 1e6;
  return m;
}
constexpr KnownModel phonelm(KnownModel m) {
  m.architecture = "phonelm";
  m.tokenizer = "gpt2";
  m.pre = "smollm";
  m.activation = "relu";
  m.norm_eps = 1e-6;
  m.tied_embeddings = true;
  return m;
}
constexpr KnownModel bamboo(KnownModel m) {
  m = llama2(m);
  m.architecture = "bamboo";
  m.activation = "drelu";
  return m;
}

// Lists published configurations: layers, width, heads, key-value heads, length of a head, width of
// the FFN, vocabulary, context. tiny-ARCH have rows that are multiples of 256, so that they can
// have every block format, and few layers and tokens, so that a slow reference can run them.
// small-bamboo takes 310 MB in q4_0, which tests of memory need.
constexpr KnownModel kModels[] = {
    qwen2({"qwen1.5-1.8b", 24, 2048, 16, 16, 128, 5504, 151936, 32768}),
    tied(qwen2({"qwen2-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 131072})),
    tied(qwen2({"qwen2-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 131072})),
    qwen2({"qwen2-7b", 28, 3584, 28, 4, 128, 18944, 152064, 131072}),
    tied(qwen2({"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768})),
    tied(qwen2({"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 131072})),
    qwen3({"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960}),
    qwen3({"qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936, 40960}),
    of_experts(qwen2({"qwen1.5-moe-a2.7b", 24, 2048, 16, 16, 128, 5632, 151936, 8192}), 60, 4, 1408,
               5632),
    of_experts(qwen2({"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936, 40960}), 128, 8, 768),
    llama2({"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096}),
    llama2({"llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096}),
    llama3({"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192}),
    llama32({"llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 131072}),
    llama32({"llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 131072}),
    gemma({"gemma-2b", 18, 2048, 8, 1, 256, 16384, 256000, 8192}),
    gemma2({"gemma2-2b", 26, 2304, 8, 4, 256, 9216, 256000, 8192}, 4096),
    gemma3({"gemma3-1b", 26, 1152, 4, 1, 256, 6912, 262144, 32768}, 512),
    phi3({"phi3-mini", 32, 3072, 32, 32, 96, 8192, 32064, 4096}, 2047),
    phi2({"phi-2", 32, 2560, 32, 32, 80, 10240, 51200, 2048}, 32),
    llama2({"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768}),
    internlm2({"internlm-1.8b", 24, 2048, 16, 8, 128, 8192, 92544, 32768}),
    internlm2({"internlm2-1.8b", 24, 2048, 16, 8, 128, 8192, 92544, 32768}),
    phonelm({"phonelm-0.5b", 24, 1024, 16, 16, 64, 4864, 49152, 2048}),
    phonelm({"phonelm-1.5b", 19, 2560, 16, 16, 160, 6816, 49152, 2048}),
    bamboo({"bamboo-7b", 32, 4096, 32, 8, 128, 14336, 32000, 4096}),
    mixtral({"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768}, 8),
    turbosparse({"turbosparse-mixtral-47b", 32, 4096, 32, 8, 128, 14336, 32000, 32768}),
    llama2({"tiny-llama", 3, 256, 4, 2, 64, 512, 640, 512}),
    relu_llama({"tiny-relu-llama", 3, 256, 4, 2, 64, 512, 640, 512}),
    llama32({"tiny-llama3", 3, 256, 4, 2, 64, 512, 768, 16384}),
    tied(qwen2({"tiny-qwen2", 3, 256, 4, 2, 64, 512, 768, 512})),
    gemma({"tiny-gemma", 3, 256, 4, 1, 128, 512, 640, 512}),
    phi2({"tiny-phi2", 3, 256, 4, 4, 64, 1024, 768, 512}, 24),
    qwen3({"tiny-qwen3", 3, 256, 4, 2, 128, 512, 768, 512}),
    internlm2({"tiny-internlm2", 3, 256, 4, 2, 64, 512, 640, 512}),
    phonelm({"tiny-phonelm", 3, 256, 4, 4, 64, 512, 768, 512}),
    bamboo({"small-bamboo", 28, 1024, 16, 4, 64, 5632, 2048, 2048}),
    bamboo({"tiny-bamboo", 3, 256, 4, 2, 64, 512, 640, 512}),
    gemma2({"tiny-gemma2", 3, 256, 4, 2, 128, 512, 640, 512}, 64),
    gemma3({"tiny-gemma3", 3, 256, 4, 1, 128, 512, 640, 512}, 64),
    phi3({"tiny-phi3", 3, 256, 4, 4, 64, 512, 640, 512}, 64),
    of_experts(qwen2({"tiny-qwen2moe", 2, 256, 4, 4, 64, 512, 768, 512}), 6, 3, 256, 512),
    of_experts(qwen2({"tiny-qwen3moe", 2, 256, 4, 2, 64, 768, 768, 512}), 8, 3, 256),
    mixtral({"tiny-mixtral", 2, 256, 4, 2, 64, 512, 640, 512}, 4),
    turbosparse({"tiny-turbosparse", 2, 256, 4, 2, 64, 512, 640, 512}),
};

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known(std::string_view name) {
  for (const KnownModel& model : kModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const KnownModel& get_known(std::string_view name) {
  if (const KnownModel* model = find_known(name)) return *model;
  std::string names;
  for (const KnownModel& model : kModels) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
  }
  throw UsageError(
      fmt::format("There is no known model {}; known are {}.", troika::quoted(name), names));
}

}  // namespace troika::model
