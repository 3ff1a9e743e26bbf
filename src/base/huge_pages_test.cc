#include "base/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <filesystem>

#include "tests/support/temp_folder.h"

namespace troika {
namespace {

TEST(HugePages, TheSystemsWordIsRead) {
  test::TempFolder folder;
  const std::string where = "/sys/kernel/mm/transparent_hugepage";
  EXPECT_FALSE(gives_huge_pages(folder.file("none")));
  const auto says = [&](const std::string& text) {
    const std::string root = folder.file("root");
    std::filesystem::create_directories(root + where);
    test::write_whole(root + where + "/enabled", text + "\n");
    return gives_huge_pages(root);
  };
  EXPECT_TRUE(says("always [madvise] never"));
  EXPECT_TRUE(says("[always] madvise never"));
  EXPECT_FALSE(says("always madvise [never]"));
}

TEST(HugePages, ReservedSpaceIsAligned) {
  for (const size_t size : {size_t{1}, size_t{12345}, 3 * kHugePageBytes + 1}) {
    std::byte* const place = reserve_aligned(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % kHugePageBytes, 0u);
    EXPECT_EQ(huge_bytes_within(place, size), 0u);
    EXPECT_EQ(munmap(place, size), 0);
  }
}

TEST(HugePages, ABufferIsInThemWhereThereAreAny) {
  const HugeBuffer small(100);
  std::memset(small.get(), 1, small.size());
  const HugeBuffer large(4 * kHugePageBytes);
  std::memset(large.get(), 1, large.size());
  if (!gives_huge_pages()) GTEST_SKIP() << "this system gives no huge pages";
  const size_t huge = huge_bytes_within(large.get(), large.size());
  if (huge == 0) GTEST_SKIP() << "the system had none free";
  EXPECT_EQ(huge % kHugePageBytes, 0u);
}

TEST(HugePages, AreAskedForWithinARangeOnly) {
  const size_t size = 4 * kHugePageBytes;
  const PageBuffer pages(size);
  // The range begins and ends within a page, so that it has one whole page less at each end.
  if (madvise(pages.get(), size, MADV_NOHUGEPAGE) != 0) {
    GTEST_SKIP() << "this system knows no huge pages";
  }
  prefer_huge_pages(pages.get() + 1, size - 2);
  prefer_huge_pages(pages.get() + 1, kHugePageBytes - 2);  // has no whole page
  std::memset(pages.get(), 1, size);
  EXPECT_EQ(huge_bytes_within(pages.get(), kHugePageBytes), 0u);
  EXPECT_EQ(huge_bytes_within(pages.get() + 3 * kHugePageBytes, kHugePageBytes), 0u);
  if (!gives_huge_pages()) GTEST_SKIP() << "this system gives no huge pages";
  const size_t huge = huge_bytes_within(pages.get() + kHugePageBytes, 2 * kHugePageBytes);
  if (huge == 0) GTEST_SKIP() << "the system had none free";
  EXPECT_EQ(huge % kHugePageBytes, 0u);
}

// Says whether the page at an address is in use.
bool is_mapped(const void* page) {
  unsigned char resident = 0;
  return mincore(const_cast<void*>(page), 1, &resident) == 0;
}

TEST(HugePages, PagesGoBackToTheSystemAtOnce) {
  for (const size_t size : {size_t{100}, 2 * kHugePageBytes + 5}) {
    const std::byte* place = nullptr;
    {
      PageBuffer pages(size);
      place = pages.get();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % kHugePageBytes, 0u);
      EXPECT_EQ(place[size - 1], std::byte{0});
      std::memset(pages.get(), 1, size);
      const PageBuffer moved = std::move(pages);
      EXPECT_EQ(moved.get(), place);
      EXPECT_EQ(moved.size(), size);
      EXPECT_TRUE(is_mapped(place));
    }
    EXPECT_FALSE(is_mapped(place));
  }
  EXPECT_EQ(PageBuffer(0).get(), nullptr);
}

TEST(HugePages, AnImpossibleSizeThrows) {
  EXPECT_THROW(HugeBuffer(size_t{1} << 60), std::bad_alloc);
  EXPECT_THROW(PageBuffer(size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace troika
