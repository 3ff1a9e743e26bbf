// Compiled grammars that requests asked for lately: clients send the same schema with each.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "grammar/grammar.h"

namespace troika::server {

// May be used by several threads.
class Grammars {
 public:
  // Makes a grammar of the tokens within the limits. Another thread may call it later, so it holds
  // whatever it needs.
  using Make = std::function<std::shared_ptr<grammar::Grammar>(
      std::shared_ptr<const grammar::TokenTrie>, const grammar::Limits&)>;
  // What must be made known before the request can be read again.
  struct TakesLonger {
    std::string key;
    bool has_control;
    Make make;
  };

  explicit Grammars(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Throws Error for what is no grammar, and TakesLonger.
  std::shared_ptr<grammar::Grammar> compile(const std::string& text, grammar::Format format);
  // Finds the grammar that `make` makes; equal keys mean equal grammars. The tokens have the names
  // of control tokens where `has_control`. Throws TakesLonger instead of much work.
  std::shared_ptr<grammar::Grammar> find(const std::string& key, bool has_control,
                                         const Make& make);
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::Grammar> grammar;  // null: it is none
    std::string why;
  };
  using KeptPtr = std::shared_ptr<const Kept>;
  // Does the work: find() has the grammar, or the error that it is, as long as somebody holds what
  // this returns, however many others are asked for meanwhile.
  KeptPtr make(const TakesLonger& wanted);

 private:
  std::shared_ptr<const grammar::TokenTrie> tokens(bool has_control);
  KeptPtr kept(const std::string& key);
  KeptPtr keep(Kept kept);

  const text::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::TokenTrie>
      tokens_[2];            // without and with control tokens, once somebody needs them
  std::list<KeptPtr> kept_;  // the last one that was asked for first
};

}  // namespace troika::server
