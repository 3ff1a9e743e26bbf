#include "weights/switched_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/cpu_features.h"
#include "base/error.h"
#include "kernels/choose.h"
#include "tensor/strips.h"
#include "weights/file_pages.h"

namespace troika::weights {
namespace {

// Returns the room that copies have for the rows of a matrix.
uint64_t rows_room(const Matrix& matrix, uint64_t offset) {
  return page_above(offset % kFilePage + matrix.bytes());
}
uint64_t panels_room(const Matrix& matrix) {
  return (int8_panel_bytes(matrix) + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment;
}

// Returns for each matrix the one block that multiplies with it; none where several do.
std::map<model::WeightId, int> blocks_of(const model::Blueprint& blueprint) {
  std::map<model::WeightId, int> blocks;
  for (const model::Op& op : blueprint.ops) {
    if (op.weight == model::kNone) continue;
    const bool is_product = op.kind == model::OpKind::kLinear && !op.keeps_float;
    const bool is_head =
        op.output != model::kNone && blueprint.values[static_cast<size_t>(op.output)].per_output;
    const int block = is_product && !is_head ? op.layer : model::kNone;
    const auto [at, is_first] = blocks.try_emplace(op.weight, block);
    if (at->second != block) at->second = model::kNone;
  }
  return blocks;
}

// Returns the kernel that brings a strip of the matrix, as copies have it, to int8. The bits are
// the same with all kernels.
kernels::UnpackInt8* unpack_of(const Matrix& matrix) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  kernels::UnpackInt8* const unpack = kernels::find(
      matrix.n_strip_rows > 0 ? kernels.table.unpack_int8_strips : kernels.table.unpack_int8,
      matrix.type);
  TROIKA_ASSERT(unpack != nullptr);
  return unpack;
}

}  // namespace

BlockCopy::BlockCopy(int block, BlockForm form, size_t bytes, CopyBytes* all)
    : block_(block), form_(form), memory_(bytes), all_(all) {
  const size_t now = all_->now += bytes;
  if (now > all_->peak) all_->peak = now;
}

BlockCopy::~BlockCopy() {
  const size_t bytes = memory_.size();
  memory_ = PageBuffer();
  all_->now -= bytes;
}

SwitchedBlocks::SwitchedBlocks(const model::Blueprint& blueprint, const Store& store,
                               const gguf::File& file, std::span<const model::WeightId> in_strips)
    : blocks_(static_cast<size_t>(blueprint.n_layers)),
      by_weight_(blueprint.weights.size()),
      held_(std::make_unique<CopyBytes>()),
      in_use_(blocks_.size()) {
  for (const auto& [id, block] : blocks_of(blueprint)) {
    if (block == model::kNone || !fits_int8(store.matrix(id))) continue;
    auto member = std::make_unique<Member>();
    member->matrix = store.matrix(id);
    for (size_t i = 0; i < file.shards().size(); ++i) {
      const std::span<const std::byte> bytes = file.shards()[i].bytes;
      const std::byte* const data = member->matrix.data;
      if (data < bytes.data() || data >= bytes.data() + bytes.size()) continue;
      member->shard = static_cast<int>(i);
      member->offset = static_cast<uint64_t>(data - bytes.data());
      member->shard_bytes = bytes.size();
    }
    TROIKA_ASSERT(member->shard_bytes > 0);
    if (std::find(in_strips.begin(), in_strips.end(), id) != in_strips.end()) {
      constexpr int kRows = static_cast<int>(tensor::kStripRows);
      member->matrix.n_strip_rows = member->matrix.n_rows / kRows * kRows;
    }
    by_weight_[static_cast<size_t>(id)] = member.get();
    blocks_[static_cast<size_t>(block)].members.push_back(std::move(member));
  }
}

SwitchedBlocks::~SwitchedBlocks() = default;

const SwitchedMatrix* SwitchedBlocks::find(model::WeightId id) const {
  const Member* member = by_weight_[static_cast<size_t>(id)];
  return member != nullptr ? &member->now : nullptr;
}

int SwitchedBlocks::n_strip_rows(model::WeightId id) const {
  return by_weight_[static_cast<size_t>(id)]->matrix.n_strip_rows;
}

Lease SwitchedBlocks::acquire(model::WeightId id) const {
  Member& member = *by_weight_[static_cast<size_t>(id)];
  const SwitchedMatrix& now = member.now;
  if (now.rows == nullptr && now.panels == nullptr) return {};
  return {now.rows, now.panels, &member.n_leases};
}

size_t SwitchedBlocks::bytes(int block, BlockForm form) const {
  size_t bytes = 0;
  for (const auto& member : blocks_[static_cast<size_t>(block)].members) {
    bytes += form == BlockForm::kRows ? rows_room(member->matrix, member->offset)
                                      : panels_room(member->matrix);
  }
  return bytes;
}

size_t SwitchedBlocks::copy_bytes() const {
  size_t all = 0;
  for (int i = 0; i < n_blocks(); ++i) {
    all += std::max(bytes(i, BlockForm::kRows), bytes(i, BlockForm::kPanels));
  }
  return all;
}

size_t SwitchedBlocks::largest_bytes() const {
  size_t most = 0;
  for (int i = 0; i < n_blocks(); ++i) {
    most = std::max({most, bytes(i, BlockForm::kRows), bytes(i, BlockForm::kPanels)});
  }
  return most;
}

std::vector<FileRead> SwitchedBlocks::file_ranges() const {
  std::vector<FileRead> ranges;
  for (const Block& block : blocks_) {
    for (const auto& member : block.members) {
      ranges.push_back({member->shard, member->offset, member->matrix.bytes(), nullptr});
    }
  }
  return ranges;
}

std::unique_ptr<BlockCopy> SwitchedBlocks::new_copy(int block, BlockForm form) {
  const size_t n_bytes = bytes(block, form);
  try {
    return std::make_unique<BlockCopy>(block, form, n_bytes, held_.get());
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "There is no memory for block {} in its other layout: {:.1f} MB beside the {:.1f} MB that "
        "all blocks take. Use ‹layouts› blocks, which needs no second one.",
        block, 1e-6 * static_cast<double>(n_bytes), 1e-6 * static_cast<double>(held_->now)));
  }
}

