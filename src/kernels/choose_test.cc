#include "kernels/choose.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/reference/reference.h"

namespace troika::kernels {
namespace {

TEST(Choose, ReferenceIsLastNeedsNothingAndHasEverything) {
  const Implementation& last = implementations().back();
  EXPECT_STREQ(last.name, "reference");
  EXPECT_EQ(last.needs, CpuFeatures());
  const Kernels kernels = choose(CpuFeatures());
  EXPECT_EQ(describe(kernels).find("reference: matmul_f32 F32, "), 0u);
  EXPECT_EQ(kernels.table.attention, reference::kTable.attention);
  for (const tensor::TypeInfo& info : tensor::type_table()) {
    EXPECT_NE(find(kernels.table.matmul_f32, info.type), nullptr);
    EXPECT_NE(find(kernels.table.matmul_q8, info.type), nullptr);
  }
}

size_t n_chosen(const Kernels& kernels, const std::string& function) {
  return static_cast<size_t>(
      std::count_if(kernels.choices.begin(), kernels.choices.end(),
                    [&](const KernelChoice& choice) { return choice.function == function; }));
}

// Every processor has each function once. Only functions that read weights in strips may be
// missing.
TEST(Choose, EveryFunctionIsChosenOnce) {
  const Kernels slow = choose(CpuFeatures()), fast = choose(detect_cpu_features());
  for (const KernelChoice& choice : slow.choices) {
    EXPECT_EQ(n_chosen(fast, choice.function), 1u) << choice.function;
  }
  for (const KernelChoice& choice : fast.choices) {
    const bool is_of_strips = choice.function.find("_strips ") != std::string::npos ||
                              choice.function.find("spread") != std::string::npos;
    EXPECT_EQ(n_chosen(slow, choice.function), is_of_strips ? 0u : 1u) << choice.function;
  }
}

TEST(Choose, AFeatureThatIsMissingSwitchesItsKernelsOff) {
  const CpuFeatures available = detect_cpu_features();
  for (const Implementation& implementation : implementations()) {
    if (!available.has_all(implementation.needs)) continue;
    for (uint8_t i = 0; i < static_cast<uint8_t>(CpuFeature::kCount); ++i) {
      const auto feature = static_cast<CpuFeature>(i);
      if (!implementation.needs.has(feature)) continue;
      CpuFeatures fewer = available;
      fewer.remove(feature);
      EXPECT_EQ(describe(choose(fewer)).find(std::string(implementation.name) + ":"),
                std::string::npos);
      EXPECT_THROW(choose(fewer, implementation.name), UsageError);
    }
  }
}

TEST(Choose, TellsWhereAFunctionCameFrom) {
  EXPECT_EQ(source_of(choose(CpuFeatures()), "matmul_bf16"), "reference");
  EXPECT_EQ(source_of(choose(CpuFeatures()), "matmul_none"), "");
  // The default precision of prompts looks for this name.
  for (const Implementation& i : implementations()) {
    if (i.table->matmul_bf16 == nullptr) continue;
    EXPECT_EQ(source_of(choose(i.needs, i.name), "matmul_bf16"), i.name);
  }
#if defined(__x86_64__)
  EXPECT_EQ(source_of(choose(implementations()[0].needs), "matmul_bf16"), "amx");
#endif
}

TEST(Choose, AnImplementationCanBeForced) {
  const Kernels kernels = choose(detect_cpu_features(), "reference");
  EXPECT_EQ(kernels.table.rms_norm, reference::kTable.rms_norm);
}

TEST(Choose, UnknownNamesAreAnErrorThatListsTheKnown) {
  try {
    choose(detect_cpu_features(), "mmx");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'mmx'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos);
  }
}

}  // namespace
}  // namespace troika::kernels
