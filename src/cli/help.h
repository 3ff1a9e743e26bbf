// Decides how --help looks. Beside help.cc only options.cc includes this, because it reads CLI11's
// large header.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace troika::cli {

// Writes first what a command is most wanted for: its own options, then groups of others in the
// order in which they were begun. Texts are wrapped beside the names.
class Help : public CLI::Formatter {
 public:
  Help() { label("SUBCOMMAND", "COMMAND"); }
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace troika::cli
