// Chooses the kernels of this machine, once at start.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/kernels.h"

namespace troika::kernels {

// A set of kernels that needs certain features. Functions that it lacks are null, and are taken
// from the next implementation of the list that can run.
struct Implementation {
  const char* name;  // such as "avx2"
  CpuFeatures needs;
  const Table* table;
};

// Returns the implementations that were compiled for this architecture, the fastest first. The last
// is "reference", which needs nothing and has every function.
std::span<const Implementation> implementations();

// Says where a function of the chosen table came from.
struct KernelChoice {
  std::string function;  // such as "matmul_q8 Q4_0"
  const char* implementation;
};

struct Kernels {
  Table table;
  std::vector<KernelChoice> choices;
};

// Takes each function from the first implementation whose needs `available` covers. `only` names
// the fastest implementation allowed ("" = any): faster ones are left out, slower ones fill its
// gaps. Throws UsageError for an unknown name, or one that this processor cannot run.
Kernels choose(CpuFeatures available, std::string_view only = "");

// Returns the name of the implementation from which the function of this name was chosen; "" where
// there is none such.
std::string_view source_of(const Kernels& kernels, std::string_view function);

// Returns a line for people about each implementation that is used, with the functions it provides.
std::string describe(const Kernels& kernels);

}  // namespace troika::kernels
