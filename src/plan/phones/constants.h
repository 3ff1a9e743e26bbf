// Numbers that say where they come from. The files of virtual phones are made of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troika::plan {

struct Constant {
  double value = 0.0;
  // Says where the value comes from, as one of
  //   "hf009": read from these published rows;
  //   "fitted to hf006, hf008: ...";
  //   "specification: ...": public data of the part itself;
  //   "scaled from 8gen3 by public specifications: ...";
  //   "assumed: ...": no published row says it, and why this value.
  std::string source;
  // The values that it could have too, if somebody has said so. No run uses them.
  std::optional<std::pair<double, double>> range = std::nullopt;

  operator double() const { return value; }
};

enum class SourceKind { kRows, kFitted, kSpecification, kScaled, kAssumed, kUnknown };
SourceKind source_kind(std::string_view source);
// Returns the ids of published rows that a source names, as "hf009".
std::vector<std::string> source_rows(std::string_view source);

// A constant of a file with its name, as "npu.launch_us", and the range of values that make sense.
struct Field {
  const char* name;
  Constant* constant;
  double least;
  double most;
};

// Reads a file {"version", "name", "title", [like], groups of constants}. Each constant is written
// as {"value": 12.5, "source": "hf009"}, with "range": [10, 15] where somebody knows one. `base` is
// told the name behind "like", whose constants stand where this file has none; where `base` is
// empty, "like" is not allowed. Throws Error that names the file and the field.
struct FileHead {
  std::string name;
  std::string title;
  std::string like;  // empty: none
};
FileHead read_constants(const std::string& path, int version, const std::vector<Field>& fields,
                        const std::function<void(const std::string& like)>& base);

// Gives a constant another value than its file has, as "cpu.vector_gflops=100" says.
struct ConstantChoice {
  std::string name;
  double value = 0.0;
};
// Throws UsageError for a text of another form.
ConstantChoice constant_from_text(std::string_view text);
// Returns false where no field has the name. Throws UsageError for a value that makes no sense.
bool choose_constant(const ConstantChoice& choice, const std::vector<Field>& fields);

// Changes the value and the source of constants in a file and keeps the rest of it as it is.
void update_constants(const std::string& path, const std::vector<Field>& changed);

}  // namespace troika::plan
