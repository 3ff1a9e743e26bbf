// Reads the tokenizer's part of a model file as plain data: what the tokens are, before any
// algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::gguf {
class File;
}

namespace troika::text {

using Token = int32_t;
inline constexpr Token kNoToken = -1;

enum class VocabularyKind {
  kSpm,  // SentencePiece-style: tokens with scores, spaces written as U+2581, byte fallback
  kBpe,  // byte-level: merges with ranks over bytes written as printable characters
};

// The numbers are those of files.
enum class TokenType : uint8_t {
  kUndefined = 0,  // treated as normal
  kNormal = 1,
  kUnknown = 2,      // stands for what has no token; never rendered
  kControl = 3,      // begin, end, turn marks: matched in text and rendered only on request
  kUserDefined = 4,  // cut out of any text before the algorithm sees it
  kUnused = 5,
  kByte = 6,  // "<0xHH>" in kSpm
};

// Where the space of `add_space_prefix` is put.
enum class SpaceRule : uint8_t {
  kEachText,     // in front of each text between special tokens, as SentencePiece does
  kUnlessThere,  // the same, but not where the text begins with a space
  kFirstOfAll,   // only in front of what begins with the text itself, unless with a space
};

// Where the name of a pre-tokenizer comes from.
enum class PreOrigin : uint8_t {
  kNamed,         // the file or a person names it, or a tokenizer of this kind has none
  kArchitecture,  // the file names none, but all models of its architecture have this one
  kNobody,        // the file names none, and nothing else tells it
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::kSpm;
  std::vector<std::string> tokens;  // the tokens as in the file; the index is the token's id
  std::vector<float> scores;        // one for each token of kSpm; the highest merges first
  std::vector<TokenType> types;     // has one for each token
  std::vector<std::string> merges;  // kBpe: "left right", the most important first
  std::string pre;                  // kBpe: the name of the pre-tokenizer
  PreOrigin pre_origin = PreOrigin::kNamed;
  Token bos = kNoToken;
  Token eos = kNoToken;
  Token eot = kNoToken;  // ends a turn
  Token eom = kNoToken;  // ends a message (a tool call follows)
  // Stand behind what fills a gap in code: as padding, before the name of another repository, and
  // between files.
  Token fim_pad = kNoToken, fim_repository = kNoToken, fim_separator = kNoToken;
  Token unk = kNoToken;
  Token pad = kNoToken;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  // kSpm: text begins as if after a space
  SpaceRule space_rule = SpaceRule::kEachText;
  // (n_tokens): say of special tokens that white space in front of them, or behind them, is part of
  // them. Empty: of none.
  std::vector<bool> strips_left, strips_right;
  std::string chat_template;  // a template in Jinja; empty where the file has none
  std::string tool_template;  // is for requests with tools; empty: they have no other one
};

// Returns llama.cpp's defaults for what files leave out: files were written to be read with them.
Vocabulary empty_vocabulary(VocabularyKind kind, std::string_view pre);

// Throws Error where the file has no tokenizer, one of a kind that is not known, or one that
// contradicts itself.
Vocabulary read_vocabulary(const gguf::File& file);

// Returns what a person should know where the file does not name its pre-tokenizer, as words of a
// note; empty where it does.
std::string note_on_pre(const Vocabulary& vocabulary);

// Names the template for requests with tools.
inline constexpr const char* kToolTemplateKey = "tokenizer.chat_template.tool_use";

// Most files do not say which tokens strip what is behind them, so it goes by the model's name, as
// in llama.cpp: with Phi-3 all special tokens do but those of begin and end. Files that this
// program converts have a list of their own.
inline constexpr const char* kStripsRightKey = "tokenizer.troika.strips_right";
// Only files that this program converts have these. Without the second the space is put in front of
// each text.
inline constexpr const char* kStripsLeftKey = "tokenizer.troika.strips_left";
inline constexpr const char* kSpaceRuleKey = "tokenizer.troika.space_prefix";
inline constexpr const char* kSpaceUnlessThere = "unless_there";
inline constexpr const char* kSpaceFirstOfAll = "first";

// Is the advice for model files.
inline constexpr std::string_view kConvertAgain =
    "The file is damaged or was converted wrongly; convert it again.";

// Throws Error unless the arrays agree in length, every special id is a token, and no special token
// is so long that looking for it in texts would take long. `where` names the file in messages, and
// `advice` is the sentence that says what to do where it contradicts itself.
void check_vocabulary(const Vocabulary& vocabulary, std::string_view where,
                      std::string_view advice = kConvertAgain);

// Returns every token that ends an answer: eos, eot, eom, those behind what fills a gap in code,
// and tokens that are known by their text, because files often name only one of several.
std::vector<Token> end_tokens(const Vocabulary& vocabulary);

// Makes end tokens that are known by their text control tokens where the file forgot to say so.
// Otherwise they would appear in answers and could not be asked for in prompts.
void repair_types(Vocabulary* vocabulary);

}  // namespace troika::text
