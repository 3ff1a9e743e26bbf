#include "weights/channel_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/side_file.h"
#include "weights/fast_hash.h"
#include "weights/file_pages.h"
#include "weights/store.h"

namespace troika::weights {
namespace {

constexpr char kMagic[16] = "troika-channels";
constexpr uint64_t kVersion = 2;
constexpr uint64_t kMostEntries = 1 << 20;

// The head of the file. All words have the little end first, as the machines that this runs on do.
struct Header {
  char magic[16];
  uint64_t version;
  uint64_t model_key;
  uint64_t form_key;
  uint64_t file_bytes;
  uint64_t n_entries;
  uint64_t entries_hash;
  uint64_t checks_offset;
};

template <typename T>
std::span<const std::byte> bytes_of(std::span<const T> items) {
  return std::as_bytes(items);
}

// Returns how many columns of an input are made at once.
size_t n_at_once(const ChannelFileOptions& options, const ChannelInput& channels) {
  return std::clamp<size_t>(options.most_bytes_at_once / channels.bytes, 1, channels.k);
}

// Does something that the disk may refuse.
template <typename Step>
void write_channels(uint64_t file_bytes, const Step& step) {
  write_step(file_bytes, "Weights by channel for outliers on a lane of their own",
             "‹no-cache›, or ‹shadow-rows› all, keeps them in memory", step);
}

// Holds what inputs are written with, one after the other.
struct InputWriter {
  uint64_t file_bytes;
  int8_t* columns;  // has room for what is made at once
  AtomicFile& file;
  std::vector<uint32_t>& checks;
};

// Writes an input's scales and columns, and adds a check of the scales and one of each column.
void write_input(const Store& store, const ChannelFileOptions& options,
                 const model::LinearInput& input, const InputWriter& to) {
  ChannelInput channels = describe_channels(store, input);
  const size_t n = n_at_once(options, channels);
  for (size_t first = 0; first < channels.k; first += n) {
    const ChannelRange range = {first, std::min(first + n, channels.k)};
    transpose_channels(store, range, options.n_threads, &channels, to.columns);
    if (first == 0) {
      const std::span<const std::byte> scales = bytes_of(std::span<const float>(channels.scales));
      to.checks.push_back(check_of(scales));
      write_channels(to.file_bytes, [&] {
        pad_to_page(to.file);
        to.file.write(scales);
        pad_to_page(to.file);
      });
    }
    const std::span<const int8_t> made(to.columns, (range.end - first) * channels.bytes);
    for (size_t at = 0; at < made.size(); at += channels.bytes) {
      to.checks.push_back(check_of(bytes_of(made.subspan(at, channels.bytes))));
    }
    write_channels(to.file_bytes, [&] { to.file.write(bytes_of(made)); });
  }
  for (const model::WeightId id : channels.weights) {
    if (options.done) options.done(store.matrix(id));
  }
}

}  // namespace

ChannelFile::ChannelFile(const Store& store, const ChannelFileOptions& options,
                         std::span<const model::LinearInput> inputs,
                         std::span<const model::LinearInput> known) {
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(options.path, ignored);
  if (was_there) problem_ = read(options);
  const auto is_missing = [&](const model::LinearInput& input) {
    return find(store, input) == nullptr;
  };
  if (was_there && problem_.empty() && std::none_of(inputs.begin(), inputs.end(), is_missing)) {
    return;
  }
  if (was_there && problem_.empty()) problem_ = "lacks products that now keep their outliers";
  std::vector<model::LinearInput> wanted(inputs.begin(), inputs.end());
  for (const model::LinearInput& input : known) {
    const bool is_wanted = std::any_of(inputs.begin(), inputs.end(),
                                       [&](const auto& other) { return other.name == input.name; });
    if (!is_wanted && !is_missing(input)) wanted.push_back(input);
  }
  make(store, options, wanted);
  const std::string problem = read(options);
  if (!problem.empty()) {
    throw Error(fmt::format("{}: the file that was just written {}. Try again, or use ‹no-cache›.",
                            options.path, problem));
  }
  // Another process may have put its file there meanwhile.
  if (std::any_of(inputs.begin(), inputs.end(), is_missing)) {
    throw Error(fmt::format(
        "{}: another run with other options has just written this file. Try again, or use "
        "‹no-cache›.",
        options.path));
  }
}

std::string ChannelFile::read(const ChannelFileOptions& options) {
  entries_.clear();
  std::string problem;
  if (!SideFile(options.path, &problem).is_open()) return problem.empty() ? "is gone" : problem;
  try {
    file_ = MappedFile::open(options.path);
  } catch (const Error& error) {
    return fmt::format("cannot be read ({})", error.what());
  }
  const std::span<const std::byte> bytes = file_.bytes();
  Header header;
  if (bytes.size() < sizeof(header)) return "is too short";
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return "is no file of channels";
  if (header.version != kVersion) return "was made by another version of this program";
  if (header.model_key != options.model_key) return "was made for another content of the model";
  if (header.form_key != options.form_key) return "was made for another form of the weights";
  if (header.file_bytes != bytes.size()) return "has not the length that it says";
  const uint64_t most = (bytes.size() - sizeof(header)) / sizeof(Entry);
  if (header.n_entries > std::min(most, kMostEntries)) return "is damaged";
  std::vector<Entry> entries(header.n_entries);
  std::memcpy(entries.data(), bytes.data() + sizeof(header), entries.size() * sizeof(Entry));
  Fnv hash;
  hash.add(bytes_of(std::span<const Entry>(entries)));
  if (hash.value() != header.entries_hash) return "is damaged";
  for (const Entry& entry : entries) {
    const bool has_size = entry.k > 0 && entry.bytes > 0 && entry.bytes <= bytes.size() &&
                          entry.k <= bytes.size() / entry.bytes;
    const auto lies_within = [&](uint64_t offset, uint64_t n) {
      return offset <= bytes.size() && n <= bytes.size() - offset;
    };
    if (!has_size || entry.scales_offset % alignof(float) != 0 ||
        !lies_within(entry.scales_offset, entry.bytes * sizeof(float)) ||
        !lies_within(entry.columns_offset, entry.k * entry.bytes)) {
      return "is damaged";
    }
  }
  entries_ = std::move(entries);
  return read_checks(header.checks_offset);
}

std::string ChannelFile::read_checks(uint64_t offset) {
  const std::span<const std::byte> bytes = file_.bytes();
  uint64_t n = 0;
  for (const Entry& entry : entries_) {
    n += 1 + entry.k;
    if (n > bytes.size()) return "is damaged";
  }
  uint64_t hash = 0;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(hash) ||
      (bytes.size() - offset - sizeof(hash)) / sizeof(uint32_t) < n) {
    return "is damaged";
  }
  checks_.resize(n);
  std::memcpy(&hash, bytes.data() + offset, sizeof(hash));
  std::memcpy(checks_.data(), bytes.data() + offset + sizeof(hash), n * sizeof(uint32_t));
  if (fast_hash(bytes_of(std::span<const uint32_t>(checks_))) != hash) return "is damaged";
  size_t at = 0;
  for (const Entry& entry : entries_) {
    const auto scales = bytes.subspan(entry.scales_offset, entry.bytes * sizeof(float));
    if (check_of(scales) != checks_[at]) return "is damaged";
    at += 1 + entry.k;
  }
  return {};
}

