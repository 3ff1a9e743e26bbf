#include "measure/peaks.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/system.h"
#include "measure/measure.h"
#include "measure/step_bounds.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_engine.h"

namespace troika::measure {
namespace {

// Lets this process have only so many bytes of addresses more while it lives.
class AddressLimit {
 public:
  explicit AddressLimit(size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit = {pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + bytes,
                          before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_ = {};
};

TEST(Peaks, EveryProcessorReadsAndMultiplies) {
  const Peaks peaks = measure_peaks(1);
  EXPECT_GT(peaks.read_gb_s, 0);
  EXPECT_GT(peaks.f32_tflops, 0);
  EXPECT_FALSE(peaks.f32_name.empty());
  EXPECT_EQ(peaks.int8_tops > 0, !peaks.int8_name.empty());
  EXPECT_EQ(peaks.bf16_tflops > 0, !peaks.bf16_name.empty());
}

TEST(Peaks, ASmallerBufferIsReadWhereAddressesAreFew) {
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers want memory without end";
  constexpr size_t kLeft = size_t{300} << 20;
  if (last_cache_bytes() >= kLeft / 4) GTEST_SKIP() << "the last cache is too large";
  const AddressLimit limit(kLeft);
  EXPECT_GT(measure_peaks(1).read_gb_s, 0.0);
}

// What else was measured is not lost with the rate of memory.
TEST(Peaks, WithoutRoomForABufferOnlyTheReadRateIsUnknown) {
  if (test::kIsSanitized) GTEST_SKIP() << "sanitizers want memory without end";
  prepare::Options options;
  options.memory.context = 64;
  options.lanes.n_threads = 1;
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  for (const int n_steps : {0, 4}) {
    Measurement m;
    {
      const AddressLimit limit(size_t{12} << 20);
      m = measure(*tiny.session, {{8}, n_steps, 0, 1}, nullptr);
    }
    EXPECT_EQ(m.peaks.read_gb_s, 0.0);
    EXPECT_GT(m.peaks.f32_tflops, 0.0);
    EXPECT_GT(m.prefill.at(0).median, 0.0);
    EXPECT_EQ(m.decode.median > 0.0, n_steps > 0);
    EXPECT_EQ(m.fraction_of_bandwidth, 0.0);
    EXPECT_EQ(step_bounds(*tiny.engine, m.peaks, 1, 8).read_ms, 0.0);
  }
}

}  // namespace
}  // namespace troika::measure
