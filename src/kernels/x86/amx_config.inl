// Sets up the eight tile registers, each of 16 lines of 64 bytes. This is assembly because g++ 12's
// own _tile_loadconfig declares only 8 of the 64 bytes as read, so that the compiler may leave the
// others unwritten.

// The configuration as the instruction reads it.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t n_lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline void configure_tiles() {
  const TileConfig config;
  asm volatile("ldtilecfg %0" ::"m"(config));
}
