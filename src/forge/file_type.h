// What people call the type of a model file: one element type for all matrices, or a mix.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/type.h"

namespace troika::forge {

struct Mix;  // says how the sensitive matrices of a mix get more bits

struct FileType {
  std::string_view name;     // such as "q4_k_m", as on the command line
  uint32_t number;           // the value of general.file_type, as llama.cpp numbers types
  tensor::Type matrices;     // the type of all matrices, or of most matrices in a mix
  const Mix* mix = nullptr;  // null where all matrices have the same type
};

// Returns the names of all types: "f32, f16, ..., and the mixes q2_k, ...".
std::string file_type_names();
// Returns the type with this name, in any case of letters. Throws a UsageError that lists the
// names.
const FileType& get_file_type(std::string_view name);

// What the choice of a type for a tensor depends on besides the tensor itself.
struct ModelFacts {
  uint32_t n_layers = 0;
  uint32_t n_experts = 0;
  bool tied_embeddings = false;  // the embedding is also the output matrix
  uint32_t heads_per_kv = 1;     // counts query heads that share keys and values
};

// Returns the element type of a tensor in a file of this type. Vectors and the router of experts
// stay F32. In a mix each tensor gets the type that llama.cpp's quantize gives it: Q6_K for the
// output, and more bits for attn_v, ffn_down and attn_output in some layers. Rows that are no
// multiple of 256 get a format with blocks of 32 and about as many bits or more instead; rows that
// are no multiple of 32 get F16.
tensor::Type choose_type(const FileType& file_type, std::string_view name,
                         std::span<const uint64_t> shape, const ModelFacts& facts);

}  // namespace troika::forge
