// How much a template may compute, hold and write before rendering stops with an error.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::jinja {

struct Limits {
  // One step is one node of the template evaluated, or one element or 16 bytes that a built-in
  // goes through. 20 million are a second or two; a conversation of 1000 messages needs about one.
  uint64_t n_steps = 20'000'000;
  size_t memory_bytes = size_t{512} << 20;  // values alive at once, containers until the end
  size_t output_bytes = size_t{64} << 20;   // the rendered text, and each captured piece of it
  int n_nested_calls = 100;                 // macros and recursive loops inside one another
  int n_nested_nodes = 1000;                // evaluation depth: statements and expressions
  int n_nested_values = 200;                // lists in lists, as JSON or as a template builds them
  int64_t n_range = 100'000;                // numbers in one range()
};

}  // namespace troika::jinja
