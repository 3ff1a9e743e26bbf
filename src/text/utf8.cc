#include "text/utf8.h"

#include <algorithm>

#include "base/error.h"

namespace troika::text {
namespace {

// The range that the second byte of a sequence may have, and the sequence's length; length 0: it is
// no first byte.
struct Lead {
  uint8_t length, low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};  // no overlong forms
  if (byte == 0xed) return {3, 0x80, 0x9f};  // no surrogates
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};  // no overlong forms
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};  // no values beyond U+10FFFF
  return {0, 0, 0};
}

// Returns how many bytes, at most lead.length, agree with the first one.
size_t agreeing_bytes(std::string_view bytes, Lead lead) {
  size_t n = 1;
  while (n < lead.length && n < bytes.size()) {
    const uint8_t byte = bytes[n];
    const uint8_t low = n == 1 ? lead.low : 0x80;
    const uint8_t high = n == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) break;
    ++n;
  }
  return n;
}

}  // namespace

Utf8Char decode_utf8(std::string_view bytes) {
  TROIKA_ASSERT(!bytes.empty());
  const uint8_t first = bytes[0];
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0 || agreeing_bytes(bytes, lead) != lead.length) {
    return {kReplacement, 1, false};
  }
  uint32_t code = first & (0x7f >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) code = code << 6 | (bytes[i] & 0x3f);
  return {code, lead.length, true};
}

void append_utf8(uint32_t code, std::string* out) {
  const auto tail = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | (code >> shift & 0x3f)));
  };
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    TROIKA_ASSERT(code < 0xd800 || code > 0xdfff);
    out->push_back(static_cast<char>(0xe0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    TROIKA_ASSERT(code <= 0x10ffff);
    out->push_back(static_cast<char>(0xf0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Char c = decode_utf8(bytes);
    if (c.valid) {
      out += bytes.substr(0, c.bytes);
      bytes.remove_prefix(c.bytes);
    } else {
      append_utf8(kReplacement, &out);
      bytes.remove_prefix(agreeing_bytes(bytes, lead_of(bytes[0])));
    }
  }
  return out;
}

size_t incomplete_utf8_tail(std::string_view bytes) {
  for (size_t n = 1; n <= std::min<size_t>(3, bytes.size()); ++n) {
    const std::string_view tail = bytes.substr(bytes.size() - n);
    const Lead lead = lead_of(tail[0]);
    if (lead.length > n && agreeing_bytes(tail, lead) == n) return n;
  }
  return 0;
}

}  // namespace troika::text
