// Measures libtroika_attention through its C interface, for one head of keys on one thread: all
// positions, and tiles that choose by weight, beside the dense kernel on the same keys. What the
// first has over the kernel is what the interface adds: copies, strides, the workspace.
//
//   troika_attention_library_bench [POSITIONS,... [PERCENT [ROUNDS]]]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/attention/planted_prompt.h"
#include "kernels/choose.h"
#include "troika/attention.h"

namespace {

using namespace troika::bench;
namespace kernels = troika::kernels;

constexpr double kAboveMean = 2.5;
constexpr double kUsualPercent = 38.0;
constexpr size_t kFewRounds = 5;  // the median of their ratios counts

// An attention of the library, with a workspace for prompts of one shape.
class Library {
 public:
  Library(Prompt& prompt, troika_attention_mode mode) {
    const Shape& shape = prompt.shape;
    troika_attention_options options = {};
    options.size = sizeof(options);
    options.n_heads = static_cast<int32_t>(shape.n_group);
    options.n_kv_heads = 1;
    options.head_size = static_cast<int32_t>(shape.head_size);
    options.scale = prompt.queries(0).scale;
    options.mode = mode;
    options.above = mode == TROIKA_ATTENTION_SPARSE ? kAboveMean : 0.0;
    check(troika_attention_create(&options, &attention_, &error_));
    const auto rows_of = [&](const void* data, troika_attention_type type, size_t bytes) {
      return troika_attention_rows{data, type, bytes, bytes};
    };
    const size_t head_bytes = shape.head_size * sizeof(float);
    call_.size = sizeof(call_);
    call_.n_tokens = static_cast<int32_t>(prompt.n);
    call_.q = {prompt.q.data(), TROIKA_ATTENTION_F32, shape.n_group * head_bytes, head_bytes};
    call_.k = rows_of(prompt.k.data(), TROIKA_ATTENTION_F16, head_bytes / 2);
    call_.v = rows_of(prompt.v.data(), TROIKA_ATTENTION_F16, head_bytes / 2);
    call_.out = prompt.out.data();
    call_.out_row_bytes = shape.n_group * head_bytes;
    call_.out_head_bytes = head_bytes;
    call_.n_workers = 1;
    workspace_.resize(troika_attention_workspace(attention_, &call_));
    call_.workspace = workspace_.data();
    call_.workspace_bytes = workspace_.size();
  }
  ~Library() { troika_attention_destroy(attention_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  double run_seconds() {
    const double start = seconds();
    check(troika_attention_run(attention_, &call_, &error_));
    return seconds() - start;
  }

 private:
  void check(troika_attention_code code) const {
    if (code == TROIKA_ATTENTION_OK) return;
    fmt::print(stderr, "error: {}\n", error_.message);
    std::exit(1);
  }

  troika_attention* attention_ = nullptr;
  troika_attention_call call_ = {};
  troika_attention_error error_ = {};
  std::vector<std::byte> workspace_;
};

struct LibraryTimes {
  double kernel = 0, full = 0, sparse = 0;
};

LibraryTimes times_of(const kernels::Table& table, Prompt& prompt) {
  const size_t together = tokens_together(prompt.shape.n_group);
  Workspace work(
      PanelRoom{prompt.shape.head_size, prompt.shape.n_group, together, together}.bytes());
  Library full(prompt, TROIKA_ATTENTION_FULL), sparse(prompt, TROIKA_ATTENTION_SPARSE);
  LibraryTimes times;
  const double start = seconds();
  attend_to_all(table, prompt, 0, prompt.n, work.get());
  times.kernel = seconds() - start;
  times.full = full.run_seconds();
  times.sparse = sparse.run_seconds();
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<size_t> lengths = numbers(argc > 1 ? argv[1] : "2048,4096,8192");
  const double share = (argc > 2 ? std::atof(argv[2]) : kUsualPercent) / 100;
  const size_t n_rounds =
      argc > 3 ? std::max<size_t>(std::strtoul(argv[3], nullptr, 10), 1) : kFewRounds;
  const kernels::Table table = kernels::choose(troika::detect_cpu_features()).table;
  fmt::print(
      "head size, group, positions: ms of the dense kernel, of FULL, of SPARSE (above {:g}); "
      "FULL over the kernel, SPARSE over the kernel, SPARSE over FULL\n",
      kAboveMean);
  for (const Shape shape : kShapes) {
    for (const size_t n : lengths) {
      Prompt prompt(table, shape, n / kChunk * kChunk);
      prompt.plant(table, share);
      std::vector<LibraryTimes> rounds;
      for (size_t round = 0; round < n_rounds; ++round) rounds.push_back(times_of(table, prompt));
      std::sort(rounds.begin(), rounds.end(), [](const LibraryTimes& a, const LibraryTimes& b) {
        return a.sparse / a.full < b.sparse / b.full;
      });
      const LibraryTimes& median = rounds[n_rounds / 2];
      fmt::print("{:>3} {:>2} {:>6}: {:>8.1f} {:>8.1f} {:>8.1f}   {:.3f} {:.3f} {:.3f}\n",
                 shape.head_size, shape.n_group, prompt.n, 1e3 * median.kernel, 1e3 * median.full,
                 1e3 * median.sparse, median.full / median.kernel, median.sparse / median.kernel,
                 median.sparse / median.full);
    }
  }
}
