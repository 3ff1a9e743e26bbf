// Lets tests run the machine code of AMX kernels on processors without AMX: such a processor raises
// a signal at each of these instructions, and the signal's handler does what the instruction does.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "base/cpu_features.h"

namespace troika::kernels {

// Emulates AMX in all threads while it lives. There may be one at a time. Each thread has tiles of
// its own, as on a processor. Other illegal instructions end the program as always.
class AmxEmulator {
 public:
  AmxEmulator();
  // Fails the test if nobody has taken a refusal.
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  // Returns the first instruction since the last call that a processor would have refused, and why,
  // or "" if there was none. The program went on behind it.
  std::string take_refusal();
  // Returns how many instructions were emulated so far, in all threads.
  size_t n_instructions() const;
};

// Returns an emulator if the processor has all that AMX kernels need but AMX; *available then has
// AMX too. Returns null if it has AMX or cannot run those kernels.
std::unique_ptr<AmxEmulator> emulate_amx_if_missing(CpuFeatures* available);

// The base of tests with AMX, of the processor or emulated. They are skipped where the rest of the
// kernels cannot run.
class AmxTest : public testing::Test {
 protected:
  void SetUp() override;
  // Fails if the test has left tiles in use.
  void TearDown() override;

  CpuFeatures available_;
  std::unique_ptr<AmxEmulator> emulator_;  // is null on a processor with AMX
};

}  // namespace troika::kernels
