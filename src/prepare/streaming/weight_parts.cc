#include "prepare/streaming/weight_parts.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "prepare/streaming/page_reads.h"

namespace troika::prepare {
namespace {

using weights::Matrix;

// The matrices of a model that nothing but what is named reads.
struct Matrices {
  std::vector<std::vector<Matrix>> of_blocks;
  std::vector<Matrix> of_none;  // those of no block that products read
  std::optional<Matrix> table;  // the one that is read by rows
};

bool names(std::span<const model::WeightId> ids, model::WeightId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Returns the matrices that a stream has to do with. Where some are named for prompts, it returns
// these alone.
Matrices matrices_of(const model::Blueprint& blueprint, const weights::Store& weights,
                     const StreamedWeights& which) {
  const int n_blocks = blueprint.n_layers;
  const int table = n_blocks + 1;
  struct Use {
    Matrix matrix;
    int block;
  };
  std::map<const std::byte*, Use>
      uses;  // by the matrix's begin, which differs among fused matrices
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    if (names(which.elsewhere, op.weight)) continue;
    if (!which.for_prompts.empty() && !names(which.for_prompts, op.weight)) continue;
    const Matrix& matrix = weights.matrix(op.weight);
    const int block = op.layer != model::kNone ? op.layer : n_blocks;
    const auto [at, is_first] = uses.try_emplace(matrix.data, Use{matrix, block});
    Use& use = at->second;
    if (matrix.bytes() > use.matrix.bytes()) use.matrix = matrix;
    if (use.block != block) use.block = n_blocks;
    if (op.kind == model::OpKind::kEmbed && is_first) use.block = table;
  }
  // The head may also be the table of embeddings. Then it is read as a whole.
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone || !weights.is_matrix(op.weight)) continue;
    const auto at = uses.find(weights.matrix(op.weight).data);
    if (at == uses.end()) continue;
    Use& use = at->second;
    if (use.block == table && op.kind != model::OpKind::kEmbed) use.block = n_blocks;
  }
  Matrices matrices;
  matrices.of_blocks.resize(static_cast<size_t>(n_blocks));
  for (const auto& [place, use] : uses) {
    if (use.block < n_blocks) {
      matrices.of_blocks[static_cast<size_t>(use.block)].push_back(use.matrix);
    } else if (use.block == n_blocks) {
      matrices.of_none.push_back(use.matrix);
    } else {
      matrices.table = use.matrix;  // a model has one
    }
  }
  return matrices;
}

// Returns the bytes of all weights that are in none of these matrices.
size_t bytes_beside(const weights::Store& weights, const Matrices& matrices,
                    std::span<const model::WeightId> elsewhere) {
  size_t bytes = weights.total_bytes();
  const auto leave_out = [&](const Matrix& matrix) { bytes -= std::min(bytes, matrix.bytes()); };
  for (const model::WeightId id : elsewhere) leave_out(weights.matrix(id));
  for (const std::vector<Matrix>& of_block : matrices.of_blocks) {
    std::for_each(of_block.begin(), of_block.end(), leave_out);
  }
  std::for_each(matrices.of_none.begin(), matrices.of_none.end(), leave_out);
  if (matrices.table) leave_out(*matrices.table);
  return bytes;
}

// Adds a block's matrices in parts of at most `most_bytes`, or of one matrix.
void add_parts(int block, const std::vector<Matrix>& matrices, size_t most_bytes,
               std::vector<WeightPart>* parts) {
  const size_t n_before = parts->size();
  for (const Matrix& matrix : matrices) {
    const size_t bytes = room_of(matrix.bytes());
    const bool is_full = parts->size() == n_before || parts->back().bytes + bytes > most_bytes;
    if (is_full) parts->push_back({block, {}, 0});
    parts->back().matrices.push_back(matrix);
    parts->back().bytes += bytes;
  }
}

