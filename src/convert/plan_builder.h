// What the plans of all families need: the sizes of config.json, checked, and the names of common
// tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/family.h"

namespace troika::convert {

struct Sizes {
  uint32_t n_layers, width, n_heads, n_kv_heads, head_dim, ffn_width, n_vocab, context;
  uint32_t trained_context;  // the context before a window limits it

  uint64_t q_rows() const { return uint64_t{n_heads} * head_dim; }
  uint64_t kv_rows() const { return uint64_t{n_kv_heads} * head_dim; }
};

// Where config.json keeps the numbers of rotation: in "rope_parameters", or beside the other
// numbers and in "rope_scaling".
struct RopeFacts {
  double theta = 10000.0;
  std::string type = "default";
  double rotated_share = 1.0;
  Json scaling;  // the object with the numbers of the type; null where there is none
};
// Reads these facts. `layer_type` chooses where there is one object for each type of layer;
// `fallback_theta` is the class's own theta.
RopeFacts read_rope(const Config& config, std::string_view layer_type = "full_attention",
                    double fallback_theta = 10000.0);

// What a matrix has beside its rows.
struct LinearTraits {
  bool needs_bias = false;       // there must be a bias; if false, there may be one
  uint32_t n_rotated_heads = 0;  // has the meaning that it has in PlannedTensor
};

// What the end of a model has beside its sizes.
struct EndTraits {
  bool is_tied_by_default =
      false;  // where the configuration does not say, embedding and head are one
  float norm_added = 0.0F;
};

class PlanBuilder {
 public:
  // `default_head_dim` 0 means width / heads.
  PlanBuilder(const Config& config, ConversionPlan* plan, std::string_view architecture,
              uint32_t default_head_dim = 0);

  const Sizes& sizes() const { return sizes_; }
  const Config& config() const { return config_; }

  void set(std::string_view key, Number value);
  // Sets the keys that all architectures have.
  void set_sizes();
  // Sets stretched contexts: linear and yarn as metadata, llama3 as a tensor. Refuses other kinds.
  void set_rope(const RopeFacts& rope);
  // Limits the context to a window that this program does not apply in this family: shorter
  // contexts are exact.
  void limit_context(uint32_t window);

  // Throws Error unless the activation has one of these names. It is said by the first of the keys
  // that is there; where none is, it is the first name.
  void check_activation(std::initializer_list<std::string_view> names,
                        std::initializer_list<std::string_view> keys = {"hidden_act"});
  // Throws Error unless "layer_types", where it is there, says this of each layer.
  void check_layer_types(bool (*is_sliding)(uint32_t layer));

  PlannedTensor& vector(std::string name, std::string source, uint64_t length);
  PlannedTensor& matrix(std::string name, std::string source, uint64_t n_rows, uint64_t n_columns);
  // Adds a matrix and its bias.
  void linear(const std::string& name, const std::string& source, uint64_t n_rows,
              uint64_t n_columns, const LinearTraits& traits = {});
  // Adds the embedding, the last norm, and the head unless it is the embedding again.
  void ends(const EndTraits& traits);
  static std::string layer(uint32_t i, std::string_view name);   // returns "blk.I.NAME"
  static std::string source(uint32_t i, std::string_view name);  // returns "model.layers.I.NAME"

 private:
  void add_llama3_divisors(const RopeFacts& rope);

  const Config& config_;
  ConversionPlan& plan_;
  Sizes sizes_{};
};

}  // namespace troika::convert
