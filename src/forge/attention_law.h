// How concentrated planted attention is, and which share of the positions a tile of queries then
// keeps where positions go by their weight.
//
// The law. There are four directions. Each token looks in one of them: half of the tokens in the
// first, a quarter in the second, an eighth in each of the others. In each direction some tokens'
// keys are heavy, with a phase of their own: the score is 8 times the cosine of the phase. All
// other scores are about 0. So tokens that look in one direction agree on heavy hitters, and a tile
// keeps more the more directions its tokens have looked in. The more keys are heavy, the more is
// kept. Phases make the law the same at all distances, because rotations by position only shift
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troika::forge {

struct AttentionLaw {
  double share = 0.0;  // of the positions, on average over the tokens that choose; 0: none planted
  int length = 0;      // the length of the prompts of which it is the share; 0: usual_length()

  bool is_planted() const { return share != 0.0; }
};

inline constexpr size_t kDirections = 4;
inline constexpr double kHeavyScore = 8.0;
// These are the first token of a prompt that chooses, and the longest prompt whose share on a real
// model (SmolLM2-135M, whose context it is) is known.
inline constexpr int kChoosesFrom = 1024, kLongestKnown = 8192;

// Returns the direction in which a token looks that draws these bits.
size_t direction_of(uint64_t bits);

// How a token's key is in a direction.
struct DrawnKey {
  double place;  // from 0 to 1: the key is heavy where at least this share of all keys is
  double phase;  // from 0 to 2 pi
};
DrawnKey draw_key(uint64_t key, uint64_t token);

// The share of the positions that are kept, by the share of keys that are heavy.
class ShareCurve {
 public:
  // Draws some tiles of prompts of this length and lets them choose as `--attention sparse` does,
  // in plain arithmetic. REQUIRES: length >= kChoosesFrom + 128.
  ShareCurve(int length, uint64_t seed);

  double most() const { return kept_.back(); }
  double least() const { return kept_.front(); }
  double kept_of(double heavy) const;
  // Returns the share of heavy keys, a multiple of 1 / 4096. REQUIRES: least() <= kept <= most().
  double heavy_for(double kept) const;

 private:
  std::vector<double> kept_;  // one for each share of heavy keys that was tried
};

// Blocks differ: a third of them keeps less than the mean, another third more.
inline constexpr size_t kLevels = 3;
// Returns what each third of the blocks keeps: a half, one and one and a half times the mean, or
// less far apart where the curve does not go so far.
std::array<double, kLevels> kept_by_levels(double mean, const ShareCurve& curve);
// Returns the level of each block; all levels together have the mean.
std::vector<size_t> levels_of_blocks(size_t n_blocks);

}  // namespace troika::forge
