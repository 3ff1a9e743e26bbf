// Phi 3, 3.5 and 4 (mini): Llama's block with half-split rope, one tensor for q, k and v and one
// for gate and up. Long contexts have divisors of their own. Where the file names a sliding window,
// all blocks have it.
#include "model/arch/arch.h"
#include "model/builder.h"
#include "model/window.h"

namespace troika::model::arch {

Blueprint phi3(const Metadata& metadata) {
  Builder b(metadata);
  b.blueprint().ropes.front().is_half_split = true;
  AttentionFacts attention;
  attention.window = read_window(metadata, 0);
  const ValueId x = b.embed();
  b.rms_norm_blocks(x, {}, [&](int) { return attention; });
  b.rms_norm_head(x);
  return b.finish();
}

}  // namespace troika::model::arch
