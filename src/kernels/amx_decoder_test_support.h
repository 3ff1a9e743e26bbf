// Reads the machine code of AMX instructions, for tests on processors that do not know them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace troika::kernels {

enum class AmxOperation : uint8_t {
  kLdtilecfg,
  kSttilecfg,
  kTilerelease,
  kTilezero,
  kTileloadd,
  kTileloaddt1,
  kTilestored,
  kTdpbssd,
  kTdpbsud,
  kTdpbusd,
  kTdpbuud,
  kTdpbf16ps,
};

// An address is base + index * scale + displacement. Registers have the numbers that instructions
// give them: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
struct AmxAddress {
  static constexpr int kNone = -1;
  static constexpr int kNextInstruction = 16;  // is a base: the address behind this instruction

  int base = kNone;
  int index = kNone;
  int scale = 1;
  int32_t displacement = 0;
};

struct AmxInstruction {
  AmxOperation operation = AmxOperation::kTilerelease;
  size_t n_bytes = 0;
  int tile = 0;   // is the tile that is written or stored
  int left = 0;   // is the factor of a product whose lines are multiplied
  int right = 0;  // is the factor whose columns are multiplied
  AmxAddress address;
};

// Returns nothing for other instructions, invalid forms, and those with a prefix for segments or
// short addresses, which no compiler writes here. Reads no byte behind the instruction.
std::optional<AmxInstruction> decode_amx(const uint8_t* code);

// Returns the instruction as objdump prints it, but without a displacement of 0: "tileloadd
// 0x40(%rax,%rcx,1),%tmm3".
std::string to_string(const AmxInstruction& instruction);

}  // namespace troika::kernels
