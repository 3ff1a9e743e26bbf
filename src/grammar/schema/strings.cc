// Makes expressions of strings: lengths, patterns and formats each say what may stand between the
// quotes, and the result is the intersection.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/regex/regex.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {
namespace {

struct Format {
  const char* name;
  const char* regex;
};

#define TROIKA_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define TROIKA_LEAP "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define TROIKA_DATE                                                                         \
  "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|" \
  "02-(0[1-9]|1[0-9]|2[0-8]))|" TROIKA_LEAP "-02-29)"
#define TROIKA_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
// These match addresses with a scheme, and without one: then no colon stands in the first part of
// the path.
#define TROIKA_URI "A-Za-z0-9._~@!$&'()*+,;="
#define TROIKA_IRI TROIKA_URI "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{efffd}"
#define TROIKA_REST(of) "([" of ":/?-]|%[0-9a-fA-F]{2})"
#define TROIKA_FRAGMENT(of) "(#" TROIKA_REST(of) "*)?"
#define TROIKA_ABSOLUTE(of) "[A-Za-z][A-Za-z0-9+.-]*:" TROIKA_REST(of) "+" TROIKA_FRAGMENT(of)
#define TROIKA_RELATIVE(of) \
  "([" of "-]|%[0-9a-fA-F]{2})*([/?]" TROIKA_REST(of) "*)?" TROIKA_FRAGMENT(of)
#define TROIKA_POINTER "(/([^/~]|~[01])*)*"
#define TROIKA_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

constexpr Format kFormats[] = {
    {"date", TROIKA_DATE},
    {"time", TROIKA_TIME},
    {"date-time", TROIKA_DATE "T" TROIKA_TIME},
    {"duration",
     "P([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)"
     "(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?|"
     "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"ipv4", TROIKA_BYTE "(\\." TROIKA_BYTE "){3}"},
    {"ipv6",
     "([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|"
     "([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|"
     "([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|"
     "([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|"
     "([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|"
     "([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|"
     "[0-9a-fA-F]{1,4}:(:[0-9a-fA-F]{1,4}){1,6}|:((:[0-9a-fA-F]{1,4}){1,7}|:)"},
    {"hostname", TROIKA_LABEL "(\\." TROIKA_LABEL ")*"},
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" TROIKA_LABEL
              "(\\." TROIKA_LABEL ")*"},
    {"uri", TROIKA_ABSOLUTE(TROIKA_URI)},
    {"uri-reference", TROIKA_ABSOLUTE(TROIKA_URI) "|" TROIKA_RELATIVE(TROIKA_URI)},
    {"iri", TROIKA_ABSOLUTE(TROIKA_IRI)},
    {"iri-reference", TROIKA_ABSOLUTE(TROIKA_IRI) "|" TROIKA_RELATIVE(TROIKA_IRI)},
    {"json-pointer", TROIKA_POINTER},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" TROIKA_POINTER ")"},
};

// Lists the standard's formats that this reader does not know. Names that are not in the standard
// are taken for remarks.
constexpr const char* kRefused[] = {"idn-email", "idn-hostname", "uri-template", "regex"};

}  // namespace

Expr SchemaReader::pattern(const Json& where, const std::string& keyword,
                           const std::string& regex) {
  const auto found = patterns_.find(regex);
  if (found != patterns_.end()) return found->second;
  const auto write = [&](const CharacterSet& set) { return text_.character(set); };
  try {
    return patterns_[regex] = found_regex(regex, write, limits_, &pool_);
  } catch (const TooMuchWork&) {
    throw;  // with more steps it might succeed
  } catch (const Error& error) {
    const std::string what = error.what();
    document_.refuse(where, keyword, what.substr(0, what.find_last_not_of('.') + 1));
  }
}

