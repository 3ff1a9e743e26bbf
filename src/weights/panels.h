// Packs matrices as int8 panels: a second copy of the weights, made for the products of prompts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/threads/team.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"
#include "model/blueprint.h"
#include "tensor/type.h"

namespace troika::weights {

struct Matrix;

// Returns the matrices that every token of a prompt meets: those of all products but the head and
// the routers of experts.
std::vector<model::WeightId> prompt_matrices(const model::Blueprint& blueprint);
// Returns the matrices of experts; a token meets only a few rows of them.
std::vector<model::WeightId> expert_matrices(const model::Blueprint& blueprint);

// Says whether sums over such rows fit whole numbers of 32 bits.
bool fits_int8(const Matrix& matrix);
size_t int8_panel_bytes(const Matrix& matrix);

// Finds the largest magnitudes of some rows of a matrix, which give each row its scale.
void measure_rows(const Matrix& matrix, size_t first_row, size_t last_row, float* largest);
// Returns the largest magnitude among some rows, each element times its column's factor (1 where
// null). Elements that are no numbers do not count.
float largest_magnitude(const Matrix& matrix, size_t first_row, size_t last_row,
                        const float* factors);

inline constexpr size_t kPanelAlignment = 64;

// One packed matrix. Its bytes lie in one piece: levels, scales, starts.
class Int8Matrix {
 public:
  // Makes panels without contents. REQUIRES: fits_int8.
  explicit Int8Matrix(const Matrix& matrix);
  // Makes such panels in memory of others: int8_panel_bytes from an address that kPanelAlignment
  // divides.
  Int8Matrix(const Matrix& matrix, std::byte* storage);

  const kernels::Int8Panels& panels() const { return panels_; }
  size_t bytes() const { return bytes_; }
  // Returns the places of the contents of a strip.
  kernels::Int8Strip strip(size_t strip);
  // Packs strips from first_strip up to last_strip. Different threads may pack different strips.
  void pack(const Matrix& matrix, size_t first_strip, size_t last_strip,
            const kernels::PackRule& rule = {});

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> storage_;  // null: others own the memory
  kernels::Int8Panels panels_;
};

}  // namespace troika::weights
