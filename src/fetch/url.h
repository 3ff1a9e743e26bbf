// What a client of a hub must know about addresses and header fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fetch/http.h"

namespace troika::fetch {

// Returns the path of a file for an address: everything but letters, digits, "-._~" and "/" is
// written as %XX.
std::string percent_encoded(std::string_view path);

// Returns "https://host:port" in lower case, which says who gets what is sent there. Empty where
// this is no address of http or https, and where two readers could see two hosts in it: where it
// names a user or has a backslash, as no honest hub's address does.
std::string origin_of(std::string_view url);

// Returns where `link`, found in the answer to `url`, leads: it may be an address, or a path at the
// same origin. Empty for other forms, which no hub uses.
std::string resolved(std::string_view link, std::string_view url);

// Returns the address of the next page of a listing, from the field Link (RFC 8288): <ADDRESS>;
// rel="next". Empty where there is none.
std::string next_page(std::string_view link);

// What "bytes 100-199/1000" says: where the bytes of an answer begin, and how many the whole has.
struct ContentRange {
  uint64_t begin = 0;
  std::optional<uint64_t> total;  // empty for '*'
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// Returns the text by which an answer tells the version of its file from all others, as If-Range
// takes it (RFC 9110): a strong entity tag; where there is no tag, the date of the last change, if
// it is older than the answer by a second at least. Empty where the answer has neither.
std::string version_of(const HttpHead& head);

// Says whether a part of a file, asked for if it still is of this version, is of it. Such an answer
// need not repeat a date.
bool is_of_version(const HttpHead& head, const std::string& version);

// Returns the number that a text of nothing but digits means, if it fits 64 bits.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace troika::fetch
