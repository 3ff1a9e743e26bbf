#include "lanes/vendor/vendor_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/units.h"
#include "lanes/host/slices.h"
#include "lanes/machine.h"
#include "lanes/vendor/sum_proof.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Returns ops [begin, end) of the subgraph, with its slice of them.
Subgraph stretch_of(const Subgraph& subgraph, size_t begin, size_t end) {
  Subgraph stretch = subgraph;
  stretch.ops = subgraph.ops.subspan(begin, end - begin);
  const std::vector<Range>& columns = subgraph.slice.columns;
  if (columns.empty()) return stretch;
  const auto at = [&](size_t i) { return columns.begin() + static_cast<std::ptrdiff_t>(i); };
  stretch.slice.columns.assign(at(begin), at(end));
  return stretch;
}

// Returns where a stage ends that begins at `begin`: consecutive products that read one activation,
// or consecutive ops that are no products.
size_t end_of_stage(const Subgraph& subgraph, size_t begin) {
  const model::Op& first = subgraph.ops[begin];
  size_t end = begin + 1;
  while (end < subgraph.ops.size()) {
    const model::Op& op = subgraph.ops[end];
    if ((op.kind == OpKind::kLinear) != (first.kind == OpKind::kLinear)) break;
    if (op.kind == OpKind::kLinear && op.inputs[0] != first.inputs[0]) break;
    ++end;
  }
  return end;
}

// A stage is an executable of the host or a product of the vendor's runtime, never both.
struct VendorStage {
  std::unique_ptr<Executable> host;
  std::unique_ptr<VendorProducts> products;
};

class VendorExecutable : public Executable {
 public:
  VendorExecutable(int n_tokens, const TokenSlice& tokens, size_t set_stride,
                   std::vector<VendorStage> stages)
      : Executable(n_tokens),
        tokens_(tokens),
        set_stride_(set_stride),
        stages_(std::move(stages)) {}
  const TokenSlice& tokens() const { return tokens_; }
  size_t set_stride() const { return set_stride_; }
  const std::vector<VendorStage>& stages() const { return stages_; }

 private:
  TokenSlice tokens_;
  size_t set_stride_;  // counts floats from one set of buffers to the next
  std::vector<VendorStage> stages_;
};

int n_threads_of(const VendorOptions& options) {
  return std::max(1, static_cast<int>(options.cores.size()));
}

std::shared_ptr<openvino::Library> open_device(const VendorOptions& options) {
  auto library = std::make_shared<openvino::Library>(options.folder, options.cores);
  library->check_device(options.device);
  if (options.device == "CPU") library->limit_threads(options.device, n_threads_of(options));
  return library;
}

}  // namespace

VendorLane::VendorLane(const VendorOptions& options, const kernels::Table& kernels,
                       plan::Activations activations, plan::Prefill prefill,
                       const Int8Rules* int8_rules)
    : VendorLane(open_device(options), options, kernels, activations, prefill, int8_rules) {}

VendorLane::VendorLane(std::shared_ptr<openvino::Library> library, const VendorOptions& options,
                       const kernels::Table& kernels, plan::Activations activations,
                       plan::Prefill prefill, const Int8Rules* int8_rules)
    : library_(std::move(library)),
      device_(options.device),
      kernels_(kernels),
      precision_{activations, prefill, int8_rules},
      host_(kernels, {options.cores, n_threads_of(options)}, activations, prefill, int8_rules) {
  if (!options.blob_folder.empty()) blobs_.emplace(options.blob_folder, openvino::kKeptGraphs);
  int most_sum = INT_MAX;
  if (prefill == plan::Prefill::kInt8) {
    const OnCores on_cores(options.cores);
    most_sum = openvino::most_exact_sum(library_, device_);
  }
  shelf_ = std::make_unique<VendorShelf>(library_, most_sum);
  info_.name = "openvino:" + device_;
  info_.cores = options.cores;
  info_.n_threads = n_threads_of(options);
  info_.capabilities = kVector | kInt8Matrix | kBf16Matrix;
  info_.identity = library_->identity(device_);
  info_.keeps_graphs = blobs_.has_value();
}

std::string VendorLane::identity_of(const VendorOptions& options) {
  return open_device(options)->identity(options.device);
}

void VendorLane::refuse(const Subgraph& subgraph, const std::string& why) const {
  throw Error(
      fmt::format("The lane {} runs static graphs of prompts, and {} in '{}'. Compute that on a "
                  "lane of cores.",
                  info_.name, why, subgraph.name));
}

void VendorLane::check(const Subgraph& subgraph, plan::Shape shape,
                       const weights::Store& weights) const {
  if (shape.phase != plan::Phase::kPrompt) {
    refuse(subgraph, fmt::format("there is a step of {} rows", shape.n_rows));
  }
  if (subgraph.is_dynamic()) refuse(subgraph, "attention sees other positions in each run");
  if (subgraph.role != Role::kWhole) refuse(subgraph, "outliers are tasks of their own");
  check_slice(subgraph, info_);
  for (const model::Op& op : subgraph.ops) {
    if (model::is_of_experts(op.kind)) refuse(subgraph, "tokens choose experts as they run");
    if (op.kind == OpKind::kLinear && weights.is_switched(op.weight)) {
      refuse(subgraph, "weights change their place");
    }
  }
}

