#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "gguf/file.h"
#include "text/bpe.h"
#include "text/characters.h"
#include "text/special_matcher.h"
#include "text/splitter.h"
#include "text/spm.h"
#include "text/utf8.h"

namespace troika::text {
namespace {

bool is_white(const Utf8Char& c) { return (classes_of(c.code) & kWhite) != 0; }

// Returns where white space that begins at `at` ends.
size_t end_of_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const auto c = decode_utf8(text.substr(at));
    if (!is_white(c)) break;
    at += c.bytes;
  }
  return at;
}

// Returns the text without the white space at its end.
std::string_view without_end_spaces(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_utf8(text.substr(at));
    at += c.bytes;
    if (!is_white(c)) end = at;
  }
  return text.substr(0, end);
}

// Limits the bytes of a text. Places in it are numbers of 32 bits, and some tokenizers write a byte
// as three.
constexpr size_t kMostTextBytes = size_t{1} << 30;

void check_text_size(size_t n_bytes) {
  if (n_bytes <= kMostTextBytes) return;
  throw UsageError(
      fmt::format("The text has {} bytes, and at most {} are made tokens of at once. Use a shorter "
                  "one, or divide it.",
                  n_bytes, kMostTextBytes));
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  ends_ = end_tokens(vocabulary_);
  std::vector<std::pair<std::string, Token>> user_defined;
  std::vector<std::pair<std::string, Token>> all;
  for (Token id = 0; id < n_tokens(); ++id) {
    const TokenType type = vocabulary_.types[id];
    // A text may spell a token as the vocabulary does, which takes more bytes than its piece has.
    if (vocabulary_.kind == VocabularyKind::kSpm || type == TokenType::kUserDefined ||
        is_control(id)) {
      longest_ = std::max(longest_, vocabulary_.tokens[id].size());
    }
    if (type == TokenType::kUserDefined) user_defined.emplace_back(vocabulary_.tokens[id], id);
    if (type == TokenType::kUserDefined || is_control(id)) {
      all.emplace_back(vocabulary_.tokens[id], id);
    }
  }
  user_defined_ = std::make_unique<SpecialMatcher>(std::move(user_defined));
  all_special_ = std::make_unique<SpecialMatcher>(std::move(all));
  piece_begins_.reserve(vocabulary_.tokens.size() + 1);
  piece_begins_.push_back(0);
  for (const std::vector<bool>* strips : {&vocabulary_.strips_left, &vocabulary_.strips_right}) {
    if (std::find(strips->begin(), strips->end(), true) != strips->end()) leave_bytes_out();
  }
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::add_piece(std::string_view bytes) {
  longest_ = std::max(longest_, bytes.size());
  pieces_ += bytes;
  piece_begins_.push_back(pieces_.size());
}

std::vector<Token> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  check_text_size(text.size());
  std::vector<Token> out;
  if (options.add_special && vocabulary_.add_bos) out.push_back(vocabulary_.bos);
  const SpecialMatcher& matcher = options.parse_special ? *all_special_ : *user_defined_;
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const SpecialMatcher::Match match = matcher.find(text, at);
    std::string_view before = text.substr(at, match.begin - at);
    if (match.token != kNoToken && strips_left(match.token)) before = without_end_spaces(before);
    if (!before.empty()) encode_text(before, first, &out);
    if (match.token == kNoToken) break;
    out.push_back(match.token);
    first = begins_behind_special();
    at = match.end;
    if (strips_right(match.token)) at = end_of_spaces(text, at);
  }
  if (options.add_special && vocabulary_.add_eos) out.push_back(vocabulary_.eos);
  return out;
}

