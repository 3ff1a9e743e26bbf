// Writes the tiny models of the tests as files, for programs outside this repository:
// troika_tiny_models FOLDER. It writes each variant in F32, and each architecture in every format.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "tests/support/tiny_model.h"

using namespace troika::test_support;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: troika_tiny_models FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  try {
    for (auto& [name, model] : tiny_model_variants()) {
      write_tiny_model(model, folder + "/" + name + ".gguf");
      const auto& all = tiny_architectures();
      if (std::find(all.begin(), all.end(), name) == all.end()) continue;
      for (const auto& [type_name, type] : tensor_types()) {
        model.type = type;
        write_tiny_model(model, folder + "/" + name + "-" + type_name + ".gguf");
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
