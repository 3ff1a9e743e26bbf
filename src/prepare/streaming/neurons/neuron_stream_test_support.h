// Makes streams of neurons over random weights, and uses them as an op does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "prepare/streaming/neurons/bundle_maker.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "tensor/codec.h"

namespace troika::prepare::neuron_test {

using tensor::Type;
using weights::kSegmentNeurons;
using weights::Matrix;

inline constexpr int kFfns = 3;
inline constexpr int kNeurons = 1280;  // makes two segments and a half

// Feed-forward blocks of random weights in memory: those of layers, or the experts of one mixture.
struct RandomFfns {
  RandomFfns(Type type, int width, bool is_mixture = false, bool has_gates = false) : width(width) {
    const int n_experts = is_mixture ? kFfns : 1;
    for (int i = 0; i < kFfns; ++i) {
      model::GatedFfn ffn;
      if (is_mixture && i > 0) ffn = ffns.front();
      ffn.n_experts = n_experts;
      ffn.expert = is_mixture ? i : model::kNone;
      ffn.layer = is_mixture ? 0 : i;
      if (!is_mixture || i == 0) {
        ffn.up = add(type, n_experts * kNeurons, width);
        ffn.down = add(type, n_experts * width, kNeurons);
        // Weights go in pairs, of which the second has rows as long as there are neurons.
        if (has_gates) ffn.gate = add(type, n_experts * kNeurons, width);
        if (has_gates) add(type, 1, kNeurons);
        ffn.has_gate_by_neuron = has_gates;
      }
      ffns.push_back(ffn);
    }
    for (const std::vector<std::byte>& one : bytes) {
      const int row_length = constants.size() % 2 == 0 ? width : kNeurons;
      const size_t row_bytes = tensor::row_bytes(type, static_cast<size_t>(row_length));
      const auto n_rows = static_cast<int>(one.size() / row_bytes);
      constants.push_back({{type, one.data(), row_bytes, n_rows, row_length}, {}});
    }
    store = std::make_unique<weights::Store>(blueprint, constants);
    Team team(1);
    for (const model::GatedFfn& ffn : ffns) {
      columns.emplace_back(weights::rows_of(*store, ffn.down, ffn), team);
    }
  }

  model::WeightId add(Type type, int n_rows, int row_length) {
    std::vector<float> row(static_cast<size_t>(row_length));
    const size_t row_bytes = tensor::row_bytes(type, row.size());
    std::vector<std::byte> all(row_bytes * static_cast<size_t>(n_rows));
    for (int r = 0; r < n_rows; ++r) {
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<float>(random_unit(bytes.size(), uint64_t(r) << 32 | i) - 0.5);
      }
      tensor::quantize_row(type, row.data(), all.data() + size_t(r) * row_bytes, row.size());
    }
    bytes.push_back(std::move(all));
    blueprint.weights.emplace_back();
    return static_cast<model::WeightId>(bytes.size() - 1);
  }

  int width;
  model::Blueprint blueprint;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<weights::StoredWeight> constants;
  std::vector<model::GatedFfn> ffns;
  std::unique_ptr<weights::Store> store;
  std::vector<weights::DownColumns> columns;
};

struct Way {
  bool may_use_io_uring = true;
  ReadPipeline pipeline = ReadPipeline::kCluster;
  bool reads_ahead = false;
  BundleReads reads = BundleReads::kOnce;
};

inline std::string name_of(const testing::TestParamInfo<Way>& info) {
  return std::string(info.param.may_use_io_uring ? "IoUring" : "Pread") +
         (info.param.pipeline == ReadPipeline::kMatrix ? "ByMatrix" : "") +
         (info.param.reads_ahead ? "Ahead" : "") +
         (info.param.reads == BundleReads::kTwice ? "Twice" : "");
}

