// Makes expressions of JSON's characters, strings, numbers and constants.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "grammar/characters.h"
#include "grammar/pool.h"
#include "grammar/readers.h"
#include "grammar/schema/constraints.h"
#include "grammar/schema/numbers/decimal.h"

namespace troika::grammar::schema {

class JsonText {
 public:
  // If there are no marks, texts are in quotes.
  JsonText(Pool* pool, const std::optional<TextMarks>& marks) : pool_(*pool), marks_(marks) {}
  // Sets other marks. REQUIRES: there were some, as characters are written in another way without.
  void set_marks(const TextMarks& marks);

  // Returns a character of the set within a string, in each of its spellings. No two characters
  // share a spelling, so intersections and complements of strings are those of the texts they mean.
  Expr character(const CharacterSet& set);
  // Returns the inside of any string; spellings() returns one text in all its spellings.
  Expr any_string() { return pool_.star(character(CharacterSet::all())); }
  Expr spellings(const std::string& text);
  Expr quoted(Expr inside);
  // Returns a key with this inside; the second function returns the key with this text.
  Expr key(Expr inside);
  std::string key(const std::string& text) const;
  // Returns the usual spelling of the inside of a string.
  std::string spelling(const std::string& text) const;
  // Returns the value in its usual spelling, in which whole numbers have no fraction.
  Expr value(const Json& value);
  // Returns the numbers that fit the constraints. Throws Error for bounds that are no decimals of
  // reasonable length.
  Expr number(const Constraints& constraints, const Document& document);
  // Returns the numbers without a sign whose magnitudes are up from, or down from, that of the
  // edge.
  Expr magnitude_above(const Edge& edge);
  Expr magnitude_below(const Edge& edge);

 private:
  Expr hex(uint32_t first, uint32_t last, int n_digits);
  Expr escaped(uint32_t first, uint32_t last);
  Expr number_value(const Json& value);
  Expr short_number(const Constraints& c, const Document& document);
  Expr number_between(const Constraints& c, const Document& document, bool may_have_exponent);
  Expr spellings_of(const Decimal& number);
  Expr numbers_read_as(const Json& value, const Document& document, const Json& where);
  Expr digits(int least = 0);
  Expr digit(int first, int last);
  Expr fraction(int least_digits = 1);
  Expr whole();
  Expr at_least(const Bound& bound, const Document& document, const Json& where);
  Expr at_most(const Bound& bound, const Document& document, const Json& where);

  Pool& pool_;
  std::optional<TextMarks> marks_;
  std::map<std::vector<std::pair<uint32_t, uint32_t>>, Expr> characters_;
};

}  // namespace troika::grammar::schema
