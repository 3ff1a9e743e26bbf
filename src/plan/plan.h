// The plan as plain data: what was decided about a model on a machine before anything runs.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/type.h"

namespace troika::plan {

// In which form activations meet block-quantised weights.
enum class Activations : uint8_t {
  kF32,  // weights decoded exactly, float products: the judge
  kQ8,   // activations quantised in blocks of 32, whole-number products within a block
};

// How the products of prompts are computed: of executables for more than kMostDecodeTokens tokens.
// Smaller ones, which decoding and verification use, always take `Activations`.
enum class Prefill : uint8_t {
  kSame,  // as decoding
  kF32,   // weights decoded exactly, float products
  kBf16,  // weights and activations as bfloat16, float sums (H13)
  kInt8,  // weights as int8 with a scale per row, activations with a scale per token (N3)
};
inline constexpr int kMostDecodeTokens = 32;

const char* prefill_name(Prefill prefill);
// Throws UsageError that lists the names.
Prefill prefill_from_name(std::string_view name);

const char* activations_name(Activations activations);
// Throws UsageError that lists the names.
Activations activations_from_name(std::string_view name);

// A lane: cores of this machine, or a processor of a virtual phone.
struct HostLane {
  std::vector<int> cores;  // empty: whichever the system gives
  int n_threads = 1;
  std::string kind = "host";  // or "cpu", "gpu", "npu" of a phone, which has neither of the above
};

// Which lane runs a kind of subgraph. The first rule that matches counts.
struct Placement {
  std::string subgraph;  // "attention"; empty: every one
  int least_tokens = 0;  // for executables of at least so many tokens: 2 leaves decoding out
  int lane = 0;
  int n_blocks = kAllBlocks;  // only the first so many: where a lane has no memory for all (N9)

  static constexpr int kAllBlocks = INT_MAX;
};

struct Plan {
  std::vector<HostLane> lanes = {{}};
  std::vector<Placement> placements;  // lane 0 where none matches
  Activations activations = Activations::kQ8;
  Prefill prefill = Prefill::kSame;
  // Most bytes of packed copies of weights, which spare int8 prompts the unpacking.
  uint64_t packed_bytes = 0;
  std::string prefill_reason;  // why it is not what was asked for, or what was chosen; for people
  tensor::Type kv_type = tensor::Type::kF16;
  int context = 0;
  // The token counts for which executables are built, ascending. A batch takes the smallest that
  // holds it; longer prompts go in chunks of the largest.
  std::vector<int> shapes = {1, 8, 32, 128, 512};
  // The same for the rows whose logits are wanted.
  std::vector<int> output_shapes = {1, 8, 32};

  int chunk() const { return shapes.back(); }
  int n_threads() const;
  // `block`: -1 before the first and behind the last.
  int lane_of(std::string_view subgraph, int n_tokens, int block = -1) const;
};

// The kinds of subgraphs that placements name: "embed, qkv, attention, ffn, head".
bool is_subgraph_name(std::string_view name);  // or empty: every one
std::string subgraph_names();

// "ffn=1" runs every "ffn" subgraph on lane 1, "ffn@2=1" only executables of at least 2 tokens,
// "@2=1" every subgraph of such. Throws UsageError.
Placement placement_from_text(std::string_view text, int n_lanes);

// "0,1" is one lane on the cores 0 and 1, "0;1" two lanes. Throws UsageError for what is not
// understood, a core named twice, or one that this process may not use.
std::vector<HostLane> lanes_from_text(std::string_view text, const std::vector<int>& usable_cores);

}  // namespace troika::plan
