// The tile registers of AMX and what its instructions do with them, in plain C++, as the manual of
// the processors states it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troika::kernels {

// Every function does what the instruction does and returns an empty text; or, where a processor
// refuses the instruction, changes nothing and returns why. The registers of one thread.
class AmxUnit {
 public:
  std::string configure(const void* bytes);   // ldtilecfg: reads 64
  void store_configuration(void* out) const;  // sttilecfg: writes 64
  void release();

  std::string zero(int tile);
  // Lines of memory stand `stride` bytes apart.
  std::string load(int tile, uint64_t address, uint64_t stride);
  std::string store(int tile, uint64_t address, uint64_t stride);
  // tile[m][n] += left[m][4 * k + i] * right[k][4 * n + i], over k and four bytes i, with `Left`
  // and `Right` as (u)int8_t. Sums wrap round.
  template <typename Left, typename Right>
  std::string add_bytes(int tile, int left, int right);
  // The same in floats, with two bfloat16 in the place of four bytes.
  std::string add_bf16(int tile, int left, int right);

 private:
  static constexpr int kTiles = 8;
  static constexpr size_t kLines = 16;
  static constexpr size_t kLineBytes = 64;
  struct Shape {
    uint16_t line_bytes;
    uint8_t n_lines;
  };

  std::string why_not(int tile) const;
  std::string why_not(int tile, int left, int right) const;
  void write_line(int tile, size_t line, const void* bytes);
  void clear_lines_behind(int tile);

  bool is_configured_ = false;
  uint8_t start_line_ = 0;  // with which an interrupted load goes on
  Shape shapes_[kTiles] = {};
  uint8_t lines_[kTiles][kLines][kLineBytes] = {};
};

}  // namespace troika::kernels
