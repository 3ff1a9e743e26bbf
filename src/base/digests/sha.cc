#include "base/digests/sha.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace troika {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

void add_block_256(uint32_t* state, const std::byte* block) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += added[i];
}

void add_block_1(uint32_t* state, const std::byte* block) {
  constexpr uint32_t kOfTwenty[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  uint32_t w[80];
  for (int t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int t = 0; t < 80; ++t) {
    const uint32_t mixed = t < 20              ? (b & c) ^ (~b & d)
                           : t >= 40 && t < 60 ? (b & c) ^ (b & d) ^ (c & d)
                                               : b ^ c ^ d;
    const uint32_t t1 = std::rotl(a, 5) + mixed + e + kOfTwenty[t / 20] + w[t];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = t1;
  }
  const uint32_t added[5] = {a, b, c, d, e};
  for (int i = 0; i < 5; ++i) state[i] += added[i];
}

}  // namespace

void Sha::add_block(const std::byte* block) {
  n_words_ == 5 ? add_block_1(state_.data(), block) : add_block_256(state_.data(), block);
}

void Sha::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n_rest = n_bytes_ % kBlock;
    const size_t n = std::min(bytes.size(), kBlock - n_rest);
    if (n == kBlock) {
      add_block(bytes.data());
    } else {
      std::memcpy(rest_.data() + n_rest, bytes.data(), n);
      if (n_rest + n == kBlock) add_block(rest_.data());
    }
    n_bytes_ += n;
    bytes = bytes.subspan(n);
  }
}

std::string Sha::hex() {
  // The padding is a one, then zeros up to the last eight bytes of a block, and there the length in
  // bits.
  const uint64_t n_bits = n_bytes_ * 8;
  std::array<std::byte, kBlock + 8> end = {std::byte{0x80}};
  const size_t n_zeros = (2 * kBlock - 8 - n_bytes_ % kBlock - 1) % kBlock;
  for (size_t i = 0; i < 8; ++i) end[1 + n_zeros + i] = std::byte(n_bits >> (56 - 8 * i) & 0xff);
  add(std::span(end).first(1 + n_zeros + 8));
  std::string text;
  for (size_t i = 0; i < n_words_; ++i) text += fmt::format("{:08x}", state_[i]);
  return text;
}

}  // namespace troika
