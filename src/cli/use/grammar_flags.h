// Holds --json-schema, --grammar and --regex, which say what an answer is held to.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/options.h"
#include "engine/answer.h"
#include "engine/constrain/constraint.h"
#include "engine/engine.h"

namespace troika::cli {

class GrammarFlags {
 public:
  void add_to(Command& command);
  bool is_given() const { return given() != nullptr; }
  // Returns the option's name: "--json-schema". REQUIRES: is_given().
  const char* name() const;
  // Returns the name of the file; empty where none is given.
  std::string file() const;
  // Reads the file, so that a missing one is told before a model is loaded. Throws Error.
  void read();
  // Compiles what `read` has read, for this model's vocabulary; returns null where nothing is
  // given. Throws Error.
  std::shared_ptr<grammar::Grammar> compile(const engine::Engine& engine);

  // Tells what compiling and the masks of these constraints took so far.
  nlohmann::ordered_json json(const engine::Constraint::Statistics& statistics) const;
  std::string text(const engine::Constraint::Statistics& statistics) const;
  // Notes that an answer may not fit yet, where it has not ended by itself.
  void note_cut(engine::Stop stop) const;

 private:
  struct Given {
    const char* name;
    grammar::Format format;
    bool is_file;
    std::string value{};
    Option* option = nullptr;
  };
  const Given* given() const;

  Given all_[3] = {
      {.name = "--json-schema", .format = grammar::Format::kJsonSchema, .is_file = true},
      {.name = "--grammar", .format = grammar::Format::kGbnf, .is_file = true},
      {.name = "--regex", .format = grammar::Format::kRegex, .is_file = false}};
  std::string source_;  // the text that `read` has read
  double compile_ms_ = 0.0;
};

}  // namespace troika::cli
