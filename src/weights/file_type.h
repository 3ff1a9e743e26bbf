// What people call the type of a model file: one element type for all matrices, or a mix.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/type.h"

namespace troika::weights {

struct FileType {
  std::string_view name;  // "q4_k_m", as on the command line
  uint32_t number;        // of general.file_type, as llama.cpp counts them
  tensor::Type matrices;  // of all matrices, or of most of them in a mix
  bool is_mix;            // sensitive matrices get more bits
};

// f32 f16 bf16 q4_0 q5_0 q8_0 q4_k q6_k q4_k_m
std::span<const FileType> file_types();
// In any case of letters. Throws a UsageError that lists the names.
const FileType& get_file_type(std::string_view name);

// What the choice for one tensor depends on besides the tensor itself.
struct ModelFacts {
  uint32_t n_layers = 0;
  uint32_t n_experts = 0;
  bool tied_embeddings = false;  // the embedding is the output matrix too
};

// The element type of a tensor in a file of this type. Vectors and the router of experts stay F32.
// A mix gives Q6_K to the output and to attn_v and ffn_down of the first and last eighth of the
// layers and every third one between. Rows that are no multiple of 256 fall back from Q4_K to Q5_0
// and from Q6_K to Q8_0; no multiple of 32, to F16.
tensor::Type choose_type(const FileType& file_type, std::string_view name,
                         std::span<const uint64_t> shape, const ModelFacts& facts);

}  // namespace troika::weights