VendorProduct VendorLane::product_of(const Subgraph& subgraph, size_t index,
                                     const weights::Store& weights) const {
  const model::Op& op = subgraph.ops[index];
  BoundProduct bound = bind_product(op, weights, kernels_, precision_);
  const std::string& name = subgraph.blueprint->weights[static_cast<size_t>(op.weight)].name;
  // What has no int8 is computed in bf16 in a plan with int8, too. There all must have the bits of
  // cores.
  const bool is_bf16 = precision_.prefill == plan::Prefill::kBf16;
  if (bound.form != (is_bf16 ? InputForm::kBf16 : InputForm::kInt8)) {
    refuse(subgraph,
           fmt::format("{} is multiplied neither in bf16 nor in int8 with one scale for a token",
                       name));
  }
  if (bound.int8_rule.takes_outliers()) {
    refuse(subgraph, fmt::format("activations of {} are taken out", name));
  }
  return {&op, bound, subgraph.slice.columns_of(index).within(bound.weight.matrix.n_rows)};
}

std::unique_ptr<Executable> VendorLane::build(const Subgraph& subgraph, plan::Shape shape,
                                              const weights::Store& weights,
                                              const Buffers& buffers) {
  check(subgraph, shape, weights);
  const OnCores on_cores(info_.cores);
  const TokenSlice tokens(subgraph);
  const VendorContext context = {
      library_, device_, buffers, pool_, *shelf_, costs_, blobs_ ? &*blobs_ : nullptr};
  std::vector<VendorStage> stages;
  for (size_t begin = 0; begin < subgraph.ops.size();) {
    const size_t end = end_of_stage(subgraph, begin);
    VendorStage stage;
    if (subgraph.ops[begin].kind != OpKind::kLinear) {
      stage.host = host_.build(stretch_of(subgraph, begin, end), shape, weights, buffers);
    } else {
      std::vector<VendorProduct> products;
      for (size_t i = begin; i < end; ++i) {
        VendorProduct product = product_of(subgraph, i, weights);
        if (product.rows.size() > 0) products.push_back(product);
      }
      const int n_rows = tokens.n_rows(shape.n_rows);
      if (!products.empty() && n_rows > 0) {
        stage.products = std::make_unique<VendorProducts>(context, std::move(products),
                                                          subgraph.slice.tokens.begin, n_rows);
        packed_bytes_ += stage.products->packed_bytes();
      }
    }
    if (stage.host != nullptr || stage.products != nullptr) stages.push_back(std::move(stage));
    begin = end;
  }
  return std::make_unique<VendorExecutable>(shape.n_rows, tokens, buffers.set_stride(),
                                            std::move(stages));
}

std::string VendorLane::problem() const {
  const std::lock_guard<std::mutex> lock(problem_mutex_);
  return problem_;
}

// Whoever asked for an earlier task may be reading why that one failed.
void VendorLane::fail(const std::string& problem, Completion& completion) {
  {
    const std::lock_guard<std::mutex> lock(problem_mutex_);
    problem_ = problem;
  }
  completion.finished(Status::kFailed);
}

void VendorLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  const auto& vendor = static_cast<const VendorExecutable&>(executable);
  const Run own = vendor.tokens().of(run);
  if (vendor.tokens().is_empty(own)) {
    completion.finished(Status::kDone);
    return;
  }
  const size_t set_offset = vendor.set_stride() * static_cast<size_t>(run.buffer_set);
  for (const VendorStage& stage : vendor.stages()) {
    if (stage.host != nullptr) {
      Ended ended;
      host_.submit(*stage.host, run, ended);
      if (ended.status != Status::kDone) {
        fail(host_.problem(), completion);
        return;
      }
    } else if (!stage.products->run(kernels_, own, set_offset, pool_)) {
      fail(library_->problem(), completion);
      return;
    }
  }
  completion.finished(Status::kDone);
}

size_t VendorLane::held_bytes() const {
  return host_.held_bytes() + pool_.bytes() + shelf_->bytes() + packed_bytes_;
}

std::string VendorLane::note() const {
  std::string text = fmt::format(
      "{}: {} graphs compiled in {:.2f} s, {} imported in {:.2f} s, {} taken from other shapes, "
      "first runs {:.2f} s",
      info_.name, costs_.n_compiled, costs_.compile_us / kUsPerS, costs_.n_imported,
      costs_.import_us / kUsPerS, costs_.n_shared, costs_.first_run_us / kUsPerS);
  const std::string problem = blobs_ ? blobs_->problem() : "";
  return problem.empty() ? text : text + ". " + problem;
}

}  // namespace troika::lanes
