// Lets tests run the machine code of AMX kernels on processors without AMX: the signal that such an
// instruction raises there is answered by doing what the instruction does.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "base/cpu_features.h"

namespace troika::kernels {

// Emulates AMX in all threads while it lives; one at a time. Each thread has tiles of its own, as
// on a processor. Illegal instructions that it does not know end the program as they always do.
class AmxEmulator {
 public:
  AmxEmulator();
  // A refusal that nobody has taken fails the test.
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  // The first instruction since the last call that a processor would have refused, and why; empty
  // if there was none. The program went on behind it.
  std::string take_refusal();
  // Returns how many instructions were emulated so far, in all threads.
  size_t n_instructions() const;
};

// An emulator where the processor has all but AMX of what the AMX kernels need; *available then
// has AMX too. None where it has AMX or cannot run those kernels.
std::unique_ptr<AmxEmulator> emulate_amx_if_missing(CpuFeatures* available);

// A test with AMX: of the processor, or emulated. Skipped where the rest of the kernels cannot run.
class AmxTest : public testing::Test {
 protected:
  void SetUp() override;
  // Fails where the test has left tiles in use.
  void TearDown() override;

  CpuFeatures available_;
  std::unique_ptr<AmxEmulator> emulator_;  // null on a processor with AMX
};

}  // namespace troika::kernels
