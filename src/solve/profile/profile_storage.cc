#include "solve/profile/profile_storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/median.h"
#include "base/random.h"

namespace troika::solve {
namespace {

using plan::DiskRead;

constexpr size_t kAlignment = 4096;  // direct reads ask for it
constexpr uint64_t kWriteBytes = 1u << 20;

struct FreeMemory {
  void operator()(std::byte* memory) const { ::free(memory); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeMemory>;

AlignedBytes aligned(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(memory));
}

// A file that is read past the page cache, where the system lets it.
class DiskFile {
 public:
  // `subject` and `way_out` are the first and the last words about a failure.
  DiskFile(const std::string& path, std::string subject, std::string way_out)
      : subject_(std::move(subject)), way_out_(std::move(way_out)) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    is_direct_ = descriptor_ >= 0;
    if (!is_direct_) descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("the file cannot be opened", errno);
  }
  ~DiskFile() { ::close(descriptor_); }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  bool is_direct() const { return is_direct_; }
  const std::string& way_out() const { return way_out_; }
  uint64_t bytes() const {
    const off_t end = ::lseek(descriptor_, 0, SEEK_END);
    if (end < 0) fail("the file's length cannot be found out", errno);
    return static_cast<uint64_t>(end);
  }
  // Drops what the page cache holds, where direct reads are refused.
  void forget() const {
    if (!is_direct_) ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  }
  // Returns the number of the error where the read failed, else 0.
  int read(std::byte* to, uint64_t bytes, uint64_t offset) const {
    while (bytes > 0) {
      const ssize_t n = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n < 0 ? errno : EIO;  // 0: the file is shorter than what was written
      to += n;
      bytes -= static_cast<uint64_t>(n);
      offset += static_cast<uint64_t>(n);
    }
    return 0;
  }
  [[noreturn]] void fail(const char* problem, int error) const {
    throw Error(fmt::format("{}: {} to measure the disk with: {}. {}", subject_, problem,
                            std::strerror(error), way_out_));
  }

