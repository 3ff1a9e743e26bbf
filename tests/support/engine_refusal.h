// Says why an engine refuses its options.
#pragma once

#include <string>

#include "base/error.h"
#include "engine/engine.h"

namespace troika::test_support {

// Returns the sentence with which an engine refuses its options; "accepted" if it does not.
inline std::string engine_refusal(const prepare::Options& options) {
  try {
    const engine::Engine engine(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace troika::test_support
