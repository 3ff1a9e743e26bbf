// How much a grammar may take before compiling it, or asking it, stops with an error. Work is
// counted in steps and not in seconds, so that the same grammar is refused on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace troika::grammar {

// How often something may be repeated, where a number says so.
inline constexpr int kMostRepetitions = 1'000'000;

// Thrown where the number of steps is what a grammar has too few of: with more of them it may do.
class TooMuchWork : public Error {
 public:
  using Error::Error;
};

struct Limits {
  size_t n_text_bytes = size_t{8} << 20;   // of the grammar's own text
  size_t n_expressions = size_t{1} << 20;  // alive in one grammar, those of its states included
  size_t table_bytes = size_t{64} << 20;   // of transitions that are kept
  size_t mask_bytes = size_t{32} << 20;    // of masks that are kept
  uint64_t n_compile_steps = 20'000'000;   // one for each expression that is looked at
  uint64_t n_mask_steps = 10'000'000;      // the same, for one mask or one token
  size_t n_schemas = 100'000;              // that stand for one value, alone or together
  int n_nested = 200;                      // groups in groups, schemas in schemas
};

}  // namespace troika::grammar
