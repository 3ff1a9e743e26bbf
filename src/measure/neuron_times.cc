#include "measure/neuron_times.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/median.h"
#include "base/random.h"
#include "kernels/rows.h"
#include "tensor/codec.h"
#include "weights/neurons/columns.h"
#include "weights/neurons/source.h"

namespace troika::measure {
namespace {

using weights::kSegmentNeurons;
using weights::Matrix;

// What a pass reads of all neurons is so many times the last cache where memory allows, so that it
// is in none.
constexpr size_t kCaches = 2;
constexpr size_t kMostBytes = size_t{512} << 20;
constexpr size_t kMostPlaces = size_t{1} << 17;  // more neurons than models have that fit a cache
// Fewer live neurons cost about as much each: hardly any two of them share scales.
constexpr double kLeastLive = 0.01;
constexpr size_t kAlignment = 64;
constexpr int kRounds = 3;

constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The memory of a bench. A place holds a neuron: its row of the gate, its row, its column.
struct Room {
  size_t gate_bytes, up_bytes, column_bytes;  // where the next part of a place begins
  size_t plane_bytes;                         // the scales, and minima, of a block
  size_t n_places = 0, n_planes = 1;

  size_t place_bytes() const { return gate_bytes + up_bytes + column_bytes; }
  // Returns the least that a pass reads of all places.
  size_t least_pass_bytes() const {
    return n_places * std::min({gate_bytes, up_bytes, column_bytes});
  }
};

std::optional<Room> room_for(const NeuronBlock& block, const weights::ColumnLayout& layout,
                             const MemorySizes& memory) {
  Room room = {aligned(block.gate.row_bytes), aligned(block.up.row_bytes),
               aligned(layout.column_bytes),
               aligned(layout.scale_bytes) + aligned(layout.minimum_bytes)};
  const size_t wanted = kCaches * std::max<size_t>(memory.last_cache_bytes, size_t{8} << 20);
  const size_t most = std::min(kMostBytes, memory.free_bytes / 4);
  if (room.plane_bytes > 0) {
    room.n_planes = std::max<size_t>(std::min(wanted, most / 3) / room.plane_bytes, 1);
  }
  const size_t left = most - std::min(most, room.n_planes * room.plane_bytes);
  const size_t smallest = std::min({room.gate_bytes, room.up_bytes, room.column_bytes});
  room.n_places =
      std::min({wanted / smallest + kSegmentNeurons, left / room.place_bytes(), kMostPlaces});
  if (room.n_places < kSegmentNeurons) return std::nullopt;
  return room;
}

// Keeps what multiplies rows of a matrix.
struct RowKernel {
  kernels::MatmulQ8* q8 = nullptr;
  kernels::MatmulF32* f32 = nullptr;
};

// The live neurons of a segment, and where they lie.
struct LiveSegment {
  std::vector<const std::byte*> gates, ups;
  std::vector<kernels::LiveColumn> columns;
  kernels::ColumnPlanes planes;
};

// What a worker computes with.
struct WorkerRoom {
  std::vector<float> values;   // a value for each neuron of a segment
  std::vector<float> outputs;  // a segment's sum
};

class NeuronBench {
 public:
  NeuronBench(const kernels::Table& kernels, plan::Activations activations,
              const NeuronBlock& block, const Room& room, Team& team)
      : kernels_(kernels),
        block_(block),
        team_(team),
        layout_(weights::column_layout(block.down)),
        gate_(kernel_of(block.gate, activations)),
        up_(kernel_of(block.up, activations)),
        room_(room),
        places_(room.n_places * room.place_bytes()),
        planes_(std::max<size_t>(room.n_planes * room.plane_bytes, 1)),
        workers_(static_cast<size_t>(team.size())) {
    const auto width = static_cast<size_t>(block.up.row_length);
    input_.resize(width);
    for (size_t i = 0; i < width; ++i) input_[i] = random_value(i);
    input_q8_.resize(kernels::q8_row_bytes(width));
    kernels.quantize_activations(input_.data(), input_q8_.data(), width);
    for (WorkerRoom& worker : workers_) {
      worker.values.resize(kSegmentNeurons);
      worker.outputs.resize(layout_.n_outputs);
    }
    fill_places();
    choose_live();
  }

  NeuronTimes run() {
    NeuronTimes times;
    times.gate_us = median_us([&](const LiveSegment& segment, WorkerRoom* own) {
      multiply(gate_, block_.gate, segment.gates, own);
    });
    times.up_us = median_us([&](const LiveSegment& segment, WorkerRoom* own) {
      multiply(up_, block_.up, segment.ups, own);
    });
    const auto add_columns = kernels_.add_columns[static_cast<size_t>(layout_.form)];
    times.down_us = median_us([&](const LiveSegment& segment, WorkerRoom* own) {
      add_columns(segment.planes, segment.columns, 0, layout_.n_outputs, own->outputs.data());
    });
    return times;
  }

 private:
  static float random_value(size_t i) { return static_cast<float>(random_unit(17, i) - 0.5); }

