// The account of one rendering: it counts steps and memory, and owns the rendering's containers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/limits.h"
#include "jinja/values/value.h"

namespace troika::jinja {

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap();

  const Limits& limits() const { return limits_; }

  // Throws an Error when the template has used up its steps.
  void step(uint64_t n = 1) {
    n_steps_ += n;
    if (n_steps_ > limits_.n_steps) [[unlikely]] {
      out_of_steps();
    }
  }
  // Counts work that goes through `bytes` of text.
  void step_bytes(size_t bytes) { step(1 + bytes / 16); }

  // Throws an Error when the template holds too much.
  void take(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > limits_.memory_bytes) [[unlikely]] {
      bytes_ -= bytes;
      out_of_memory();
    }
  }
  void give_back(size_t bytes) { bytes_ -= bytes; }
  // Throws an Error unless `bytes` more could be taken; called before they are allocated.
  void expect(size_t bytes);

  Value text(std::string bytes, bool safe = false);
  Value list(Shape shape = Shape::kList) { return Value::of(make<Sequence>(shape)); }
  Value list(std::vector<Value> items, Shape shape = Shape::kList, const char* label = "");
  Value dict();
  void append(Sequence& to, Value v) {
    take(sizeof(Value));
    to.items.push_back(std::move(v));
  }

  template <typename T, typename... A>
  T* make(A&&... arguments) {
    take(sizeof(T) + 32);
    auto owned = std::make_unique<T>(std::forward<A>(arguments)...);
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  [[noreturn]] void out_of_output() const;

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void out_of_memory() const;

  const Limits limits_;
  uint64_t n_steps_ = 0;
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace troika::jinja
