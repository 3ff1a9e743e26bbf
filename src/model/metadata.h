// Reads the hyper-parameters of a model file, `general.*` and `ARCH.*`, and checks them for sense.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gguf/file.h"
#include "model/blueprint.h"

namespace troika::model {

// Reads keys below the architecture's prefix. Errors name the whole key and the file.
class Metadata {
 public:
  explicit Metadata(const gguf::File& file);

  const gguf::File& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }

  // Returns an integer in [lowest, highest]; throws where it is missing and has no fallback.
  int integer(std::string_view key, int lowest, int highest,
              std::optional<int> fallback = {}) const;
  double number(std::string_view key, std::optional<double> fallback = {}) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  bool has(std::string_view key) const;
  bool has_tensor(const std::string& name) const;

  // Returns "llama.context_length" for "context_length".
  std::string full_key(std::string_view key) const;

 private:
  const gguf::File& file_;
  std::string architecture_;
};

// Reads the base of a rotation.
double read_rope_base(const Metadata& metadata, const char* key, double fallback);

// Reads what every architecture has: sizes, heads, vocabulary, rope. Leaves ops and weights empty.
Blueprint read_sizes(const Metadata& metadata);

}  // namespace troika::model