  // Steps bring their inputs into the form that the weight of `up` takes.
  RowKernel kernel_of(const Matrix& matrix, plan::Activations activations) const {
    RowKernel kernel;
    if (activations == plan::Activations::kQ8 && !tensor::is_float(block_.up.type)) {
      kernel.q8 = kernels::find(kernels_.matmul_q8, matrix.type);
    }
    if (kernel.q8 == nullptr) kernel.f32 = kernels::find(kernels_.matmul_f32, matrix.type);
    return kernel;
  }

  // Writes the same weights to all places: what they are does not change the time. Levels of
  // columns, and their scales, are 0.
  void fill_places() {
    std::vector<std::byte> place(room_.place_bytes());
    write_row(block_.gate, place.data());
    write_row(block_.up, place.data() + room_.gate_bytes);
    team_.run([&](int worker) {
      const Share share = share_of(static_cast<int64_t>(room_.n_places), worker, team_.size());
      for (int64_t i = share.begin; i < share.end; ++i) {
        std::memcpy(place_of(static_cast<size_t>(i)), place.data(), room_.place_bytes());
      }
    });
    std::memset(planes_.get(), 0, planes_.size());
  }

  static void write_row(const Matrix& matrix, std::byte* row) {
    const auto n = static_cast<size_t>(matrix.row_length);
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = random_value(i);
    tensor::quantize_row(matrix.type, values.data(), row, n);
  }

  std::byte* place_of(size_t i) { return places_.get() + i * room_.place_bytes(); }

  // Lets neurons live by chance, segment after segment, until all places are taken. Neurons have
  // their places in no order.
  void choose_live() {
    std::vector<size_t> order(room_.n_places);
    for (size_t i = 0; i < room_.n_places; ++i) order[i] = i;
    for (size_t i = room_.n_places - 1; i > 0; --i) {
      std::swap(order[i], order[random_bits(19, i) % (i + 1)]);
    }
    const auto n_of_block = static_cast<size_t>(weights::n_segments(block_.down.row_length));
    const double live = std::max(block_.live, kLeastLive);
    for (size_t next = 0, number = 0; next < room_.n_places; ++number) {
      LiveSegment segment;
      const size_t first = number % n_of_block * kSegmentNeurons;
      const size_t last = std::min(first + kSegmentNeurons, layout_.n_neurons);
      segment.planes = planes_of(number / n_of_block % room_.n_planes);
      for (size_t neuron = first; neuron < last && next < room_.n_places; ++neuron) {
        if (random_unit(23, number * kSegmentNeurons + neuron) >= live) continue;
        const std::byte* const place = place_of(order[next++]);
        segment.gates.push_back(place);
        segment.ups.push_back(place + room_.gate_bytes);
        segment.columns.push_back(
            {static_cast<uint32_t>(neuron), 0.5f, place + room_.gate_bytes + room_.up_bytes});
      }
      segments_.push_back(std::move(segment));
    }
  }

  kernels::ColumnPlanes planes_of(size_t i) const {
    if (room_.plane_bytes == 0) return {nullptr, nullptr, layout_.group, layout_.n_outputs};
    const std::byte* const scales = planes_.get() + i * room_.plane_bytes;
    const auto* const minima =
        reinterpret_cast<const float*>(scales + aligned(layout_.scale_bytes));
    return {scales, layout_.minimum_bytes > 0 ? minima : nullptr, layout_.group, layout_.n_outputs};
  }

  void multiply(const RowKernel& kernel, const Matrix& matrix,
                const std::vector<const std::byte*>& rows, WorkerRoom* own) const {
    const kernels::SingleRows single = {rows, matrix.row_bytes,
                                        static_cast<size_t>(matrix.row_length)};
    if (kernel.q8 != nullptr) {
      kernels::matmul_rows(kernel.q8, single, input_q8_.data(), own->values.data());
    } else {
      kernels::matmul_rows(kernel.f32, single, input_.data(), own->values.data());
    }
  }

  template <typename Compute>
  double median_us(const Compute& compute) {
    const RealClock clock;
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      const double start_us = clock.now_us();
      team_.run([&](int worker) {
        const Share share = share_of(static_cast<int64_t>(segments_.size()), worker, team_.size());
        for (int64_t i = share.begin; i < share.end; ++i) {
          compute(segments_[static_cast<size_t>(i)], &workers_[static_cast<size_t>(worker)]);
        }
      });
      times.push_back((clock.now_us() - start_us) / static_cast<double>(room_.n_places));
    }
    return median(std::move(times));
  }

  const kernels::Table& kernels_;
  const NeuronBlock& block_;
  Team& team_;
  weights::ColumnLayout layout_;
  RowKernel gate_, up_;
  Room room_;
  HugeBuffer places_, planes_;
  std::vector<WorkerRoom> workers_;
  std::vector<float> input_;
  std::vector<std::byte> input_q8_;
  std::vector<LiveSegment> segments_;
};

}  // namespace

std::optional<NeuronTimes> measure_neurons(const kernels::Table& kernels,
                                           plan::Activations activations, const NeuronBlock& block,
                                           Team& team, const MemorySizes& memory) {
  TROIKA_ASSERT(block.live > 0.0);
  const std::optional<Room> room = room_for(block, weights::column_layout(block.down), memory);
  if (!room) return std::nullopt;
  NeuronTimes times = NeuronBench(kernels, activations, block, *room, team).run();
  times.may_be_cached = room->least_pass_bytes() < memory.last_cache_bytes;
  return times;
}

}  // namespace troika::measure
