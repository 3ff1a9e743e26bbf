// Matrices of a model's blocks with one copy in memory, in one of two forms (D1): int8 panels,
// which prompts read, or the rows of the file, which steps of a few tokens read. A block changes as
// a whole: a copy in the other form is made beside the one in use and then takes its place.
//
// Panels are made from rows; rows are read from the file again, because panels are rounded. Where
// kernels read 16 rows side by side, rows are brought into that order (tensor/strips.h) behind each
// read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_pages.h"
#include "gguf/file.h"
#include "model/blueprint.h"
#include "weights/store.h"

namespace troika::weights {

enum class BlockForm : uint8_t { kPanels, kRows };

// Where a matrix lies now, as either of the first two. Executables look at it whenever they run.
struct SwitchedMatrix {
  const kernels::Int8Panels* panels = nullptr;
  const std::byte* rows = nullptr;
  const float* row_largest = nullptr;  // (n_rows), which stays
};

// Bytes of a file for a copy in the making, in whole pages as far as the file has them.
struct FileRead {
  int shard = 0;  // of the model's files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

// What all copies take together.
struct CopyBytes {
  std::atomic<size_t> now{0};
  std::atomic<size_t> peak{0};
};

// A block in one form; its memory goes back to the system with it.
class BlockCopy {
 public:
  BlockCopy(int block, BlockForm form, size_t bytes, CopyBytes* all);
  ~BlockCopy();
  BlockCopy(const BlockCopy&) = delete;
  BlockCopy& operator=(const BlockCopy&) = delete;

  int block() const { return block_; }
  BlockForm form() const { return form_; }

 private:
  friend class SwitchedBlocks;
  int block_;
  BlockForm form_;
  PageBuffer memory_;
  std::vector<std::byte*> rows_;    // of each matrix
  std::vector<Int8Matrix> panels_;  // likewise
  CopyBytes* all_;
};

// One copy is made at a time, by any thread; `use` is for the thread that computes, between tasks.
class SwitchedBlocks {
 public:
  // Those matrices of the store that have panels, each in the one block that uses it. All must
  // outlive this. Of those in `in_strips`, rows stand in strips. REQUIRES: the store's matrices lie
  // in the file.
  SwitchedBlocks(const model::Blueprint& blueprint, const Store& store, const gguf::File& file,
                 std::span<const model::WeightId> in_strips = {});
  ~SwitchedBlocks();

  int n_blocks() const { return static_cast<int>(blocks_.size()); }
  // The matrix where it lies now. While leases of a block live, it may not be changed.
  // REQUIRES: `find` finds it.
  Lease acquire(model::WeightId id, const RowChoice& rows) const;
  // Null for a matrix that has one form only. The address stays.
  const SwitchedMatrix* find(model::WeightId id) const;
  // Returns how many rows of the matrix stand in strips. REQUIRES: `find` finds it.
  int n_strip_rows(model::WeightId id) const;
  size_t bytes(int block, BlockForm form) const;
  // One copy of the model, each block in the larger of its forms.
  size_t copy_bytes() const;
  // The largest block.
  size_t largest_bytes() const;
  const CopyBytes& held() const { return *held_; }
  // The file's bytes that all of this stands for, which nobody reads through the map.
  std::vector<FileRead> file_ranges() const;

  // Memory for the rows of a block, and what is to be read into it. Throws Error where memory is
  // short.
  std::unique_ptr<BlockCopy> begin_rows(int block, std::vector<FileRead>* reads);
  // The largest magnitude of each row, which panels and unpacking need. Once for each block, as the
  // rows stand in the file.
  void measure(const BlockCopy& rows, Team& team);
  // Puts those rows side by side that belong into strips. Once for each copy, before it is
  // unpacked, made panels of, or used. Any team will do.
  void place_in_strips(BlockCopy* rows, Team& team) const;
  // Unpacks the block as a chunk that is computed from rows does, to no end: so that its time can
  // be taken. REQUIRES: measured.
  void unpack(const BlockCopy& rows, Team& team) const;
  // Panels of a block that was measured. Throws Error where memory is short.
  std::unique_ptr<BlockCopy> make_panels(const BlockCopy& rows, Team& team);

  // Returns the copy that is in use; null before the first.
  const BlockCopy* in_use(int block) const { return in_use_[static_cast<size_t>(block)].get(); }
  // Returns what was in use before. REQUIRES: nobody has a lease of the block.
  std::unique_ptr<BlockCopy> use(std::unique_ptr<BlockCopy> copy);

 private:
  struct Member {
    Matrix matrix{};      // in the map, which is not read; n_strip_rows is that of copies
    int shard = 0;        // of the file
    uint64_t offset = 0;  // in that
    uint64_t shard_bytes = 0;
    std::vector<float> row_largest;
    SwitchedMatrix now;
    std::atomic<int> n_leases{0};
  };
  struct Block {
    std::vector<std::unique_ptr<Member>> members;
  };
  std::unique_ptr<BlockCopy> new_copy(int block, BlockForm form);
  // A strip of the member in a copy, as int8.
  static void unpack_strip(const Member& member, const std::byte* rows, size_t strip,
                           kernels::UnpackInt8* unpack, const kernels::Int8Strip& to);

  std::vector<Block> blocks_;
  std::vector<Member*> by_weight_;
  std::unique_ptr<CopyBytes> held_;
  std::vector<std::unique_ptr<BlockCopy>> in_use_;
};

}  // namespace troika::weights
