// Unpacks weights to bfloat16 a strip at a time, with the kernels of one implementation.
#include <memory>

#include "bench/product/contender.h"

namespace troika::bench {
namespace {

constexpr size_t kStrips = 4;
constexpr size_t kStretch = 2048;

}  // namespace

Contender bf16_contender(const char* implementation) {
  return {std::string("bf16 ") + implementation, Peak::kBf16,
          can_run(implementation) ? nullptr : "this processor cannot run it",
          [=](const ProductShape& shape, size_t n_tokens, const float* x, float* y) -> Product {
            const kernels::Table& table = kernels_of(implementation);
            const kernels::MatmulWeight weight = weights_of(shape);
            const size_t stride = kernels::bf16_token_bytes(shape.k);
            constexpr size_t kPanelBytes = kStrips * kernels::kStripRows * kStretch * 2;
            const auto bytes =
                std::make_shared<std::vector<std::byte>>(kPanelBytes + n_tokens * stride + 64);
            const auto address = reinterpret_cast<uintptr_t>(bytes->data());
            std::byte* begin = bytes->data() + (64 - address % 64) % 64;
            auto* panel = reinterpret_cast<uint16_t*>(begin);
            std::byte* tokens = begin + kPanelBytes;
            return [=, &table] {
              (void)bytes;
              for (size_t t = 0; t < n_tokens; ++t) {
                table.narrow_bf16(x + t * shape.k, tokens + t * stride, shape.k);
              }
              const size_t n_strips = kernels::n_strips(shape.n_rows);
              for (size_t first = 0; first < n_strips; first += kStrips) {
                const size_t last = std::min(first + kStrips, n_strips);
                for (size_t k = 0; k < shape.k; k += kStretch) {
                  const size_t n_k = kernels::bf16_depth(std::min(kStretch, shape.k - k));
                  for (size_t strip = first; strip < last; ++strip) {
                    kernels::MatmulWeight part = weight;
                    part.first_row = strip * kernels::kStripRows;
                    part.last_row = std::min(part.first_row + kernels::kStripRows, shape.n_rows);
                    find(table.unpack_bf16, tensor::Type::kQ8_0)(
                        part, k, n_k, panel + (strip - first) * kernels::kStripRows * n_k);
                  }
                  table.matmul_bf16(
                      {panel, shape.n_rows, n_k, k == 0, k + kStretch >= shape.k},
                      {first, last, n_tokens, tokens + 2 * k, stride, nullptr, y, shape.n_rows});
                }
              }
            };
          }};
}

}  // namespace troika::bench
