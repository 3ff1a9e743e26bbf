#include "convert/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "base/os_error.h"
#include "convert/pre_tokenizer.h"
#include "convert/sentencepiece.h"
#include "text/splitter.h"

namespace troika::convert {
namespace {

using text::Token;
using text::TokenType;
using text::Vocabulary;

constexpr char kSpace[] = "\xe2\x96\x81";  // U+2581 stands for a space

[[noreturn]] void fail(const std::string& path, std::string_view problem) {
  throw Error(fmt::format("{}: {}. The file is damaged; download it again.", path, problem));
}

const Json& model_of(const Json& json, const std::string& path) {
  const Json* model = member(json, "model");
  if (model == nullptr || !model->is_object()) fail(path, "it has no 'model'");
  return *model;
}

// Makes room for the token; ids between stay unused.
void grow(uint64_t id, const TokenFile& file, Vocabulary* v) {
  if (id >= file.most_tokens()) {
    fail(file.path,
         fmt::format("a token has the number {}, but the model knows {}", id, file.n_vocab));
  }
  const bool has_scores = v->kind == text::VocabularyKind::kSpm;
  while (v->tokens.size() <= id) {
    v->tokens.push_back(fmt::format("[PAD{}]", v->tokens.size()));
    v->types.push_back(TokenType::kUnused);
    if (has_scores) v->scores.push_back(-10000.0F);
  }
}

void read_tokens(const Json& model, const TokenFile& file, Vocabulary* v) {
  const std::string& path = file.path;
  const Json* vocabulary = member(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object() || vocabulary->empty()) {
    fail(path, "its model has no 'vocab'");
  }
  for (const auto& [token, number] : vocabulary->items()) {
    if (!number.is_number_unsigned())
      fail(path, fmt::format("token {} has no number", troika::quoted(token)));
    const auto id = number.get<uint64_t>();
    grow(id, file, v);
    if (v->types[id] != TokenType::kUnused) {
      fail(path, fmt::format("tokens {} and {} have the same number", troika::quoted(v->tokens[id]),
                             troika::quoted(token)));
    }
    v->tokens[id] = token;
    v->types[id] = TokenType::kNormal;
  }
}

// Returns the two parts of a merge, which is written as "left right" or as a list of both.
std::pair<std::string, std::string> merge_of(const Json& merge, const std::string& path) {
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && space > 0 && space + 1 < text.size()) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
             merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  fail(path, "one of its merges is no pair of tokens");
}

const Json& merges_of(const Json& model, const std::string& path) {
  const Json* merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) fail(path, "its model has no 'merges'");
  return *merges;
}

void read_merges(const Json& model, const std::string& path, Vocabulary* v) {
  for (const Json& merge : merges_of(model, path)) {
    const auto [left, right] = merge_of(merge, path);
    v->merges.push_back(left + " " + right);
  }
}

// Sets scores: the earlier a merge, the higher the score of what it makes. Then the pair of
// neighbours that makes the highest score is the one that the earliest merge joins.
void read_scores(const Json& model, const std::string& path, Vocabulary* v) {
  std::unordered_map<std::string_view, size_t, HashOfNames> ids;
  for (size_t id = 0; id < v->tokens.size(); ++id) ids.emplace(v->tokens[id], id);
  std::vector<bool> has_score(v->tokens.size());
  v->scores.assign(v->tokens.size(), -1e9F);
  float score = 0.0F;
  for (const Json& merge : merges_of(model, path)) {
    const auto [left, right] = merge_of(merge, path);
    const std::string whole = left + right;
    const auto found = ids.find(whole);
    score -= 1.0F;
    if (found == ids.end() || has_score[found->second]) continue;
    has_score[found->second] = true;
    v->scores[found->second] = score;
  }
}

void mark_bytes(Vocabulary* v) {
  for (size_t id = 0; id < v->tokens.size(); ++id) {
    const std::string& token = v->tokens[id];
    if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>') {
      v->types[id] = TokenType::kByte;
    }
  }
}

// Reads whether a space is put before the text, and where: a normalizer puts it before each text
// between special tokens, the pre-tokenizer only where none is there.
void read_space_prefix(const Json& json, Vocabulary* v) {
  const std::string normalizer =
      member(json, "normalizer") ? member(json, "normalizer")->dump() : "";
  v->add_space_prefix = normalizer.find("\"Prepend\"") != std::string::npos;
  const Json* pre = member(json, "pre_tokenizer");
  if (v->add_space_prefix || pre == nullptr || text_member(*pre, "type") != "Metaspace") return;
  const auto scheme = text_member(*pre, "prepend_scheme");
  v->add_space_prefix =
      scheme ? *scheme != "never" : bool_member(*pre, "add_prefix_space").value_or(true);
  v->space_rule = scheme == "first" ? text::SpaceRule::kFirstOfAll : text::SpaceRule::kUnlessThere;
}

// Returns the parts of the template of one text; null where there is none.
const Json* template_of(const Json& json) {
  const Json* post = member(json, "post_processor");
  if (post == nullptr) return nullptr;
  const Json* inner = member(*post, "processors");
  const auto is_template = [](const Json& p) {
    return text_member(p, "type") == "TemplateProcessing";
  };
  const Json* found = is_template(*post) ? post : nullptr;
  if (inner != nullptr && inner->is_array()) {
    for (const Json& p : *inner) {
      if (is_template(p)) found = &p;
    }
  }
  const Json* single = found == nullptr ? nullptr : member(*found, "single");
  return single == nullptr || !single->is_array() || single->empty() ? nullptr : single;
}

