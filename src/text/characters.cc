#include "text/characters.h"

#include <utf8proc.h>

#include <array>

#include "base/error.h"
#include "text/utf8.h"

namespace troika::text {
namespace {

bool is_white(uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

uint16_t classes_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetter | kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLetter | kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kCaseless;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    default:
      return 0;
  }
}

}  // namespace

uint16_t classes_of(uint32_t code) {
  uint16_t classes = classes_of_category(utf8proc_category(static_cast<utf8proc_int32_t>(code)));
  if (is_white(code)) classes |= kWhite;
  if (code == '\r' || code == '\n') classes |= kNewline;
  return classes;
}

Characters::Characters(std::string_view text) {
  TROIKA_ASSERT(text.size() < UINT32_MAX);
  codes.reserve(text.size());
  classes.reserve(text.size());
  begins.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(at));
    codes.push_back(c.code);
    classes.push_back(classes_of(c.code));
    begins.push_back(static_cast<uint32_t>(at));
    at += c.bytes;
  }
  begins.push_back(static_cast<uint32_t>(text.size()));
}

}  // namespace troika::text