std::unique_ptr<BlockCopy> SwitchedBlocks::begin_rows(int block, std::vector<FileRead>* reads) {
  std::unique_ptr<BlockCopy> copy = new_copy(block, BlockForm::kRows);
  std::byte* to = copy->memory_.get();
  for (const auto& member : blocks_[static_cast<size_t>(block)].members) {
    const uint64_t begin = page_below(member->offset);
    const uint64_t end = member->offset + member->matrix.bytes();
    // The last page of a file may be only a part of one, which cannot be read directly.
    const uint64_t whole_end = std::min(page_above(end), page_below(member->shard_bytes));
    const uint64_t rest_begin = std::max(begin, whole_end);
    if (whole_end > begin) reads->push_back({member->shard, begin, whole_end - begin, to});
    if (end > rest_begin) {
      reads->push_back({member->shard, rest_begin, end - rest_begin, to + (rest_begin - begin)});
    }
    copy->rows_.push_back(to + member->offset % kFilePage);
    to += rows_room(member->matrix, member->offset);
  }
  return copy;
}

void SwitchedBlocks::measure(const BlockCopy& rows, Team& team) {
  TROIKA_ASSERT(rows.form() == BlockForm::kRows);
  const Block& block = blocks_[static_cast<size_t>(rows.block())];
  for (size_t i = 0; i < block.members.size(); ++i) {
    Member& member = *block.members[i];
    Matrix source = member.matrix;
    source.data = rows.rows_[i];
    member.row_largest.resize(static_cast<size_t>(source.n_rows));
    member.now.row_largest = member.row_largest.data();
    team.run([&](int worker) {
      const Share share = share_of(source.n_rows, worker, team.size());
      measure_rows(source, static_cast<size_t>(share.begin), static_cast<size_t>(share.end),
                   member.row_largest.data());
    });
  }
}

void SwitchedBlocks::place_in_strips(BlockCopy* rows, Team& team) const {
  TROIKA_ASSERT(rows->form() == BlockForm::kRows);
  const Block& block = blocks_[static_cast<size_t>(rows->block())];
  for (size_t i = 0; i < block.members.size(); ++i) {
    const Matrix& matrix = block.members[i]->matrix;
    const size_t strip_bytes = tensor::kStripRows * matrix.row_bytes;
    const auto n_strips =
        static_cast<int64_t>(matrix.n_strip_rows) / static_cast<int64_t>(tensor::kStripRows);
    team.run([&](int worker) {
      std::vector<std::byte> before(strip_bytes);
      const Share share = share_of(n_strips, worker, team.size());
      for (auto strip = share.begin; strip < share.end; ++strip) {
        std::byte* const at = rows->rows_[i] + static_cast<size_t>(strip) * strip_bytes;
        tensor::pack_strip_in_place(matrix.type, at, static_cast<size_t>(matrix.row_length),
                                    before.data());
      }
    });
  }
}