std::vector<Token> Tokenizer::encode_parts(std::span<const TextPart> parts) const {
  size_t n_bytes = 0;
  for (const TextPart& part : parts) check_text_size(n_bytes += part.text.size());
  std::vector<Token> out;
  std::string text;  // no special token has ended it yet
  bool first = true, skips_spaces = false;
  const auto end_text = [&](Token at) {
    const bool is_stripped = at != kNoToken && strips_left(at);
    const std::string_view whole = is_stripped ? without_end_spaces(text) : std::string_view(text);
    if (!whole.empty()) encode_text(whole, first, &out);
    text.clear();
  };
  for (const TextPart& part : parts) {
    const SpecialMatcher& matcher = part.parse_special ? *all_special_ : *user_defined_;
    for (size_t at = 0; at < part.text.size();) {
      if (skips_spaces) at = end_of_spaces(part.text, at);
      if (at == part.text.size()) break;  // the next part may begin with white space, too
      skips_spaces = false;
      const SpecialMatcher::Match match = matcher.find(part.text, at);
      text += part.text.substr(at, match.begin - at);
      if (match.token == kNoToken) break;
      end_text(match.token);
      out.push_back(match.token);
      first = begins_behind_special();
      at = match.end;
      skips_spaces = strips_right(match.token);
    }
  }
  end_text(kNoToken);
  return out;
}

size_t Tokenizer::least_tokens(size_t n_bytes) const {
  if (leaves_bytes_out_) return 0;
  return n_bytes / longest_ + (n_bytes % longest_ == 0 ? 0 : 1);
}

std::string_view Tokenizer::piece(Token token, bool render_special) const {
  TROIKA_ASSERT(is_token(token));
  if (is_control(token)) {
    return render_special ? std::string_view(vocabulary_.tokens[token]) : std::string_view();
  }
  const size_t begin = piece_begins_[token];
  return std::string_view(pieces_).substr(begin, piece_begins_[token + 1] - begin);
}

std::string_view Tokenizer::piece_in_text(Token token, bool render_special, bool* strip) const {
  std::string_view bytes = piece(token, render_special);
  if (is_control(token)) return bytes;
  // A user-defined token stands in the text as it is, with a space of its own.
  const bool is_text = vocabulary_.types[token] != TokenType::kUserDefined;
  if (*strip && is_text && bytes.starts_with(' ')) bytes.remove_prefix(1);
  *strip = false;
  return bytes;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool render_special) const {
  std::string text;
  bool first = vocabulary_.add_space_prefix;
  for (Token token : tokens) {
    text += piece_in_text(token, render_special, &first);
  }
  return text;
}

bool Tokenizer::is_end(Token token) const {
  return std::binary_search(ends_.begin(), ends_.end(), token);
}

bool Tokenizer::is_control(Token token) const {
  TROIKA_ASSERT(is_token(token));
  const TokenType type = vocabulary_.types[token];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

Token Tokenizer::find(std::string_view name) const {
  const std::vector<std::string>& tokens = vocabulary_.tokens;
  const auto it = std::find(tokens.begin(), tokens.end(), name);
  return it == tokens.end() ? kNoToken : static_cast<Token>(it - tokens.begin());
}

std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary, const TokenizerOptions& options) {
  if (!options.pre.empty()) {
    if (vocabulary.kind != VocabularyKind::kBpe) {
      throw UsageError(
          "‹pre› names how a text is split before a byte-level tokenizer sees it, and this model's "
          "tokenizer is SentencePiece's, which splits nothing. Leave ‹pre› out.");
    }
    check_given_splitter(options.pre);
    vocabulary.pre = options.pre;
    vocabulary.pre_origin = PreOrigin::kNamed;
  }
  check_vocabulary(vocabulary, "the tokenizer");
  if (vocabulary.kind == VocabularyKind::kSpm) return make_spm_tokenizer(std::move(vocabulary));
  return make_bpe_tokenizer(std::move(vocabulary));
}

std::unique_ptr<Tokenizer> make_tokenizer(const gguf::File& file, const TokenizerOptions& options) {
  try {
    return make_tokenizer(read_vocabulary(file), options);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    // The file is named here, unless the message names it already.
    const std::string message = error.what();
    if (message.find(file.path()) != std::string::npos) throw;
    throw Error(file.path() + ": " + message);
  }
}

}  // namespace troika::text
