#include "grammar/schema/document/addresses.h"

#include <algorithm>
#include <vector>

namespace troika::grammar::schema {
namespace {

// The parts of an address with the marks that they begin or end with, so that they can be put
// together again.
struct Address {
  std::string_view scheme, authority, path, query, fragment;
};

Address split_address(std::string_view text) {
  Address address;
  const auto cut = [&](size_t at) {
    const std::string_view head = text.substr(0, at);
    text.remove_prefix(head.size());
    return head;
  };
  const size_t colon = text.find_first_of(":/?#");
  if (colon != text.npos && colon > 0 && text[colon] == ':') address.scheme = cut(colon + 1);
  if (text.starts_with("//"))
    address.authority = cut(std::min(text.find_first_of("/?#", 2), text.size()));
  address.path = cut(std::min(text.find_first_of("?#"), text.size()));
  address.query = cut(std::min(text.find('#'), text.size()));
  address.fragment = text;
  return address;
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
  const Address of_base = split_address(base);
  Address address = split_address(reference);
  std::string path(address.path);
  if (address.scheme.empty()) {
    address.scheme = of_base.scheme;
    if (address.authority.empty()) {
      address.authority = of_base.authority;
      if (path.empty()) {
        path = of_base.path;
        if (address.query.empty()) address.query = of_base.query;
      } else if (!path.starts_with("/")) {
        const size_t folder = of_base.path.rfind('/');
        const bool is_root = folder == of_base.path.npos && !of_base.authority.empty();
        path = (is_root ? "/" : std::string(of_base.path.substr(0, folder + 1))) + path;
      }
    }
  }
  std::string out;
  out.append(address.scheme).append(address.authority).append(without_dots(path));
  return out.append(address.query).append(address.fragment);
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
