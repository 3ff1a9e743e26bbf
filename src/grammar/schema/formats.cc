#include "grammar/schema/formats.h"

#include <algorithm>
#include <iterator>

namespace troika::grammar::schema {
namespace {

// RFC 3339. An answer holds capitals and no leap second: which minute may have one depends on the
// offset behind it.
#define TROIKA_MINUTES "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TROIKA_TIME TROIKA_MINUTES ":[0-5][0-9](\\.[0-9]+)?(Z|[+-]" TROIKA_MINUTES ")"
#define TROIKA_ANY_TIME TROIKA_MINUTES ":([0-5][0-9]|60)(\\.[0-9]+)?([Zz]|[+-]" TROIKA_MINUTES ")"
#define TROIKA_LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define TROIKA_DATE                                                                         \
  "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|" \
  "02-(0[1-9]|1[0-9]|2[0-8]))|" TROIKA_LEAP "-02-29)"

// RFC 3986, and RFC 3987 for other letters.
#define TROIKA_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define TROIKA_IPV4 "(" TROIKA_BYTE "(\\." TROIKA_BYTE "){3})"
#define TROIKA_16 "[0-9a-fA-F]{1,4}"
#define TROIKA_32 "(" TROIKA_16 ":" TROIKA_16 "|" TROIKA_IPV4 ")"
#define TROIKA_BEFORE(n) "((" TROIKA_16 ":){0," #n "}" TROIKA_16 ")?::"
#define TROIKA_IPV6                                                                              \
  "((" TROIKA_16 ":){6}" TROIKA_32 "|::(" TROIKA_16 ":){5}" TROIKA_32                            \
  "|" TROIKA_BEFORE(0) "(" TROIKA_16 ":){4}" TROIKA_32                                           \
                       "|" TROIKA_BEFORE(1) "(" TROIKA_16 ":){3}" TROIKA_32                      \
                                            "|" TROIKA_BEFORE(2) "(" TROIKA_16 ":){2}" TROIKA_32 \
                                                                 "|" TROIKA_BEFORE(3) TROIKA_16  \
      ":" TROIKA_32 "|" TROIKA_BEFORE(4) TROIKA_32 "|" TROIKA_BEFORE(5) TROIKA_16                \
      "|" TROIKA_BEFORE(6) ")"
#define TROIKA_ASCII "A-Za-z0-9._~!$&'()*+,;="
#define TROIKA_LETTERS                                                                      \
  TROIKA_ASCII                                                                              \
  "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}" \
  "\\u{30000}-\\u{3fffd}\\u{40000}-\\u{4fffd}\\u{50000}-\\u{5fffd}\\u{60000}-\\u{6fffd}"    \
  "\\u{70000}-\\u{7fffd}\\u{80000}-\\u{8fffd}\\u{90000}-\\u{9fffd}\\u{a0000}-\\u{afffd}"    \
  "\\u{b0000}-\\u{bfffd}\\u{c0000}-\\u{cfffd}\\u{d0000}-\\u{dfffd}\\u{e1000}-\\u{efffd}"
#define TROIKA_PRIVATE "\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define TROIKA_OF(letters) "([" letters "-]|%[0-9a-fA-F]{2})"
#define TROIKA_LITERAL "\\[(" TROIKA_IPV6 "|[vV][0-9a-fA-F]+\\.[" TROIKA_ASCII ":-]+)\\]"
#define TROIKA_AUTHORITY(of) \
  "(" TROIKA_OF(of ":") "*@)?(" TROIKA_LITERAL "|" TROIKA_OF(of) "*)(:[0-9]*)?"
#define TROIKA_PARTS(of) "(/" TROIKA_OF(of ":@") "*)*"
#define TROIKA_ROOTED(of) \
  "//" TROIKA_AUTHORITY(of) TROIKA_PARTS(of) "|/(" TROIKA_OF(of ":@") "+" TROIKA_PARTS(of) ")?"
#define TROIKA_BEHIND(of, more) "(\\?" TROIKA_OF(of ":@/?" more) "*)?(#" TROIKA_OF(of ":@/?") "*)?"
#define TROIKA_ABSOLUTE(of, more)                                                        \
  "[A-Za-z][A-Za-z0-9+.-]*:(" TROIKA_ROOTED(of) "|" TROIKA_OF(of ":@") "+" TROIKA_PARTS( \
      of) "|)" TROIKA_BEHIND(of, more)
// Without a scheme, no colon stands in the first part of the path.
#define TROIKA_RELATIVE(of, more) \
  "(" TROIKA_ROOTED(of) "|" TROIKA_OF(of "@") "+" TROIKA_PARTS(of) "|)" TROIKA_BEHIND(of, more)

#define TROIKA_POINTER "(/([^/~]|~[01])*)*"
// An answer's label has no two hyphens behind its second letter: they stand in names that are
// coded, of which only some mean anything.
#define TROIKA_END "[A-Za-z0-9]"
#define TROIKA_MID "[A-Za-z0-9-]"
#define TROIKA_LABEL                                                             \
  "(" TROIKA_END "(" TROIKA_END "|" TROIKA_MID "{1,2}" TROIKA_END "|" TROIKA_MID \
  "(" TROIKA_END TROIKA_MID "|-" TROIKA_END ")" TROIKA_MID "{0,58}" TROIKA_END ")?)"
#define TROIKA_ANY_LABEL "(" TROIKA_END "(" TROIKA_MID "{0,61}" TROIKA_END ")?)"
#define TROIKA_HOST TROIKA_LABEL "(\\." TROIKA_LABEL ")*"
#define TROIKA_ANY_HOST TROIKA_ANY_LABEL "(\\." TROIKA_ANY_LABEL ")*"
#define TROIKA_ANY "[\\u{0}-\\u{10ffff}]*"

constexpr Format kFormats[] = {
    {"date", TROIKA_DATE},
    {"time", TROIKA_TIME, TROIKA_ANY_TIME},
    {"date-time", TROIKA_DATE "T" TROIKA_TIME, TROIKA_DATE "[Tt]" TROIKA_ANY_TIME},
    {"duration",
     "P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"
     "(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?|"
     "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))",
     "[Pp][0-9A-Za-z]+"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"ipv4", TROIKA_IPV4},
    {"ipv6", TROIKA_IPV6},
    {"hostname", TROIKA_HOST, TROIKA_ANY_HOST, 253},
    // Names in quotation marks and hosts in brackets are left to those who ask for them otherwise.
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" TROIKA_HOST,
     TROIKA_ANY "@" TROIKA_ANY, 254},
    {"uri", TROIKA_ABSOLUTE(TROIKA_ASCII, "")},
    {"uri-reference", TROIKA_ABSOLUTE(TROIKA_ASCII, "") "|" TROIKA_RELATIVE(TROIKA_ASCII, "")},
    {"iri", TROIKA_ABSOLUTE(TROIKA_LETTERS, TROIKA_PRIVATE)},
    {"iri-reference", TROIKA_ABSOLUTE(TROIKA_LETTERS, TROIKA_PRIVATE) "|" TROIKA_RELATIVE(
                          TROIKA_LETTERS, TROIKA_PRIVATE)},
    {"json-pointer", TROIKA_POINTER},
    // Some of its drafts step among the elements of an array, too.
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" TROIKA_POINTER ")",
     "(0|[1-9][0-9]*)([+-][0-9]+)?(#|" TROIKA_POINTER ")"},
};

// Lists the standard's formats that this reader does not know. Names that are not in the standard
// are taken for remarks.
constexpr std::string_view kRefused[] = {"idn-email", "idn-hostname", "uri-template", "regex"};

}  // namespace

const Format* find_format(std::string_view name) {
  const auto is_it = [&](const Format& format) { return name == format.name; };
  const Format* const found = std::find_if(std::begin(kFormats), std::end(kFormats), is_it);
  return found == std::end(kFormats) ? nullptr : found;
}

bool is_refused_format(std::string_view name) {
  return std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
}

}  // namespace troika::grammar::schema
