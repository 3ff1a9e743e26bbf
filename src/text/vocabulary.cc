#include "text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/os_error.h"
#include "gguf/file.h"

namespace troika::text {
namespace {

// A token's id must fit in an int32, and nobody has a vocabulary near this size.
constexpr size_t kMaxTokens = size_t{1} << 24;

// Each place of a text may be compared with as many bytes as a special token has. Those of models
// are far shorter.
constexpr size_t kMostSpecialBytes = 1024;

// Lists pre-tokenizers whose models expect a BOS although their files may not say so.
constexpr std::array<std::string_view, 12> kAddBosPre = {
    "llama3",   "llama-v3", "llama-bpe", "falcon3",      "falcon-h1", "pixtral",
    "midm-2.0", "lfm2",     "tekken",    "jina-v5-nano", "chameleon", "gemma4"};

// Says what an id means that is none of the vocabulary's.
enum class OutOfRange : uint8_t { kIsDamage, kIsNoToken };

Token read_id(const gguf::File& file, const char* key, Token fallback, size_t n_tokens,
              OutOfRange out_of_range = OutOfRange::kIsDamage) {
  const std::optional<int64_t> id = file.find_int(key);
  if (!id) return fallback >= 0 && static_cast<size_t>(fallback) < n_tokens ? fallback : kNoToken;
  // Some writers say "none" with -1, in 32 bits.
  if (*id == -1 || *id == 0xffffffffll) return kNoToken;
  if (*id >= 0 && static_cast<uint64_t>(*id) < n_tokens) return static_cast<Token>(*id);
  if (out_of_range == OutOfRange::kIsNoToken) return kNoToken;
  throw Error(fmt::format("{}: {} is {}, but the vocabulary has {} tokens. {}", file.path(), key,
                          *id, n_tokens, kConvertAgain));
}

void read_special_tokens(const gguf::File& file, Vocabulary* v) {
  const size_t n = v->tokens.size();
  v->bos = read_id(file, "tokenizer.ggml.bos_token_id", v->bos, n);
  v->eos = read_id(file, "tokenizer.ggml.eos_token_id", v->eos, n);
  v->eot = read_id(file, "tokenizer.ggml.eot_token_id", v->eot, n);
  v->eom = read_id(file, "tokenizer.ggml.eom_token_id", v->eom, n);
  // Fine-tuned models often name a padding token that was never added: nothing depends on it.
  v->unk = read_id(file, "tokenizer.ggml.unknown_token_id", v->unk, n, OutOfRange::kIsNoToken);
  v->pad = read_id(file, "tokenizer.ggml.padding_token_id", v->pad, n, OutOfRange::kIsNoToken);
  v->fim_pad =
      read_id(file, "tokenizer.ggml.fim_pad_token_id", kNoToken, n, OutOfRange::kIsNoToken);
  v->fim_repository =
      read_id(file, "tokenizer.ggml.fim_rep_token_id", kNoToken, n, OutOfRange::kIsNoToken);
  v->fim_separator =
      read_id(file, "tokenizer.ggml.fim_sep_token_id", kNoToken, n, OutOfRange::kIsNoToken);
  v->add_bos = file.find_bool("tokenizer.ggml.add_bos_token").value_or(v->add_bos);
  v->add_eos = file.find_bool("tokenizer.ggml.add_eos_token").value_or(v->add_eos);
  v->add_space_prefix =
      file.find_bool("tokenizer.ggml.add_space_prefix").value_or(v->add_space_prefix);
  // What the file leaves to a default must not be demanded from it.
  if (v->bos == kNoToken && !file.find_bool("tokenizer.ggml.add_bos_token")) v->add_bos = false;
}

void read_types(const gguf::File& file, Vocabulary* v) {
  const std::vector<int64_t> types = file.ints("tokenizer.ggml.token_type");
  if (types.empty()) {
    v->types.assign(v->tokens.size(), TokenType::kNormal);
    return;
  }
  v->types.reserve(types.size());
  for (int64_t type : types) {
    const bool known = type >= 0 && type <= static_cast<int64_t>(TokenType::kByte);
    v->types.push_back(known ? static_cast<TokenType>(type) : TokenType::kUndefined);
  }
}

VocabularyKind read_kind(const gguf::File& file) {
  const std::optional<std::string_view> model = file.find_string("tokenizer.ggml.model");
  if (!model) {
    throw Error(
        fmt::format("{}: the file has no tokenizer (tokenizer.ggml.model is missing). "
                    "Use a file that was converted with its tokenizer.",
                    file.path()));
  }
  if (*model == "llama") return VocabularyKind::kSpm;
  if (*model == "gpt2") return VocabularyKind::kBpe;
  throw Error(
      fmt::format("{}: the tokenizer is of the kind {}; this program knows 'llama' "
                  "(SentencePiece with scores) and 'gpt2' (byte-level BPE).",
                  file.path(), troika::quoted(*model)));
}

// The name of a pre-tokenizer, and where it comes from.
struct Pre {
  std::string_view name;
  PreOrigin origin = PreOrigin::kNamed;
};

// Files from before April 2024 name none. Models of some architectures all split texts alike; those
// of llama have many pre-tokenizers, and "default" is none of them.
Pre read_pre(const gguf::File& file, VocabularyKind kind) {
  const std::string_view named = file.find_string("tokenizer.ggml.pre").value_or("");
  if (!named.empty()) return {named};
  if (kind == VocabularyKind::kSpm) return {"default"};
  const std::string_view architecture = file.find_string("general.architecture").value_or("");
  if (architecture == "phi2") return {"gpt-2", PreOrigin::kArchitecture};
  if (architecture == "qwen2" || architecture == "qwen2moe") {
    return {"qwen2", PreOrigin::kArchitecture};
  }
  return {"default", PreOrigin::kNobody};
}

// Some converters write "Phi 3" for "Phi-3".
bool is_phi3(const gguf::File& file) {
  std::string name(file.find_string("general.name").value_or(""));
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ' || c == '_') c = '-';
  }
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

// Returns (n_tokens) which tokens a list of the file names; empty where it names none.
std::vector<bool> named_tokens(const gguf::File& file, const char* key, size_t n_tokens) {
  const std::vector<int64_t> ids = file.ints(key);
  std::vector<bool> named(ids.empty() ? 0 : n_tokens, false);
  for (const int64_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= n_tokens) {
      throw Error(fmt::format("{}: {} names token {}, but the vocabulary has {} tokens.",
                              file.path(), key, id, n_tokens));
    }
    named[static_cast<size_t>(id)] = true;
  }
  return named;
}

SpaceRule read_space_rule(const gguf::File& file) {
  const auto rule = file.find_string(kSpaceRuleKey);
  if (!rule) return SpaceRule::kEachText;
  if (*rule == kSpaceUnlessThere) return SpaceRule::kUnlessThere;
  if (*rule == kSpaceFirstOfAll) return SpaceRule::kFirstOfAll;
  throw Error(fmt::format("{}: {} is {}, which this program does not know. {}", file.path(),
                          kSpaceRuleKey, troika::quoted(*rule), kConvertAgain));
}

void read_strips(const gguf::File& file, Vocabulary* v) {
  v->strips_left = named_tokens(file, kStripsLeftKey, v->tokens.size());
  v->strips_right = named_tokens(file, kStripsRightKey, v->tokens.size());
  if (file.find(kStripsRightKey) != nullptr || !is_phi3(file)) return;
  constexpr std::string_view kOthers[] = {"<unk>", "<s>", "<|endoftext|>"};
  for (size_t id = 0; id < v->tokens.size() && id < v->types.size(); ++id) {
    const TokenType type = v->types[id];
    const bool is_special = type == TokenType::kControl || type == TokenType::kUserDefined ||
                            type == TokenType::kUnknown || v->tokens[id] == "</s>";
    const bool is_other =
        std::find(std::begin(kOthers), std::end(kOthers), v->tokens[id]) != std::end(kOthers);
    v->strips_right.push_back(is_special && !is_other);
  }
}

// Refuses lists that no tokenizer has, before their memory is taken.
void check_counts(const gguf::File& file) {
  struct List {
    const char* key;
    const char* name;
    uint64_t n_most;
  };
  constexpr List kLists[] = {{"tokenizer.ggml.tokens", "tokens", kMaxTokens},
                             {"tokenizer.ggml.scores", "scores", kMaxTokens},
                             {"tokenizer.ggml.token_type", "token types", kMaxTokens},
                             {"tokenizer.ggml.merges", "merges", uint64_t{1} << 22},
                             {kStripsLeftKey, "tokens that strip", kMaxTokens},
                             {kStripsRightKey, "tokens that strip", kMaxTokens}};
  for (const List& list : kLists) {
    const gguf::Value* const value = file.find(list.key);
    const auto* const array = value != nullptr ? std::get_if<gguf::Array>(&value->data) : nullptr;
    if (array == nullptr || array->count <= list.n_most) continue;
    throw Error(fmt::format("{}: the tokenizer has {} {}; at most {} are supported.", file.path(),
                            array->count, list.name, list.n_most));
  }
}

void check_special_lengths(const Vocabulary& v, std::string_view where) {
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool is_matched = v.types[id] == TokenType::kUnknown ||
                            v.types[id] == TokenType::kControl ||
                            v.types[id] == TokenType::kUserDefined;
    if (!is_matched || v.tokens[id].size() <= kMostSpecialBytes) continue;
    throw Error(
        fmt::format("{}: the special token {} has {} bytes; at most {} are supported. "
                    "Convert the model without it.",
                    where, id, v.tokens[id].size(), kMostSpecialBytes));
  }
}

}  // namespace

