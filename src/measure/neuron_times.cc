#include "measure/neuron_times.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "base/median.h"
#include "base/random.h"
#include "base/system.h"
#include "kernels/rows.h"
#include "tensor/codec.h"
#include "weights/neurons/columns.h"
#include "weights/neurons/source.h"

namespace troika::measure {
namespace {

using weights::kSegmentNeurons;
using weights::Matrix;

// Each of both is several times a core's last cache, so that what a segment needs is in none.
constexpr size_t kNeuronBytes = size_t{160} << 20;
constexpr size_t kPlaneBytes = size_t{64} << 20;
constexpr size_t kMostPlaces = size_t{1} << 17;  // enough of small neurons
// Fewer live neurons cost each as much: no two of them share scales.
constexpr double kLeastLive = 0.01;
constexpr size_t kAlignment = 64;
constexpr int kRounds = 3;

constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
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
              const NeuronBlock& block, Team& team)
      : kernels_(kernels),
        block_(block),
        team_(team),
        layout_(weights::column_layout(block.down)),
        gate_(kernel_of(block.gate, activations)),
        up_(kernel_of(block.up, activations)),
        gate_bytes_(aligned(block.gate.row_bytes)),
        up_bytes_(aligned(block.up.row_bytes)),
        place_bytes_(gate_bytes_ + up_bytes_ + aligned(layout_.column_bytes)),
        n_places_(
            std::clamp<size_t>(std::min(kNeuronBytes, available_memory_bytes() / 4) / place_bytes_,
                               kSegmentNeurons, kMostPlaces)),
        places_(n_places_ * place_bytes_),
        plane_bytes_(aligned(layout_.scale_bytes) + aligned(layout_.minimum_bytes)),
        n_planes_(plane_bytes_ > 0 ? std::max<size_t>(kPlaneBytes / plane_bytes_, 1) : 1),
        planes_(std::max<size_t>(n_planes_ * plane_bytes_, 1)),
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

  RowKernel kernel_of(const Matrix& matrix, plan::Activations activations) const {
    RowKernel kernel;
    if (activations == plan::Activations::kQ8) {
      kernel.q8 = kernels::find(kernels_.matmul_q8, matrix.type);
    }
    if (kernel.q8 == nullptr) kernel.f32 = kernels::find(kernels_.matmul_f32, matrix.type);
    return kernel;
  }

  // Writes the same weights to all places: what they are does not change the time. Levels of
  // columns, and their scales, are 0.
  void fill_places() {
    std::vector<std::byte> place(place_bytes_);
    write_row(block_.gate, place.data());
    write_row(block_.up, place.data() + gate_bytes_);
    team_.run([&](int worker) {
      const Share share = share_of(static_cast<int64_t>(n_places_), worker, team_.size());
      for (int64_t i = share.begin; i < share.end; ++i) {
        std::memcpy(place_of(static_cast<size_t>(i)), place.data(), place_bytes_);
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

  std::byte* place_of(size_t i) { return places_.get() + i * place_bytes_; }

  // Lets neurons live by chance, segment after segment, until all places are taken. Neurons have
  // their places in no order.
  void choose_live() {
    std::vector<size_t> order(n_places_);
    for (size_t i = 0; i < n_places_; ++i) order[i] = i;
    for (size_t i = n_places_ - 1; i > 0; --i) {
      std::swap(order[i], order[random_bits(19, i) % (i + 1)]);
    }
    const auto n_of_block = static_cast<size_t>(weights::n_segments(block_.down.row_length));
    const double live = std::max(block_.live, kLeastLive);
    for (size_t next = 0, number = 0; next < n_places_; ++number) {
      LiveSegment segment;
      const size_t first = number % n_of_block * kSegmentNeurons;
      const size_t last = std::min(first + kSegmentNeurons, layout_.n_neurons);
      segment.planes = planes_of(number / n_of_block % n_planes_);
      for (size_t neuron = first; neuron < last && next < n_places_; ++neuron) {
        if (random_unit(23, number * kSegmentNeurons + neuron) >= live) continue;
        const std::byte* const place = place_of(order[next++]);
        segment.gates.push_back(place);
        segment.ups.push_back(place + gate_bytes_);
        segment.columns.push_back(
            {static_cast<uint32_t>(neuron), 0.5f, place + gate_bytes_ + up_bytes_});
      }
      segments_.push_back(std::move(segment));
    }
  }

  kernels::ColumnPlanes planes_of(size_t i) const {
    if (plane_bytes_ == 0) return {nullptr, nullptr, layout_.group, layout_.n_outputs};
    const std::byte* const scales = planes_.get() + i * plane_bytes_;
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
      times.push_back((clock.now_us() - start_us) / static_cast<double>(n_places_));
    }
    return median(std::move(times));
  }

  const kernels::Table& kernels_;
  const NeuronBlock& block_;
  Team& team_;
  weights::ColumnLayout layout_;
  RowKernel gate_, up_;
  size_t gate_bytes_, up_bytes_;  // where the next part of a place begins
  size_t place_bytes_, n_places_;
  HugeBuffer places_;  // holds a neuron each: its row of the gate, its row, its column
  size_t plane_bytes_, n_planes_;
  HugeBuffer planes_;  // holds the scales, and minima, of a block each
  std::vector<WorkerRoom> workers_;
  std::vector<float> input_;
  std::vector<std::byte> input_q8_;
  std::vector<LiveSegment> segments_;
};

}  // namespace

NeuronTimes measure_neurons(const kernels::Table& kernels, plan::Activations activations,
                            const NeuronBlock& block, Team& team) {
  TROIKA_ASSERT(block.live > 0.0);
  return NeuronBench(kernels, activations, block, team).run();
}

}  // namespace troika::measure