const ChannelFile::Entry* ChannelFile::find(const Store& store,
                                            const model::LinearInput& input) const {
  const uint64_t hash = hash_of(input.name);
  const uint64_t bytes = describe_channels(store, input).bytes;
  for (const Entry& entry : entries_) {
    const bool has_shape = entry.k == static_cast<uint64_t>(input.width) && entry.bytes == bytes;
    if (entry.name_hash == hash && has_shape) return &entry;
  }
  return nullptr;
}

void ChannelFile::make(const Store& store, const ChannelFileOptions& options,
                       const std::vector<model::LinearInput>& inputs) {
  std::vector<Entry> entries;
  uint64_t end = page_above(sizeof(Header) + inputs.size() * sizeof(Entry));
  uint64_t most_bytes = 0;
  for (const model::LinearInput& input : inputs) {
    const ChannelInput channels = describe_channels(store, input);
    Entry entry{hash_of(input.name), channels.k, channels.bytes, end, 0};
    entry.columns_offset = page_above(end + entry.bytes * sizeof(float));
    end = page_above(entry.columns_offset + entry.k * entry.bytes);
    most_bytes = std::max(most_bytes, n_at_once(options, channels) * channels.bytes);
    entries.push_back(entry);
  }
  uint64_t n_checks = 0;
  for (const Entry& entry : entries) n_checks += 1 + entry.k;
  const uint64_t checks_offset = end;
  end = page_above(end + sizeof(uint64_t) + n_checks * sizeof(uint32_t));
  Header header = {{}, kVersion,     options.model_key, options.form_key, end, entries.size(),
                   0,  checks_offset};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  Fnv hash;
  hash.add(bytes_of(std::span<const Entry>(entries)));
  header.entries_hash = hash.value();
  const auto columns = std::make_unique_for_overwrite<int8_t[]>(most_bytes);
  std::vector<uint32_t> checks;
  checks.reserve(n_checks);
  std::optional<AtomicFile> file;
  write_channels(end, [&] {
    make_place_for(options.path);
    file.emplace(options.path);
    file->write(bytes_of(std::span<const Header>(&header, 1)));
    file->write(bytes_of(std::span<const Entry>(entries)));
  });
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (options.progress) options.progress(i, inputs.size());
    write_input(store, options, inputs[i], {end, columns.get(), *file, checks});
  }
  store.check_intact();
  const uint64_t checks_hash = fast_hash(bytes_of(std::span<const uint32_t>(checks)));
  write_channels(end, [&] {
    pad_to_page(*file);
    file->write(bytes_of(std::span<const uint64_t>(&checks_hash, 1)));
    file->write(bytes_of(std::span<const uint32_t>(checks)));
    pad_to_page(*file);
    file->commit();
  });
  if (options.progress) options.progress(inputs.size(), inputs.size());
  is_new_ = true;
}

void ChannelFile::describe(const Store& store, const model::LinearInput& input,
                           ChannelInput* channels) const {
  const Entry* entry = find(store, input);
  TROIKA_ASSERT(entry != nullptr);
  std::memcpy(channels->scales.data(), file_.bytes().data() + entry->scales_offset,
              entry->bytes * sizeof(float));
  channels->file_offset = entry->columns_offset;
  size_t check = 1;
  for (const Entry* before = entries_.data(); before != entry; ++before) check += 1 + before->k;
  channels->checks = std::span(checks_).subspan(check, entry->k);
}

void ChannelFile::copy_columns(const ChannelInput& channels) const {
  for (size_t channel = 0; channel < channels.k; ++channel) {
    if (channels.resident[channel] == nullptr) continue;
    auto* column = const_cast<int8_t*>(channels.resident[channel]);
    std::memcpy(column, file_.bytes().data() + channels.file_offset + channel * channels.bytes,
                channels.bytes);
    if (!channels.is_intact(channel, column)) throw Error(damaged_column(path()));
  }
}

}  // namespace troika::weights
