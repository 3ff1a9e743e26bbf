// Readers turn texts into expressions. Each throws Error, with the place, for a text that it does
// not understand and for what it does not support.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "grammar/limits.h"
#include "grammar/pool.h"

namespace troika::grammar {

// Reads rules as llama.cpp writes them (GBNF). An answer must fit the rule "root".
Expr read_gbnf(std::string_view text, const Limits& limits, Pool* pool);

// Reads a regular expression, which an answer must fit as a whole.
Expr read_regex(std::string_view text, const Limits& limits, Pool* pool);

// Reads a JSON schema, which an answer must fit as compact JSON with keys in the schema's order.
// `formats_bind` says that "format" is more than a remark.
Expr read_json_schema(std::string_view text, const Limits& limits, bool formats_bind, Pool* pool);

// Marks that stand around texts in place of quotes. A text between marks has no escapes and does
// not contain the closing mark. Where there are marks, keys have neither quotes nor marks.
struct TextMarks {
  std::string open, close;
  bool operator==(const TextMarks&) const = default;
};
Expr read_marked_schema(std::string_view text, const TextMarks& marks, const Limits& limits,
                        Pool* pool);

// Reads the properties that an object's schema names one by one, for answers that do not write them
// as one object of JSON. All of them share what the schema defines, which is read twice at most.
class PropertyReader {
 public:
  // The pool must outlive this.
  PropertyReader(std::string schema, const Limits& limits, Pool* pool);
  ~PropertyReader();
  PropertyReader(const PropertyReader&) = delete;
  PropertyReader& operator=(const PropertyReader&) = delete;

  // Returns the values of a property that are no texts, as JSON. REQUIRES, as texts() does, that
  // the schema's "properties" name the key.
  Expr values_but_texts(const std::string& key);
  // Returns the values of a property that are texts, between marks.
  Expr texts(const std::string& key, const TextMarks& marks);

 private:
  struct Readers;
  std::unique_ptr<Readers> readers_;
};

}  // namespace troika::grammar
