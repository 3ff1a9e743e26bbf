// Has the tile registers of AMX and does what its instructions do, in plain C++, as the manual of
// the processors states it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::kernels {

// Says why a processor would refuse an instruction; it is empty where it would not. It holds its
// own text, because it is made in a signal's handler, where nothing should be allocated.
struct AmxRefusal {
  char text[120] = "";

  explicit operator bool() const { return text[0] != '\0'; }
};

// The tile registers of one thread. Every function does what its instruction does. Where a
// processor would refuse the instruction, the function changes nothing and returns why.
class AmxUnit {
 public:
  AmxRefusal configure(const void* bytes);    // does ldtilecfg, which reads 64 bytes
  void store_configuration(void* out) const;  // does sttilecfg, which writes 64 bytes
  void release();

  AmxRefusal zero(int tile);
  // The lines in memory are `stride` bytes apart.
  AmxRefusal load(int tile, uint64_t address, uint64_t stride);
  AmxRefusal store(int tile, uint64_t address, uint64_t stride);
  // Computes tile[m][n] += left[m][4 * k + i] * right[k][4 * n + i], over k and four bytes i, with
  // `Left` and `Right` as (u)int8_t. Sums wrap round.
  template <typename Left, typename Right>
  AmxRefusal add_bytes(int tile, int left, int right);
  // Computes the product in floats, with two bfloat16 in the place of four bytes.
  AmxRefusal add_bf16(int tile, int left, int right);

 private:
  static constexpr int kTiles = 8;
  static constexpr size_t kLines = 16;
  static constexpr size_t kLineBytes = 64;
  struct Shape {
    uint16_t line_bytes;
    uint8_t n_lines;
  };

  AmxRefusal why_not(int tile) const;
  AmxRefusal why_not(int tile, int left, int right) const;
  void write_line(int tile, size_t line, const void* bytes);
  void clear_lines_behind(int tile);

  bool is_configured_ = false;
  uint8_t start_line_ = 0;  // the line at which an interrupted load goes on
  Shape shapes_[kTiles] = {};
  uint8_t lines_[kTiles][kLines][kLineBytes] = {};
};

}  // namespace troika::kernels
