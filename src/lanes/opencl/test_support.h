// Gives tests of lanes on OpenCL devices a device, and small graphs to run on it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lanes/host/test_support.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_lane.h"
#include "tensor/codec.h"

#if defined(__SANITIZE_ADDRESS__)
// Threads of a driver sometimes end while leaks are looked for, and the search itself then crashes.
// So it is left out where a driver was loaded; whatever it found would be the driver's mostly.
inline bool is_driver_loaded = false;
extern "C" [[gnu::used, gnu::weak]] int __lsan_is_turned_off() { return is_driver_loaded ? 1 : 0; }
#endif

namespace troika::lanes::opencl {

// A device for tests. It is null where this machine has no OpenCL device that lanes can use; then
// `problem` says why. Where TROIKA_OPENCL names a library, it must have a device.
struct FoundDevice {
  std::shared_ptr<const Device> device;
  DeviceOptions options;
  std::string problem;
};

// Opens the device of oclgrind, which says that it has memory of its own but keeps and maps buffers
// where the program has them. It empties its log when it starts, so each process needs its own: a
// file of the folder that TROIKA_OCLGRIND_LOGS names.
inline std::shared_ptr<const Device> simulated_device(const std::string& file) {
  if (const char* const folder = std::getenv("TROIKA_OCLGRIND_LOGS")) {
    setenv("OCLGRIND_LOG", (folder + ("/" + std::to_string(getpid()))).c_str(), 1);
  }
  static Int (*info)(DeviceId, UInt, size_t, void*, size_t*) = nullptr;
  Api api = Library(file).api();
  info = api.device_info;
  api.device_info = [](DeviceId id, UInt what, size_t room, void* answer, size_t* size) {
    const Int status = info(id, what, room, answer, size);
    if (what == kSharesMemory && status == kOk && room >= sizeof(UInt)) {
      const UInt yes = 1;
      std::memcpy(answer, &yes, sizeof(yes));
    }
    return status;
  };
  return std::make_shared<const Device>(std::make_shared<const Library>(api), 0);
}

inline FoundDevice find_device() {
  const char* const file = std::getenv("TROIKA_OPENCL");
  FoundDevice found;
  found.options.library = file != nullptr ? file : "";
#if defined(__SANITIZE_THREAD__)
  // The sanitizer would judge code that it cannot see into.
  found.problem = "drivers of OpenCL are not built with the thread sanitizer";
  return found;
#endif
#if defined(__SANITIZE_ADDRESS__)
  is_driver_loaded = true;
#endif
  try {
    found.device = found.options.library.find("oclgrind") == std::string::npos
                       ? std::make_shared<const Device>(found.options)
                       : simulated_device(found.options.library);
  } catch (const Error& error) {
    // Whoever names a library wants these tests to run.
    if (file != nullptr) throw;
    found.problem = error.what();
  }
  return found;
}

// Memory of no device, without pieces longer than a limit.
class LimitedMemory : public SharedMemory {
 public:
  explicit LimitedMemory(size_t most_bytes) : SharedMemory(nullptr), most_bytes_(most_bytes) {}
  std::byte* allocate(size_t bytes) override {
    return bytes > most_bytes_ ? nullptr : plain_.allocate(bytes);
  }
  void free(std::byte* begin) noexcept override { plain_.free(begin); }

 private:
  PlainMemory plain_;
  size_t most_bytes_;
};

// Some ops over random values and weights of one type, which tests run on lanes of different kinds.
class SmallGraph {
 public:
  static constexpr int kMostTokens = 21;

  explicit SmallGraph(tensor::Type type) : type_(type) {
    blueprint_.n_heads = 6;
    blueprint_.n_kv_heads = 3;
    blueprint_.head_dim = 24;
    blueprint_.n_layers = 1;
    blueprint_.ropes[0].n_dims = 16;
  }
  model::Blueprint& blueprint() { return blueprint_; }
  const model::Blueprint& blueprint() const { return blueprint_; }

  model::ValueId add_value(int width, bool per_output = false) {
    const auto id = static_cast<model::ValueId>(blueprint_.values.size());
    blueprint_.values.push_back({"v" + std::to_string(id), width, per_output});
    return id;
  }
  model::WeightId add_matrix(int n_rows, int k, float size = 0.05f) {
    const auto id = static_cast<model::WeightId>(blueprint_.weights.size());
    const auto n_k = static_cast<size_t>(k);
    const size_t row_bytes = tensor::row_bytes(type_, n_k);
    auto bytes = std::make_unique<std::vector<std::byte>>(row_bytes * static_cast<size_t>(n_rows));
    const auto floats =
        random_floats(static_cast<size_t>(n_rows) * n_k, static_cast<uint32_t>(id) + 1, size);
    for (size_t row = 0; row < static_cast<size_t>(n_rows); ++row) {
      tensor::quantize_row(type_, floats.data() + row * n_k, bytes->data() + row * row_bytes, n_k);
    }
    blueprint_.weights.push_back({"w" + std::to_string(id) + ".weight", 0, n_rows, k, n_rows, 0});
    weights::StoredWeight constant;
    constant.matrix = {type_, bytes->data(), row_bytes, n_rows, k};
    constants_.push_back(std::move(constant));
    bytes_.push_back(std::move(bytes));
    return id;
  }
  model::WeightId add_vector(int n) {
    const auto id = static_cast<model::WeightId>(blueprint_.weights.size());
    blueprint_.weights.push_back({"v" + std::to_string(id) + ".weight", 0, 1, n, 1, 0});
    weights::StoredWeight constant;
    constant.vector = random_floats(static_cast<size_t>(n), 77);
    constants_.push_back(std::move(constant));
    return id;
  }
  model::Op& add_op(model::OpKind kind, std::vector<model::ValueId> inputs, model::ValueId output,
                    model::WeightId weight = model::kNone) {
    model::Op op{kind};
    op.layer = 0;
    std::copy(inputs.begin(), inputs.end(), op.inputs.begin());
    op.output = output;
    op.weight = weight;
    op.eps = 1e-5f;
    blueprint_.ops.push_back(op);
    return blueprint_.ops.back();
  }
  // Makes the store. It is called once, after all functions above.
  weights::Store& store() {
    if (store_ == nullptr) {
      store_ = std::make_unique<weights::Store>(blueprint_, std::move(constants_));
    }
    return *store_;
  }
  Subgraph subgraph() const { return {&blueprint_, blueprint_.ops, "ffn"}; }

