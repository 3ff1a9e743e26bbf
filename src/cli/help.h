// Decides how --help looks. Beside help.cc only options.cc includes this, because it reads CLI11's
// large header.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace troika::cli {

// Writes what a command is for, how it is called, examples, and its options in groups, those that
// most people need first. Texts are wrapped beside the names.
class Help : public CLI::Formatter {
 public:
  explicit Help(std::vector<std::string> examples = {}) : examples_(std::move(examples)) {
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
  }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string make_examples() const;

  std::vector<std::string> examples_;  // are whole command lines
};

}  // namespace troika::cli
