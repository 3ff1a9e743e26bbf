#include "cli/help.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>

#include "cli/commands.h"

namespace troika::cli {
namespace {

constexpr size_t kColumn = 24;  // descriptions begin in this column
constexpr size_t kWidth = 96;   // lines have at most this many characters

// Breaks a text into lines that begin behind `column` spaces. The first line has its spaces
// already.
std::string wrapped(const std::string& text, size_t column) {
  std::string lines;
  size_t at = column;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (at > column && at + 1 + word.size() > kWidth) {
      lines += "\n" + std::string(column, ' ');
      at = column;
    }
    if (at > column) lines += ' ', ++at;
    lines += word;
    at += word.size();
  }
  return lines + "\n";
}

std::string entry(const std::string& name, const std::string& text) {
  std::string line = "  " + name;
  if (line.size() + 2 > kColumn) line += "\n" + std::string(kColumn, ' ');
  if (line.size() < kColumn) line.resize(kColumn, ' ');
  return line + wrapped(text, kColumn);
}

// Breaks long sentences, and leaves examples as they are written.
std::string wrapped_lines(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    all += line.size() > kWidth && line.front() != ' ' ? wrapped(line, 0) : line + "\n";
  }
  return all;
}

// Returns where a group stands. A group that is not named here stands behind all others.
size_t place_of(std::string_view group) {
  static constexpr std::array<std::string_view, 10> kOrder = {
      "Options",    kSamplingGroup, kAnswerGroup, kDraftGroup, kMachineGroup,
      kPromptGroup, kNeuronGroup,   kLaneGroup,   kTraceGroup, kPhoneGroup};
  return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), group) - kOrder.begin());
}

// Returns what stands behind an option's name: "N" for what CLI11 calls INT.
std::string kind_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  static const std::map<std::string, std::string> kKinds = {
      {"INT", "N"}, {"UINT", "N"}, {"FLOAT", "X"}, {"TEXT", "TEXT"}};
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');  // behind the colon stand the words that are allowed
  const std::string name = type.substr(0, colon);
  const auto kind = kKinds.find(name);
  if (kind == kKinds.end()) return name;
  if (colon != std::string::npos && type[colon + 1] == '{') return type.substr(colon + 1);
  return kind->second;
}

}  // namespace

std::string Help::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional, !is_positional);
  // Flags that turn something off are written "--no-cache{false}" by CLI11.
  if (const size_t brace = name.find('{'); brace != std::string::npos) name.resize(brace);
  std::string text = option->get_description();
  if (!is_positional) {
    const std::string kind = kind_of(*option);
    if (!kind.empty()) name += " " + kind;
    if (!option->get_default_str().empty() && text.find("(default") == std::string::npos) {
      text += " (default: " + option->get_default_str() + ")";
    }
  }
  if (option->get_required()) text += " (required)";
  return entry(name, text);
}

std::string Help::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string Help::make_examples() const {
  if (examples_.empty()) return "";
  std::string text = examples_.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : examples_) text += "  " + example + "\n";
  return text;
}

std::string Help::make_help(const CLI::App* app, std::string /*name*/,
                            CLI::AppFormatMode mode) const {
  std::string usage = "troika";
  if (app->get_parent() != nullptr) usage += " " + app->get_name();
  std::string text = wrapped_lines(app->get_description()) + "\n" + make_usage(app, usage);
  text += make_examples() + make_positionals(app) + make_subcommands(app, mode);
  std::vector<std::string> groups = app->get_groups();
  std::stable_sort(groups.begin(), groups.end(), [](const std::string& a, const std::string& b) {
    return place_of(a) < place_of(b);
  });
  for (const std::string& group : groups) {
    const std::vector<const CLI::Option*> options = app->get_options(
        [&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); });
    if (group.empty() || options.empty()) continue;
    // A sentence stands in the place of the options that it tells about.
    text += group.ends_with('.') ? "\n" + wrapped(group, 0) : make_group(group, false, options);
  }
  const std::string footer = app->get_footer();
  return footer.empty() ? text : text + "\n" + wrapped_lines(footer);
}

}  // namespace troika::cli