Expr SchemaReader::format(const Json& schema, const std::string& keyword) {
  if (!schema[keyword].is_string()) document_.refuse(schema, "format", "a name is expected");
  const auto name = schema[keyword].get<std::string>();
  for (const char* const refused : kRefused) {
    if (name == refused)
      document_.refuse(schema, "format", fmt::format("'{}' is not supported", name));
  }
  for (const Format& known : kFormats) {
    if (name != known.name) continue;
    const auto write = [&](const CharacterSet& set) { return text_.character(set); };
    const auto found = formats_.find(name);
    if (found != formats_.end()) return found->second;
    return formats_[name] = whole_regex(known.regex, write, limits_, &pool_);
  }
  return text_.any_string();
}

Expr SchemaReader::string_inside(const Constraints& c) {
  const Expr any = text_.character(CharacterSet::all());
  if (c.max_length && *c.max_length < c.min_length) return Pool::kNone;
  if (c.min_length > kMostRepetitions || c.max_length.value_or(0) > kMostRepetitions) {
    document_.refuse(
        *c.origin, "",
        fmt::format("strings of more than {} characters are not counted", kMostRepetitions));
  }
  const int most = c.max_length ? static_cast<int>(*c.max_length) : Pool::kMany;
  std::vector<Expr> all = {pool_.repeat(any, static_cast<int>(c.min_length), most)};
  for (const Json* schema : c.strings) {
    for (const char* const keyword : {"pattern", kNotPattern}) {
      if (!schema->contains(keyword)) continue;
      const Json& regex = (*schema)[keyword];
      const char* const told = keyword == kNotPattern ? "not" : keyword;
      if (!regex.is_string()) document_.refuse(*schema, told, "a text is expected");
      const Expr e = pattern(*schema, told, regex.get<std::string>());
      all.push_back(keyword == kNotPattern ? pool_.no(e) : e);
    }
    if (!formats_bind_) continue;
    if (schema->contains("format")) all.push_back(format(*schema, "format"));
    if (schema->contains(kNotFormat)) all.push_back(pool_.no(format(*schema, kNotFormat)));
  }
  for (const Json& value : c.not_values) {
    if (value.is_string()) all.push_back(pool_.no(text_.spellings(value.get<std::string>())));
  }
  return pool_.all(all);
}

// Returns what may stand between a key's quotes. A schema for keys is read as one for strings.
Expr SchemaReader::names_inside(const std::vector<const Json*>& names) {
  Items items;
  for (const Json* name : names) items.insert(item_of(*name));
  return names_inside(std::move(items), *names.front());
}

Expr SchemaReader::names_inside(Items items, const Json& where) {
  pool_.count_step();
  std::vector<Choice> choices;
  if (!decide(&items, &choices)) return Pool::kNone;
  std::vector<Expr> ways;
  if (!choices.empty()) {
    for (size_t i = 1; i < choices.size(); ++i) {
      items.insert(item_of(group(true, choices[i], *choices[i].front())));
    }
    for (const Json* way : choices.front()) {
      Items with = items;
      with.insert(item_of(*way));
      ways.push_back(names_inside(std::move(with), where));
    }
    return pool_.any(ways);
  }
  Constraints c;
  c.origin = &where;
  for (const Item& item : items) add_item(item, &c);
  if ((c.types & kString) == 0) return Pool::kNone;
  if (!c.values) return string_inside(c);
  std::optional<Expr> inside;
  for (const Json& value : *c.values) {
    if (value.is_string() && fits(value, c, &inside)) {
      ways.push_back(text_.spellings(value.get<std::string>()));
    }
  }
  return pool_.any(ways);
}

bool SchemaReader::accepts(Expr inside, const std::string& text) {
  pool_.count_step();
  count_compared(text.size());
  for (const char c : text_.spelling(text)) {
    inside = pool_.step(inside, static_cast<uint8_t>(c));
    if (inside == Pool::kNone) break;
  }
  return pool_.nullable(inside);
}

}  // namespace troika::grammar::schema
