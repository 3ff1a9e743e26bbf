// Makes expressions of strings: lengths, patterns and formats each say what may stand between the
// quotes, and the result is the intersection.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/regex/regex.h"
#include "grammar/schema/formats.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar::schema {

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

// Returns texts that have the format. Where they must not have it, all that do are among them.
Expr SchemaReader::format(const Json& schema, const std::string& keyword) {
  if (!schema[keyword].is_string()) document_.refuse(schema, "format", "a name is expected");
  const auto name = schema[keyword].get<std::string>();
  if (is_refused_format(name)) {
    document_.refuse(schema, "format", fmt::format("'{}' is not supported", name));
  }
  const Format* const known = find_format(name);
  if (known == nullptr) return text_.any_string();
  const bool is_widest = keyword == kNotFormat && known->widest != nullptr;
  const char* const regex = is_widest ? known->widest : known->regex;
  const auto found = formats_.find(regex);
  if (found != formats_.end()) return found->second;
  const auto write = [&](const CharacterSet& set) { return text_.character(set); };
  Expr texts = whole_regex(regex, write, limits_, &pool_);
  if (known->n_most_characters > 0 && !is_widest) {
    const Expr any = text_.character(CharacterSet::all());
    texts = pool_.all({texts, pool_.repeat(any, 0, known->n_most_characters)});
  }
  return formats_[regex] = texts;
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
  for (const Json* const value : c.not_values) {
    if (value->is_string()) all.push_back(pool_.no(text_.spellings(value->get<std::string>())));
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
    if (++n_nested_ > limits_.n_nested) {
      document_.refuse(where, "", "names of keys leave too many choices");
    }
    for (size_t i = 1; i < choices.size(); ++i) {
      items.insert(item_of(group(true, choices[i], *choices[i].front())));
    }
    for (const Json* way : choices.front()) {
      Items with = items;
      with.insert(item_of(*way));
      ways.push_back(names_inside(std::move(with), where));
    }
    --n_nested_;
    return pool_.any(ways);
  }
  Constraints c;
  c.origin = &where;
  for (const Item& item : items) add_item(item, &c);
  if ((c.types & kString) == 0) return Pool::kNone;
  if (!c.values) return string_inside(c);
  std::optional<Expr> inside;
  for (const Json* const value : *c.values) {
    if (value->is_string() && fits(*value, c, &inside)) {
      ways.push_back(text_.spellings(value->get<std::string>()));
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
