#include <optional>
#include <utility>

#include "base/error.h"
#include "grammar/readers.h"
#include "grammar/schema/schema_reader.h"

namespace troika::grammar {
namespace schema {

Expr SchemaReader::read_property(const std::string& key, const Json& types) {
  const Json& root = document_.root();
  if (properties_.empty()) {
    for (const auto& [name, value] : root["properties"].items()) properties_[name] = &value;
  }
  return value_of(Schemas{properties_.at(key), &document_.made({{"type", types}}, root)});
}

// Texts between other marks are other texts, so what was read with the old ones is read anew.
void SchemaReader::set_marks(const TextMarks& marks) {
  text_.set_marks(marks);
  done_.clear();
}

}  // namespace schema

struct PropertyReader::Readers {
  std::string schema;
  Limits limits;
  Pool* pool;
  std::optional<schema::SchemaReader> of_others{}, of_texts{};
  TextMarks marks{};  // of the texts that were read last
};

PropertyReader::PropertyReader(std::string schema, const Limits& limits, Pool* pool)
    : readers_(new Readers{std::move(schema), limits, pool}) {}

PropertyReader::~PropertyReader() = default;

Expr PropertyReader::values_but_texts(const std::string& key) {
  Readers& r = *readers_;
  if (!r.of_others) r.of_others.emplace(r.schema, r.limits, true, std::nullopt, r.pool);
  return r.of_others->read_property(key, {"null", "boolean", "number", "array", "object"});
}

Expr PropertyReader::texts(const std::string& key, const TextMarks& marks) {
  Readers& r = *readers_;
  if (!r.of_texts) r.of_texts.emplace(r.schema, r.limits, true, marks, r.pool);
  if (r.marks != marks) r.of_texts->set_marks(marks);
  r.marks = marks;
  return r.of_texts->read_property(key, "string");
}

}  // namespace troika::grammar
