#include "jinja/values/heap.h"

#include <fmt/format.h>

#include "base/error.h"
#include "jinja/values/dict.h"
#include "jinja/values/unicode.h"

namespace troika::jinja {

namespace {
constexpr size_t kTextOverheadBytes = sizeof(Text) + 32;
}  // namespace

Heap::~Heap() = default;

void Heap::out_of_steps() const {
  throw Error(fmt::format(
      "The chat template did not finish within {} steps: it loops without end, or the conversation "
      "is far too long for it.",
      limits_.n_steps));
}

void Heap::out_of_memory() const {
  throw Error(
      fmt::format("The chat template holds more than {} MiB of values: it grows without end, or "
                  "the conversation is far too long for it.",
                  limits_.memory_bytes >> 20));
}

void Heap::out_of_output() const {
  throw Error(
      fmt::format("The chat template writes more than {} MiB of text: it repeats itself "
                  "without end, or the conversation is far too long for it.",
                  limits_.output_bytes >> 20));
}

void Heap::expect(size_t bytes) {
  if (bytes > limits_.memory_bytes - bytes_) {
    out_of_memory();
  }
}

Text::Text(std::string b, Heap* h) : bytes(std::move(b)), n_chars(utf8_length(bytes)), heap(h) {}

Text::~Text() {
  if (heap != nullptr) {
    heap->give_back(bytes.size() + kTextOverheadBytes);
  }
}

Value Heap::text(std::string bytes, bool safe) {
  step_bytes(bytes.size());
  take(bytes.size() + kTextOverheadBytes);
  return Value::of(std::make_shared<const Text>(std::move(bytes), this), safe);
}

Value Heap::list(std::vector<Value> items, Shape shape, const char* label) {
  take(items.size() * sizeof(Value));
  auto* sequence = make<Sequence>(shape);
  sequence->items = std::move(items);
  sequence->label = label;
  return Value::of(sequence);
}

Value Heap::dict() { return Value::of(make<Dict>(Shape::kDict)); }

}  // namespace troika::jinja
