#include <fmt/format.h>

#include "bench/record/record.h"
#include "bench/weights.h"

namespace troika::bench {
namespace {

using tensor::Type;

constexpr size_t kLength = 2048;        // the length of a row
constexpr size_t kRowsInMemory = 1024;  // the rows of a matrix that is in no cache
constexpr size_t kRowsInCache = 64;     // the rows of a matrix that stays in the second-level cache

}  // namespace

void record_products(const Recorder& recorder) {
  const kernels::Table& table = recorder.kernels.table;
  const size_t stride = kernels::q8_row_bytes(kLength);
  const std::vector<float> x = random_floats(kLength, 1.0f);
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    if (tensor::is_float(info.type)) continue;
    const Type type = info.type;
    const WeightPool pool(type, kLength);
    for (const size_t n_tokens : {1, 4, 8, 32}) {
      std::vector<std::byte> q(n_tokens * stride);
      for (size_t t = 0; t < n_tokens; ++t) {
        table.quantize_activations(x.data(), q.data() + t * stride, kLength);
      }
      std::vector<float> y(n_tokens * kRowsInMemory);
      const auto multiply = [&](const kernels::MatmulWeight& weight) {
        kernels::find(table.matmul_q8, type)(weight, n_tokens, q.data(), stride, y.data(),
                                             kRowsInMemory);
      };
      const auto read_as_much = [&](size_t turn) {
        const kernels::MatmulWeight other = pool.matrix(2 * turn + 1, kRowsInMemory);
        read(recorder.probes, other.data, kRowsInMemory * other.row_bytes);
      };
      const auto add = [&](const char* where, const auto& kernel) {
        recorder.add({recorder.name,
                      fmt::format("{}, {} token{}, from {}", tensor::type_name(type), n_tokens,
                                  n_tokens == 1 ? "" : "s", where),
                      compare(recorder.n_pairs, kernel, read_as_much)});
      };
      add("memory", [&](size_t turn) { multiply(pool.matrix(2 * turn, kRowsInMemory)); });
      add("the cache", [&](size_t) {
        for (size_t i = 0; i < kRowsInMemory / kRowsInCache; ++i) {
          multiply(pool.matrix(0, kRowsInCache));
        }
      });
    }
  }
}

}  // namespace troika::bench
