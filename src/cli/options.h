// Wraps commands and their options. The library CLI11 reads them, and only options.cc and help.cc
// include it: its header and what it instantiates take a compiler longer than all the rest of a
// command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace troika::cli {

// Says what the text given for an option must be.
class Check {
 public:
  explicit Check(std::shared_ptr<const CLI::Validator> validator)
      : validator_(std::move(validator)) {}
  const CLI::Validator& validator() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};

// These accept whole numbers from `lowest` on, or up to `highest`.
Check at_least(int lowest);
Check within(int lowest, int highest);
// Accepts numbers from 0 on; --help says so.
Check non_negative();
// Accepts any text but an empty one, which would be as if the option were not given.
Check not_empty();
// Accepts one of these words; --help lists them.
Check one_of(std::vector<std::string> words);

// An option, which belongs to its command.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option* required();
  // Makes --help show the value that the variable has now.
  Option* capture_default_str();
  // Makes --help show this instead of a value.
  Option* shows_default(const std::string& text);
  // Lets several values stand in one text, separated by `separator`.
  Option* delimiter(char separator);
  Option* check(const Check& check);
  // Makes --help show FILE in place of TEXT.
  Option* names_file();
  // Lets the text end in a unit of bytes: 2G, 512MiB; K is 1024 if it stands alone.
  Option* with_byte_units();
  // Accepts a whole number, perhaps with such a unit, that is not 0; "auto" becomes 0.
  Option* with_byte_units_or_auto();
  Option* excludes(Option* other);

  // Returns how often the option was given.
  size_t count() const;
  std::string get_name() const;

 private:
  CLI::Option* option_;
};

// The program, or one of its commands. Variables given to add_... must live as long as it does.
class Command {
 public:
  explicit Command(const std::string& description);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Adds a command. --help lists commands of one group together, in the order in which they are
  // added.
  Command* add_subcommand(const std::string& name, const std::string& description,
                          const std::string& group = "Commands");
  // Begins a group: options that are added from now on stand together in --help, behind the
  // command's own; help.cc holds the order of groups. A name that ends in a full stop is a
  // sentence, which --help shows in place of these options.
  void begin_group(const std::string& name);
  void end_group();
  // Says that the command is for this machine alone: texts of --help then name no phones.
  void leave_phones_out() { is_here_ = true; }
  // Returns the part of a text of --help that is about phones; empty: the command takes none.
  std::string on_phones(const std::string& text) const { return is_here_ ? "" : text; }
  // Sets the command lines that --help shows below the usage.
  void examples(const std::vector<std::string>& lines);
  // Sets the text at the end of --help.
  void footer(const std::string& text);
  // Sets what the command does once its options are read.
  void callback(std::function<void()> function);
  // Adds what is done before the callback, in the order of these calls.
  void before(std::function<void()> function);
  // Adds an option, as "-n,--tokens". Whole numbers are decimal, and have no sign where the
  // variable has none. A name without dashes is an argument that is known by its place. options.cc
  // instantiates this for the types that are used: another type needs a line there. An option of
  // several values is given once for each; arguments without dashes follow one another.
  template <typename T>
  Option* add_option(const std::string& names, T& value, const std::string& help);
  // Adds an option whose text `take` reads. What `take` throws ends the program as any error does.
  Option* add_text(const std::string& names, const std::function<void(const std::string&)>& take,
                   const std::string& help);
  // Adds a flag. "!--no-cache" sets `value` to false.
  Option* add_flag(const std::string& names, bool& value, const std::string& help);

  // Reads the program's arguments and runs the callback of the command that they name. Passes on
  // the callback's errors. Returns the text of --help if that was asked for instead, else "".
  // Throws UsageError.
  std::string parse(int argc, const char* const* argv);
  bool has_chosen_subcommand() const;
  // Says whether the command that was named has an option of this name, given or not.
  bool chosen_has(const std::string& name) const;
  // Says whether an option of this name ("--order") was given.
  bool is_given(const std::string& name) const;
  std::string help() const;

 private:
  explicit Command(CLI::App& app);
  Option* keep(CLI::Option& option);

  std::unique_ptr<CLI::App> program_;  // null in a command, which belongs to its program
  CLI::App* app_;
  bool is_here_ = false;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::function<void()>> before_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

// Reads "2G", with the units that options of bytes have; returns nothing for other texts.
std::optional<uint64_t> bytes_from_text(std::string text);

}  // namespace troika::cli
