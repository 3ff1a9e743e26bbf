// Finds the weights of a blueprint in the file and checks their name, shape and type. Matrices stay
// where the file is mapped; vectors (norms, biases) become resident floats.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "gguf/file.h"
#include "model/blueprint.h"
#include "tensor/type.h"
#include "weights/channels.h"
#include "weights/lease.h"
#include "weights/panels.h"

namespace troika::weights {

class ExpertSource;
class HotNeurons;
class Neurons;
class SwitchedBlocks;

// The rows of one matrix. Those before n_strip_rows stand in strips of 16, the others as in the
// file.
struct Matrix {
  tensor::Type type;
  const std::byte* data;  // (n_rows, row_bytes)
  size_t row_bytes;
  int n_rows;
  int row_length;
  int n_strip_rows = 0;  // a multiple of 16

  size_t bytes() const { return row_bytes * static_cast<size_t>(n_rows); }
};

// A copy of a matrix in blocks.
struct GroupedMatrix {
  Matrix matrix{};
  std::vector<std::byte> storage;
};

// Returns the bytes of a copy in Q8_0; 0 for a matrix that stays as it is.
size_t grouped_bytes(const Matrix& matrix);

// A weight that lies in memory: `matrix` or `vector`, as the blueprint uses it.
struct StoredWeight {
  Matrix matrix{};
  std::vector<float> vector;
};

// Says how int8 copies are made.
struct Int8Packing {
  bool one_scale = false;  // gives the whole matrix one scale, not each row
  // Has for each weight the factors of its columns; empty or null: 1.
  std::vector<const float*> factors;
  double int4_outliers = -1.0;  // says the same as in kernels::PackRule

  // Says whether each row has a scale of its own and no factors, and its levels have 8 bits: then
  // it can also be unpacked when it is needed.
  bool is_plain() const { return !one_scale && factors.empty() && int4_outliers < 0.0; }
};

class Store {
 public:
  // The file and the blueprint must outlive the store. Throws Error for a missing tensor, a wrong
  // shape, or an element type that cannot be computed with.
  Store(const gguf::File& file, const model::Blueprint& blueprint);
  // Makes a store of weights in memory, one for each of the blueprint's, of the shapes that it asks
  // for: to measure and test lanes without a file. What matrices point to must outlive the store.
  Store(const model::Blueprint& blueprint, std::vector<StoredWeight> constants);
  ~Store();

  bool is_matrix(model::WeightId id) const {
    return entries_[static_cast<size_t>(id)].matrix.data != nullptr;
  }
  // REQUIRES: the blueprint uses this weight as a matrix (embed, linear).
  const Matrix& matrix(model::WeightId id) const;
  // REQUIRES: the blueprint uses this weight as a vector (norm weights, biases).
  const float* vector(model::WeightId id) const;

  // Gives the right to read a matrix until it is given back. Never blocks: a lease of a matrix that
  // is not in memory is not ready. REQUIRES: is_switched(id).
  Lease acquire(model::WeightId id) const;
  // Says whether the matrix may change its place between runs, so that a lease is for one run only.
  bool is_switched(model::WeightId id) const;

  // Returns the first of these matrices whose packed copies fit into `bytes` together.
  std::vector<model::WeightId> packable(std::span<const model::WeightId> ids, uint64_t bytes) const;
  // Makes packed copies of these matrices on n_threads threads. Leaves out matrices whose rows are
  // too long for whole-number sums. Throws Error where memory is short.
  void pack_int8(std::span<const model::WeightId> ids, int n_threads,
                 const ProgressFunction& progress = {}, const Int8Packing& packing = {});
  // Measures the rows of these matrices, so that they can be unpacked to int8 whenever they are
  // needed. Leaves out matrices that are packed, or whose rows are too long for whole-number sums.
  // `done` is told each matrix that was measured, whose pages nobody needs for now.
  using MatrixFunction = std::function<void(const Matrix& matrix)>;
  void measure_int8(std::span<const model::WeightId> ids, int n_threads,
                    const ProgressFunction& progress = {}, const MatrixFunction& done = {});
  // Returns the largest magnitude of each row; null where it was not measured.
  const float* row_largest(model::WeightId id) const;
  // Returns null where there is no packed copy.
  const kernels::Int8Panels* int8_panels(model::WeightId id) const;

  // Sets the matrices that change between two forms. Executables that are built from now on read
  // them there. The store neither packs nor measures such a matrix, nor reads its rows in the file.
  void set_switched(std::unique_ptr<SwitchedBlocks> blocks);

