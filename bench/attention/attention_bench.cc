// Measures where the time of a prompt's attention goes, for one head of keys on one thread: with
// all positions, and with tiles that choose (S1, S2), part by part. Choosing by share takes random
// keys and queries, which cost what real ones do. Choosing by weight takes planted ones, of which a
// tile keeps about that share, chosen by its tokens one after the other.
//
//   troika_attention_bench [POSITIONS,... [PERCENT [share|weight [ROUNDS]]]]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "attention/choose/lists.h"
#include "attention/tile_attention.h"
#include "bench/attention/planted_prompt.h"
#include "kernels/choose.h"

namespace {

using namespace troika::bench;
namespace kernels = troika::kernels;

constexpr size_t kFrom = 1024;
constexpr size_t kUsualRounds = 5;  // the median of their ratios counts
constexpr double kAbove = 2.5;      // a multiple of the mean weight

struct Times {
  double full = 0, sparse = 0, begin = 0, estimate = 0, select = 0;
  double seen = 0, all = 0;  // count positions of all tokens that choose
};

// How tiles choose.
struct Mode {
  bool by_weight = false;
  double share = 0.2;

  TileChoice choice() const {
    if (by_weight) return {ChoiceRule::kWeighty, 0.0, kAbove};
    return {ChoiceRule::kPositions, share};
  }
};

Times time_of(const kernels::Table& table, Prompt& prompt, const Mode& mode) {
  const size_t n_tiles = tiles_together(prompt.shape.n_group),
               together = tokens_together(prompt.shape.n_group);
  const TileRoom room = {prompt.shape.head_size, prompt.shape.n_group, n_tiles};
  const PanelRoom panels = {prompt.shape.head_size, prompt.shape.n_group, together, together};
  Workspace work(std::max(room.bytes(), panels.bytes())), lists(room.list_bytes(prompt.n));
  std::vector<float> importance(n_tiles * prompt.n);
  std::vector<uint32_t> kept(prompt.n);
  Times times;
  double start = seconds();
  attend_to_all(table, prompt, 0, prompt.n, work.get());
  times.full = seconds() - start;
  start = seconds();
  attend_to_all(table, prompt, 0, std::min(kFrom, prompt.n), work.get());
  times.begin = seconds() - start;
  const size_t step = n_tiles * kTileTokens;
  for (size_t begin = kFrom; begin + step <= prompt.n; begin += step) {
    const Positions positions = prompt.positions(begin + step);
    start = seconds();
    attend_tiles(table, positions, prompt.queries(begin), begin, mode.choice(), room, work.get(),
                 lists.get());
    times.sparse += seconds() - start;
    // The same parts run once more, each by itself.
    const EstimateRoom estimate = {prompt.shape.head_size, prompt.shape.n_group, n_tiles};
    start = seconds();
    if (mode.by_weight) {
      mark_tiles(table, positions, prompt.queries(begin), begin, kAbove, estimate, work.get(),
                 importance.data(), prompt.n);
    } else {
      estimate_tiles(table, positions, prompt.queries(begin), begin, estimate, work.get(),
                     importance.data(), prompt.n);
    }
    times.estimate += seconds() - start;
    start = seconds();
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      const size_t tile_begin = begin + tile * kTileTokens;
      float* const of_tile = importance.data() + tile * prompt.n;
      std::array<size_t, kTileTokens> n_seen{};
      if (mode.by_weight) {
        list_of_marks(tile_begin, of_tile, kept.data(), n_seen);
      } else {
        const size_t n_kept = list_of_tile(table, mode.share, tile_begin, of_tile, kept.data());
        for (size_t t = 0; t < kTileTokens; ++t) n_seen[t] = n_kept + t + 1;
      }
      for (size_t t = 0; t < kTileTokens; ++t) {
        times.seen += static_cast<double>(n_seen[t]);
        times.all += static_cast<double>(tile_begin + t + 1);
      }
    }
    times.select += seconds() - start;
  }
  times.sparse += times.begin;
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<size_t> lengths = numbers(argc > 1 ? argv[1] : "2048,4096,8192,16384");
  Mode mode;
  mode.share = (argc > 2 ? std::atof(argv[2]) : 20.0) / 100;
  mode.by_weight = argc > 3 && std::string(argv[3]) == "weight";
  const size_t n_rounds =
      argc > 4 ? std::max<size_t>(std::strtoul(argv[4], nullptr, 10), 1) : kUsualRounds;
  const kernels::Table table = kernels::choose(troika::detect_cpu_features()).table;
  fmt::print(
      "head size, group, positions: ms of all positions; of about {:g} %, by {}, and what that is "
      "of it; of it the first {}, estimate, selection, exact part; positions that are seen\n",
      100 * mode.share, mode.by_weight ? "weight" : "share", kFrom);
  for (const Shape shape : kShapes) {
    for (const size_t n : lengths) {
      Prompt prompt(table, shape, n / kChunk * kChunk);
      if (mode.by_weight) prompt.plant(table, mode.share);
      std::vector<Times> rounds;
      for (size_t round = 0; round < n_rounds; ++round) {
        rounds.push_back(time_of(table, prompt, mode));
      }
      std::sort(rounds.begin(), rounds.end(), [](const Times& a, const Times& b) {
        return a.sparse / a.full < b.sparse / b.full;
      });
      const Times& median = rounds[n_rounds / 2];
      const double exact = median.sparse - median.begin - median.estimate - median.select;
      fmt::print(
          "{:>3} {:>2} {:>6}: {:>8.1f} {:>8.1f} {:.3f}   {:.3f} {:.3f} {:.3f} {:.3f}  {:.3f}\n",
          shape.head_size, shape.n_group, prompt.n, 1e3 * median.full, 1e3 * median.sparse,
          median.sparse / median.full, median.begin / median.full, median.estimate / median.full,
          median.select / median.full, exact / median.full, median.seen / median.all);
    }
  }
}
