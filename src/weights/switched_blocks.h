// Keeps matrices of a model's blocks as one copy in memory, in one of two forms (D1): int8 panels,
// which prompts read, or the rows of the file, which steps of a few tokens read. A block changes as
// a whole: a copy in the other form is made beside the one in use and then takes its place.
//
// Panels are made from rows; rows are read from the file again, because panels are rounded. Where
// kernels read 16 rows side by side, rows are brought into that order (tensor/strips.h) after each
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

// Says where a matrix lies now: as panels or as rows. Executables look at it whenever they run.
struct SwitchedMatrix {
  const kernels::Int8Panels* panels = nullptr;
  const std::byte* rows = nullptr;
  const float* row_largest = nullptr;  // (n_rows): stays in both forms
};

// Bytes of a file that are to be read for a new copy, in whole pages as far as the file has them.
struct FileRead {
  int shard = 0;  // one of the model's files
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

// Sums up the memory of all copies.
struct CopyBytes {
  std::atomic<size_t> now{0};
  std::atomic<size_t> peak{0};
};

// A block in one form. Its memory goes back to the system when it is destroyed.
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
  std::vector<std::byte*> rows_;    // the rows of each matrix
  std::vector<Int8Matrix> panels_;  // the panels of each matrix
  CopyBytes* all_;
};

// One copy is made at a time, by any thread. Only the thread that computes calls `use`, between
// tasks.
class SwitchedBlocks {
 public:
  // Takes those matrices of the store that have panels, each in the one block that uses it. Rows of
  // those in `in_strips` stand in strips. All arguments must outlive this. REQUIRES: the store's
  // matrices lie in the file.
  SwitchedBlocks(const model::Blueprint& blueprint, const Store& store, const gguf::File& file,
                 std::span<const model::WeightId> in_strips = {});
  ~SwitchedBlocks();

  int n_blocks() const { return static_cast<int>(blocks_.size()); }
  // Returns the matrix where it lies now. While leases of a block live, it may not be changed.
  // REQUIRES: `find` finds it.
  Lease acquire(model::WeightId id) const;
  // Returns null for a matrix that has one form only. The address stays.
  const SwitchedMatrix* find(model::WeightId id) const;
  // Returns how many rows of the matrix stand in strips. REQUIRES: `find` finds it.
  int n_strip_rows(model::WeightId id) const;
  size_t bytes(int block, BlockForm form) const;
  // Returns the bytes of one copy of the model, each block in the larger of its forms.
  size_t copy_bytes() const;
  // Returns the bytes of the largest block.
  size_t largest_bytes() const;
  const CopyBytes& held() const { return *held_; }
  // Returns the file's bytes that the copies stand for; nobody reads them through the map.
  std::vector<FileRead> file_ranges() const;

  // Returns memory for the rows of a block, and what is to be read into it. Throws Error where
  // memory is short.
  std::unique_ptr<BlockCopy> begin_rows(int block, std::vector<FileRead>* reads);
  // Measures the largest magnitude of each row, which panels and unpacking need. Is called once for
  // each block, while its rows stand as in the file.
  void measure(const BlockCopy& rows, Team& team);
  // Puts those rows side by side that belong into strips. Is called once for each copy, before it
  // is unpacked, made panels of, or used. Any team will do.
  void place_in_strips(BlockCopy* rows, Team& team) const;
  // Unpacks the block as a chunk that is computed from rows does, and throws the result away, so
  // that its time can be taken. REQUIRES: measured.
  void unpack(const BlockCopy& rows, Team& team) const;
  // Makes panels of a block that was measured. Throws Error where memory is short.
  std::unique_ptr<BlockCopy> make_panels(const BlockCopy& rows, Team& team);

  // Returns the copy that is in use; null before the first.
  const BlockCopy* in_use(int block) const { return in_use_[static_cast<size_t>(block)].get(); }
  // Returns what was in use before. REQUIRES: nobody has a lease of the block.
  std::unique_ptr<BlockCopy> use(std::unique_ptr<BlockCopy> copy);

 private:
  struct Member {
    Matrix matrix{};  // points into the map, which is not read; n_strip_rows is that of the copies
    int shard = 0;    // one of the model's files
    uint64_t offset = 0;  // the matrix's place in the shard
    uint64_t shard_bytes = 0;
    std::vector<float> row_largest;
    SwitchedMatrix now;
    std::atomic<int> n_leases{0};
  };
  struct Block {
    std::vector<std::unique_ptr<Member>> members;
  };
  std::unique_ptr<BlockCopy> new_copy(int block, BlockForm form);
  // Brings a strip of the member in a copy to int8.
  static void unpack_strip(const Member& member, const std::byte* rows, size_t strip,
                           kernels::UnpackInt8* unpack, const kernels::Int8Strip& to);

  std::vector<Block> blocks_;
  std::vector<Member*> by_weight_;
  std::unique_ptr<CopyBytes> held_;
  std::vector<std::unique_ptr<BlockCopy>> in_use_;
};

}  // namespace troika::weights