// Returns the least number of slots with which the parts of one block are read while those of the
// block before it are at work. Only the first block may have to wait for the last one of the pass
// before.
size_t least_slots(const WeightParts& parts, std::span<const size_t> order) {
  size_t least = 0, n_before = 0, n_here = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool is_next =
        i == 0 || parts.of_blocks[order[i]].block != parts.of_blocks[order[i - 1]].block;
    if (is_next) n_before = std::exchange(n_here, 0);
    ++n_here;
    least = std::max(least, n_before + n_here);
  }
  return least;
}

// Lets `n` parts take turns, spread evenly among the others, so that the disk works all the time
// while the others compute.
Turns turns_of(const WeightParts& parts, size_t n) {
  Turns turns;
  turns.kept_bytes = parts.whole_bytes();
  const size_t n_all = parts.of_blocks.size();
  for (size_t i = 0; i < n_all; ++i) {
    if ((i + 1) * n / n_all == i * n / n_all) continue;
    turns.order.push_back(i);
    turns.kept_bytes -= parts.of_blocks[i].bytes;
  }
  turns.slot_bytes.resize(least_slots(parts, turns.order));
  for (size_t i = 0; i < turns.order.size(); ++i) {
    size_t& bytes = turns.slot_bytes[i % turns.slot_bytes.size()];
    bytes = std::max(bytes, parts.of_blocks[turns.order[i]].bytes);
  }
  return turns;
}

}  // namespace

size_t table_room(const Matrix& table) {
  // A row may begin at the last byte of a page.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t n_pages = (table.row_bytes - 1 + page - 1) / page + 1;
  return std::min(table.bytes(), kTableRows * n_pages * page);
}

size_t WeightParts::whole_bytes() const {
  size_t bytes = mapped_bytes + of_none.bytes;
  for (const WeightPart& part : of_blocks) bytes += part.bytes;
  return bytes;
}

WeightParts weight_parts(const model::Blueprint& blueprint, const weights::Store& weights,
                         const StreamedWeights& which) {
  const Matrices matrices = matrices_of(blueprint, weights, which);
  WeightParts parts;
  if (which.for_prompts.empty()) {
    parts.table = matrices.table;
    parts.mapped_bytes = bytes_beside(weights, matrices, which.elsewhere);
    if (parts.table) parts.mapped_bytes += table_room(*parts.table);
  }
  size_t largest = 0;
  for (const std::vector<Matrix>& of_block : matrices.of_blocks) {
    for (const Matrix& matrix : of_block) largest = std::max(largest, room_of(matrix.bytes()));
  }
  for (size_t block = 0; block < matrices.of_blocks.size(); ++block) {
    add_parts(static_cast<int>(block), matrices.of_blocks[block], largest, &parts.of_blocks);
  }
  parts.of_none.block = blueprint.n_layers;
  parts.of_none.matrices = matrices.of_none;
  for (const Matrix& matrix : matrices.of_none) parts.of_none.bytes += room_of(matrix.bytes());
  return parts;
}

size_t Turns::shared_bytes() const {
  return std::accumulate(slot_bytes.begin(), slot_bytes.end(), size_t{0});
}

Turns least_turns(const WeightParts& parts) {
  Turns least = turns_of(parts, parts.of_blocks.size());
  for (size_t n = 0; n < parts.of_blocks.size(); ++n) {
    Turns turns = turns_of(parts, n);
    if (turns.bytes() < least.bytes()) least = std::move(turns);
  }
  return least;
}

Turns choose_turns(const WeightParts& parts, size_t most_bytes) {
  Turns best = least_turns(parts);
  for (size_t n = 0; n < parts.of_blocks.size(); ++n) {
    Turns turns = turns_of(parts, n);
    const bool reads_less = turning_bytes(parts, turns) < turning_bytes(parts, best);
    if (turns.bytes() <= most_bytes && reads_less) best = std::move(turns);
  }
  return best;
}

size_t turning_bytes(const WeightParts& parts, const Turns& turns) {
  size_t bytes = 0;
  for (const size_t part : turns.order) bytes += parts.of_blocks[part].bytes;
  return bytes;
}

}  // namespace troika::prepare
