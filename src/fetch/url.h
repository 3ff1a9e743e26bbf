// The little that a client of a hub must know about addresses and header fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troika::fetch {

// The path of a file for an address: all but letters, digits, "-._~" and "/" as %XX.
std::string percent_encoded(std::string_view path);

// "https://host:port" in lower case: who gets what is sent there. Empty where this is no address
// of http or https, and where two readers could see two hosts in it: where it names a user or has
// a backslash, as nothing that is meant for us does.
std::string origin_of(std::string_view url);

// What `link`, found in the answer to `url`, leads to: an address, or a path at the same origin.
// Empty for other forms, which no hub uses.
std::string resolved(std::string_view link, std::string_view url);

// The address of the next page of a listing, from the field Link (RFC 8288): <ADDRESS>; rel="next".
// Empty where there is none.
std::string next_page(std::string_view link);

// "bytes 100-199/1000": where the bytes of an answer begin and how many the whole has.
struct ContentRange {
  uint64_t begin = 0;
  std::optional<uint64_t> total;  // empty for '*'
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// A number of digits alone that fits.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace troika::fetch