  // Returns a graph of a norm, two products of it (one with a bias), their gate, a product and a
  // sum.
  static SmallGraph block(tensor::Type type, int width, int middle) {
    SmallGraph graph(type);
    const auto x = graph.add_value(width), normed = graph.add_value(width);
    const auto gate = graph.add_value(middle), up = graph.add_value(middle);
    const auto y = graph.add_value(width);
    const auto norm = graph.add_vector(width), bias = graph.add_vector(middle);
    using model::OpKind;
    graph.add_op(OpKind::kRmsNorm, {x}, normed, norm);
    graph.add_op(OpKind::kLinear, {normed}, gate, graph.add_matrix(middle, width)).bias = bias;
    graph.add_op(OpKind::kLinear, {normed}, up, graph.add_matrix(middle, width));
    graph.add_op(OpKind::kGate, {gate, up}, gate);
    graph.add_op(OpKind::kLinear, {gate}, y, graph.add_matrix(width, middle));
    graph.add_op(OpKind::kAdd, {y, x}, x);
    return graph;
  }

 private:
  tensor::Type type_;
  model::Blueprint blueprint_;
  std::vector<weights::StoredWeight> constants_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> bytes_;
  std::unique_ptr<weights::Store> store_;
};

// Runs a graph on a lane, with its values in the memory that the lane wants.
class GraphRun {
 public:
  GraphRun(Lane& lane, SmallGraph& graph)
      : lane_(lane),
        graph_(graph),
        buffers_(graph.blueprint(), SmallGraph::kMostTokens, SmallGraph::kMostTokens, true, 2,
                 lane.memory()) {
    const size_t n_pairs = 8 * size_t{SmallGraph::kMostTokens};
    cos_ = random_floats(n_pairs, 5);
    sin_ = random_floats(n_pairs, 6);
    for (int i = 0; i < SmallGraph::kMostTokens; ++i) {
      tokens_.push_back(i * 7 % 19);
      rows_.push_back(i * 5 % SmallGraph::kMostTokens);
    }
  }

  const Buffers& buffers() const { return buffers_; }

  // Fills the inputs with random values, which are the same in each run.
  void fill(int set) {
    for (size_t id = 0; id < graph_.blueprint().values.size(); ++id) {
      const auto value = static_cast<model::ValueId>(id);
      const auto x = random_floats(n_floats(value), static_cast<uint32_t>(id) + 40);
      std::copy(x.begin(), x.end(), buffers_.view(value, set).floats());
    }
  }
  lanes::Run arguments(plan::Phase phase, int n_tokens, int set) const {
    lanes::Run run;
    run.phase = phase;
    run.n_tokens = n_tokens;
    run.n_outputs = n_tokens;
    run.tokens = {tokens_.data(), static_cast<size_t>(n_tokens)};
    run.output_rows = {rows_.data(), static_cast<size_t>(n_tokens)};
    run.rope_cos = cos_.data();
    run.rope_sin = sin_.data();
    run.buffer_set = set;
    return run;
  }
  // Runs the graph and returns all values afterwards. The executable is built for `shape`, which
  // may have more tokens than n_tokens.
  std::vector<float> values(const Subgraph& subgraph, plan::Shape shape, int n_tokens,
                            int set = 0) {
    const auto executable = lane_.build(subgraph, shape, graph_.store(), buffers_);
    fill(set);
    const lanes::Run run = arguments(shape.phase, n_tokens, set);
    lanes::Ended ended;
    lane_.submit(*executable, run, ended);
    ended.latch.wait();
    EXPECT_EQ(ended.status, Status::kDone) << lane_.problem();
    return read(set);
  }
  std::vector<float> read(int set) const {
    std::vector<float> all;
    for (size_t id = 0; id < graph_.blueprint().values.size(); ++id) {
      const auto value = static_cast<model::ValueId>(id);
      const float* const from = buffers_.view(value, set).floats();
      all.insert(all.end(), from, from + n_floats(value));
    }
    return all;
  }

 private:
  size_t n_floats(model::ValueId id) const {
    return static_cast<size_t>(buffers_.width(id)) * SmallGraph::kMostTokens;
  }

  Lane& lane_;
  SmallGraph& graph_;
  Buffers buffers_;
  std::vector<float> cos_, sin_;
  std::vector<cache::Token> tokens_;
  std::vector<int> rows_;
};

// Returns the largest difference, as a share of the largest value.
inline float difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0.0f, apart = 0.0f;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(a[i]));
    apart = std::max(apart, std::isnan(b[i]) ? INFINITY : std::fabs(a[i] - b[i]));
  }
  return largest > 0.0f ? apart / largest : apart;
}

}  // namespace troika::lanes::opencl
