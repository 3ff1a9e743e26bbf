// Gives tests of lanes on OpenVINO its library.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "lanes/vendor/openvino_library.h"
#include "lanes/vendor/sum_proof.h"

namespace troika::lanes::openvino {

// A library for tests. It is null where this machine has no OpenVINO; then `problem` says why.
// Where TROIKA_OPENVINO names a folder, its library must load.
struct FoundLibrary {
  std::shared_ptr<Library> library;
  std::string problem;
};

inline FoundLibrary find_library() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // Without this setting OpenVINO's threads load their allocator in a way that sanitizers refuse.
  setenv("TBB_ENABLE_SANITIZERS", "1", 0);
#endif
  const char* const folder = std::getenv("TROIKA_OPENVINO");
  FoundLibrary found;
  try {
    found.library = std::make_shared<Library>(folder != nullptr ? folder : "", std::vector<int>());
  } catch (const Error& error) {
    // Whoever names a folder wants these tests to run.
    if (folder != nullptr) throw;
    found.problem = error.what();
    return found;
  }
  found.library->check_device("CPU");
  found.library->limit_threads("CPU", 1);
  try {
    most_exact_sum(found.library, "CPU");
  } catch (const Error& error) {
    // The processor lacks an instruction that exact sums need.
    found = {nullptr, error.what()};
  }
  return found;
}

}  // namespace troika::lanes::openvino
