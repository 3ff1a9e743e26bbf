#include "weights/channels.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/cache_line.h"
#include "base/error.h"
#include "base/threads/team.h"
#include "kernels/choose.h"
#include "weights/channel_file.h"
#include "weights/fast_hash.h"
#include "weights/no_memory.h"
#include "weights/store.h"

namespace troika::weights {
namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// Writes a strip of panels as 16 rows of the columns of these channels.
void scatter_strip(const kernels::Int8Panels& panels, size_t strip, const ChannelRange& range,
                   size_t row_bytes, int8_t* columns) {
  const int8_t* levels = panels.levels_of(strip);
  const size_t first_row = strip * kernels::kStripRows;
  const size_t n_rows = std::min(kernels::kStripRows, panels.n_rows - first_row);
  for (size_t channel = range.begin; channel < range.end; ++channel) {
    const int8_t* line = levels + channel / kernels::kInt8LineDepth * kernels::kLineBytes +
                         channel % kernels::kInt8LineDepth;
    int8_t* column = columns + (channel - range.begin) * row_bytes + first_row;
    for (size_t r = 0; r < n_rows; ++r) column[r] = line[r * kernels::kInt8LineDepth];
  }
}

// Reads the strips of one matrix in turn, which were packed before or are unpacked now.
class StripReader {
 public:
  StripReader(const Store& store, model::WeightId id) : matrix_(store.matrix(id)) {
    if (const kernels::Int8Panels* packed = store.int8_panels(id); packed != nullptr) {
      packed_ = packed;
      return;
    }
    largest_ = store.row_largest(id);
    TROIKA_ASSERT(largest_ != nullptr);
    const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
    unpack_ = kernels::find(kernels.table.unpack_int8, matrix_.type);
    const size_t bytes = kernels::int8_strip_bytes(static_cast<size_t>(matrix_.row_length));
    levels_ = std::make_unique<int8_t[]>(bytes + kCacheLineBytes);
  }

  kernels::Int8Panels read(size_t strip) {
    if (packed_ != nullptr) return *packed_;
    const auto k = static_cast<size_t>(matrix_.row_length);
    const auto n_rows = static_cast<size_t>(matrix_.n_rows);
    const size_t first_row = strip * kernels::kStripRows;
    int8_t* const levels = at_cache_line(levels_.get());
    unpack_({matrix_.data, matrix_.row_bytes, k, first_row,
             std::min(first_row + kernels::kStripRows, n_rows)},
            largest_ + first_row, {levels, scales_, starts_});
    return {levels, scales_, starts_, n_rows, k, strip};
  }

 private:
  const Matrix& matrix_;
  const kernels::Int8Panels* packed_ = nullptr;
  const float* largest_ = nullptr;
  kernels::UnpackInt8* unpack_ = nullptr;
  std::unique_ptr<int8_t[]> levels_;
  float scales_[kernels::kStripRows] = {};
  int32_t starts_[kernels::kStripRows] = {};
};

}  // namespace

size_t ChannelInput::first_row_of(model::WeightId id) const {
  const auto at = std::find(weights.begin(), weights.end(), id);
  TROIKA_ASSERT(at != weights.end());
  return first_rows[static_cast<size_t>(at - weights.begin())];
}

bool ChannelInput::is_intact(size_t channel, const int8_t* column) const {
  return check_of(std::as_bytes(std::span(column, bytes))) == checks[channel];
}

bool ChannelInput::has_cold() const {
  return std::find(resident.begin(), resident.end(), nullptr) != resident.end();
}

uint32_t check_of(std::span<const std::byte> content) {
  return static_cast<uint32_t>(fast_hash(content));
}

std::string damaged_column(const std::string& path) {
  return fmt::format(
      "{}: the weights of a channel are damaged. Remove the file and start again; then it is made "
      "anew.",
      path);
}

ChannelInput describe_channels(const Store& store, const model::LinearInput& input) {
  ChannelInput channels;
  channels.k = static_cast<size_t>(input.width);
  for (const model::WeightId id : input.weights) {
    TROIKA_ASSERT(store.int8_panels(id) != nullptr || store.row_largest(id) != nullptr);
    channels.weights.push_back(id);
    channels.first_rows.push_back(channels.bytes);
    channels.bytes += static_cast<size_t>(store.matrix(id).n_rows);
  }
  channels.scales.resize(channels.bytes);
  channels.resident.resize(channels.k);
  return channels;
}