 private:
  std::string subject_;
  std::string way_out_;
  int descriptor_ = -1;
  bool is_direct_ = false;
};

// Writes random bytes, which no layer below can compress.
void write_random(const DiskFile& file, int writer, uint64_t bytes) {
  const AlignedBytes block = aligned(kWriteBytes);
  auto* words = reinterpret_cast<uint64_t*>(block.get());
  for (uint64_t at = 0; at < bytes; at += kWriteBytes) {
    for (size_t i = 0; i < kWriteBytes / 8; ++i) words[i] = random_bits(at, i);
    // A disk that gets full takes a part first, which is no error, and says why only then.
    for (uint64_t done = 0; done < kWriteBytes;) {
      const ssize_t n = ::write(writer, block.get() + done, kWriteBytes - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) file.fail("the file cannot be written", n < 0 ? errno : EIO);
      done += static_cast<uint64_t>(n);
    }
  }
  if (::fsync(writer) != 0) file.fail("the file cannot be written", errno);
}

// Makes a file without a name, which is gone when it is closed.
std::unique_ptr<DiskFile> make_scratch(const StorageOptions& options) {
  const std::string& folder = options.folder;
  std::string path = folder + "/storage-XXXXXX";
  const int writer = ::mkostemp(path.data(), O_CLOEXEC);
  if (writer < 0) {
    throw Error(fmt::format("{}: a file cannot be made to measure the disk with: {}. {}", folder,
                            std::strerror(errno), options.way_out));
  }
  std::unique_ptr<DiskFile> file;
  try {
    file = std::make_unique<DiskFile>(path, folder, options.way_out);
    ::unlink(path.c_str());  // before it is written, which may be cut off
    write_random(*file, writer, options.file_bytes);
  } catch (...) {
    if (file == nullptr) ::unlink(path.c_str());
    ::close(writer);
    throw;
  }
  ::close(writer);
  return file;
}

// Reads into huge pages, as streams do: into small ones a read takes up to twice as long.
struct Reader {
  std::vector<double> times_us;
  PageBuffer buffer;
  int error = 0;  // why a read failed, as errno had it in the thread that read; 0: none did
};

// Measures with threads that keep one read under way each, `depth` of them together, until the time
// is over.
DiskRead measure(const DiskFile& file, DiskRead combination, double enough_us) {
  const RealClock clock;
  const uint64_t n_blocks = combination.range_bytes / combination.block_bytes;
  const uint64_t seed = storage_seed(combination);
  std::vector<Reader> readers(static_cast<size_t>(combination.depth));
  for (Reader& reader : readers) {
    reader.buffer = PageBuffer(std::max<size_t>(combination.block_bytes, kHugePageBytes));
    std::memset(reader.buffer.get(), 0, combination.block_bytes);  // the system gives pages now
  }
  file.forget();
  std::atomic<uint64_t> next{0};
  const double start_us = clock.now_us();
  const auto work = [&](Reader& reader) {
    // There is at least one read, however long it takes.
    for (double now = clock.now_us(); reader.times_us.empty() || now < start_us + enough_us;) {
      const uint64_t n = next.fetch_add(1);
      // Sequential reads end with the file, because then they would read what was read before.
      if (!combination.is_random && n >= n_blocks) return;
      const uint64_t block =
          (combination.is_random ? random_bits(seed, n) : seed % n_blocks + n) % n_blocks;
      reader.error =
          file.read(reader.buffer.get(), combination.block_bytes, block * combination.block_bytes);
      if (reader.error != 0) return;
      const double end = clock.now_us();
      reader.times_us.push_back(end - now);
      now = end;
    }
  };
  std::vector<std::jthread> threads;  // ends when all have ended, also where one cannot begin
  try {
    for (size_t i = 1; i < readers.size(); ++i) threads.emplace_back(work, std::ref(readers[i]));
  } catch (const std::system_error& error) {
    throw Error(
        fmt::format("Storage is measured with {} threads, of which the system starts {}: {}. Raise "
                    "its limit of processes. {}",
                    readers.size(), threads.size() + 1, error.code().message(), file.way_out()));
  }
  work(readers.front());
  threads.clear();
  const double took_us = clock.now_us() - start_us;

  std::vector<double> times;
  for (const Reader& reader : readers) {
    if (reader.error != 0) file.fail("the file cannot be read", reader.error);
    times.insert(times.end(), reader.times_us.begin(), reader.times_us.end());
  }
  combination.mb_s =
      static_cast<double>(times.size()) * static_cast<double>(combination.block_bytes) / took_us;
  combination.us = median(std::move(times));
  return combination;
}

}  // namespace

uint64_t storage_seed(const DiskRead& combination) {
  const uint64_t ways = 2 * static_cast<uint64_t>(combination.depth) + combination.is_random;
  return random_bits(random_bits(combination.range_bytes, combination.block_bytes), ways);
}

plan::Storage profile_storage(const StorageOptions& options, const ProgressFunction& progress) {
  std::vector<DiskRead> combinations;
  for (const uint64_t block : options.block_bytes) {
    for (const int depth : options.depths) {
      combinations.push_back({.block_bytes = block,
                              .range_bytes = options.file_bytes,
                              .is_random = false,
                              .depth = depth});
      for (const uint64_t range : options.range_bytes) {
        TROIKA_ASSERT(range <= options.file_bytes && range >= block);
        combinations.push_back(
            {.block_bytes = block, .range_bytes = range, .is_random = true, .depth = depth});
      }
    }
  }
  const std::unique_ptr<DiskFile> file = make_scratch(options);
  plan::Storage storage;
  storage.folder = options.folder;
  storage.is_direct = file->is_direct();
  for (const DiskRead& combination : combinations) {
    storage.reads.push_back(measure(*file, combination, options.each_us));
    if (progress) progress(storage.reads.size(), combinations.size());
  }
  return storage;
}

plan::Storage profile_file(const std::string& path, const ProgressFunction& progress) {
  const StorageOptions usual;
  const int depth = *std::max_element(usual.depths.begin(), usual.depths.end());
  const DiskFile file(path, path, "Measure with a profile ('troika profile') instead.");
  plan::Storage storage;
  storage.folder = path;
  storage.is_direct = file.is_direct();
  const uint64_t range = file.bytes() / kWriteBytes * kWriteBytes;
  if (range < kLeastProfiledFile) return storage;
  const size_t n_all = 2 * usual.block_bytes.size();
  for (const uint64_t block : usual.block_bytes) {
    for (const bool is_random : {false, true}) {
      storage.reads.push_back(measure(file, {block, range, is_random, depth}, usual.each_us));
      if (progress) progress(storage.reads.size(), n_all);
    }
  }
  return storage;
}

}  // namespace troika::solve