class NeuronStreamTest : public testing::TestWithParam<Way> {
 protected:
  // Returns a stream with room for n_more neurons beyond those that it must have.
  std::unique_ptr<NeuronStream> stream_over(const RandomFfns& model, size_t n_more) {
    NeuronStreamOptions options;
    options.path = path;
    options.model_key = 1;
    const BundleMaker maker(model.ffns, *model.store, 1);
    options.most_bytes =
        NeuronStream::least_bytes(model.ffns, *model.store) + n_more * (maker.place_bytes() + 8);
    options.way.may_use_io_uring = GetParam().may_use_io_uring;
    options.way.spoil = spoil;
    if (depth > 0) options.way.depth = depth;
    options.pipeline = GetParam().pipeline;
    options.reads = GetParam().reads;
    // Which experts are next is not known.
    options.reads_ahead = options.reads_hottest_ahead =
        GetParam().reads_ahead && !model.ffns.front().is_expert();
    options.heat = heat;
    options.pinned_share = pinned_share;
    options.gap_bytes = gap_bytes;
    auto stream = std::make_unique<NeuronStream>(options, model.ffns, *model.store);
    EXPECT_LE(stream->bytes(), options.most_bytes);
    return stream;
  }

  // Draws for each `round` which stretches of the side file are slow: their reads are told to come
  // again, so that reads behind them end before. One read after the other has one order only.
  void draw_orders() {
    if (!GetParam().may_use_io_uring) return;
    spoil = [this](const lanes::ReadRequest& read, int64_t returned) -> int64_t {
      constexpr uint64_t kStretchBytes = 64 << 10;
      const bool is_slow = random_unit(1000 + round, read.offset / kStretchBytes) < 0.4;
      return is_slow && random_unit(11, n_spoilt++) < 0.6 ? -EAGAIN : returned;
    };
  }
  // Says whether reads may overtake each other, and parts whose reads have ended be computed.
  static bool may_overtake(const NeuronStream& stream) {
    return GetParam().may_use_io_uring && GetParam().pipeline == ReadPipeline::kCluster &&
           stream.notes().empty();
  }

  // The neurons that a batch's tokens need of an FFN.
  struct Need {
    int ffn = 0;
    std::vector<uint32_t> live;

    std::span<const uint32_t> of(int segment) const {
      const auto place = [&](int first) {
        return std::lower_bound(live.begin(), live.end(), uint32_t(first * kSegmentNeurons));
      };
      return {place(segment), place(segment + 1)};
    }
  };

  // Uses neurons as an op does: one worker says what is wanted, and the others begin meanwhile.
  // Returns how many neurons had other bytes than the model's.
  int use(NeuronStream& stream, const RandomFfns& model, int ffn, const std::vector<uint32_t>& live,
          int n_workers = 1, int n_tokens = 1) {
    return use(stream, model, {{ffn, live}}, n_workers, n_tokens);
  }
  int use(NeuronStream& stream, const RandomFfns& model, const std::vector<Need>& needs,
          int n_workers = 1, int n_tokens = 1) {
    weights::NeuronSource& source = *stream.ffns().front().source;
    const int n_segments = weights::n_segments(kNeurons);
    const int n_parts = n_segments * int(needs.size());
    const auto neurons_of = [&](int part) {
      return needs[size_t(part / n_segments)].of(part % n_segments);
    };
    EXPECT_TRUE(source.reads_ahead());
    if (is_prompt) {
      source.begin_prompt();
    } else {
      source.begin_step(n_tokens);
    }
    std::atomic<int> n_wrong = 0, sum_of_parts = 0;
    int handed = 0;  // a bit for each part; one worker alone knows in which order they came
    const auto work = [&] {
      std::vector<weights::NeuronPlaces> places(kSegmentNeurons);
      for (int part; (part = source.next_part()) != weights::NeuronSource::kNoPart;) {
        if (n_workers == 1) {
          const int before = (1 << part) - 1;
          if ((handed & before) != before) ++n_out_of_order;
          handed |= 1 << part;
        }
        const int ffn = needs[size_t(part / n_segments)].ffn;
        const std::span<const uint32_t> neurons = neurons_of(part);
        const weights::TakenPart taken = source.take(ffn, part, neurons, places.data());
        const bool is_known = taken != weights::TakenPart::kGates;
        if (!is_known) {
          std::vector<uint32_t> live;
          for (size_t i = 0; i < neurons.size(); ++i) {
            n_wrong += has_right_gate(model, ffn, neurons[i], places[i]) ? 0 : 1;
            if (fires(neurons[i])) live.push_back(neurons[i]);
          }
          if (!source.tell_live(part, live)) continue;
        }
        sum_of_parts += 1 << part;
        for (size_t i = 0; i < neurons.size(); ++i) {
          // The gate may be all there is of a neuron that does not fire.
          const bool is_wanted =
              fires(neurons[i]) || (is_known && taken == weights::TakenPart::kWhole);
          if (is_wanted) n_wrong += is_right(model, ffn, neurons[i], places[i]) ? 0 : 1;
        }
        source.done(part);
      }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < n_workers; ++i) others.emplace_back(work);
    source.begin_batch(n_parts);
    for (int part = 0; part < n_parts; ++part) {
      source.want(needs[size_t(part / n_segments)].ffn, neurons_of(part));
      if (n_workers > 1) std::this_thread::yield();
    }
    n_missed_when_told = stream.counters().cache.misses;
    work();
    for (std::thread& other : others) other.join();
    source.finish();
    EXPECT_EQ(sum_of_parts, (1 << n_parts) - 1);  // shows that each part came once
    return n_wrong;
  }

