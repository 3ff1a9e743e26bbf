#include "measure/neuron_times.h"

#include <gtest/gtest.h>

#include "base/cpu_features.h"
#include "kernels/choose.h"

namespace troika::measure {
namespace {

weights::Matrix matrix_of(tensor::Type type, int n_rows, int k) {
  return {type, nullptr, tensor::row_bytes(type, static_cast<size_t>(k)), n_rows, k};
}

// Nothing of the matrices is read, whatever their types. A time of 0 would make any plan by neuron
// look good.
TEST(NeuronTimes, P8AreThereForEveryFormOfColumns) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  Team team(2);
  for (const tensor::Type type : {tensor::Type::kQ4_0, tensor::Type::kQ8_0, tensor::Type::kQ4_K,
                                  tensor::Type::kQ6_K, tensor::Type::kF16, tensor::Type::kF32}) {
    for (const auto activations : {plan::Activations::kQ8, plan::Activations::kF32}) {
      const weights::Matrix rows = matrix_of(type, 1024, 2048), down = matrix_of(type, 2048, 1024);
      const auto times = measure_neurons(kernels.table, activations, {rows, rows, down, 0.2}, team);
      ASSERT_TRUE(times) << tensor::type_name(type);
      EXPECT_GT(times->gate_us, 0.0) << tensor::type_name(type);
      EXPECT_GT(times->up_us, 0.0) << tensor::type_name(type);
      EXPECT_GT(times->down_us, 0.0) << tensor::type_name(type);
    }
  }
}

// Live neurons are drawn until there are enough of them, which must not take for ever.
TEST(NeuronTimes, P8AreThereWhereNextToNothingIsLive) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  Team team(1);
  const weights::Matrix rows = matrix_of(tensor::Type::kQ4_0, 512, 256);
  const weights::Matrix down = matrix_of(tensor::Type::kQ4_0, 256, 512);
  const auto times =
      measure_neurons(kernels.table, plan::Activations::kQ8, {rows, rows, down, 1e-12}, team);
  ASSERT_TRUE(times);
  EXPECT_GT(times->down_us, 0.0);
}

// What a cache holds is faster than what a step reads, which whoever plans by it must know.
TEST(NeuronTimes, P8SayWhereACacheMayHoldWhatIsTimed) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  Team team(1);
  const weights::Matrix rows = matrix_of(tensor::Type::kQ4_0, 512, 256);
  const weights::Matrix down = matrix_of(tensor::Type::kQ4_0, 256, 512);
  const auto may_be_cached = [&](size_t cache_mb, size_t free_mb) {
    const auto times =
        measure_neurons(kernels.table, plan::Activations::kQ8, {rows, rows, down, 0.2}, team,
                        {cache_mb << 20, free_mb << 20});
    return times && times->may_be_cached;
  };
  EXPECT_FALSE(may_be_cached(4, 1024));
  EXPECT_TRUE(may_be_cached(64, 64));     // so little memory is free
  EXPECT_TRUE(may_be_cached(512, 4096));  // no more than 512 MB are taken
}

// Where a neuron alone takes more than memory has, there is nothing to measure.
TEST(NeuronTimes, P8AreMissingWhereMemoryIsShort) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  Team team(1);
  const weights::Matrix rows = matrix_of(tensor::Type::kF32, 512, 1 << 26);
  const weights::Matrix down = matrix_of(tensor::Type::kF32, 1 << 26, 512);
  EXPECT_FALSE(
      measure_neurons(kernels.table, plan::Activations::kQ8, {rows, rows, down, 0.1}, team));
}

}  // namespace
}  // namespace troika::measure
