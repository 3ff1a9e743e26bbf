// Tells from the input of a feed-forward block which of its neurons may fire, for a fraction of
// what the gate costs (P3). It has two small matrices for each layer, whose product is near to the
// gate's, and for each neuron the score above which its row of the gate is worth computing. `troika
// neurons` makes it and keeps it in a side file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/huge_pages.h"
#include "tensor/type.h"

namespace troika::weights {

struct PredictorShape {
  uint64_t n_layers = 0;
  uint64_t n_neurons = 0;
  uint64_t width = 0;  // the width of the block's input
  uint64_t rank = 0;
  tensor::Type type = tensor::Type::kQ8_0;
  bool operator==(const PredictorShape&) const = default;

  size_t in_row_bytes() const;
  size_t out_row_bytes() const;
  size_t layer_bytes() const;
};

class NeuronPredictor {
 public:
  // What the head of a file says.
  struct Info {
    PredictorShape shape;
    uint64_t key = 0;     // the key of the content
    double recall = 0.0;  // the recall that thresholds were chosen for
    // Counts neurons that were predicted for each live one, on tokens that judged.
    double predicted_per_live = 1.0;
    size_t bytes() const { return shape.n_layers * shape.layer_bytes(); }
  };
  // The rows of the first matrix, (rank, width), and of the second one, (n_neurons, rank).
  struct Layer {
    std::byte* in = nullptr;
    std::byte* out = nullptr;
    float* thresholds = nullptr;  // (n_neurons)
  };

  // Makes a predictor of zeros. REQUIRES: width and rank are multiples of a block of the type.
  // Throws std::bad_alloc.
  NeuronPredictor(const PredictorShape& shape, double recall);

  const PredictorShape& shape() const { return shape_; }
  double recall() const { return recall_; }
  double predicted_per_live() const { return predicted_per_live_; }
  void set_predicted_per_live(double n) { predicted_per_live_ = n; }
  size_t bytes() const { return memory_.size(); }
  Layer layer(uint64_t i) const;
  // Returns a key that tells contents apart.
  uint64_t key() const;

  // `model_key` stands for the model's content and the thresholds that neurons are live above.
  // Throws Error where the file cannot be written.
  void write(const std::string& path, uint64_t model_key) const;
  // Throws Error where there is no file, where it was made for another content of the model, and
  // where it is cut short. The sentence says how to make one, and ends with `way_out`: what
  // somebody does who wants none.
  static Info info(const std::string& path, uint64_t model_key,
                   std::string_view way_out = kLeaveOut);
  // Throws Error as `info` does, and also where the file is damaged.
  static std::unique_ptr<NeuronPredictor> read(const std::string& path, uint64_t model_key,
                                               std::string_view way_out = kLeaveOut);

  static constexpr std::string_view kLeaveOut = "leave ‹neuron-predictor› out";

 private:
  PredictorShape shape_;
  double recall_ = 0.0;
  double predicted_per_live_ = 1.0;
  PageBuffer memory_;  // has for each layer: thresholds, in, out
};

}  // namespace troika::weights