// Reads which tokens the template of one text puts before and behind it.
void read_template(const Json& json, Vocabulary* v) {
  const Json* single = template_of(json);
  if (single == nullptr) return;
  v->add_bos = member(single->front(), "SpecialToken") != nullptr;
  v->add_eos = single->size() > 1 && member(single->back(), "SpecialToken") != nullptr;
}

// Says whether a token structures a text, whatever the folder says of it: Qwen's "<|fim_prefix|>"
// or Gemma's "<unused7>" must neither be found in what a user writes nor be printed.
bool looks_special(const std::string& content) {
  const auto has = [&](std::string_view begin, std::string_view end) {
    return content.size() > begin.size() + end.size() && content.starts_with(begin) &&
           content.ends_with(end);
  };
  constexpr const char* kWholes[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  return has("<|", "|>") || has("<\uff5c", "\uff5c>") || has("<unused", ">") ||
         std::any_of(std::begin(kWholes), std::end(kWholes),
                     [&](const char* whole) { return content == whole; });
}

}  // namespace

void refuse_pre(const std::string& path) {
  throw UsageError(fmt::format(
      "{}: the tokenizer is no byte-level BPE and has no pre-tokenizer; leave ‹pre› out.", path));
}

bool has_template(const Json& json) { return template_of(json) != nullptr; }

JsonTokenizer kind_of(const Json& json, const std::string& path) {
  const Json& model = model_of(json, path);
  // Old files do not name the type, but have merges.
  const std::string type =
      text_member(model, "type").value_or(member(model, "merges") != nullptr ? "BPE" : "unknown");
  if (type != "BPE") {
    throw Error(
        fmt::format("{}: the tokenizer is of the kind {}; this program knows BPE, of bytes and of "
                    "SentencePiece. Take another model.",
                    path, troika::quoted(type)));
  }
  return bool_member(model, "byte_fallback").value_or(false) ? JsonTokenizer::kSentencePiece
                                                             : JsonTokenizer::kByteLevel;
}

Vocabulary read_tokenizer_json(const Json& json, const TokenFile& file, const std::string& pre) {
  const std::string& path = file.path;
  const Json& model = model_of(json, path);
  Vocabulary v;
  v.unk = text::kNoToken;
  const bool is_byte_level = kind_of(json, path) == JsonTokenizer::kByteLevel;
  if (!pre.empty()) {
    if (!is_byte_level) refuse_pre(path);
    text::check_given_splitter(pre);  // a wrong name is refused now, not by whoever reads the file
  }
  if (is_byte_level) {
    v.kind = text::VocabularyKind::kBpe;
    v.pre = pre.empty() ? pre_tokenizer_name(json, path) : pre;
    read_tokens(model, file, &v);
    read_merges(model, path, &v);
  } else {
    v.kind = text::VocabularyKind::kSpm;
    v.pre = "default";
    read_space_prefix(json, &v);
    read_tokens(model, file, &v);
    read_scores(model, path, &v);
    mark_bytes(&v);
  }
  add_tokens(json, file, &v);
  if (const auto unknown = text_member(model, "unk_token"); unknown) {
    const auto found = std::find(v.tokens.begin(), v.tokens.end(), *unknown);
    if (found != v.tokens.end()) {
      v.unk = static_cast<Token>(found - v.tokens.begin());
      if (v.kind == text::VocabularyKind::kSpm) {
        v.types[static_cast<size_t>(v.unk)] = TokenType::kUnknown;
      }
    }
  }
  read_template(json, &v);
  return v;
}

void add_token(uint64_t id, std::string content, bool is_special, const TokenFile& file,
               Vocabulary* v) {
  grow(id, file, v);
  if (content.size() > kMostTokenBytes) {
    fail(file.path,
         fmt::format("token {} has {} bytes, more than {}", id, content.size(), kMostTokenBytes));
  }
  is_special |= looks_special(content);
  if (v->types[id] == TokenType::kUnknown || v->types[id] == TokenType::kByte) return;
  if (!is_special) {
    for (size_t at = content.find(kSpace); at != std::string::npos; at = content.find(kSpace)) {
      content.replace(at, sizeof kSpace - 1, " ");
    }
  }
  v->tokens[id] = std::move(content);
  v->types[id] = is_special ? TokenType::kControl : TokenType::kUserDefined;
  if (v->kind == text::VocabularyKind::kSpm) v->scores[id] = -1000.0F;
}

void read_strips(const Json& token, uint64_t id, Vocabulary* v) {
  const auto mark = [&](const char* name, std::vector<bool>* strips) {
    if (!bool_member(token, name).value_or(false)) return;
    strips->resize(v->tokens.size(), false);
    (*strips)[id] = true;
  };
  mark("lstrip", &v->strips_left);
  mark("rstrip", &v->strips_right);
}

void add_tokens(const Json& json, const TokenFile& file, Vocabulary* v) {
  const std::string& path = file.path;
  const Json* added = member(json, "added_tokens");
  if (added == nullptr) return;
  if (!added->is_array()) fail(path, "'added_tokens' is no list");
  for (const Json& token : *added) {
    const Json* id = member(token, "id");
    const auto content = text_member(token, "content");
    if (id == nullptr || !id->is_number_unsigned() || !content) {
      fail(path, "an added token has no number or no text");
    }
    add_token(id->get<uint64_t>(), *content, bool_member(token, "special").value_or(false), file,
              v);
    read_strips(token, id->get<uint64_t>(), v);
  }
}

}  // namespace troika::convert
