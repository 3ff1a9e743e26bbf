#include "server/admission.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/os_error.h"
#include "server/fields.h"

namespace troika::server {
namespace {

bool is_address(const std::string& text) {
  in6_addr address = {};
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// Returns what stands before the port in e.g. "[::1]:80" or "localhost:80".
std::string host_of(const std::string& text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.rfind(':'));
}

// Says whether two keys are the same, in a time that does not tell how much of the key was right.
bool is_same_key(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? '\1' : b[i % b.size()]));
  }
  return difference == 0;
}

// Returns the keys of a request. Some clients send one in each of two headers, of which only one
// may be for this server.
std::vector<std::string> keys_in(const http::Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  std::vector<std::string> keys;
  if (const std::string* const value = request.header("authorization"); value != nullptr) {
    if (http::is_same_word(std::string_view(*value).substr(0, kBearer.size()), kBearer)) {
      keys.push_back(value->substr(kBearer.size()));
    }
  }
  if (const std::string* const value = request.header("x-api-key"); value != nullptr) {
    keys.push_back(*value);
  }
  std::erase(keys, "");
  return keys;
}

}  // namespace

void check_host(const http::Request& request, const std::vector<std::string>& names) {
  const std::string* const value = request.header("host");
  if (value == nullptr || value->empty()) return;  // an old program and no browser
  const std::string host = host_of(*value);
  if (http::is_same_word(host, "localhost") || is_address(host)) return;
  for (const std::string& name : names) {
    if (http::is_same_word(host, name)) return;
  }
  throw Refused(403,
                fmt::format("The request is for {}. This server is reached by an address in "
                            "digits, as localhost, or under a name that was allowed when it was "
                            "started, so that pages of strangers cannot reach it under a name "
                            "of theirs.",
                            troika::quoted(*value)));
}

std::string check_key(const http::Request& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return "";
  const std::vector<std::string> given = keys_in(request);
  const std::string* known = nullptr;
  for (const std::string& one : given) {
    for (const std::string& key : keys) {
      if (is_same_key(one, key) && known == nullptr) known = &one;
    }
  }
  if (known != nullptr) return *known;
  throw Refused(401, given.empty() ? "This server wants a key: send Authorization: Bearer KEY, or "
                                     "x-api-key: KEY."
                                   : "The key is not one that this server knows.");
}

void check_type(const http::Request& request) {
  const std::string* const value = request.header("content-type");
  const std::string type = value == nullptr ? "" : value->substr(0, value->find_first_of("; \t"));
  if (http::is_same_word(type, "application/json")) return;
  throw Refused(415, fmt::format("The body has the type {}; send JSON with content-type: "
                                 "application/json.",
                                 troika::quoted(type)));
}

}  // namespace troika::server
