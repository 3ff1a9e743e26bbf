// Limits the work and memory of grammars: compiling or asking a grammar that takes more stops with
// an error. Work is counted in steps and not in seconds, so that every machine refuses the same
// grammars.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace troika::grammar {

// Is the greatest number of repetitions that a grammar may name.
inline constexpr int kMostRepetitions = 1'000'000;

// Thrown where a grammar is larger than it may be, which may show only while a text is written.
class TooLarge : public Error {
 public:
  using Error::Error;
};

// Thrown where a grammar needs more steps than it may take. With more steps it might succeed.
class TooMuchWork : public TooLarge {
 public:
  using TooLarge::TooLarge;
};

struct Limits {
  size_t n_text_bytes = size_t{8} << 20;   // the grammar's own text
  size_t n_expressions = size_t{1} << 20;  // counts one grammar's expressions with its states
  size_t n_partitions = 65'536;            // counts ways to divide bytes into classes
  size_t table_bytes = size_t{64} << 20;   // transitions that are kept
  size_t mask_bytes = size_t{32} << 20;    // masks that are kept
  uint64_t n_compile_steps = 20'000'000;   // counts expressions, sets and schemas looked at
  uint64_t n_mask_steps = 10'000'000;      // counts the steps for one mask or one token
  size_t n_schemas = 100'000;              // counts different sets of schemas for one value
  size_t n_choices = 5'000;                // counts values for which schemas leave a choice
  size_t n_keys = 2000;  // counts the keys of one object of a schema; each is compared with others
  int n_nested = 200;    // counts levels of groups in groups, or of schemas
};

}  // namespace troika::grammar
