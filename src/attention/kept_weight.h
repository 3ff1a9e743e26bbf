// Measures how much of the weight of queries' softmax lies in the positions that each form of
// sparse attention lets them see (S2, S8).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "attention/positions.h"
#include "kernels/kernels.h"

namespace troika::attention {

// Returns (queries, positions): the weights of the softmax of each query that is looked at, which
// are those of every token_stride-th token of a tile. The query heads of a token stand one behind
// the other. REQUIRES: the tile begins with the first of the queries, at position `begin`.
std::vector<std::vector<float>> softmax_weights(const kernels::Table& table,
                                                const Positions& positions, const Queries& queries,
                                                size_t begin, size_t token_stride);

// What queries of a head keep of their weight, which is 1 altogether.
struct KeptWeight {
  double mean = 1.0;
  double worst = 1.0;  // the mean of the worst tenth of the queries
};
// REQUIRES: there are queries.
KeptWeight kept_weight_of(std::vector<float> queries);

struct KeptForm {
  enum class By { kWeight, kTile, kQuery, kBlocks };
  const char* name;
  By by;
  double amount;  // the share of positions; with kWeight, how many times the mean they weigh
};
inline constexpr std::array<KeptForm, 9> kKeptForms = {
    {{"sparse, above 5", KeptForm::By::kWeight, 5},
     {"sparse, above 2.5", KeptForm::By::kWeight, 2.5},
     {"sparse, 10 %", KeptForm::By::kTile, 0.1},
     {"sparse, 20 %", KeptForm::By::kTile, 0.2},
     {"sparse, 30 %", KeptForm::By::kTile, 0.3},
     {"each query, 10 %", KeptForm::By::kQuery, 0.1},
     {"each query, 20 %", KeptForm::By::kQuery, 0.2},
     {"each query, 30 %", KeptForm::By::kQuery, 0.3},
     {"blocks of 64, 20 %", KeptForm::By::kBlocks, 0.2}}};

// Returns what each form keeps of the weight of some queries of a tile. REQUIRES: the tile is whole
// and begins with the first of the queries, at position `begin` >= kLeastPositions.
std::vector<std::array<float, kKeptForms.size()>> kept_by_forms(const kernels::Table& table,
                                                                const Positions& positions,
                                                                const Queries& queries,
                                                                size_t begin);

}  // namespace troika::attention
