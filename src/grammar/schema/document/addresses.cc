#include "grammar/schema/document/addresses.h"

#include <algorithm>
#include <vector>

namespace troika::grammar::schema {
namespace {

// The parts of an address with the marks that they begin or end with, so that they can be put
// together again.
struct Parts {
  std::string_view scheme, authority, path, query, fragment;
};

Parts parts_of(std::string_view text) {
  Parts parts;
  const auto cut = [&](size_t at) {
    const std::string_view head = text.substr(0, at);
    text.remove_prefix(head.size());
    return head;
  };
  const size_t colon = text.find_first_of(":/?#");
  if (colon != text.npos && colon > 0 && text[colon] == ':') parts.scheme = cut(colon + 1);
  if (text.starts_with("//"))
    parts.authority = cut(std::min(text.find_first_of("/?#", 2), text.size()));
  parts.path = cut(std::min(text.find_first_of("?#"), text.size()));
  parts.query = cut(std::min(text.find('#'), text.size()));
  parts.fragment = text;
  return parts;
}

// Takes "." and ".." out of a path.
std::string without_dots(std::string_view path) {
  if (!path.starts_with("/")) return std::string(path);
  std::vector<std::string_view> kept;
  bool ends_in_folder = false;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    ends_in_folder = part == "." || part == "..";
    if (part == ".." && !kept.empty()) kept.pop_back();
    if (!ends_in_folder) kept.push_back(part);
    at = end + 1;
  }
  std::string out;
  for (const std::string_view part : kept) out.append("/").append(part);
  return ends_in_folder || out.empty() ? out + "/" : out;
}

}  // namespace

std::string resolved_address(std::string_view base, std::string_view reference) {
  const Parts of_base = parts_of(base);
  Parts parts = parts_of(reference);
  std::string path(parts.path);
  if (parts.scheme.empty()) {
    parts.scheme = of_base.scheme;
    if (parts.authority.empty()) {
      parts.authority = of_base.authority;
      if (path.empty()) {
        path = of_base.path;
        if (parts.query.empty()) parts.query = of_base.query;
      } else if (!path.starts_with("/")) {
        const size_t folder = of_base.path.rfind('/');
        const bool is_root = folder == of_base.path.npos && !of_base.authority.empty();
        path = (is_root ? "/" : std::string(of_base.path.substr(0, folder + 1))) + path;
      }
    }
  }
  std::string out;
  out.append(parts.scheme).append(parts.authority).append(without_dots(path));
  return out.append(parts.query).append(parts.fragment);
}

std::string unescaped_address(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const char c = at < text.size() ? text[at] : ' ';
      return kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c | 0x20 : c));
    };
    if (text[i] == '%' && digit(i + 1) < 16 && digit(i + 2) < 16) {
      out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace troika::grammar::schema
