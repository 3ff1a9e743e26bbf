// The shape of an executable: its phase and its rows.
#pragma once

#include <compare>
#include <cstdint>

namespace troika::plan {

// The numerics class of a pass and of its executables. Whoever asks for the pass says which; it
// never follows from the number of rows. A step of 64 rows (drafts, several answers) has the bits
// of 64 steps of one row, and a prompt of 20 tokens those of the same tokens in a longer prompt.
enum class Phase : uint8_t {
  kStep,    // computes products as `Activations` says
  kPrompt,  // computes products as `Prefill` says
};

inline constexpr const char* kPhaseNames[] = {"step", "prompt"};  // indexed by the phase
const char* phase_name(Phase phase);

// What an executable is built for.
struct Shape {
  Phase phase = Phase::kStep;
  int n_rows = 1;

  auto operator<=>(const Shape&) const = default;
};

}  // namespace troika::plan
