#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "cli/help.h"

namespace troika::cli {
namespace {

Check check_of(CLI::Validator validator) {
  return Check(std::make_shared<const CLI::Validator>(std::move(validator)));
}

// Says whether the text is a number as people write it. CLI11 reads 010 as eight, and where a
// number has no sign it takes -1 for the largest one.
bool is_whole_number(std::string_view text, bool may_be_negative) {
  if (may_be_negative && text.starts_with('-')) text.remove_prefix(1);
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename T>
constexpr bool kIsSigned = std::is_same_v<T, int> || std::is_same_v<T, std::optional<int>> ||
                           std::is_same_v<T, std::vector<int>>;

// Says whether digits are a number that fits, which CLI11 does not look at.
bool fits_64_bits(std::string_view digits) {
  uint64_t value = 0;
  return std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc();
}

Check whole_number(bool may_be_negative) {
  return check_of(CLI::Validator(
      [may_be_negative](const std::string& text) {
        if (!may_be_negative && is_whole_number(text, false) && !fits_64_bits(text)) {
          return fmt::format("'{}' is too large a number: at most {}", text, UINT64_MAX);
        }
        if (is_whole_number(text, may_be_negative)) return std::string();
        return fmt::format("'{}' is no whole number{}, written without zeros before it", text,
                           may_be_negative ? "" : " from 0 on");
      },
      ""));
}

// Puts the number of bytes in the place of "2G". Returns what is wrong with another text. Files
// keep numbers of bytes as signed ones, so none is larger than those.
std::string read_bytes(std::string& text) {
  const std::string problem = fmt::format("'{}' is no number of bytes, such as 1900M or 2G", text);
  const size_t unit = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view number = std::string_view(text).substr(0, unit);
  if (!is_whole_number(number, false) || !fits_64_bits(number)) return problem;
  try {
    if (!CLI::AsSizeValue(false)(text).empty()) return problem;
    return std::stoull(text) <= uint64_t{INT64_MAX} ? "" : problem;
  } catch (const CLI::Error&) {  // means a unit that is not known, or too large a number
    return problem;
  }
}

// Returns what is wrong where these texts stand before any command. A word behind an option may be
// its value, so a command is only what stands first.
std::string sentence_without_command(const std::vector<std::string>& texts) {
  const std::string& first = texts.front();
  if (!first.starts_with('-')) {
    return fmt::format("There is no command '{}'. 'troika --help' lists those there are.", first);
  }
  return fmt::format(
      "{} is no option of troika itself. Name a command first, as in 'troika run MODEL -p TEXT'; "
      "'troika --help' lists them.",
      first);
}

// Returns what is wrong, in words that say what to do where CLI11's own do not.
std::string sentence_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (const size_t end = text.find(": At Most 1 required"); end != std::string::npos) {
    return fmt::format("{} is given more than once. Give it once", text.substr(0, end));
  }
  constexpr std::string_view kNoNumber = "Could not convert: ";
  const size_t equals = text.find(" = ");
  if (!text.starts_with(kNoNumber) || equals == std::string::npos) return text;
  const std::string name = text.substr(kNoNumber.size(), equals - kNoNumber.size());
  const std::string value = text.substr(equals + 3);
  if (is_whole_number(value, true)) {
    const bool is_negative = value.starts_with('-');
    return fmt::format("{}: '{}' is too {} a number. Give a {} one", name, value,
                       is_negative ? "small" : "large", is_negative ? "larger" : "smaller");
  }
  return fmt::format(
      "{} takes a number, and '{}' is none, or too large. Write digits alone, as in 0.5 or 12",
      name, value);
}

}  // namespace

Check at_least(int lowest) { return within(lowest, INT_MAX); }

Check within(int lowest, int highest) {
  return check_of(CLI::Validator(
      [lowest, highest](const std::string& text) {
        int value = 0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        if (is_whole_number(text, true) && read.ec == std::errc() && value >= lowest &&
            value <= highest) {
          return std::string();
        }
        return fmt::format("'{}' is no whole number from {} to {}", text, lowest, highest);
      },
      ""));
}

Check non_negative() {
  return check_of(CLI::Validator(
      [](const std::string& text) {
        double value = 0.0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool is_number = read.ec == std::errc() && read.ptr == end && std::isfinite(value);
        if (is_number && value >= 0.0) return std::string();
        return fmt::format("'{}' is no number of 0 or more", text);
      },
      ""));
}

Check not_empty() {
  return check_of(CLI::Validator(
      [](const std::string& text) {
        return std::string(text.empty() ? "the text is empty. Give one, or leave the option out"
                                        : "");
      },
      ""));
}

Check one_of(std::vector<std::string> words) {
  return check_of(CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return fmt::format("'{}' is none of {}", text, fmt::join(words, ", "));
      },
      ""));
}

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::shows_default(const std::string& text) {
  option_->default_str(text);
  return this;
}

Option* Option::delimiter(char separator) {
  option_->delimiter(separator);
  return this;
}

Option* Option::check(const Check& check) {
  option_->check(check.validator());
  return this;
}

Option* Option::names_file() {
  option_->type_name("FILE");
  return this;
}

std::optional<uint64_t> bytes_from_text(std::string text) {
  if (!read_bytes(text).empty()) return std::nullopt;
  return std::stoull(text);
}

Option* Option::with_byte_units() {
  option_->type_name("BYTES")->transform(CLI::Validator(read_bytes, ""));
  return this;
}

