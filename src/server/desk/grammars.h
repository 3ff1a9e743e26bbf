// Keeps the compiled grammars that requests asked for lately, as clients send the same schema with
// every request.
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
  // Such a function makes a grammar for the tokens within the limits. Another thread may call it
  // later, so it holds whatever it needs.
  using Make = std::function<std::shared_ptr<grammar::Grammar>(
      std::shared_ptr<const grammar::TokenTrie>, const grammar::Limits&)>;
  // Is thrown for a grammar that takes long. Once make() has made it, the request can be read
  // again.
  struct TakesLonger {
    std::string key;
    bool has_control;
    Make make;
  };

  // What is kept beside the grammars in use takes about `most_bytes` at most.
  explicit Grammars(const text::Tokenizer& tokenizer, size_t most_bytes = size_t{256} << 20)
      : tokenizer_(tokenizer), most_bytes_(most_bytes) {}

  // Returns the grammar of a text. Throws Error for a text that is no grammar, and TakesLonger
  // instead of much work.
  std::shared_ptr<grammar::Grammar> compile(const std::string& text, grammar::Format format);
  // Returns the grammar that `make` makes; equal keys mean equal grammars. `has_control` says that
  // the text may have the names of control tokens. Throws TakesLonger instead of much work.
  std::shared_ptr<grammar::Grammar> find(const std::string& key, bool has_control,
                                         const Make& make);
  struct Kept {
    std::string key;
    std::shared_ptr<grammar::Grammar> grammar;  // null where the text is no grammar
    std::string why;
  };
  using KeptPtr = std::shared_ptr<const Kept>;
  // Makes a grammar that takes long. As long as somebody holds the result, find() knows the
  // grammar, or the error in it, however many other grammars are asked for meanwhile, unless
  // answers wear it (Grammar::is_worn).
  KeptPtr make(const TakesLonger& wanted);

 private:
  std::shared_ptr<const grammar::TokenTrie> tokens(bool has_control);
  KeptPtr kept(const std::string& key);
  KeptPtr keep(Kept kept);
  void forget_beyond_limits();

  const text::Tokenizer& tokenizer_;
  const size_t most_bytes_;
  std::mutex mutex_;
  std::shared_ptr<const grammar::TokenTrie>
      tokens_[2];            // without and with control tokens, once somebody needs them
  std::list<KeptPtr> kept_;  // the grammar asked for last comes first
};

}  // namespace troika::server
