// Chooses the kernels of this machine, once at start.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/kernels.h"

namespace troika::kernels {

// A set of kernels that needs certain features. Functions it does not have are null and come from
// the next implementation of the list that can run.
struct Implementation {
  const char* name;  // "avx2"
  CpuFeatures needs;
  const Table* table;
};

// Fastest first; the last is "reference", which needs nothing and has every function. Only those
// compiled for this architecture are listed.
std::span<const Implementation> implementations();

// Where a function of the chosen table came from.
struct Choice {
  std::string function;  // "matmul_q8 Q4_0"
  const char* implementation;
};

struct Kernels {
  Table table;
  std::vector<Choice> choices;
};

// For each function the first implementation whose needs `available` covers. `only` names the
// fastest implementation allowed ("" = any): faster ones are left out, slower ones fill its gaps.
// Throws UsageError for an unknown name or one this processor cannot run.
Kernels choose(CpuFeatures available, std::string_view only = "");

// For people: one line for each implementation used, with the functions it provides.
std::string describe(const Kernels& kernels);

}  // namespace troika::kernels