void SwitchedBlocks::unpack_strip(const Member& member, const std::byte* rows, size_t strip,
                                  kernels::UnpackInt8* unpack, const kernels::Int8Strip& to) {
  const Matrix& matrix = member.matrix;
  const auto n_rows = static_cast<size_t>(matrix.n_rows);
  const size_t first_row = strip * kernels::kStripRows;
  unpack(
      {rows, matrix.row_bytes, static_cast<size_t>(matrix.row_length), first_row,
       std::min(first_row + kernels::kStripRows, n_rows), static_cast<size_t>(matrix.n_strip_rows)},
      member.row_largest.data() + first_row, to);
}

void SwitchedBlocks::unpack(const BlockCopy& rows, Team& team) const {
  TROIKA_ASSERT(rows.form() == BlockForm::kRows);
  const Block& block = blocks_[static_cast<size_t>(rows.block())];
  for (size_t i = 0; i < block.members.size(); ++i) {
    const Member& member = *block.members[i];
    const auto k = static_cast<size_t>(member.matrix.row_length);
    const auto n_rows = static_cast<size_t>(member.matrix.n_rows);
    kernels::UnpackInt8* const unpack = unpack_of(member.matrix);
    team.run([&](int worker) {
      const PageBuffer levels(kernels::int8_strip_bytes(k));  // holds one strip, at a page
      float scales[kernels::kStripRows];
      int32_t starts[kernels::kStripRows];
      const Share share =
          share_of(static_cast<int64_t>(kernels::n_strips(n_rows)), worker, team.size());
      for (auto strip = static_cast<size_t>(share.begin); strip < static_cast<size_t>(share.end);
           ++strip) {
        unpack_strip(member, rows.rows_[i], strip, unpack,
                     {reinterpret_cast<int8_t*>(levels.get()), scales, starts});
      }
    });
  }
}

std::unique_ptr<BlockCopy> SwitchedBlocks::make_panels(const BlockCopy& rows, Team& team) {
  TROIKA_ASSERT(rows.form() == BlockForm::kRows);
  std::unique_ptr<BlockCopy> copy = new_copy(rows.block(), BlockForm::kPanels);
  const Block& block = blocks_[static_cast<size_t>(rows.block())];
  std::byte* to = copy->memory_.get();
  for (size_t i = 0; i < block.members.size(); ++i) {
    const Member& member = *block.members[i];
    TROIKA_ASSERT(!member.row_largest.empty());
    Int8Matrix& panels = copy->panels_.emplace_back(member.matrix, to);
    kernels::UnpackInt8* const unpack = unpack_of(member.matrix);
    const auto n_strips = static_cast<int64_t>(kernels::n_strips(panels.panels().n_rows));
    team.run([&](int worker) {
      const Share share = share_of(n_strips, worker, team.size());
      for (auto strip = static_cast<size_t>(share.begin); strip < static_cast<size_t>(share.end);
           ++strip) {
        unpack_strip(member, rows.rows_[i], strip, unpack, panels.strip(strip));
      }
    });
    to += panels_room(member.matrix);
  }
  return copy;
}

std::unique_ptr<BlockCopy> SwitchedBlocks::use(std::unique_ptr<BlockCopy> copy) {
  const bool is_rows = copy->form() == BlockForm::kRows;
  const Block& block = blocks_[static_cast<size_t>(copy->block())];
  for (size_t i = 0; i < block.members.size(); ++i) {
    // A lease would read memory that is given back to the system.
    TROIKA_ASSERT(block.members[i]->n_leases.load(std::memory_order_acquire) == 0);
    SwitchedMatrix& now = block.members[i]->now;
    now.rows = is_rows ? copy->rows_[i] : nullptr;
    now.panels = is_rows ? nullptr : &copy->panels_[i].panels();
  }
  std::swap(in_use_[static_cast<size_t>(copy->block())], copy);
  return copy;
}

}  // namespace troika::weights
