#include "fetch/name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::fetch {
namespace {

constexpr std::string_view kPrefix = "hf:";
constexpr size_t kLongestPart = 96;  // the hub's own names are no longer than this
// Linux allows names of files up to 255 bytes. A download adds ".HASH.part", or at most
// ".1125899906842624-bytes.part".
constexpr size_t kLongestName = 255 - 28;
constexpr size_t kLongestPath = 1024;

bool is_plain(std::string_view part) {
  return !part.empty() && part.size() <= kLongestPart && part[0] != '.' &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

std::string ModelName::text() const {
  return fmt::format("{}{}/{}{}{}", kPrefix, org, repo, quant.empty() ? "" : ":", quant);
}

bool is_model_name(std::string_view text) { return text.starts_with(kPrefix); }

ModelName parse_model_name(std::string_view text) {
  std::string_view rest = text;
  ModelName name;
  if (is_model_name(rest)) {
    rest.remove_prefix(kPrefix.size());
    const size_t colon = rest.find(':');
    const bool has_quant = colon != std::string_view::npos;
    if (has_quant) name.quant = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    const size_t slash = rest.find('/');
    name.org = rest.substr(0, slash);
    if (slash != std::string_view::npos) name.repo = rest.substr(slash + 1);
    if (is_plain(name.org) && is_plain(name.repo) && (!has_quant || is_safe_path(name.quant))) {
      return name;
    }
  }
  throw UsageError(
      fmt::format("{} is no name of a model. Write hf:ORG/REPO or hf:ORG/REPO:QUANT, for example "
                  "hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0.",
                  troika::quoted(text)));
}

bool leads_out(std::string_view path) {
  if (path.starts_with('/')) return true;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath) return false;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto c = static_cast<unsigned char>(path[i]);
    if (c < 0x20 || c == 0x7f || c == '\\') return false;
    // Some terminals also obey the control characters U+0080 to U+009F.
    if (c == 0xc2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xa0) {
      return false;
    }
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part[0] == '.' || part.size() > kLongestName) return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace troika::fetch
