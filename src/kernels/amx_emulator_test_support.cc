#include "kernels/amx_emulator_test_support.h"

#if defined(__x86_64__)

#include <fmt/format.h>
#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "kernels/amx_decoder_test_support.h"
#include "kernels/amx_unit_test_support.h"
#include "kernels/x86/x86.h"

namespace troika::kernels {
namespace {

// A signal has one handler for the whole process, so its state is global too. The handler may use a
// mutex, which others may not, because it runs only in a kernel's instruction and never within a
// function of a library.
constinit thread_local AmxUnit unit;
constinit std::atomic<size_t> n_emulated = 0;
constinit std::atomic<bool> is_installed = false;
constinit std::mutex refusal_mutex;
struct Refused {
  AmxInstruction instruction;
  AmxRefusal why;  // is empty where nothing was refused
};
constinit Refused first_refused;  // is shared by all threads
struct sigaction action_before;

// Gives the general registers that a signal saved, by the numbers of AmxAddress.
class Registers {
 public:
  explicit Registers(const gregset_t& saved) : saved_(saved) {}
  uint64_t operator[](int number) const {
    static constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    return number == AmxAddress::kNone ? 0 : static_cast<uint64_t>(saved_[kPlaces[number]]);
  }

 private:
  const gregset_t& saved_;
};

AmxRefusal execute(const AmxInstruction& i, const Registers& registers) {
  uint64_t base =
      registers[i.address.base] + static_cast<uint64_t>(int64_t{i.address.displacement});
  if (i.address.base == AmxAddress::kNextInstruction) base += i.n_bytes;
  const uint64_t rest = registers[i.address.index] * static_cast<uint64_t>(i.address.scale);
  switch (i.operation) {
    case AmxOperation::kLdtilecfg:
      return unit.configure(reinterpret_cast<const void*>(base + rest));
    case AmxOperation::kSttilecfg:
      unit.store_configuration(reinterpret_cast<void*>(base + rest));
      return {};
    case AmxOperation::kTilerelease:
      unit.release();
      return {};
    case AmxOperation::kTilezero:
      return unit.zero(i.tile);
    case AmxOperation::kTileloadd:
    case AmxOperation::kTileloaddt1:
      return unit.load(i.tile, base, rest);
    case AmxOperation::kTilestored:
      return unit.store(i.tile, base, rest);
    case AmxOperation::kTdpbssd:
      return unit.add_bytes<int8_t, int8_t>(i.tile, i.left, i.right);
    case AmxOperation::kTdpbsud:
      return unit.add_bytes<int8_t, uint8_t>(i.tile, i.left, i.right);
    case AmxOperation::kTdpbusd:
      return unit.add_bytes<uint8_t, int8_t>(i.tile, i.left, i.right);
    case AmxOperation::kTdpbuud:
      return unit.add_bytes<uint8_t, uint8_t>(i.tile, i.left, i.right);
    case AmxOperation::kTdpbf16ps:
      return unit.add_bf16(i.tile, i.left, i.right);
  }
  return {};
}

void on_illegal_instruction(int signal_number, siginfo_t* /*info*/, void* context) {
  gregset_t& saved = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto instruction = decode_amx(reinterpret_cast<const uint8_t*>(saved[REG_RIP]));
  if (!instruction) {
    std::signal(signal_number, SIG_DFL);  // the signal is raised again at once and ends the program
    return;
  }
  if (const AmxRefusal why = execute(*instruction, Registers(saved))) {
    const std::lock_guard lock(refusal_mutex);
    if (!first_refused.why) first_refused = {*instruction, why};
  }
  n_emulated.fetch_add(1, std::memory_order_relaxed);
  saved[REG_RIP] += static_cast<greg_t>(instruction->n_bytes);
}

}  // namespace

AmxEmulator::AmxEmulator() {
  TROIKA_ASSERT(!is_installed.exchange(true));
  n_emulated = 0;
  unit.release();
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, &action_before);
}

AmxEmulator::~AmxEmulator() {
  sigaction(SIGILL, &action_before, nullptr);
  is_installed = false;
  const std::string refusal = take_refusal();
  EXPECT_TRUE(refusal.empty()) << "a processor would have refused " << refusal;
}

std::string AmxEmulator::take_refusal() {
  const std::lock_guard lock(refusal_mutex);
  const Refused refused = std::exchange(first_refused, {});
  return refused.why ? fmt::format("{}: {}", to_string(refused.instruction), refused.why.text) : "";
}

size_t AmxEmulator::n_instructions() const { return n_emulated; }

std::unique_ptr<AmxEmulator> emulate_amx_if_missing(CpuFeatures* available) {
  CpuFeatures others = x86::kAmxNeeds;
  others.remove(CpuFeature::kAmxInt8);
  others.remove(CpuFeature::kAmxBf16);
  if (available->has(CpuFeature::kAmxInt8) || available->has(CpuFeature::kAmxBf16)) return nullptr;
  if (!available->has_all(others)) return nullptr;
  available->add(CpuFeature::kAmxInt8);
  available->add(CpuFeature::kAmxBf16);
  return std::make_unique<AmxEmulator>();
}

void AmxTest::SetUp() {
  available_ = detect_cpu_features();
  emulator_ = emulate_amx_if_missing(&available_);
  if (!available_.has_all(x86::kAmxNeeds)) {
    GTEST_SKIP() << "what stands around the tile instructions needs " << to_string(x86::kAmxNeeds)
                 << ", of which this processor lacks more than AMX";
  }
}

void AmxTest::TearDown() {
  if (IsSkipped()) return;
  uint8_t configuration[64];
  asm volatile("sttilecfg %0" : "=m"(configuration));
  EXPECT_EQ(configuration[0], 0) << "this thread still holds tiles";
}

}  // namespace troika::kernels

#else

namespace troika::kernels {

AmxEmulator::AmxEmulator() = default;
AmxEmulator::~AmxEmulator() = default;
std::string AmxEmulator::take_refusal() { return ""; }
size_t AmxEmulator::n_instructions() const { return 0; }
std::unique_ptr<AmxEmulator> emulate_amx_if_missing(CpuFeatures* /*available*/) { return nullptr; }

}  // namespace troika::kernels

#endif  // __x86_64__
