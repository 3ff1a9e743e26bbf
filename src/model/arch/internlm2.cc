// InternLM 2 and 2.5: Llama under another name.
#include "model/arch/arch.h"
#include "model/arch/llama_like.h"

namespace troika::model::arch {

Blueprint internlm2(const Metadata& metadata) {
  return llama_like(metadata, /*is_half_split=*/false, {});
}

}  // namespace troika::model::arch
