#include "kernels/amx_decoder_test_support.h"

#include <fmt/format.h>

#include <cstring>

namespace troika::kernels {
namespace {

// The field VEX.pp says one of these, in place of a prefix byte.
enum Prefix : uint8_t { kNoPrefix, k66, kF3, kF2 };

enum class Operands : uint8_t {
  kNothing,
  kMemory,
  kTile,
  kTileFromMemory,  // the base and index of a SIB byte say where lines are and how far apart
  kTileToMemory,
  kThreeTiles,
};

struct Form {
  AmxOperation operation;
  const char* name;
  uint8_t opcode;
  Prefix prefix;
  Operands operands;
};

// The rows stand in the order of AmxOperation. All instructions are in VEX map 0F38, of 128 bits,
// with W = 0.
constexpr Form kForms[] = {
    {AmxOperation::kLdtilecfg, "ldtilecfg", 0x49, kNoPrefix, Operands::kMemory},
    {AmxOperation::kSttilecfg, "sttilecfg", 0x49, k66, Operands::kMemory},
    {AmxOperation::kTilerelease, "tilerelease", 0x49, kNoPrefix, Operands::kNothing},
    {AmxOperation::kTilezero, "tilezero", 0x49, kF2, Operands::kTile},
    {AmxOperation::kTileloadd, "tileloadd", 0x4b, kF2, Operands::kTileFromMemory},
    {AmxOperation::kTileloaddt1, "tileloaddt1", 0x4b, k66, Operands::kTileFromMemory},
    {AmxOperation::kTilestored, "tilestored", 0x4b, kF3, Operands::kTileToMemory},
    {AmxOperation::kTdpbssd, "tdpbssd", 0x5e, kF2, Operands::kThreeTiles},
    {AmxOperation::kTdpbsud, "tdpbsud", 0x5e, kF3, Operands::kThreeTiles},
    {AmxOperation::kTdpbusd, "tdpbusd", 0x5e, k66, Operands::kThreeTiles},
    {AmxOperation::kTdpbuud, "tdpbuud", 0x5e, kNoPrefix, Operands::kThreeTiles},
    {AmxOperation::kTdpbf16ps, "tdpbf16ps", 0x5c, kF3, Operands::kThreeTiles},
};

// These fields come from the three bytes of VEX, the opcode and ModRM. The code holds r, x, b and v
// inverted.
struct Vex {
  int r, x, b;  // are the fourth bits of reg, of the index, and of rm or the base
  int v;
  uint8_t prefix;
  uint8_t opcode;
  int mod, reg, rm;
};

std::optional<Vex> read_vex(const uint8_t* code) {
  constexpr uint8_t kThreeBytes = 0xc4;
  constexpr int kMap0f38 = 2;
  // The bits W and L are set in none of the instructions.
  constexpr int kWide = 0x84;
  if (code[0] != kThreeBytes || (code[1] & 0x1f) != kMap0f38 || (code[2] & kWide) != 0) return {};
  Vex vex;
  vex.r = ~code[1] >> 7 & 1;
  vex.x = ~code[1] >> 6 & 1;
  vex.b = ~code[1] >> 5 & 1;
  vex.v = ~code[2] >> 3 & 15;
  vex.prefix = code[2] & 3;
  vex.opcode = code[3];
  vex.mod = code[4] >> 6;
  vex.reg = code[4] >> 3 & 7;
  vex.rm = code[4] & 7;
  return vex;
}

constexpr int kInRegister = 3;  // mod has this value where rm names a register
constexpr int kSib = 4;         // rm has this value where a SIB byte follows

bool has_form(const Vex& vex, Operands operands) {
  const bool is_memory = vex.mod != kInRegister;
  switch (operands) {
    case Operands::kNothing:
      return !is_memory && vex.reg == 0 && vex.rm == 0 && vex.v == 0;
    case Operands::kMemory:
      return is_memory && vex.reg == 0 && vex.v == 0;
    case Operands::kTile:
      return !is_memory && vex.rm == 0 && vex.r == 0 && vex.v == 0;
    case Operands::kTileFromMemory:
    case Operands::kTileToMemory:
      return is_memory && vex.rm == kSib && vex.r == 0 && vex.v == 0;
    case Operands::kThreeTiles:
      return !is_memory && vex.r == 0 && vex.b == 0 && vex.v < 8;
  }
  return false;
}

// Returns the address that begins with the ModRM byte at code[4]. *at becomes the place of the byte
// behind it.
AmxAddress read_address(const Vex& vex, const uint8_t* code, size_t* at) {
  AmxAddress address;
  int low_base = vex.rm;
  if (vex.rm == kSib) {
    const uint8_t sib = code[(*at)++];
    low_base = sib & 7;
    const int index = (sib >> 3 & 7) | vex.x << 3;
    if (index != 4) address.index = index;  // rsp cannot be an index, so its number stands for none
    address.scale = 1 << (sib >> 6);
  }
  address.base = low_base | vex.b << 3;
  const bool is_bare = vex.mod == 0 && low_base == 5;  // takes the place of the bases rbp and r13
  if (is_bare) {
    address.base = vex.rm == kSib ? AmxAddress::kNone : AmxAddress::kNextInstruction;
  }
  if (vex.mod == 1) {
    address.displacement = static_cast<int8_t>(code[(*at)++]);
  } else if (vex.mod == 2 || is_bare) {
    std::memcpy(&address.displacement, code + *at, sizeof(address.displacement));
    *at += sizeof(address.displacement);
  }
  return address;
}

std::string register_name(int number) {
  static constexpr const char* kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"};
  if (number == AmxAddress::kNextInstruction) return "%rip";
  return number < 8 ? std::string("%") + kNames[number] : fmt::format("%r{}", number);
}

std::string to_string(const AmxAddress& address) {
  const int64_t displacement = address.displacement;
  std::string text;
  if (address.displacement != 0 || address.base == AmxAddress::kNone) {
    text = fmt::format("{}{:#x}", displacement < 0 ? "-" : "", std::abs(displacement));
  }
  if (address.base == AmxAddress::kNone && address.index == AmxAddress::kNone) return text;
  text += "(";
  if (address.base != AmxAddress::kNone) text += register_name(address.base);
  if (address.index != AmxAddress::kNone) {
    text += fmt::format(",{},{}", register_name(address.index), address.scale);
  }
  return text + ")";
}

}  // namespace

std::optional<AmxInstruction> decode_amx(const uint8_t* code) {
  const std::optional<Vex> vex = read_vex(code);
  if (!vex) return {};
  for (const Form& form : kForms) {
    if (form.opcode != vex->opcode || form.prefix != vex->prefix) continue;
    if (!has_form(*vex, form.operands)) continue;
    AmxInstruction instruction;
    instruction.operation = form.operation;
    instruction.tile = vex->reg;
    instruction.left = vex->rm;
    instruction.right = vex->v;
    size_t at = 5;
    if (vex->mod != kInRegister) instruction.address = read_address(*vex, code, &at);
    instruction.n_bytes = at;
    return instruction;
  }
  return {};
}

std::string to_string(const AmxInstruction& i) {
  const Form& form = kForms[static_cast<size_t>(i.operation)];
  switch (form.operands) {
    case Operands::kNothing:
      break;
    case Operands::kMemory:
      return fmt::format("{} {}", form.name, to_string(i.address));
    case Operands::kTile:
      return fmt::format("{} %tmm{}", form.name, i.tile);
    case Operands::kTileFromMemory:
      return fmt::format("{} {},%tmm{}", form.name, to_string(i.address), i.tile);
    case Operands::kTileToMemory:
      return fmt::format("{} %tmm{},{}", form.name, i.tile, to_string(i.address));
    case Operands::kThreeTiles:
      return fmt::format("{} %tmm{},%tmm{},%tmm{}", form.name, i.right, i.left, i.tile);
  }
  return form.name;
}

}  // namespace troika::kernels
