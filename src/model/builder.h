// Writes a blueprint op by op. Architectures are composed of these parts.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "model/blueprint.h"
#include "model/metadata.h"

namespace troika::model {

// What sets the attention of a block apart.
struct AttentionFacts {
  float scale = 0.0f;  // the factor of q·k; 0: one over the square root of a head's length
  float soft_cap = 0.0f;
  int window = 0;  // counts positions; 0: all
  int rope = 0;    // one of the blueprint's ropes
};
// Returns what sets the attention of a block apart.
using AttentionOfLayer = std::function<AttentionFacts(int layer)>;

// What sets the FFN of all blocks apart.
struct FfnFacts {
  Activation activation = Activation::kSilu;
  // These are for models that have experts.
  int expert_width = 0;  // 0: the FFN's
  bool normalizes_shares = true;
  float share_scale = 1.0f;
};

class Builder {
 public:
  explicit Builder(const Metadata& metadata);

  const Metadata& metadata() const { return metadata_; }
  Blueprint& blueprint() { return blueprint_; }

  // Adds a rotation, for `AttentionFacts::rope`. Returns the number of an equal one where there is
  // one.
  int add_rope(const Rope& rope);
  // Makes all ops that are written from here on belong to this block.
  void begin_layer(int layer) { layer_ = layer; }
  // Returns "blk.7.attn_q" for "attn_q".
  std::string layer_name(const std::string& part) const;

  // Returns a named value. The same name gives the same value again in every block.
  ValueId value(const std::string& name, int width, bool per_output = false);

  // Weights are `NAME.weight` of the file. A bias `NAME.bias` is used where the file has one.
  ValueId embed(float scale = 1.0f);
  ValueId rms_norm(ValueId input, const std::string& out, const std::string& name);
  ValueId layer_norm(ValueId input, const std::string& out, const std::string& name);
  ValueId linear(ValueId input, const std::string& out, const std::string& name, int n_rows);
  // Multiplies with the rows [first_row, first_row + n_rows) of a tensor that several products
  // share.
  ValueId linear_rows(ValueId input, const std::string& out, const std::string& name, int first_row,
                      int n_rows, int n_tensor_rows);
  // Norms each head of a value apart, in place.
  void head_norm(ValueId value, int n_heads, const std::string& name);
  ValueId rope(ValueId input, int n_heads, int index = 0);
  ValueId attention(ValueId q, ValueId k, ValueId v, const AttentionFacts& part);
  ValueId gate(ValueId gate, ValueId up, Activation activation);
  ValueId activate(ValueId input, Activation activation);
  void add_to(ValueId target, ValueId addend);
  // Caps the logits softly.
  void soft_cap(ValueId logits, float cap);

  // Adds q, k and v (three products, or one tensor `attn_qkv` where the file has it), norms of
  // their heads where the file has those, then rope on q and k, attention and the output product.
  ValueId attention_block(ValueId input, const AttentionFacts& part = {});
  // Adds down(activation(gate(x)) * up(x)), of two tensors or of one with the rows of gate, then
  // up. plain_ffn has no gate: down(activation(up(x))).
  ValueId gated_ffn(ValueId input, Activation activation);
  ValueId plain_ffn(ValueId input, Activation activation);
  // Adds a gated FFN in each of the experts that a router chooses for a token. Where the file has
  // an expert that all tokens share, it is added, times its own gate where it has one.
  ValueId expert_ffn(ValueId input, const FfnFacts& part);
  // Adds all blocks of the kind that most models have, on x: norm, attention, sum; norm, gated FFN
  // (of experts where the model has them), sum. What is summed up is normed first where the file
  // has `post_attention_norm` and `post_ffw_norm`.
  void rms_norm_blocks(ValueId x, const FfnFacts& ffn, const AttentionOfLayer& attention = {});
  // Adds the selection of wanted rows, their norm, and the head.
  void rms_norm_head(ValueId x);

  // Selects the wanted rows, so that the caller can norm them and call `head`.
  ValueId select(ValueId input);
  // Adds the product with `output.weight`, or with the embedding where the file ties them.
  void head(ValueId input);

  Blueprint finish();

 private:
  // The names of the parts of a gated FFN whose tensors end in `suffix`.
  struct GatedNames {
    std::string suffix;
    std::string gate, up, out;  // name values
  };
  ValueId gated_ffn(ValueId input, Activation activation, int width, const GatedNames& names);
  ValueId route(ValueId input, const FfnFacts& part);
  ValueId expert_linear(ValueId input, ValueId routes, const std::string& out,
                        const std::string& name, int n_rows, int row_length);
  void add_shared_expert(ValueId input, ValueId sum, Activation activation);
  // Reads what sparse models add to a block.
  void note_predictor();
  // Norms the value in place, where the file has such a norm.
  ValueId post_norm(ValueId value, const std::string& part);
  bool has_layer_tensor(const std::string& part) const;
  // Returns q, k and v of a block.
  std::array<ValueId, 3> attention_inputs(ValueId input);
  WeightId vector(const std::string& full_name, int length);
  Op& push(OpKind kind, ValueId output);
  int width_of(ValueId value) const { return blueprint_.values[static_cast<size_t>(value)].width; }

  const Metadata& metadata_;
  Blueprint blueprint_;
  int layer_ = kNone;
};

// Returns the activation that `ARCH.feed_forward_activation` names.
Activation read_activation(const Metadata& metadata, const char* fallback = "silu");
// Returns the cap at `ARCH.KEY`, 0 where there is none.
float read_soft_cap(const Metadata& metadata, const char* key, double fallback);

}  // namespace troika::model