void transpose_channels(const Store& store, const ChannelRange& range, int n_threads,
                        ChannelInput* input, int8_t* columns) {
  Team team(n_threads);
  for (size_t i = 0; i < input->weights.size(); ++i) {
    const model::WeightId id = input->weights[i];
    const auto n_rows = static_cast<size_t>(store.matrix(id).n_rows);
    const size_t first = input->first_rows[i];
    team.run([&](int worker) {
      StripReader reader(store, id);
      const Share share =
          share_of(static_cast<int64_t>(kernels::n_strips(n_rows)), worker, team.size());
      for (auto strip = static_cast<size_t>(share.begin); strip < static_cast<size_t>(share.end);
           ++strip) {
        const kernels::Int8Panels panels = reader.read(strip);
        scatter_strip(panels, strip, range, input->bytes, columns + first);
        const size_t row = strip * kernels::kStripRows;
        std::copy_n(panels.scales_of(strip), std::min(kernels::kStripRows, n_rows - row),
                    input->scales.begin() + static_cast<ptrdiff_t>(first + row));
      }
    });
  }
}

Channels::Channels(const Store& store, std::span<const ChannelChoice> choices, int n_threads,
                   const ProgressFunction& progress) {
  for (const ChannelChoice& choice : choices) {
    inputs_.push_back(describe_channels(store, choice.input));
  }
  make_arena(choices);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (progress) progress(i, inputs_.size());
    TROIKA_ASSERT(choices[i].is_all);
    transpose_channels(store, {0, inputs_[i].k}, n_threads, &inputs_[i],
                       const_cast<int8_t*>(inputs_[i].resident.front()));
  }
  if (progress) progress(inputs_.size(), inputs_.size());
}

Channels::Channels(const Store& store, std::span<const ChannelChoice> choices,
                   const ChannelFile& file) {
  for (const ChannelChoice& choice : choices) {
    inputs_.push_back(describe_channels(store, choice.input));
    file.describe(store, choice.input, &inputs_.back());
  }
  make_arena(choices);
  for (const ChannelInput& input : inputs_) file.copy_columns(input);
}

// Takes pages of their own, so that they can be counted, and places the resident columns in them.
void Channels::make_arena(std::span<const ChannelChoice> choices) {
  size_t bytes = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    bytes += inputs_[i].bytes * (choices[i].is_all ? inputs_[i].k : choices[i].hot.size());
  }
  try {
    arena_ = PageBuffer(bytes);
  } catch (const std::bad_alloc&) {
    const bool has_all =
        std::any_of(choices.begin(), choices.end(), [](const auto& one) { return one.is_all; });
    throw no_memory(bytes,
                    fmt::format("of weights by channel, which outliers on a lane of their own "
                                "need. Use {}a larger ‹outlier-prune›, or leave '‹place› shadow' "
                                "out.",
                                has_all ? "‹shadow-rows› hot, " : ""));
  }
  auto* next = reinterpret_cast<int8_t*>(arena_.get());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    ChannelInput& input = inputs_[i];
    const auto place = [&](size_t channel) {
      input.resident[channel] = next;
      next += input.bytes;
    };
    if (choices[i].is_all) {
      for (size_t channel = 0; channel < input.k; ++channel) place(channel);
    } else {
      for (const int channel : choices[i].hot) place(static_cast<size_t>(channel));
    }
    for (const model::WeightId id : input.weights) {
      by_weight_.resize(std::max(by_weight_.size(), static_cast<size_t>(id) + 1), -1);
      by_weight_[static_cast<size_t>(id)] = static_cast<int>(i);
    }
  }
}

const ChannelInput* Channels::find(model::WeightId id) const {
  if (id < 0 || static_cast<size_t>(id) >= by_weight_.size()) return nullptr;
  const int index = by_weight_[static_cast<size_t>(id)];
  return index < 0 ? nullptr : &inputs_[static_cast<size_t>(index)];
}

size_t Channels::all_bytes() const {
  size_t bytes = 0;
  for (const ChannelInput& input : inputs_) bytes += input.k * input.bytes;
  return bytes;
}

size_t Channels::measured_bytes() const {
  const size_t page = page_bytes();
  const size_t n_pages = (arena_.size() + page - 1) / page;
  std::vector<unsigned char> is_resident(n_pages);
  if (n_pages == 0 || ::mincore(arena_.get(), n_pages * page, is_resident.data()) != 0) return 0;
  const auto n = std::count_if(is_resident.begin(), is_resident.end(),
                               [](unsigned char page_state) { return page_state % 2 == 1; });
  return static_cast<size_t>(n) * page;
}

}  // namespace troika::weights