  // Says whether a neuron's gate fires, where gates are read.
  bool fires(uint32_t neuron) const { return random_unit(fires_as, neuron) < firing_share; }

  static bool has_right_gate(const RandomFfns& model, int ffn, uint32_t neuron,
                             const weights::NeuronPlaces& places) {
    const model::GatedFfn& of = model.ffns[size_t(ffn)];
    if (!of.has_gate_by_neuron) return places.gate == nullptr;
    const Matrix gate = weights::rows_of(*model.store, of.gate, of);
    return std::memcmp(places.gate, gate.data + neuron * gate.row_bytes, gate.row_bytes) == 0;
  }

  static bool is_right(const RandomFfns& model, int ffn, uint32_t neuron,
                       const weights::NeuronPlaces& places) {
    const Matrix up =
        weights::rows_of(*model.store, model.ffns[size_t(ffn)].up, model.ffns[size_t(ffn)]);
    const weights::DownColumns& down = model.columns[size_t(ffn)];
    return has_right_gate(model, ffn, neuron, places) &&
           std::memcmp(places.up, up.data + neuron * up.row_bytes, up.row_bytes) == 0 &&
           std::memcmp(places.down, down.column(neuron), down.layout().column_bytes) == 0;
  }

  static std::vector<uint32_t> random_neurons(uint64_t seed, double share) {
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < kNeurons; ++i) {
      if (random_unit(seed, i) < share) live.push_back(i);
    }
    return live;
  }

  // Returns what a token needs of some experts of a mixture, of others in each round; it may be
  // none.
  static std::vector<Need> random_experts(uint64_t round) {
    const double share = 0.02 + random_unit(8, round) * (round % 5 == 0 ? 0.9 : 0.2);
    std::vector<Need> needs;
    for (int expert = 0; expert < kFfns; ++expert) {
      if (random_unit(9 + uint64_t(expert), round) < 0.3) continue;
      needs.push_back({expert, random_neurons(3 * round + uint64_t(expert), share)});
    }
    return needs;
  }

  std::atomic<uint64_t> round = 0, n_spoilt = 0;  // see draw_orders()
  int64_t n_out_of_order = 0;  // counts parts that came before others which were asked for earlier
  int depth = 0;               // 0: the usual one
  int64_t n_missed_when_told = 0;  // counts misses until all was asked for
  std::string path;                // the side file
  decltype(DiskWay::spoil) spoil;  // does what a faulty disk does
  const weights::NeuronHeat* heat = nullptr;
  std::vector<double> pinned_share;
  std::optional<uint64_t> gap_bytes;
  bool is_prompt = false;
  uint64_t fires_as = 0;  // draws which neurons fire
  double firing_share = 0.5;
};

}  // namespace troika::prepare::neuron_test
