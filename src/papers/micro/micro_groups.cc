#include "papers/micro/micro_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/known.h"

namespace troika::papers {
namespace {

using lanes::Arithmetic;
using lanes::CostModel;
using lanes::Processor;
using lanes::Product;
using lanes::TaskCost;

double alone_us(const CostModel& model, Processor processor, const TaskCost& cost) {
  return cost.fixed_us + std::max(cost.compute_us, cost.bytes / (model.read_gb_s(processor) * 1e3));
}

double product_us(const CostModel& model, Processor processor, const Product& product) {
  return alone_us(model, processor, model.product(processor, product));
}

struct Shape {
  int64_t rows, columns, outputs;
};
// The shapes of llm.npu's Table 3, in its order.
constexpr Shape kTable3[] = {{64, 2048, 2048}, {64, 2048, 8192}, {64, 2048, 11008},
                             {32, 4096, 4096}, {32, 4096, 8192}, {32, 4096, 11008}};

// The rows of one column of Table 3: `first` is the number of its first row.
MicroGroup table3(const char* name, std::vector<std::string> constants, int first,
                  Processor processor, Arithmetic arithmetic) {
  MicroGroup group{name, "llm.npu", std::move(constants)};
  for (size_t i = 0; i < std::size(kTable3); ++i) {
    const Shape s = kTable3[i];
    Product product{s.rows, s.columns, s.outputs, arithmetic};
    product.weight_bytes = arithmetic == Arithmetic::kInt8 ? 1.0 : 2.0;
    group.values.push_back(
        {fmt::format("nf{:03}", first + 4 * static_cast<int>(i)), "",
         fmt::format("{}x{} · {}x{}", s.rows, s.columns, s.columns, s.outputs),
         [=](const CostModel& model) { return product_us(model, processor, product) * 1e-3; }});
  }
  return group;
}

// Rows laid out as a square against rows one below the other (N8).
MicroGroup equivalent_shapes() {
  const auto gain = [](const CostModel& model) {
    Product product{1024, 2048, 2048, Arithmetic::kInt8};
    const double plain_us = product_us(model, Processor::kNpu, product);
    product.has_square_shape = true;
    return plain_us / product_us(model, Processor::kNpu, product);
  };
  return {"equivalent shapes on the NPU",
          "llm.npu",
          {"npu.thin_shape_factor"},
          false,
          {},
          {{"nf028", "", "1024x2048 · 2048x2048 as 1024x1 and 32x32", gain}}};
}

MicroGroup one_lane_bandwidth() {
  const auto gb_s = [](Processor processor) {
    return [=](const CostModel& model) { return model.read_gb_s(processor); };
  };
  return {"bandwidth of one processor",
          "llm.npu",
          {"memory.cpu_gb_s"},
          true,
          {"memory.gpu_gb_s", "memory.npu_gb_s"},
          {{"hf005", "", "one constant for CPU, GPU and NPU", gb_s(Processor::kCpu)},
           {"hf008", "GPU", "one constant for CPU, GPU and NPU", gb_s(Processor::kGpu)},
           {"pf013", "", "one constant for CPU, GPU and NPU", gb_s(Processor::kCpu)}}};
}

MicroGroup together_bandwidth() {
  const auto total = [](Processor a, Processor b) {
    return [=](const CostModel& model) {
      return std::min<double>(model.phone().memory.reached_gb_s,
                              model.read_gb_s(a) + model.read_gb_s(b));
    };
  };
  const auto gpu_npu = total(Processor::kGpu, Processor::kNpu);
  return {"bandwidth of two processors",
          "heterollm",
          {"memory.reached_gb_s"},
          true,
          {},
          {{"hf006", "", "GPU and NPU at once", gpu_npu},
           {"hf008", "GPU + NPU", "GPU and NPU at once", gpu_npu},
           {"pf015", "", "CPU and NPU at once", total(Processor::kCpu, Processor::kNpu)}}};
}

Product llama_ffn(int64_t rows, bool is_down) {
  Product product{rows, is_down ? 14336 : 4096, is_down ? 4096 : 14336, Arithmetic::kFp16};
  product.weight_bytes = 0.5;
  return product;
}

double tflops(const CostModel& model, Processor processor, const Product& p) {
  const double ops = 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                     static_cast<double>(p.outputs);
  return ops / product_us(model, processor, p) * 1e-6;
}

double order_effect(const CostModel& model) {
  plan::Stack other = model.stack();
  other.npu.is_permuted.value = 1.0 - other.npu.is_permuted.value;
  const CostModel turned(model.phone(), other);
  const Product product = llama_ffn(256, false);
  return product_us(turned, Processor::kNpu, product) / product_us(model, Processor::kNpu, product);
}

MicroGroup float_rates() {
  const auto over_gpu = [](bool is_down) {
    return [=](const CostModel& model) {
      const Product product = llama_ffn(1024, is_down);
      return product_us(model, Processor::kGpu, product) /
             product_us(model, Processor::kNpu, product);
    };
  };
  const auto rate = [](Processor processor) {
    return [=](const CostModel& model) { return tflops(model, processor, llama_ffn(1024, false)); };
  };
  return {"half-precision rates, order and shape",
          "heterollm",
          {"gpu.tflops", "npu.fp16_tflops", "npu.least_share"},
          false,
          {},
          {{"hf001", "", "1024x4096 · 4096x14336", rate(Processor::kGpu)},
           {"hf002", "", "1024x4096 · 4096x14336, weights streamed", rate(Processor::kNpu)},
           {"hf017", "", "256 tokens; the paper's K is not printed", order_effect},
           {"hf019", "", "1024x14336 · 14336x4096", over_gpu(true)},
           {"hf020", "", "1024x4096 · 4096x14336", over_gpu(false)}}};
}

MicroGroup attention_launch() {
  MicroGroup group{"estimate of attention on the NPU",
                   "shadowattn",
                   {"attention.launch_us", "attention.estimate_tops"}};
  const char* ids[] = {"sf001", "sf002", "sf003"};
  for (int i = 0; i < 3; ++i) {
    const int64_t n_heads = 1 << i;
    group.values.push_back({ids[i], "", fmt::format("{} heads of 128x64 · 64x2048", n_heads),
                            [=](const CostModel& model) {
                              const TaskCost cost =
                                  model.attention_estimate(128, 2048, n_heads, 64);
                              return alone_us(model, Processor::kNpu, cost) * 1e-3;
                            }});
  }
  return group;
}

MicroGroup sparse_kernel() {
  const auto saved = [](double ratio) {
    return
        [=](const CostModel& model) { return 100.0 * (1.0 - model.sparse_attention_share(ratio)); };
  };
  return {"sparse attention on a CPU core",
          "shadowattn",
          {"attention.estimate_share", "attention.exact_share"},
          false,
          {},
          {{"sf004", "ratio 40 %", "ratio 0.4", saved(0.4)},
           {"sf004", "30 %", "ratio 0.3", saved(0.3)},
           {"sf004", "20 %", "ratio 0.2", saved(0.2)},
           {"sf005", "", "ratio 0.2", [](const CostModel& model) {
              return 100.0 * model.stack().attention.estimate_share /
                     model.sparse_attention_share(0.2);
            }}}};
}

// Same power, less time: no constant of its own, so all of it is held out.
MicroGroup sparse_energy() {
  MicroGroup group{"energy of sparse attention on the CPU", "shadowattn", {}};
  const std::pair<const char*, double> full[] = {
      {"sf010", 3.72}, {"sf011", 8.59}, {"sf012", 3.38}, {"sf013", 5.29}};
  for (const auto& [id, joules] : full) {
    group.values.push_back({id, "sparse",
                            fmt::format("ratio 0.2, of the {} J of full attention", joules),
                            [joules = joules](const CostModel& model) {
                              return joules * model.sparse_attention_share(0.2);
                            }});
  }
  return group;
}

double flash_mb_s(const CostModel& model, const lanes::FlashRead& read) {
  return static_cast<double>(read.request_bytes) / model.flash_us(read);
}

MicroGroup flash_cores() {
  const auto at = [](double ghz, double factor) {
    return [=](const CostModel& model) {
      lanes::FlashRead read;
      read.core_ghz = ghz;
      return flash_mb_s(model, read) * factor;
    };
  };
  return {"flash: small requests by core",
          "powerinfer-2",
          {"flash.kcycles_per_request"},
          false,
          {},
          {{"pf001", "", "4 KB random, core at 3.3 GHz", at(3.3, 1)},
           {"pf002", "", "4 KB random, core at 3.0 GHz", at(3.0, 1)},
           {"pf003", "", "4 KB random, core at 2.2 GHz", at(2.2, 1)},
           {"pf004", "", "4 KB random, core at 3.3 GHz", at(3.3, 1e-3)}}};
}

MicroGroup flash_blocks() {
  const auto read_of = [](int64_t bytes, bool is_sequential) {
    lanes::FlashRead read;
    read.request_bytes = bytes;
    read.is_sequential = is_sequential;
    return read;
  };
  const auto rate = [](lanes::FlashRead read, double factor) {
    return [=](const CostModel& model) { return flash_mb_s(model, read) * factor; };
  };
  lanes::FlashRead far = read_of(4096, false);
  far.range_bytes = 512 << 20;
  lanes::FlashRead alone = read_of(4096, true);
  alone.is_alone = true;
  const lanes::FlashRead one = read_of(4096, false);
  lanes::FlashRead several = one;
  several.has_several_cores = true;
  return {"flash: range, depth, blocks, several cores",
          "powerinfer-2",
          {"flash.range_us", "flash.latency_us", "flash.sequential_gb_s", "flash.random_gb_s",
           "flash.several_cores_share"},
          false,
          {},
          {{"pf005", "", "4 KB random in 512 MB, the bound taken as the value", rate(far, 1)},
           {"pf006", "", "4 KB sequential, depth 1", rate(alone, 1)},
           {"pf007", "", "512 KB sequential", rate(read_of(512 << 10, true), 1e-3)},
           {"pf008", "", "512 KB random", rate(read_of(512 << 10, false), 1e-3)},
           {"pf009", "", "4 KB random, the bound taken as the value", [=](const CostModel& model) {
              return 100.0 * (1.0 - model.flash_us(one) / model.flash_us(several));
            }}}};
}

constexpr double kQ8Bytes = 34.0 / 32.0;  // of a weight as the systems are run (Q8_0)

// Behind the middle of a prompt's "1-2K tokens" (section 1) and half of an answer, as the systems
// are simulated.
constexpr int64_t kPositions = 1600;

// One pass of Qwen2.5-1.5B over `rows` tokens, logits for each. Products between which nothing goes
// through the CPU are one graph, which is launched once. Whole passes were measured, so that
// attention, which stays on the CPU (footnote 2 of the paper), is within.
double pass_ms(const CostModel& model, int64_t rows) {
  const model::KnownModel& m = model::get_known("qwen2.5-1.5b");
  const std::vector<Shape> graphs[] = {
      {{rows, m.width, m.query_width()},
       {rows, m.width, m.kv_width()},
       {rows, m.width, m.kv_width()}},
      {{rows, m.query_width(), m.width}},
      {{rows, m.width, m.ffn_width}, {rows, m.width, m.ffn_width}, {rows, m.ffn_width, m.width}}};
  const auto graph_us = [&](const std::vector<Shape>& products) {
    TaskCost sum;
    for (const auto& [n, columns, outputs] : products) {
      Product product{n, columns, outputs};
      product.weight_bytes = kQ8Bytes;
      const TaskCost cost = model.product(Processor::kNpu, product);
      sum.fixed_us = std::max(sum.fixed_us, cost.fixed_us);
      sum.compute_us += cost.compute_us;
      sum.bytes += cost.bytes;
    }
    return alone_us(model, Processor::kNpu, sum);
  };
  double us = graph_us({{rows, m.width, m.n_vocab}});
  for (const std::vector<Shape>& graph : graphs) us += m.n_layers * graph_us(graph);
  us += m.n_layers * alone_us(model, Processor::kCpu,
                              model.attention(Processor::kCpu, rows, kPositions + (rows + 1) / 2,
                                              m.n_heads, m.head_dim, m.n_kv_heads));
  return 1e-3 * us;
}

MicroGroup verification() {
  MicroGroup group{"verification of drafts on the NPU",
                   "sd.npu",
                   {"npu.launch_us", "npu.int8_tops"},
                   false,
                   {},
                   {{"df001", "", "32 tokens of Qwen2.5-1.5B",
                     [](const CostModel& model) { return pass_ms(model, 32) / 32; }},
                    {"df002", "", "1 token of Qwen2.5-1.5B",
                     [](const CostModel& model) { return pass_ms(model, 1); }},
                    {"df003", "", "7 tokens against 64, Qwen2.5-1.5B", [](const CostModel& model) {
                       return 100.0 * (1.0 - (pass_ms(model, 64) / 64) / (pass_ms(model, 7) / 7));
                     }}}};
  group.is_on_8gen2 = true;
  return group;
}

constexpr int64_t kChunk = 112;  // "32" is printed, which does not compute: 96 to 128 (K15)

// The one speed of a named phone in this paper (K19).
MicroGroup verification_8gen3() {
  return {"verification of drafts on the NPU of the 8 Gen 3",
          "sd.npu",
          {"npu.rate_8gen3"},
          false,
          {},
          {{"df004", "", "112 tokens, the middle of 96 to 128 (K15)",
            [](const CostModel& model) { return pass_ms(model, kChunk) / kChunk; }},
           {"df005", "", "112 tokens, the middle of 96 to 128 (K15), 4.2 of them accepted",
            [](const CostModel& model) { return pass_ms(model, kChunk) / 4.2; }}}};
}

MicroGroup graph_creation() {
  const auto create = [](const CostModel& model) { return model.stack().graph.create_ms.value; };
  return {"creation of graphs",
          "llm.npu",
          {"graph.create_ms"},
          false,
          {},
          {{"nf029", "", "one constant for any model", create},
           {"nf030", "", "one constant for any model", create}}};
}

MicroGroup graph_preparation() {
  const auto prepare = [](int64_t n_tokens) {
    return [=](const CostModel& model) { return model.graph_us(n_tokens) * 1e-3; };
  };
  return {"preparation of graphs by length",
          "heterollm",
          {"graph.prepare_ms", "graph.prepare_ms_per_token"},
          false,
          {},
          {{"hf025", "", "135 tokens", prepare(135)}, {"hf026", "", "1000 tokens", prepare(1000)}}};
}

}  // namespace

std::vector<MicroGroup> micro_groups() {
  return {
      one_lane_bandwidth(),
      together_bandwidth(),
      table3("8-bit products on the NPU", {"npu.launch_us", "npu.int8_weights_g_s"}, 1,
             Processor::kNpu, Arithmetic::kInt8),
      equivalent_shapes(),
      table3("8-bit products on the CPU", {"cpu.int8_gops"}, 2, Processor::kCpu, Arithmetic::kInt8),
      table3("half-precision products on the GPU", {"gpu.weights_g_s", "gpu.tflops"}, 3,
             Processor::kGpu, Arithmetic::kFp16),
      table3("half-precision products on the NPU", {"npu.fp16_weights_g_s"}, 4, Processor::kNpu,
             Arithmetic::kFp16),
      float_rates(),
      attention_launch(),
      sparse_kernel(),
      sparse_energy(),
      flash_cores(),
      flash_blocks(),
      verification(),
      verification_8gen3(),
      graph_creation(),
      graph_preparation(),
  };
}

const std::vector<TakenValue>& taken_values() {
  static const std::vector<TakenValue> kValues = {
      {"nf031", "", "llm.npu", "graph.optimise_ms", 1e-3},
      {"nf032", "", "llm.npu", "npu.per_group_factor", 1},
      {"nf033", "", nullptr, "npu.memory_limit_gb", 1},
      {"hf007", "", nullptr, "memory.peak_gb_s", 1},
      {"hf009", "", "heterollm", "gpu.copy_us", 1},
      {"hf010", "", "heterollm", "gpu.submit_us", 1},
      {"hf011", "", "heterollm", "gpu.restart_us", 1},
      {"hf012", "", "heterollm", "handover.sync_us", 1},
      {"hf013", "", "heterollm", "handover.sleep_us", 1},
      {"hf016", "", "heterollm", "handover.gpu_first_us", 1},
      {"hf021", "", nullptr, "npu.array_width", 1},
      {"hf068", "", nullptr, "power.npu_w", 1},
      {"hf070", "", nullptr, "power.gpu_w", 1},
      {"pf083", "", nullptr, "power.cpu_w", 1},
      {"sf006", "", "shadowattn", "graph.size_kb", 1},
      {"sf009", "prime", nullptr, "cpu.prime.count", 1},
      {"sf009", "middle", nullptr, "cpu.middle.count", 1},
      {"sf009", "small", nullptr, "cpu.small.count", 1},
      {"pf018", "prime", nullptr, "cpu.prime.count", 1},
      {"pf018", "middle", nullptr, "cpu.middle.count", 1},
      {"pf018", "small", nullptr, "cpu.small.count", 1},
      {"pf014", "", "powerinfer-2", "npu.read_gb_s", 1},
      {"pf016", "", "powerinfer-2", "gpu.matvec_share", 100},
      {"pf019", "", "powerinfer-2", "graph.size_kb", 1},
      {"df008", "", "sd.npu", "draft.calibrate_ms_per_token", 1},
      {"df009", "", "sd.npu", "draft.step_ms", 1},
  };
  return kValues;
}

std::string reason_not_simulated(const std::string& id, const std::string& name) {
  if (id < "sf010" || id > "sf013") return {};
  if (name == "sparse") return {};
  if (name == "full") return "the unit of the other energies of this row";
  return "energies of this table are ratios between kernels (K13), and the power of the 8 Gen 2 "
         "phone while these run is in no row";
}

}  // namespace troika::papers
