#include "kernels/amx_emulator_test_support.h"

#if defined(__x86_64__)

#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/x86/x86.h"
#include "tensor/half.h"

namespace troika::kernels {
namespace {

enum class Operation {
  kConfigure,
  kStoreConfiguration,
  kRelease,
  kZero,
  kLoad,
  kStore,
  kBytes,
  kBf16
};

// The field VEX.pp says one of these, in place of a prefix byte.
enum Prefix { kNoPrefix, k66, kF3, kF2 };

struct Form {
  Operation operation;
  const char* name;
  uint8_t opcode;
  Prefix prefix;
  bool has_address;
};
// Lists what the kernels and their tests use. All are in VEX map 0F38, of 128 bits, with W = 0.
constexpr Form kForms[] = {
    {Operation::kConfigure, "ldtilecfg", 0x49, kNoPrefix, true},
    {Operation::kStoreConfiguration, "sttilecfg", 0x49, k66, true},
    {Operation::kRelease, "tilerelease", 0x49, kNoPrefix, false},
    {Operation::kZero, "tilezero", 0x49, kF2, false},
    {Operation::kLoad, "tileloadd", 0x4b, kF2, true},
    {Operation::kStore, "tilestored", 0x4b, kF3, true},
    {Operation::kBytes, "tdpbusd", 0x5e, k66, false},
    {Operation::kBf16, "tdpbf16ps", 0x5c, kF3, false},
};

struct Instruction {
  const Form* form = nullptr;
  size_t n_bytes = 0;
  int tile = 0;         // is the tile that is written or stored
  int left = 0;         // is the factor of a product whose lines are multiplied
  int right = 0;        // is the factor whose columns are multiplied
  uint64_t base = 0;    // the address, but for the index
  uint64_t stride = 0;  // the index times its scale
};

// Gives the general registers that a signal saved, by the numbers that instructions give them.
class Registers {
 public:
  explicit Registers(const gregset_t& saved) : saved_(saved) {}
  uint64_t operator[](int number) const {
    static constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<uint64_t>(saved_[kPlaces[number]]);
  }

