#include "fetch/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace troika::fetch {
namespace {

bool is_letter_or_digit(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::string percent_encoded(std::string_view path) {
  std::string out;
  for (const unsigned char c : path) {
    if (is_letter_or_digit(c) ||
        std::string_view("-._~/").find(static_cast<char>(c)) != path.npos) {
      out.push_back(static_cast<char>(c));
    } else {
      out += fmt::format("%{:02X}", c);
    }
  }
  return out;
}

std::string origin_of(std::string_view url) {
  const size_t colon = url.find("://");
  if (colon == std::string_view::npos) return {};
  const std::string scheme = lower(url.substr(0, colon));
  if (scheme != "http" && scheme != "https") return {};
  // Browsers end the host at a backslash, and libcurl at a later '@'; no hub sends a backslash.
  if (url.find('\\') != std::string_view::npos) return {};
  std::string_view host = url.substr(colon + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  for (const unsigned char c : host) {
    // A host may have letters, a port, or an address of IPv6: nothing that two readers could take
    // for two hosts.
    if (!is_letter_or_digit(c) &&
        std::string_view("-._:[]").find(static_cast<char>(c)) == std::string_view::npos) {
      return {};
    }
  }
  if (host.empty()) return {};
  return scheme + "://" + lower(host);
}

std::string resolved(std::string_view link, std::string_view url) {
  if (!origin_of(link).empty()) return std::string(link);
  if (!link.starts_with('/') || link.starts_with("//")) return {};
  return origin_of(url) + std::string(link);
}

std::string next_page(std::string_view link) {
  while (true) {
    const size_t begin = link.find('<');
    const size_t end = link.find('>', begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) return {};
    const std::string_view address = link.substr(begin + 1, end - begin - 1);
    link.remove_prefix(end + 1);
    const std::string parameters = lower(link.substr(0, link.find('<')));
    for (const char* wanted : {"rel=\"next\"", "rel=next"}) {
      if (parameters.find(wanted) != std::string::npos) return std::string(address);
    }
  }
}

std::string version_of(const HttpHead& head) {
  const auto is_printable = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  };
  constexpr size_t kMostBytes = 1024;  // what is longer would make a request that servers refuse
  const std::string tag = head.field("etag");
  if (!tag.empty()) {
    const bool is_strong =
        tag.size() > 2 && tag.front() == '"' && tag.find('"', 1) + 1 == tag.size();
    return is_strong && tag.size() <= kMostBytes && is_printable(tag) ? tag : std::string();
  }
  const std::string changed = head.field("last-modified"), answered = head.field("date");
  // Dates count whole seconds, and no file may be younger than its answer.
  const bool is_strong = !answered.empty() && answered != changed;
  return is_strong && changed.size() <= kMostBytes && is_printable(changed) ? changed
                                                                            : std::string();
}

bool is_of_version(const HttpHead& head, const std::string& version) {
  if (version.empty()) return false;
  if (version.front() == '"') return head.field("etag") == version;
  const std::string changed = head.field("last-modified");
  return changed.empty() || changed == version;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto begin = parse_number(text.substr(0, dash));
  const auto last = parse_number(text.substr(dash + 1, slash - dash - 1));
  if (!begin || !last || *last < *begin) return std::nullopt;
  const std::string_view total = text.substr(slash + 1);
  if (total == "*") return ContentRange{*begin, std::nullopt};
  const auto whole = parse_number(total);
  if (!whole || *last >= *whole) return std::nullopt;
  return ContentRange{*begin, whole};
}

}  // namespace troika::fetch
