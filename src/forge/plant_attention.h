// Random weights whose attention is concentrated by a stated law, so that speed on real shapes can
// be measured where tiles keep as many positions as those of a real model do. What such models say,
// and what they lose by attending to less, tells nothing about real models.
//
// The construction. What blocks add to the residual stream is small, so that each block sees about
// the token's own embedding. Its first 32 channels say in which of four directions the token looks,
// and in which its key is heavy, with which phase, at each of three levels. A direction is one of
// those pairs of a head that rotation turns slowest: its rows in the matrices of queries and keys
// read these channels and nothing else. All heads of a block have the same level and agree. Other
// rows are random, and those of queries small. attention_law.h says which share of the positions
// tiles keep by that.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/team.h"
#include "forge/attention_law.h"
#include "forge/distribution.h"
#include "gguf/writer.h"
#include "model/blueprint.h"
#include "model/known.h"
#include "tensor/type.h"

namespace troika::forge {

// Returns the length of the prompts of which a share is meant where nobody says it: 4,096, or the
// model's context where that is less.
int usual_length(const model::KnownModel& model);

// The share of the positions that all blocks together keep of prompts of some length.
struct ShareAtLength {
  int length;
  double share;
};

class AttentionPlanter {
 public:
  // Throws UsageError for a law that makes no sense, or that the model cannot have.
  AttentionPlanter(const AttentionLaw& law, const model::KnownModel& model, uint64_t seed);

  // Writes a tensor that the law changes, row after row. Returns false for a tensor that it does
  // not change.
  bool write(const model::KnownTensor& tensor, tensor::Type type, gguf::Writer& writer, Team& team,
             const std::function<void(uint64_t bytes)>& report) const;
  // Returns how the values of a tensor spread that the law changes only so.
  std::optional<Distribution> distribution_of(const model::KnownTensor& tensor) const;
  void add_metadata(gguf::Writer& writer) const;

  // Returns what the blocks that choose keep of prompts of 2,048, 4,096 and 8,192 tokens and of the
  // law's length, as far as the model's context goes.
  std::vector<ShareAtLength> shares() const;

 private:
  // The rows of a matrix that make a block's queries or keys.
  struct PlantedRows {
    uint64_t first = 0, n = 0;
    bool is_of_queries = false;
    size_t level = 0;
    model::Rope rope{};
    double planted = 0.0;  // the weight of a channel in the row that reads it
    double own = 0.0;      // the deviation of what the other rows give
  };
  // Makes a row of encoded elements.
  using MakeRow = std::function<void(uint64_t row, std::byte* out)>;

  void find_rows(const model::Blueprint& blueprint);
  MakeRow embedding_rows(const model::KnownTensor& tensor, tensor::Type type) const;
  MakeRow planted_rows(const model::KnownTensor& tensor, tensor::Type type,
                       const std::vector<PlantedRows>& planted) const;
  void write_rows(const model::KnownTensor& tensor, tensor::Type type, gguf::Writer& writer,
                  Team& team, const std::function<void(uint64_t bytes)>& report,
                  const MakeRow& make) const;

  AttentionLaw law_;
  uint64_t seed_;
  uint64_t head_dim_;
  int context_;
  bool has_tied_head_;
  float residual_ = 1.0f;                // how large a channel of the residual stream is
  double added_ = 0.0;                   // how much a block adds to a channel, in parts of that
  std::array<double, kLevels> heavy_{};  // the share of keys that are heavy
  std::vector<size_t> levels_;           // one for each block that sees everything
  std::map<std::string, std::vector<PlantedRows>, std::less<>> rows_;  // by matrix
  std::map<std::string, float, std::less<>> norms_;  // of queries: the factor of each element
};

}  // namespace troika::forge
