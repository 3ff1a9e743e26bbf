// How much a template may compute, hold and write before rendering stops with an error.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::jinja {

struct Limits {
  // The most steps. One step is one node of the template that is evaluated, or one element or 16
  // bytes that a built-in goes through. 20 million take a second or two; a conversation of 1000
  // messages needs about one million.
  uint64_t n_steps = 20'000'000;
  // Limits the values that are alive at once; containers live until the end.
  size_t memory_bytes = size_t{512} << 20;
  // Limits the rendered text, and each captured piece of it.
  size_t output_bytes = size_t{64} << 20;
  // Counts macros, recursive loops and filters that call filters inside one another.
  int n_nested_calls = 100;
  int n_nested_nodes = 1000;  // counts statements and expressions inside one another
  int n_nested_values = 200;  // counts lists in lists, from JSON or made by a template
  int64_t n_range = 100'000;  // counts numbers of one range()
};

}  // namespace troika::jinja
