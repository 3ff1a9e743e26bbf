// The weights of a blueprint, found in the file and checked: name, shape, type. Matrices stay
// where the file is mapped; vectors (norms, biases) become resident floats.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gguf/file.h"
#include "model/blueprint.h"
#include "tensor/type.h"
#include "weights/channels.h"
#include "weights/lease.h"
#include "weights/panels.h"

namespace troika::weights {

class Neurons;
class SwitchedBlocks;

// Rows of one matrix, as they stand in the file, but for those before n_strip_rows, which stand in
// strips of 16.
struct Matrix {
  tensor::Type type;
  const std::byte* data;  // (n_rows, row_bytes)
  size_t row_bytes;
  int n_rows;
  int row_length;
  int n_strip_rows = 0;  // a multiple of 16
};

// A copy of a matrix in blocks.
struct GroupedMatrix {
  Matrix matrix{};
  std::vector<std::byte> storage;
};

// What such a copy in Q8_0 takes; 0 for a matrix that stays as it is.
size_t grouped_bytes(const Matrix& matrix);

// A weight that lies in memory: `matrix` or `vector`, as the blueprint uses it.
struct Constant {
  Matrix matrix{};
  std::vector<float> vector;
};

// How int8 copies are made.
struct Int8Packing {
  bool one_scale = false;             // for the whole matrix, not one for each row
  std::vector<const float*> factors;  // by weight, of its columns; empty or null: 1

  // Each row has a scale of its own and no factors: then it can also be unpacked when needed.
  bool is_plain() const { return !one_scale && factors.empty(); }
};

class Store {
 public:
  // Both must outlive the store. Throws Error for a missing tensor, a wrong shape, or an element
  // type that cannot be computed with.
  Store(const gguf::File& file, const model::Blueprint& blueprint);
  // Over weights in memory, one for each of the blueprint's, of the shapes that it asks for: to
  // measure and test lanes without a file. What matrices point to must outlive the store.
  Store(const model::Blueprint& blueprint, std::vector<Constant> constants);
  ~Store();

  bool is_matrix(model::WeightId id) const {
    return entries_[static_cast<size_t>(id)].matrix.data != nullptr;
  }
  // REQUIRES: the blueprint uses this weight as a matrix (embed, linear).
  const Matrix& matrix(model::WeightId id) const;
  // REQUIRES: the blueprint uses it as a vector (norm weights, biases).
  const float* vector(model::WeightId id) const;

  // The right to read rows of a matrix until it is given back. Never blocks: a lease of what is not
  // in memory is not ready. Those of matrices that have one place are ready at once.
  Lease acquire(model::WeightId id, const RowChoice& rows = {}) const;
  // Whether its place may change between runs, so that a lease is for one run only.
  bool is_switched(model::WeightId id) const;

  // The first of these matrices whose packed copies fit so many bytes together.
  std::vector<model::WeightId> packable(std::span<const model::WeightId> ids, uint64_t bytes) const;
  // Makes packed copies of these matrices on n_threads threads. Those whose rows are too long for
  // whole-number sums are left out. Throws Error where memory is short.
  void pack_int8(std::span<const model::WeightId> ids, int n_threads,
                 const ProgressFunction& progress = {}, const Int8Packing& packing = {});
  // Measures the rows of these matrices, so that they can be unpacked to int8 whenever they are
  // needed. Leaves out those that are packed, or whose rows are too long for whole-number sums.
  void measure_int8(std::span<const model::WeightId> ids, int n_threads,
                    const ProgressFunction& progress = {});
  // The largest magnitude of each row; null where it was not measured.
  const float* row_largest(model::WeightId id) const;
  // Null where there is no packed copy.
  const kernels::Int8Panels* int8_panels(model::WeightId id) const;

  // Matrices that change between two forms, which executables that are built from now on take from
  // there. Such a matrix is neither packed nor measured here, and its rows in the file are not
  // read.
  void set_switched(std::unique_ptr<SwitchedBlocks> blocks);

  // Columns of some of them, which outlive the executables that are built from now on.
  void set_channels(std::unique_ptr<Channels> channels) { channels_ = std::move(channels); }
  // Null where there are none.
  const Channels* channels() const { return channels_.get(); }
  const ChannelInput* channels_of(model::WeightId id) const {
    return channels_ != nullptr ? channels_->find(id) : nullptr;
  }

  // Blocks that are computed by neuron by executables that are built from now on. Their first
  // matrices must stay in rows.
  void set_neurons(std::unique_ptr<Neurons> neurons);
  // Null where there are none.
  Neurons* neurons() const { return neurons_.get(); }

  // Makes copies of these matrices in Q8_0, a scale for each 32 weights, of those that are not.
  // Rows that are no multiple of 32 stay as they are. Throws Error where memory is short.
  void group_int8(std::span<const model::WeightId> ids, int n_threads,
                  const ProgressFunction& progress = {});
  // The matrix in Q8_0 where it has one, else as it stands in the file.
  const Matrix& grouped(model::WeightId id) const;
  size_t packed_bytes() const { return packed_bytes_; }
  // The bytes of the magnitudes that measure_int8 found.
  size_t measured_bytes() const;

  // Puts the rows of these matrices side by side in the memory where they lie, which must be
  // writable, if nothing but `ids` reads it. What reads rows in the order of the file cannot read
  // them any more: packing, measuring, grouping. Returns the bytes moved.
  size_t place_in_strips(std::span<const model::WeightId> ids, int n_threads);

  // The matrices that lie in this stretch of memory lie elsewhere from now on, where the stretch
  // will be read. REQUIRES: nothing was built or packed of them.
  void move(const std::byte* begin, size_t bytes, const std::byte* to);

  // Bytes of the file that one step of decoding reads: all matrices but the embedding table,
  // unless that is the head too, and but the experts that a token does not use.
  size_t bytes_per_step() const { return bytes_per_step_; }
  // Weights that take part in the products of one token, for counting operations.
  size_t n_linear_elements() const { return n_linear_elements_; }
  // Bytes of all tensors the blueprint names.
  size_t total_bytes() const { return total_bytes_; }
  // The element type that most bytes of the matrices have: what a person calls the model's type.
  tensor::Type main_type() const { return main_type_; }

 private:
  void resolve(const gguf::File& file, const model::Weight& weight, bool is_vector,
               Constant* entry);
  void count(const model::Blueprint& blueprint);

  std::vector<Constant> entries_;
  std::vector<std::unique_ptr<Int8Matrix>> int8_;  // by weight; empty, or null where not packed
  std::vector<std::vector<float>> row_largest_;    // by weight; empty where not measured
  std::unique_ptr<SwitchedBlocks> switched_;
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<Neurons> neurons_;
  std::vector<GroupedMatrix> grouped_;  // by weight; empty, or without storage where not made
  size_t packed_bytes_ = 0;
  size_t bytes_per_step_ = 0;
  size_t n_linear_elements_ = 0;
  size_t total_bytes_ = 0;
  tensor::Type main_type_ = tensor::Type::kF32;
};

}  // namespace troika::weights