Vocabulary empty_vocabulary(VocabularyKind kind, std::string_view pre) {
  Vocabulary v;
  v.kind = kind;
  v.pre = pre;
  if (kind == VocabularyKind::kSpm) {
    v.unk = 0;
    v.bos = 1;
    v.eos = 2;
    v.add_bos = true;
    v.add_space_prefix = true;
  } else {
    v.add_bos = std::find(kAddBosPre.begin(), kAddBosPre.end(), pre) != kAddBosPre.end();
  }
  return v;
}

Vocabulary read_vocabulary(const gguf::File& file) {
  const VocabularyKind kind = read_kind(file);
  check_counts(file);
  const Pre pre = read_pre(file, kind);
  Vocabulary v = empty_vocabulary(kind, pre.name);
  v.pre_origin = pre.origin;
  const std::vector<std::string_view> tokens = file.strings("tokenizer.ggml.tokens");
  v.tokens.assign(tokens.begin(), tokens.end());
  v.scores = file.floats("tokenizer.ggml.scores");
  read_types(file, &v);
  const std::vector<std::string_view> merges = file.strings("tokenizer.ggml.merges");
  v.merges.assign(merges.begin(), merges.end());
  read_special_tokens(file, &v);
  // Byte-level BPE never has a space in front, whatever the file says.
  if (kind == VocabularyKind::kBpe) v.add_space_prefix = false;
  v.chat_template = file.find_string("tokenizer.chat_template").value_or("");
  v.tool_template = file.find_string(kToolTemplateKey).value_or("");
  // A file with nothing else means it for all.
  if (v.chat_template.empty()) v.chat_template.swap(v.tool_template);
  repair_types(&v);
  check_vocabulary(v, file.path());
  read_strips(file, &v);
  v.space_rule = read_space_rule(file);
  return v;
}

