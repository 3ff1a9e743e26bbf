#include "convert/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/os_error.h"
#include "convert/normalizer.h"
#include "convert/sentencepiece.h"
#include "convert/tokenizer_json.h"

namespace troika::convert {
namespace {

using text::kNoToken;
using text::Token;
using text::TokenType;
using text::Vocabulary;

constexpr uint64_t kMostJsonBytes = uint64_t{64} << 20;
constexpr uint64_t kMostSmallBytes = uint64_t{4} << 20;
constexpr uint64_t kMostModelBytes = uint64_t{64} << 20;

// Notes what the tokenizer does to texts before it splits them.
void note_steps(const std::string& path, const std::vector<std::string>& steps,
                std::vector<std::string>* notes) {
  if (steps.empty()) return;
  notes->push_back(fmt::format(
      "{}: the tokenizer changes texts before it splits them, which this program does not do: {}. "
      "Texts that would change get other tokens than there.",
      path, fmt::join(steps, ", ")));
}

// Notes that added tokens are found within words where the folder wants them between words alone.
void note_single_words(const std::string& path, const Json& json, std::vector<std::string>* notes) {
  const Json* added = member(json, "added_tokens");
  if (added == nullptr || !added->is_array()) return;
  const auto n = std::count_if(added->begin(), added->end(), [](const Json& token) {
    return bool_member(token, "single_word").value_or(false);
  });
  if (n == 0) return;
  notes->push_back(
      fmt::format("{}: added tokens that are whole words there ('single_word'; {} of them) are "
                  "found within words too by this program.",
                  path, n));
}

SentencePiece read_model(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  if (file.bytes().size() > kMostModelBytes) {
    throw Error(fmt::format("{}: it has {} bytes; such a file has at most {}. Download it again.",
                            path, file.bytes().size(), kMostModelBytes));
  }
  SentencePiece model = read_sentencepiece(file.bytes(), path);
  check_whole(file);
  model.vocabulary.add_space_prefix = model.has_space_prefix;
  model.vocabulary.add_bos = true;
  return model;
}

std::vector<std::string> foreign_steps(const SentencePiece& model) {
  std::vector<std::string> steps;
  if (model.maps_characters) steps.emplace_back("some characters become others");
  if (model.removes_spaces) steps.emplace_back("spaces at the ends and repeated ones are removed");
  return steps;
}

Vocabulary read_tokens(const TokenizerSource& source, std::vector<std::string>* notes) {
  const TokenFile json_file = {source.folder + "/tokenizer.json", source.n_vocab};
  const std::string& json_path = json_file.path;
  const std::string model_path = source.folder + "/tokenizer.model";
  const auto json = find_json(json_path, kMostJsonBytes);
  const bool has_model = is_there(model_path);
  // Where both are there, the library transformers goes by tokenizer.json.
  if (json) {
    note_steps(json_path, foreign_normalizers(*json, kind_of(*json, json_path)), notes);
    note_single_words(json_path, *json, notes);
  }
  if (json && (!has_model || kind_of(*json, json_path) == JsonTokenizer::kByteLevel)) {
    return read_tokenizer_json(*json, json_file, source.pre);
  }
  if (!has_model) {
    throw Error(fmt::format(
        "{}: the folder has neither tokenizer.json nor tokenizer.model. Download one of them too.",
        source.folder));
  }
  if (!source.pre.empty()) refuse_pre(model_path);
  SentencePiece model = read_model(model_path);
  if (!json) note_steps(model_path, foreign_steps(model), notes);
  Vocabulary v = std::move(model.vocabulary);
  if (json) {
    const Vocabulary other = read_tokenizer_json(*json, json_file, source.pre);
    // Without a template the file says nothing of these, and tokenizer.model counts.
    if (has_template(*json)) v.add_bos = other.add_bos, v.add_eos = other.add_eos;
    v.add_space_prefix = other.add_space_prefix, v.space_rule = other.space_rule;
    add_tokens(*json, json_file, &v);
  }
  return v;
}

// Returns the text of "bos_token" and similar members: it stands there plainly, or in an object as
// "content".
std::optional<std::string> token_text(const Json& config, const char* key) {
  const Json* value = member(config, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return text_member(*value, "content");
  return text_member(config, key);
}

Token find_token(const Vocabulary& v, const std::string& text) {
  const auto found = std::find(v.tokens.begin(), v.tokens.end(), text);
  return found == v.tokens.end() ? kNoToken : static_cast<Token>(found - v.tokens.begin());
}

// Returns the ids of "eos_token_id" and similar members: one number, or a list of numbers.
std::vector<Token> ids_of(const Json& config, const char* key, const Vocabulary& v) {
  const Json* value = member(config, key);
  std::vector<Token> ids;
  if (value == nullptr) return ids;
  const auto add = [&](const Json& number) {
    if (number.is_number_unsigned() && number.get<uint64_t>() < v.tokens.size()) {
      ids.push_back(static_cast<Token>(number.get<uint64_t>()));
    }
  };
  if (value->is_array()) {
    for (const Json& number : *value) add(number);
  } else {
    add(*value);
  }
  return ids;
}

void read_added(const TokenizerSource& source, const Json& settings, Vocabulary* v) {
  const TokenFile file = {source.folder + "/added_tokens.json", source.n_vocab};
  if (const auto added = find_json(file.path, kMostSmallBytes)) {
    for (const auto& [text, id] : added->items()) {
      if (!id.is_number_unsigned()) {
        throw Error(fmt::format("{}: token {} has no number; download it again.", file.path,
                                troika::quoted(text)));
      }
      const auto number = id.get<uint64_t>();
      // tokenizer.json has already told more about this token.
      if (number < v->tokens.size() && v->tokens[number] == text) continue;
      add_token(number, text, false, file, v);
    }
  }
  const Json* decoder = member(settings, "added_tokens_decoder");
  if (decoder == nullptr || !decoder->is_object()) return;
  const TokenFile settings_file = {source.folder + "/tokenizer_config.json", source.n_vocab};
  for (const auto& [id, token] : decoder->items()) {
    const bool is_number =
        !id.empty() && id.size() < 9 && id.find_first_not_of("0123456789") == std::string::npos;
    const auto content = text_member(token, "content");
    if (!is_number || !content) {
      throw Error(fmt::format("{}: an added token has no number or no text; download it again.",
                              settings_file.path));
    }
    add_token(std::stoul(id), *content, bool_member(token, "special").value_or(false),
              settings_file, v);
    read_strips(token, std::stoul(id), v);
  }
}

void read_special(const Json& settings, const Json& generation, const Json& config, Vocabulary* v) {
  const auto choose = [&](const char* name, const char* id_name, Token* id) {
    const auto text = token_text(settings, name);
    const Token named = text ? find_token(*v, *text) : kNoToken;
    if (named != kNoToken) {
      *id = named;
      return;
    }
    for (const Json* json : {&generation, &config}) {
      const std::vector<Token> ids = ids_of(*json, id_name, *v);
      if (ids.empty()) continue;
      *id = ids.front();
      return;
    }
  };
  choose("bos_token", "bos_token_id", &v->bos);
  choose("eos_token", "eos_token_id", &v->eos);
  choose("pad_token", "pad_token_id", &v->pad);
  choose("unk_token", "unk_token_id", &v->unk);
  // Some models end a turn of a chat with another token than the one that ends a text.
  for (const Token id : ids_of(generation, "eos_token_id", *v)) {
    if (id != v->eos && v->eot == kNoToken) v->eot = id;
  }
}

// Returns the whole of a template's file; nothing where it is not there.
std::optional<std::string> template_file(const std::string& path) {
  if (!is_there(path)) return std::nullopt;
  const MappedFile file = MappedFile::open(path);
  if (file.bytes().size() > kMostSmallBytes) {
    throw Error(fmt::format(
        "{}: it has {} bytes, too many for a chat template. Remove it or download it again.", path,
        file.bytes().size()));
  }
  std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  check_whole(file);
  return text;
}

// Returns one of the templates that tokenizer_config.json lists by their names; a single one is the
// default.
std::string listed_template(const Json& settings, std::string_view name) {
  const Json* value = member(settings, "chat_template");
  if (value == nullptr) return {};
  if (value->is_string()) return name == "default" ? value->get<std::string>() : "";
  if (!value->is_array()) return {};
  for (const Json& one : *value) {
    if (text_member(one, "name") == name) return text_member(one, "template").value_or("");
  }
  return {};
}

void read_templates(const std::string& folder, const Json& settings, Vocabulary* v) {
  // Where templates are files, tokenizer_config.json has none that count.
  if (auto own = template_file(folder + "/chat_template.jinja")) {
    v->chat_template = *own;
    v->tool_template =
        template_file(folder + "/additional_chat_templates/tool_use.jinja").value_or("");
    return;
  }
  v->chat_template = listed_template(settings, "default");
  v->tool_template = listed_template(settings, "tool_use");
}

void fit(const TokenizerSource& source, Vocabulary* v) {
  // Added tokens beyond the embedding stand for things that this program does not have, such as
  // pictures.
  const auto is_added = [](TokenType type) {
    return type == TokenType::kControl || type == TokenType::kUserDefined ||
           type == TokenType::kUnused;
  };
  while (v->tokens.size() > source.n_vocab && is_added(v->types.back())) {
    v->tokens.pop_back();
    v->types.pop_back();
    if (v->kind == text::VocabularyKind::kSpm) v->scores.pop_back();
  }
  if (v->tokens.size() > source.n_vocab) {
    throw Error(
        fmt::format("{}: the tokenizer has {} tokens, but the model knows {} ('vocab_size' of "
                    "config.json). The "
                    "two do not belong together; download the folder again.",
                    source.folder, v->tokens.size(), source.n_vocab));
  }
  while (v->tokens.size() < source.n_vocab) {
    v->tokens.push_back(fmt::format("[PAD{}]", v->tokens.size()));
    v->types.push_back(TokenType::kUnused);
    if (v->kind == text::VocabularyKind::kSpm) v->scores.push_back(-10000.0F);
  }
}

}  // namespace

Vocabulary read_folder_tokenizer(const TokenizerSource& source, const Json& config,
                                 std::vector<std::string>* notes) {
  const Json settings =
      find_json(source.folder + "/tokenizer_config.json", kMostSmallBytes).value_or(Json::object());
  const Json generation = find_json(source.folder + "/generation_config.json", kMostSmallBytes)
                              .value_or(Json::object());
  Vocabulary v = read_tokens(source, notes);
  read_added(source, settings, &v);
  fit(source, &v);
  read_special(settings, generation, config, &v);
  v.add_bos = bool_member(settings, "add_bos_token").value_or(v.add_bos);
  v.add_eos = bool_member(settings, "add_eos_token").value_or(v.add_eos);
  if (v.kind == text::VocabularyKind::kSpm) {
    v.add_space_prefix = (source.has_space_prefix_default || v.add_space_prefix) &&
                         bool_member(settings, "add_prefix_space").value_or(v.add_space_prefix);
  }
  if (v.bos == kNoToken) v.add_bos = false;
  if (v.eos == kNoToken) v.add_eos = false;
  read_templates(source.folder, settings, &v);
  text::check_vocabulary(v, source.folder, "Download the files of its tokenizer again.");
  return v;
}

void write_tokenizer(const Vocabulary& v, gguf::Writer& writer) {
  const bool is_bpe = v.kind == text::VocabularyKind::kBpe;
  writer.add_string("tokenizer.ggml.model", is_bpe ? "gpt2" : "llama");
  writer.add_string("tokenizer.ggml.pre", v.pre);
  writer.add_strings("tokenizer.ggml.tokens", v.tokens);
  if (!is_bpe) writer.add_floats("tokenizer.ggml.scores", v.scores);
  const std::vector<int32_t> types = [&] {
    std::vector<int32_t> numbers;
    for (const TokenType type : v.types) numbers.push_back(static_cast<int32_t>(type));
    return numbers;
  }();
  writer.add_int32s("tokenizer.ggml.token_type", types);
  if (is_bpe) writer.add_strings("tokenizer.ggml.merges", v.merges);
  const auto ids_in = [&](const std::vector<bool>& some) {
    std::vector<int32_t> ids;
    for (size_t id = 0; id < some.size() && id < v.tokens.size(); ++id) {
      if (some[id]) ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
  };
  // An empty list says that no token does, whatever the model's name is.
  writer.add_int32s(text::kStripsRightKey, ids_in(v.strips_right));
  if (const std::vector<int32_t> ids = ids_in(v.strips_left); !ids.empty()) {
    writer.add_int32s(text::kStripsLeftKey, ids);
  }
  const auto add_id = [&](const char* name, Token id) {
    if (id == kNoToken) return;
    writer.add_uint32(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(id));
  };
  add_id("bos", v.bos);
  add_id("eos", v.eos);
  add_id("eot", v.eot);
  add_id("unknown", v.unk);
  add_id("padding", v.pad);
  writer.add_bool("tokenizer.ggml.add_bos_token", v.add_bos);
  writer.add_bool("tokenizer.ggml.add_eos_token", v.add_eos);
  if (!is_bpe) writer.add_bool("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  if (v.space_rule != text::SpaceRule::kEachText) {
    const bool is_first = v.space_rule == text::SpaceRule::kFirstOfAll;
    writer.add_string(text::kSpaceRuleKey,
                      is_first ? text::kSpaceFirstOfAll : text::kSpaceUnlessThere);
  }
  if (!v.chat_template.empty()) writer.add_string("tokenizer.chat_template", v.chat_template);
  if (!v.tool_template.empty()) writer.add_string(text::kToolTemplateKey, v.tool_template);
}

}  // namespace troika::convert