Option* Option::with_byte_units_or_auto() {
  option_->type_name("BYTES")->transform(CLI::Validator(
      [](std::string& text) -> std::string {
        if (text == "auto") {
          text = "0";
          return {};
        }
        const std::string problem = read_bytes(text);
        if (!problem.empty()) return problem;
        return text == "0" ? "0 bytes hold no model; give more, or auto" : std::string();
      },
      ""));
  return this;
}

Option* Option::excludes(Option* other) {
  option_->excludes(other->option_);
  return this;
}

size_t Option::count() const { return option_->count(); }

std::string Option::get_name() const { return option_->get_name(); }

Command::Command(const std::string& description)
    : program_(std::make_unique<CLI::App>(description)), app_(program_.get()) {
  app_->require_subcommand(0, 1);
  app_->formatter(std::make_shared<Help>());  // commands inherit it
}

Command::Command(CLI::App& app) : app_(&app) {}

Command::~Command() = default;

Command* Command::add_subcommand(const std::string& name, const std::string& description,
                                 const std::string& group) {
  CLI::App* app = app_->add_subcommand(name, description);
  app->group(group);
  subcommands_.push_back(std::unique_ptr<Command>(new Command(*app)));
  return subcommands_.back().get();
}

void Command::begin_group(const std::string& name) { app_->option_defaults()->group(name); }

void Command::end_group() { begin_group("Options"); }

void Command::examples(const std::vector<std::string>& lines) {
  app_->formatter(std::make_shared<Help>(lines));
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::callback(std::function<void()> function) {
  app_->callback([this, function = std::move(function)] {
    for (const std::function<void()>& step : before_) step();
    function();
  });
}

void Command::before(std::function<void()> function) { before_.push_back(std::move(function)); }

Option* Command::keep(CLI::Option& option) {
  options_.push_back(std::make_unique<Option>(option));
  return options_.back().get();
}

template <typename T>
Option* Command::add_option(const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    // Texts are taken as they are: CLI11 reads "{}" as a list without elements.
    option = app_->add_option(
        names,
        [this, names, &value](const CLI::results_t&) {
          value = app_->get_option(names.substr(0, names.find(',')))->results();
          return true;
        },
        help);
    option->type_name("TEXT")->expected(CLI::detail::expected_max_vector_size);
  } else {
    option = app_->add_option(names, value, help);
  }
  // A list has one text for each time that its option is given. Otherwise CLI11 takes all words
  // that follow, MODEL among them, and reads "[a,b]" as two texts.
  if (option->nonpositional()) option->allow_extra_args(false);
  if constexpr (kIsSigned<T>) option->check(whole_number(true).validator());
  if constexpr (std::is_same_v<T, uint64_t>) option->check(whole_number(false).validator());
  return keep(*option);
}

#define TROIKA_OPTION_OF(...)                                                                     \
  template Option* Command::add_option<__VA_ARGS__>(const std::string& names, __VA_ARGS__& value, \
                                                    const std::string& help)
TROIKA_OPTION_OF(int);
TROIKA_OPTION_OF(uint64_t);
TROIKA_OPTION_OF(float);
TROIKA_OPTION_OF(double);
TROIKA_OPTION_OF(std::optional<bool>);
TROIKA_OPTION_OF(std::optional<int>);
TROIKA_OPTION_OF(std::optional<uint64_t>);
TROIKA_OPTION_OF(std::optional<double>);
TROIKA_OPTION_OF(std::string);
TROIKA_OPTION_OF(std::vector<int>);
TROIKA_OPTION_OF(std::vector<std::string>);
#undef TROIKA_OPTION_OF

Option* Command::add_text(const std::string& names,
                          const std::function<void(const std::string&)>& take,
                          const std::string& help) {
  return keep(*app_->add_option_function<std::string>(names, take, help));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return keep(*app_->add_flag(names, value, help));
}

std::string Command::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
    return "";
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help
      std::ostringstream text;
      app_->exit(error, text, text);
      return text.str();
    }
    const std::vector<CLI::App*> chosen = app_->get_subcommands();
    // An option before the command is nobody's, and CLI11 goes on to read the command.
    if (const std::vector<std::string> texts = app_->remaining();
        !texts.empty() && (chosen.empty() || texts.front().starts_with('-'))) {
      throw UsageError(sentence_without_command(texts));
    }
    // CLI11 lists in its own sentence the last one first.
    const std::vector<std::string> extras =
        chosen.empty() ? std::vector<std::string>() : chosen.front()->remaining();
    const bool is_of_extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::string sentence =
        !is_of_extras ? sentence_of(error)
                      : fmt::format("The following argument{} not expected: {}",
                                    extras.size() == 1 ? " was" : "s were", fmt::join(extras, " "));
    throw UsageError(fmt::format("{}. 'troika{} --help' shows how to use it.", sentence,
                                 chosen.empty() ? "" : " " + chosen.front()->get_name()));
  }
}

bool Command::has_chosen_subcommand() const { return !app_->get_subcommands().empty(); }

bool Command::chosen_has(const std::string& name) const {
  const std::vector<CLI::App*> chosen = app_->get_subcommands();
  return !chosen.empty() && chosen.front()->get_option_no_throw(name) != nullptr;
}

bool Command::is_given(const std::string& name) const {
  const CLI::Option* option = app_->get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

std::string Command::help() const { return app_->help(); }

}  // namespace troika::cli