std::string note_on_pre(const Vocabulary& v) {
  if (v.pre_origin == PreOrigin::kNamed) return {};
  const std::string use =
      v.pre_origin == PreOrigin::kArchitecture
          ? fmt::format("{} is used, as models of its architecture do; ‹pre› NAME takes another",
                        v.pre)
          : fmt::format(
                "{} is used, which is no model's own, and answers get worse; name the one "
                "that fits the model with ‹pre› (llama-bpe, qwen2, gpt-2, ...)",
                v.pre);
  return "the file does not say how its tokenizer splits a text (tokenizer.ggml.pre), so " + use;
}

void check_vocabulary(const Vocabulary& v, std::string_view where, std::string_view advice) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(fmt::format("{}: {}. {}", where, problem, advice));
  };
  const size_t n = v.tokens.size();
  if (n == 0) refuse("the tokenizer has no tokens");
  if (n > kMaxTokens) {
    throw Error(fmt::format("{}: the tokenizer has {} tokens; at most {} are supported.", where, n,
                            kMaxTokens));
  }
  if (v.types.size() != n) {
    refuse(fmt::format("there are {} tokens but {} token types", n, v.types.size()));
  }
  check_special_lengths(v, where);
  const bool needs_scores = v.kind == VocabularyKind::kSpm;
  if (v.scores.size() != n && (needs_scores || !v.scores.empty())) {
    refuse(fmt::format("there are {} tokens but {} scores", n, v.scores.size()));
  }
  if (std::any_of(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); })) {
    refuse("a token's score is not a number");
  }
  if (v.kind == VocabularyKind::kBpe && v.merges.empty()) {
    refuse("the byte-level BPE tokenizer has no merges");
  }
  const auto check_id = [&](Token id, const char* name) {
    if (id == kNoToken || (id >= 0 && static_cast<size_t>(id) < n)) return;
    refuse(fmt::format("the {} token is {}, but the vocabulary has {} tokens", name, id, n));
  };
  check_id(v.bos, "begin (bos)");
  check_id(v.eos, "end (eos)");
  check_id(v.eot, "end-of-turn (eot)");
  check_id(v.eom, "end-of-message (eom)");
  check_id(v.fim_pad, "padding of gaps (fim_pad)");
  check_id(v.fim_repository, "repository (fim_rep)");
  check_id(v.fim_separator, "file separator (fim_sep)");
  check_id(v.unk, "unknown");
  check_id(v.pad, "padding");
  if (v.add_bos && v.bos == kNoToken) refuse("a begin token is to be added, but none is named");
  if (v.add_eos && v.eos == kNoToken) refuse("an end token is to be added, but none is named");
}

}  // namespace troika::text
