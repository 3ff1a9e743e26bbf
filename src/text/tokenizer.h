// Converts text to tokens and back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace troika::text {

class SpecialMatcher;

struct EncodeOptions {
  bool add_special = true;     // adds begin and end tokens, where the model wants them
  bool parse_special = false;  // "<|im_end|>" in the text becomes the token; otherwise it is text
};

// All methods are const and may be called from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Takes any bytes: invalid UTF-8 is encoded byte for byte. Throws UsageError above 2^30 bytes.
  std::vector<Token> encode(std::string_view text, EncodeOptions options = {}) const;

  // A part of a text. Where `parse_special` is false, what looks like a special token is text.
  struct TextPart {
    std::string_view text;
    bool parse_special = false;
  };
  // Encodes a text that is given in parts, without begin and end tokens. Parts that meet are one
  // text to the tokenizer, as if nobody had divided it. Throws as `encode` does.
  std::vector<Token> encode_parts(std::span<const TextPart> parts) const;

  // Returns a number of tokens that no text of so many bytes falls below, whatever it says. Whoever
  // takes texts of strangers refuses by it what is too long, without encoding it.
  size_t least_tokens(size_t n_bytes) const;

  // Returns the bytes that a token stands for, perhaps a part of a character. Control and unknown
  // tokens are empty unless `render_special`. Precondition: is_token(token).
  std::string_view piece(Token token, bool render_special = false) const;

  // Returns the piece as it stands in a text of tokens that come in their order, which is without
  // the space that encode put in front of the text. `strip` says whether that space may still come;
  // it is vocabulary().add_space_prefix at the beginning of a text, and each call keeps it.
  std::string_view piece_in_text(Token token, bool render_special, bool* strip) const;

  // Returns the pieces one after another, without the space that encode put in front.
  std::string decode(std::span<const Token> tokens, bool render_special = false) const;

  bool is_token(Token token) const { return token >= 0 && token < n_tokens(); }
  // Says whether the token ends an answer: eos and the others that models use (end of turn, ...).
  bool is_end(Token token) const;
  bool is_control(Token token) const;  // control or unknown
  // Say whether white space in front of the token, or behind it, is part of it.
  bool strips_left(Token token) const { return is_in(vocabulary_.strips_left, token); }
  bool strips_right(Token token) const { return is_in(vocabulary_.strips_right, token); }
  // Returns the token whose text in the vocabulary is exactly `name`, e.g. "<|im_start|>"; or
  // kNoToken. Looks through the whole vocabulary.
  Token find(std::string_view name) const;

  Token n_tokens() const { return static_cast<Token>(vocabulary_.tokens.size()); }
  Token bos() const { return vocabulary_.bos; }
  Token eos() const { return vocabulary_.eos; }
  const std::vector<Token>& ends() const { return ends_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  // Adds a token's piece. The constructor of a derived class calls it for each token, in the order
  // of the ids.
  void add_piece(std::string_view bytes);
  // Is called where some bytes are left out: the vocabulary has no token at all for them, or white
  // space behind a special token is part of it.
  void leave_bytes_out() { leaves_bytes_out_ = true; }

  // Appends the tokens of text that holds no special token. `first` says that it stands at the
  // beginning or, unless the space is for the beginning alone, behind a special token.
  virtual void encode_text(std::string_view text, bool first, std::vector<Token>* out) const = 0;

 private:
  static bool is_in(const std::vector<bool>& some, Token token) {
    return !some.empty() && some[static_cast<size_t>(token)];
  }
  // Says whether a text behind a special token is told to be the first.
  bool begins_behind_special() const { return vocabulary_.space_rule != SpaceRule::kFirstOfAll; }

  Vocabulary vocabulary_;
  std::vector<Token> ends_;  // sorted
  std::unique_ptr<SpecialMatcher> user_defined_;
  std::unique_ptr<SpecialMatcher> all_special_;
  // One token stands for at most so many bytes of a text. A token for what is unknown stands for a
  // character, which has up to four.
  size_t longest_ = 4;
  bool leaves_bytes_out_ = false;
  std::string pieces_;                // holds all pieces, one after another
  std::vector<size_t> piece_begins_;  // has one more entry than there are tokens
};

struct TokenizerOptions {
  std::string pre;  // replaces the name of the pre-tokenizer in the file
};

// Throws Error, e.g. for a pre-tokenizer that this program does not know.
std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary,
                                          const TokenizerOptions& options = {});
std::unique_ptr<Tokenizer> make_tokenizer(const gguf::File& file,
                                          const TokenizerOptions& options = {});

}  // namespace troika::text
