// The shape of an executable: its phase and its rows.
#pragma once

#include <compare>
#include <cstdint>

namespace troika::plan {

// The numerics class of a pass and of the executables it takes. It is said by whoever asks for the
// pass and never follows from the number of rows: a step of 64 rows (drafts, several answers) has
// the bits of 64 steps of one, and a prompt of 20 tokens those of its place in a longer one.
enum class Phase : uint8_t {
  kStep,    // products as `Activations` says
  kPrompt,  // products as `Prefill` says
};

inline constexpr const char* kPhaseNames[] = {"step", "prompt"};  // by number
const char* phase_name(Phase phase);

// What an executable is built for.
struct Shape {
  Phase phase = Phase::kStep;
  int n_rows = 1;

  auto operator<=>(const Shape&) const = default;
};

}  // namespace troika::plan
