#include "papers/micro/micro_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "lanes/virtual/virtual_phone.h"
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

Arithmetic arithmetic_of(const std::string& name) {
  if (name == "int8") return Arithmetic::kInt8;
  if (name == "fp16") return Arithmetic::kFp16;
  throw Error(fmt::format("A figure of a product is asked for the arithmetic '{}'.", name));
}

Product product_of(const plan::FigureCall& call) {
  Product product{call.count("rows"), call.count("columns"), call.count("outputs"),
                  arithmetic_of(call.text("arithmetic"))};
  product.weight_bytes = call.number("weight bytes");
  product.has_square_shape = call.has("shape") && call.text("shape") == "square";
  return product;
}

// Returns the time of a product with the operands in the other order, or in the usual one.
double product_us(const CostModel& model, const plan::FigureCall& call) {
  const Processor processor = lanes::processor_from_name(call.text("processor"));
  const bool is_turned = call.has("order") && call.text("order") == "turned";
  if (!is_turned) return product_us(model, processor, product_of(call));
  plan::Stack other = model.stack();
  other.npu.is_permuted.value = 1.0 - other.npu.is_permuted.value;
  return product_us(CostModel(model.phone(), other), processor, product_of(call));
}

double product_tflops(const CostModel& model, const plan::FigureCall& call) {
  const Product p = product_of(call);
  const double ops = 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                     static_cast<double>(p.outputs);
  return ops / product_us(model, call) * 1e-6;
}

double attention_estimate_ms(const CostModel& model, const plan::FigureCall& call) {
  const TaskCost cost = model.attention_estimate(call.count("queries"), call.count("positions"),
                                                 call.count("heads"), call.count("head dim"));
  return alone_us(model, Processor::kNpu, cost) * 1e-3;
}

lanes::FlashRead read_of(const plan::FigureCall& call) {
  lanes::FlashRead read;
  read.request_bytes = int64_t{call.count("KB")} << 10;
  read.is_sequential = call.has("order") && call.text("order") == "sequential";
  read.is_alone = call.has("depth") && call.count("depth") == 1;
  read.has_several_cores = call.has("cores") && call.text("cores") == "several";
  if (call.has("range MB")) read.range_bytes = int64_t{call.count("range MB")} << 20;
  if (call.has("core GHz")) read.core_ghz = call.number("core GHz");
  return read;
}

double flash_mb_s(const CostModel& model, const plan::FigureCall& call) {
  const lanes::FlashRead read = read_of(call);
  return static_cast<double>(read.request_bytes) / model.flash_us(read);
}

// Counts the bytes of a weight in Q8_0, in which the systems are run.
constexpr double kQ8Bytes = 34.0 / 32.0;

// Is the position behind the middle of a prompt's "1-2K tokens" (section 1) and half of an answer,
// as the systems are simulated.
constexpr int64_t kPositions = 1600;

struct Shape {
  int64_t rows, columns, outputs;
};

// Returns the time of one pass of a model over `rows` tokens, with logits for each. Products
// between which nothing goes through the CPU are one graph, which is launched once. Whole passes
// were measured, so they contain attention, which stays on the CPU (footnote 2 of the paper).
double pass_ms(const CostModel& model, const std::string& name, int64_t rows) {
  const model::KnownModel& m = model::get_known(name);
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

double constant_of(const CostModel& model, const std::string& name) {
  plan::Stack stack = model.stack();
  for (const plan::Field& field : stack.fields()) {
    if (field.name == name) return field.constant->value;
  }
  throw Error(fmt::format("A figure is asked for the constant '{}', which no stack has.", name));
}

// Adds products, attention and passes.
void add_computed(const CostModel& model, Figures* figures) {
  const std::vector<std::string> of_product = {"processor", "arithmetic",   "rows",  "columns",
                                               "outputs",   "weight bytes", "shape", "order"};
  using Call = const plan::FigureCall&;
  figures->add("product ms", of_product, [&](Call call) { return product_us(model, call) * 1e-3; });
  figures->add("product TFLOPS", of_product,
               [&](Call call) { return product_tflops(model, call); });
  figures->add("attention estimate ms", {"queries", "positions", "heads", "head dim"},
               [&](Call call) { return attention_estimate_ms(model, call); });
  figures->add("percent sparse attention saves", {"ratio"}, [&](Call call) {
    return 100.0 * (1.0 - model.sparse_attention_share(call.number("ratio")));
  });
  figures->add("percent of sparse attention for the estimate", {"ratio"}, [&](Call call) {
    return 100.0 * model.stack().attention.estimate_share /
           model.sparse_attention_share(call.number("ratio"));
  });
  // The power stays the same, and the time becomes less.
  figures->add("sparse attention joules", {"full joules", "ratio"}, [&](Call call) {
    return call.number("full joules") * model.sparse_attention_share(call.number("ratio"));
  });
  const auto pass_of = [&](Call call) {
    return pass_ms(model, call.text("model"), call.count("rows"));
  };
  figures->add("pass ms a token", {"model", "rows"},
               [=](Call call) { return pass_of(call) / call.count("rows"); });
  figures->add("pass ms an accepted token", {"model", "rows", "accepted"},
               [=](Call call) { return pass_of(call) / call.number("accepted"); });
}

// Adds memory, flash and graphs.
void add_constants(const CostModel& model, Figures* figures) {
  using Call = const plan::FigureCall&;
  const auto rate_of = [&](const std::string& processor) {
    return model.read_gb_s(lanes::processor_from_name(processor));
  };
  figures->add("read GB/s", {"processor"},
               [=](Call call) { return rate_of(call.text("processor")); });
  figures->add("read GB/s of two", {"first", "second"}, [=, &model](Call call) {
    return std::min<double>(model.phone().memory.reached_gb_s,
                            rate_of(call.text("first")) + rate_of(call.text("second")));
  });
  const std::vector<std::string> of_flash = {"KB",    "order",    "depth",
                                             "cores", "range MB", "core GHz"};
  figures->add("flash MB/s", of_flash, [&](Call call) { return flash_mb_s(model, call); });
  figures->add("flash GB/s", of_flash, [&](Call call) { return flash_mb_s(model, call) * 1e-3; });
  figures->add("flash us", of_flash, [&](Call call) { return model.flash_us(read_of(call)); });
  figures->add("constant of the stack", {"constant"},
               [&](Call call) { return constant_of(model, call.text("constant")); });
  figures->add("graph ms", {"tokens"},
               [&](Call call) { return model.graph_us(call.count("tokens")) * 1e-3; });
}

}  // namespace

Figures micro_figures(const CostModel& model) {
  Figures figures;
  add_computed(model, &figures);
  add_constants(model, &figures);
  return figures;
}

}  // namespace troika::papers
