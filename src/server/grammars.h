// Compiled grammars that requests asked for lately: clients send the same schema with each.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "grammar/grammar.h"

namespace troika::server {

// Used by one thread.
class Grammars {
 public:
  explicit Grammars(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Throws Error for what is no grammar.
  std::shared_ptr<grammar::Grammar> compile(const std::string& text, grammar::Format format);
  // Finds the grammar that `make` makes of the tokens; equal keys mean equal grammars.
  using Make =
      std::function<std::shared_ptr<grammar::Grammar>(std::shared_ptr<const grammar::TokenTrie>)>;
  // The tokens have the names of control tokens where `has_control`.
  std::shared_ptr<grammar::Grammar> find(const std::string& key, bool has_control,
                                         const Make& make);

 private:
  const text::Tokenizer& tokenizer_;
  std::shared_ptr<const grammar::TokenTrie>
      tokens_[2];  // without and with control tokens, once somebody needs them
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::Grammar> grammar;
  };
  std::list<Kept> kept_;  // the last one that was asked for first
};

}  // namespace troika::server
