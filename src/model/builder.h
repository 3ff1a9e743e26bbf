// Writes a blueprint op by op. Architectures are composed of these parts.
#pragma once

#include <array>
#include <string>

#include "model/blueprint.h"
#include "model/metadata.h"

namespace troika::model {

class Builder {
 public:
  explicit Builder(const Metadata& metadata);

  const Metadata& metadata() const { return metadata_; }
  Blueprint& blueprint() { return blueprint_; }

  // All ops written from here on belong to this block.
  void begin_layer(int layer) { layer_ = layer; }
  // "blk.7.attn_q" for "attn_q".
  std::string layer_name(const std::string& part) const;

  // A named value; the same name gives the same value again in every block.
  ValueId value(const std::string& name, int width, bool per_output = false);

  // Weights are `NAME.weight` of the file. A bias `NAME.bias` is used where the file has one.
  ValueId embed(float scale = 1.0f);
  ValueId rms_norm(ValueId input, const std::string& out, const std::string& name);
  ValueId layer_norm(ValueId input, const std::string& out, const std::string& name);
  ValueId linear(ValueId input, const std::string& out, const std::string& name, int n_rows);
  // Rows [first_row, first_row + n_rows) of a tensor that several products share.
  ValueId linear_rows(ValueId input, const std::string& out, const std::string& name, int first_row,
                      int n_rows, int n_tensor_rows);
  // Norms each head of a value apart, in place.
  void head_norm(ValueId value, int n_heads, const std::string& name);
  ValueId rope(ValueId input, int n_heads);
  ValueId attention(ValueId q, ValueId k, ValueId v, float scale);
  ValueId gate(ValueId gate, ValueId up, Activation activation);
  ValueId activate(ValueId input, Activation activation);
  void add_to(ValueId target, ValueId addend);

  // q, k and v (three products, or one tensor `attn_qkv` where the file has it), then rope on q and
  // k, attention and the output product.
  ValueId attention_block(ValueId input);
  // down(activation(gate(x)) * up(x)), or without a gate down(activation(up(x))).
  ValueId gated_ffn(ValueId input, Activation activation);
  ValueId plain_ffn(ValueId input, Activation activation);
  // The same gated FFN in each of the experts that a router chooses for a token.
  ValueId expert_ffn(ValueId input, Activation activation);
  // All blocks of the kind that most models have, on x: norm, attention, sum; norm, gated FFN (of
  // experts where the model has them), sum.
  void rms_norm_blocks(ValueId x, Activation activation);
  // The rows that are wanted, their norm, and the head.
  void rms_norm_head(ValueId x);

  // Selects the wanted rows, so that the caller can norm them and call `head`.
  ValueId select(ValueId input);
  // The product with `output.weight`, or with the embedding where the file ties them.
  void head(ValueId input);

  Blueprint finish();

 private:
  ValueId expert_linear(ValueId input, ValueId routes, const std::string& out,
                        const std::string& name, int n_rows, int row_length);
  // q, k and v of a block.
  std::array<ValueId, 3> attention_inputs(ValueId input);
  WeightId vector(const std::string& full_name, int length);
  Op& push(OpKind kind, ValueId output);
  int width_of(ValueId value) const { return blueprint_.values[static_cast<size_t>(value)].width; }

  const Metadata& metadata_;
  Blueprint blueprint_;
  int layer_ = kNone;
};

// The activation that `ARCH.feed_forward_activation` names.
Activation read_activation(const Metadata& metadata, const char* fallback = "silu");

}  // namespace troika::model
