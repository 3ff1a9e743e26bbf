#include "cli/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/option_names.h"
#include "gguf/split.h"
#include "text/utf8.h"

namespace troika::cli {

std::string with_flags(const std::string& text) {
  return with_option_names(text,
                           [](std::string_view option) { return fmt::format("--{}", option); });
}

std::string message_of(const std::exception& error) {
  return terminal_text(with_flags(error.what()));  // files are strangers', and errors quote them
}

std::string read_text(const std::string& path) {
  const bool is_input = path == "-";
  if (is_input && std::feof(stdin) != 0) {
    throw UsageError(
        "- is given twice, and standard input can be read once. Give a file for one of the texts.");
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(
      is_input ? nullptr : std::fopen(path.c_str(), "rb"), &std::fclose);
  std::FILE* const file = is_input ? stdin : opened.get();
  std::string text;
  if (file != nullptr) {
    char buffer[65536];
    size_t n_read = 0;
    while ((n_read = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
      text.append(buffer, n_read);
      if (text.size() > kMostTextBytes) throw too_long(is_input ? "Standard input" : path);
    }
  }
  if (file == nullptr || std::ferror(file) != 0) {
    const int code = errno;
    const char* const advice = code == ENOENT   ? " Check the path."
                               : code == EISDIR ? " Give a file in it."
                               : code == EACCES ? " Let this user read it, or give another file."
                                                : "";
    throw Error(fmt::format("{}: cannot be read: {}.{}", is_input ? "Standard input" : path,
                            std::strerror(code), advice));
  }
  return text;
}

void check_output_file(const std::string& output, const std::vector<std::string>& read) {
  if (output.empty()) return;
  for (const std::string& path : read) {
    if (path.empty() || path == "-") continue;
    refuse_to_replace(path, output);
    // Whoever names one file of a split model reads them all.
    const std::optional<gguf::ShardName> shard = gguf::parse_shard_name(path);
    for (uint32_t n = 1; shard && n <= shard->count; ++n) {
      refuse_to_replace(shard->path_of(n), output);
    }
  }
  const AtomicFile probe(output);
}

namespace {

bool are_tables_aside = false;  // standard output is the whole program's, and so is this

}  // namespace

TablesAside::TablesAside(bool is_on) : before_(are_tables_aside) { are_tables_aside |= is_on; }

TablesAside::~TablesAside() { are_tables_aside = before_; }

void print(const std::string& text) {
  if (are_tables_aside) return note(text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  if (errno == EPIPE) throw ClosedPipe("Standard output is a pipe that nobody reads any more.");
  throw Error(fmt::format("Standard output cannot be written: {}.", std::strerror(errno)));
}

std::string terminal_text(std::string_view text) {
  const std::string valid = text::replace_invalid_utf8(text);
  std::string out;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    // Some terminals also obey the control characters U+0080 to U+009F, which have two bytes.
    const bool is_long = byte == 0xc2 && static_cast<unsigned char>(valid[i + 1]) < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !is_long) {
      out += valid[i];
    } else {
      out += fmt::format("\\u{:04x}", is_long ? static_cast<unsigned char>(valid[++i]) : byte);
    }
  }
  return out;
}

void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

nlohmann::ordered_json known_or_null(double value) {
  return value > 0.0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

void note(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace troika::cli