 private:
  const gregset_t& saved_;
};

// Reads the address that begins with the ModRM byte at code[4]. The code holds the fourth bits of
// registers inverted in code[1].
void read_address(const uint8_t* code, const Registers& registers, Instruction* to) {
  constexpr int kSib = 4;  // rm has this value where a SIB byte follows
  const int mod = code[4] >> 6, rm = code[4] & 7;
  const int base_top = (~code[1] >> 5 & 1) << 3, index_top = (~code[1] >> 6 & 1) << 3;
  size_t at = 5;
  int low_base = rm;
  if (rm == kSib) {
    const uint8_t sib = code[at++];
    low_base = sib & 7;
    const int index = (sib >> 3 & 7) | index_top;
    // rsp cannot be an index, so its number stands for none.
    if (index != 4) to->stride = registers[index] << (sib >> 6);
  }
  const bool is_bare = mod == 0 && low_base == 5;  // takes the place of the bases rbp and r13
  int32_t displacement = 0;
  if (mod == 1) {
    displacement = static_cast<int8_t>(code[at++]);
  } else if (mod == 2 || is_bare) {
    std::memcpy(&displacement, code + at, sizeof(displacement));
    at += sizeof(displacement);
  }
  to->n_bytes = at;
  if (!is_bare) to->base = registers[low_base | base_top];
  if (is_bare && rm != kSib) to->base = reinterpret_cast<uint64_t>(code) + at;  // relative to rip
  to->base += static_cast<uint64_t>(int64_t{displacement});
}

// Returns nothing for other instructions. Reads no byte behind the instruction.
std::optional<Instruction> decode(const uint8_t* code, const Registers& registers) {
  constexpr uint8_t kThreeBytes = 0xc4;
  constexpr int kMap0f38 = 2, kWideOrLong = 0x84, kInRegister = 3;
  if (code[0] != kThreeBytes || (code[1] & 0x1f) != kMap0f38 || (code[2] & kWideOrLong) != 0) {
    return {};
  }
  for (const Form& form : kForms) {
    const bool has_address = code[4] >> 6 != kInRegister;
    if (form.opcode != code[3] || form.prefix != (code[2] & 3) || form.has_address != has_address) {
      continue;
    }
    Instruction instruction;
    instruction.form = &form;
    instruction.n_bytes = 5;
    instruction.tile = code[4] >> 3 & 7;
    instruction.left = code[4] & 7;
    instruction.right = ~code[2] >> 3 & 7;
    if (has_address) read_address(code, registers, &instruction);
    return instruction;
  }
  return {};
}

constexpr size_t kTileRegisters = 8, kTileLines = 16, kTileLineBytes = 64, kConfigurationBytes = 64;

// The tile registers of one thread, which are all whole.
struct Unit {
  bool is_configured = false;
  uint8_t configuration[kConfigurationBytes] = {};
  uint8_t tiles[kTileRegisters][kTileLines][kTileLineBytes] = {};
};

// Returns why it is refused, or null.
const char* configure(Unit* unit, const void* from) {
  uint8_t bytes[kConfigurationBytes];
  std::memcpy(bytes, from, sizeof(bytes));
  *unit = {};
  if (bytes[0] == 0) return nullptr;
  uint8_t whole[kConfigurationBytes] = {1};
  for (size_t i = 0; i < kTileRegisters; ++i)
    whole[16 + 2 * i] = kTileLineBytes, whole[48 + i] = kTileLines;
  if (std::memcmp(bytes, whole, sizeof(bytes)) != 0) return "only whole tiles are emulated";
  unit->is_configured = true;
  std::memcpy(unit->configuration, bytes, sizeof(bytes));
  return nullptr;
}

template <typename T>
T element(const uint8_t* line, size_t i) {
  T value;
  std::memcpy(&value, line + i * sizeof(T), sizeof(T));
  return value;
}

void add_bytes(Unit* unit, const Instruction& i) {
  for (size_t m = 0; m < kTileLines; ++m) {
    const uint8_t* const left = unit->tiles[i.left][m];
    for (size_t n = 0; n < kTileLineBytes / 4; ++n) {
      auto sum = element<uint32_t>(unit->tiles[i.tile][m], n);
      for (size_t k = 0; k < kTileLineBytes; ++k) {
        const auto right = static_cast<int8_t>(unit->tiles[i.right][k / 4][4 * n + k % 4]);
        sum += static_cast<uint32_t>(left[k] * right);
      }
      std::memcpy(unit->tiles[i.tile][m] + 4 * n, &sum, sizeof(sum));
    }
  }
}

// Even and odd places of k have sums of their own, which are added at the end. Products of two
// bfloat16 are exact.
void add_bf16(Unit* unit, const Instruction& i) {
  const auto factor = [](const uint8_t* line, size_t at) {
    return tensor::bf16_to_f32(element<uint16_t>(line, at));
  };
  for (size_t m = 0; m < kTileLines; ++m) {
    const uint8_t* const left = unit->tiles[i.left][m];
    for (size_t n = 0; n < kTileLineBytes / 4; ++n) {
      float even = 0, odd = 0;
      for (size_t k = 0; k < kTileLines; ++k) {
        const uint8_t* const right = unit->tiles[i.right][k];
        even += factor(left, 2 * k) * factor(right, 2 * n);
        odd += factor(left, 2 * k + 1) * factor(right, 2 * n + 1);
      }
      const float sum = element<float>(unit->tiles[i.tile][m], n) + (even + odd);
      std::memcpy(unit->tiles[i.tile][m] + 4 * n, &sum, sizeof(sum));
    }
  }
}

// Does what an instruction does. Returns why a processor would refuse it, or null.
const char* execute(Unit* unit, const Instruction& i) {
  const Operation operation = i.form->operation;
  const bool is_product = operation == Operation::kBytes || operation == Operation::kBf16;
  const bool needs_tiles = is_product || operation == Operation::kZero ||
                           operation == Operation::kLoad || operation == Operation::kStore;
  if (needs_tiles && !unit->is_configured) return "the tiles are not configured";
  if (is_product && (i.tile == i.left || i.left == i.right || i.tile == i.right)) {
    return "it names a tile twice";
  }
  uint8_t(&tile)[kTileLines][kTileLineBytes] = unit->tiles[i.tile];
  switch (operation) {
    case Operation::kConfigure:
      return configure(unit, reinterpret_cast<const void*>(i.base + i.stride));
    case Operation::kStoreConfiguration:
      std::memcpy(reinterpret_cast<void*>(i.base + i.stride), unit->configuration,
                  kConfigurationBytes);
      break;
    case Operation::kRelease:
      *unit = {};
      break;
    case Operation::kZero:
      std::memset(tile, 0, sizeof(tile));
      break;
    case Operation::kLoad:
      for (size_t line = 0; line < kTileLines; ++line) {
        std::memcpy(tile[line], reinterpret_cast<const void*>(i.base + line * i.stride),
                    kTileLineBytes);
      }
      break;
    case Operation::kStore:
      for (size_t line = 0; line < kTileLines; ++line) {
        std::memcpy(reinterpret_cast<void*>(i.base + line * i.stride), tile[line], kTileLineBytes);
      }
      break;
    case Operation::kBytes:
      add_bytes(unit, i);
      break;
    case Operation::kBf16:
      add_bf16(unit, i);
      break;
  }
  return nullptr;
}

// A signal has one handler for the whole process, so its state is global too. The handler may use a
// mutex, which others may not, because it runs only in a kernel's instruction and never within a
// function of a library.
constinit thread_local Unit unit_of_thread;
constinit std::atomic<size_t> n_emulated = 0;
constinit std::atomic<bool> is_installed = false;
constinit std::mutex refusal_mutex;
struct Refused {
  const char* instruction = nullptr;  // is null where nothing was refused
  const char* why = nullptr;
};
constinit Refused first_refused;  // is shared by all threads
struct sigaction action_before;

void on_illegal_instruction(int signal_number, siginfo_t* /*info*/, void* context) {
  gregset_t& saved = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const uint8_t*>(saved[REG_RIP]);
  const std::optional<Instruction> instruction = decode(code, Registers(saved));
  if (!instruction) {
    std::signal(signal_number, SIG_DFL);  // the signal is raised again at once and ends the program
    return;
  }
  if (const char* const why = execute(&unit_of_thread, *instruction)) {
    const std::lock_guard lock(refusal_mutex);
    if (first_refused.why == nullptr) first_refused = {instruction->form->name, why};
  }
  n_emulated.fetch_add(1, std::memory_order_relaxed);
  saved[REG_RIP] += static_cast<greg_t>(instruction->n_bytes);
}

}  // namespace

AmxEmulator::AmxEmulator() {
  TROIKA_ASSERT(!is_installed.exchange(true));
  n_emulated = 0;
  unit_of_thread = {};
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
  if (refused.instruction == nullptr) return "";
  return std::string(refused.instruction) + ": " + refused.why;
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