  // Sets columns of some matrices, for the executables that are built from now on and that they
  // outlive.
  void set_channels(std::unique_ptr<Channels> channels) { channels_ = std::move(channels); }
  // Returns null where there are no columns.
  const Channels* channels() const { return channels_.get(); }
  const ChannelInput* channels_of(model::WeightId id) const {
    return channels_ != nullptr ? channels_->find(id) : nullptr;
  }

  // Sets the blocks that executables which are built from now on compute by neuron. The first
  // matrices of these blocks must stay in rows.
  void set_neurons(std::unique_ptr<Neurons> neurons);
  // Returns null where there are no such blocks.
  Neurons* neurons() const { return neurons_.get(); }

  // Sets the neurons of those blocks that graphs which are made from now on compute as tasks of
  // their own.
  void set_hot(std::unique_ptr<HotNeurons> hot);
  // Returns null where there are none.
  const HotNeurons* hot() const { return hot_.get(); }

  // Says where executables that are built from now on find the rows of experts. It must outlive
  // them.
  void set_experts(ExpertSource* experts) { experts_ = experts; }
  // Returns null where they lie in the matrices.
  ExpertSource* experts() const { return experts_; }

  // Makes copies in Q8_0, a scale for each 32 weights, of those of these matrices that are not.
  // Matrices whose rows are no multiple of 32 stay as they are. Throws Error where memory is short.
  void group_int8(std::span<const model::WeightId> ids, int n_threads,
                  const ProgressFunction& progress = {});
  // Returns the copy in Q8_0 where there is one, else the matrix as it stands in the file.
  const Matrix& grouped(model::WeightId id) const;
  size_t packed_bytes() const { return packed_bytes_; }
  // Returns the bytes of the magnitudes that measure_int8 found.
  size_t measured_bytes() const;

  // Puts the rows of these matrices side by side in the memory where they lie, which must be
  // writable, where nothing but `ids` reads that memory. Packing, measuring, grouping, and
  // everything else that reads rows in the file's order cannot read them any more. Returns the
  // bytes moved.
  size_t place_in_strips(std::span<const model::WeightId> ids, int n_threads);

  // Returns those of these matrices whose memory nothing but `ids` reads, and no other stretch of
  // it.
  std::vector<model::WeightId> alone_in_place(std::span<const model::WeightId> ids) const;

  // Throws Error where the file was cut short or became unreadable: then what was read of it since
  // may be zeros. Whoever keeps what was made of the weights asks before.
  void check_intact() const;

  // Says that the matrices in this stretch of memory will be read to another one, and lie there
  // from now on. REQUIRES: nothing was built or packed of them.
  void move(const std::byte* begin, size_t bytes, const std::byte* to);

  // Returns the bytes of the file that one step of decoding reads: all matrices but the embedding
  // table, unless it is the head too, and but the experts that a token does not use.
  size_t bytes_per_step() const { return bytes_per_step_; }
  // Returns the bytes of all tensors that ops read. Predictors that a checkpoint brings are not
  // among them, and take no memory.
  size_t total_bytes() const { return total_bytes_; }
  // Returns the element type that most bytes of the matrices have: what a person calls the model's
  // type.
  tensor::Type main_type() const { return main_type_; }

 private:
  // Weights that begin at the same place, and have the same rows there.
  using SamePlace = std::vector<model::WeightId>;
  std::vector<SamePlace> places_alone(std::span<const model::WeightId> ids) const;
  void resolve(const gguf::File& file, const model::Weight& weight, bool is_vector,
               StoredWeight* entry);
  void count(const model::Blueprint& blueprint);

  const gguf::File* file_ = nullptr;  // null where the weights were not read from a file
  std::vector<StoredWeight> entries_;
  std::vector<std::unique_ptr<Int8Matrix>> int8_;  // by weight; empty, or null where not packed
  std::vector<std::vector<float>> row_largest_;    // by weight; empty where not measured
  std::unique_ptr<SwitchedBlocks> switched_;
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<HotNeurons> hot_;
  std::unique_ptr<Neurons> neurons_;  // knows which neurons are hot
  ExpertSource* experts_ = nullptr;
  // Has the copy of each weight in blocks; without storage where it has none, empty where none has.
  std::vector<GroupedMatrix> grouped_;
  size_t packed_bytes_ = 0;
  size_t bytes_per_step_ = 0;
  size_t total_bytes_ = 0;
  tensor::Type main_type_ = tensor::Type::kF32;
};

}  // namespace troika::weights
