#include "forge/quantize_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/os_error.h"
#include "base/threads/team.h"
#include "forge/copy_file.h"
#include "forge/file_type.h"
#include "forge/row_stream.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace troika::forge {
namespace {

using gguf::TensorInfo;

// What one worker adds up over the tensors of one type.
struct Sums {
  double squared_error = 0;
  double squares = 0;
  double max_error = 0;
  bool all_finite = true;
  bool all_fit = true;  // says that the new type holds values of their size
};

struct Worker {
  std::vector<float> before;
  std::vector<float> after;
  Sums sums;
};

struct TensorPlan {
  const TensorInfo* tensor;
  tensor::Type type;
};

ModelFacts facts_of(const gguf::File& file) {
  const std::string architecture(file.find_string("general.architecture").value_or(""));
  const auto count = [&](const char* name) {
    const auto value = file.find_uint(fmt::format("{}.{}", architecture, name)).value_or(0);
    return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
  };
  // Some models have a number of heads for each layer instead of one whole number.
  const auto heads = [&](const char* name) -> uint32_t {
    const gguf::Value* value = file.find(fmt::format("{}.attention.{}", architecture, name));
    const bool is_list = value == nullptr || std::holds_alternative<gguf::Array>(value->data);
    return !is_list ? count(fmt::format("attention.{}", name).c_str()) : 0;
  };
  const uint32_t n_heads = heads("head_count"), n_kv_heads = heads("head_count_kv");
  return {count("block_count"), count("expert_count"), file.find_tensor("output.weight") == nullptr,
          n_kv_heads == 0 ? 1 : n_heads / n_kv_heads};
}

// Returns the length of a piece of a row. Blocks do not know where a row ends, so very long rows
// can be taken in pieces.
uint64_t piece_length(uint64_t row_length) {
  constexpr uint64_t kLongest = uint64_t{1} << 20;
  return row_length <= kLongest ? row_length : std::gcd(row_length, uint64_t{1} << 16);
}

// Copies n_rows rows of a tensor whose type does not change, so that it stays as it is to the bit.
// They are decoded only to see that they are finite, and how large.
void copy_rows(tensor::Type type, size_t length, const std::byte* in, uint64_t n_rows,
               std::byte* out, Worker& worker) {
  const size_t row_bytes = tensor::row_bytes(type, length);
  std::memcpy(out, in, n_rows * row_bytes);
  worker.before.resize(length);
  for (uint64_t row = 0; row < n_rows; ++row) {
    tensor::dequantize_row(type, in + row * row_bytes, worker.before.data(), length);
    for (const double value : worker.before) worker.sums.squares += value * value;
  }
  worker.sums.all_finite &= std::isfinite(worker.sums.squares);
}

// Decodes, encodes and measures n_rows rows, or pieces of rows, of this length.
void convert_rows(const TensorPlan& plan, size_t length, const std::byte* in, uint64_t n_rows,
                  std::byte* out, Worker& worker) {
  const size_t in_bytes = tensor::row_bytes(plan.tensor->type, length);
  const size_t out_bytes = tensor::row_bytes(plan.type, length);
  worker.before.resize(length);
  worker.after.resize(length);
  Sums& sums = worker.sums;
  for (uint64_t row = 0; row < n_rows; ++row) {
    tensor::dequantize_row(plan.tensor->type, in + row * in_bytes, worker.before.data(), length);
    tensor::quantize_row(plan.type, worker.before.data(), out + row * out_bytes, length);
    tensor::dequantize_row(plan.type, out + row * out_bytes, worker.after.data(), length);
    sums.all_fit &= tensor::holds(plan.type, worker.before.data(), out + row * out_bytes, length);
    for (size_t i = 0; i < length; ++i) {
      const double before = worker.before[i];
      const double error = std::abs(before - static_cast<double>(worker.after[i]));
      sums.squares += before * before;
      sums.squared_error += error * error;
      sums.max_error = std::max(sums.max_error, error);
    }
  }
  sums.all_finite &= std::isfinite(sums.squares);
}

class Converter {
 public:
  Converter(const QuantizeOptions& options, const gguf::File& file, gguf::Writer& writer)
      : options_(options),
        file_(file),
        writer_(writer),
        team_(std::max(options.n_threads, 1)),
        workers_(static_cast<size_t>(team_.size())) {
    for (const TensorInfo& tensor : file.tensors()) total_bytes_ += tensor.bytes;
  }

  void convert(const TensorPlan& plan, TypeReport& report) {
    const TensorInfo& tensor = *plan.tensor;
    const std::byte* in = file_.data(tensor).data();
    const uint64_t length = piece_length(tensor.row_length());
    const uint64_t in_row_bytes = tensor::row_bytes(tensor.type, length);
    const uint64_t out_row_bytes = tensor::row_bytes(plan.type, length);
    for (Worker& worker : workers_) worker.sums = {};
    stream_rows(
        writer_, team_, tensor.n_elements() / length, out_row_bytes,
        [&](int worker, uint64_t first, uint64_t n_rows, std::byte* out) {
          const std::byte* from = in + first * in_row_bytes;
          Worker& own = workers_[static_cast<size_t>(worker)];
          plan.type == tensor.type ? copy_rows(tensor.type, length, from, n_rows, out, own)
                                   : convert_rows(plan, length, from, n_rows, out, own);
        },
        [&](uint64_t n_rows) {
          done_bytes_ += n_rows * in_row_bytes;
          if (options_.progress) options_.progress(done_bytes_, total_bytes_);
        });
    file_.check_intact();
    add_to(plan, report);
  }

 private:
  // Adds sums of squares to `report`, which holds them until all tensors are converted.
  void add_to(const TensorPlan& plan, TypeReport& report) {
    const TensorInfo& tensor = *plan.tensor;
    for (const Worker& worker : workers_) {
      if (!worker.sums.all_finite) {
        throw Error(fmt::format(
            "{}: tensor {} holds values that are not finite numbers; such a model cannot be "
            "converted. Download or convert it again.",
            file_.path(), quoted(tensor.name)));
      }
      report.rms += worker.sums.squares;
      if (!worker.sums.all_fit) {
        throw Error(
            fmt::format("{}: tensor {} holds values that are too large for {}. Try ‹type› {}.",
                        file_.path(), quoted(tensor.name), tensor::type_name(plan.type),
                        plan.type == tensor::Type::kBF16 ? "f32" : "bf16"));
      }
      report.rmse += worker.sums.squared_error;
      report.max_error = std::max(report.max_error, worker.sums.max_error);
    }
    report.n_tensors += 1;
    report.n_elements += tensor.n_elements();
    report.bytes += tensor::row_bytes(plan.type, tensor.row_length()) * tensor.n_rows();
  }

  const QuantizeOptions& options_;
  const gguf::File& file_;
  gguf::Writer& writer_;
  Team team_;
  std::vector<Worker> workers_;
  uint64_t total_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

TypeReport& report_of(tensor::Type type, QuantizeReport& report) {
  for (TypeReport& entry : report.types) {
    if (entry.type == type) return entry;
  }
  return report.types.emplace_back(TypeReport{.type = type});
}

std::vector<TensorPlan> plan_tensors(const gguf::File& file, const FileType& type,
                                     QuantizeReport& report) {
  const ModelFacts facts = facts_of(file);
  std::vector<TensorPlan> plans;
  for (const TensorInfo& tensor : file.tensors()) {
    (void)file.data(tensor);  // throws, before anything is written, where the type is not supported
    const tensor::Type chosen = choose_type(type, tensor.name, tensor.shape, facts);
    plans.push_back({&tensor, chosen});
    std::vector<uint64_t> fitting = tensor.shape;
    if (!fitting.empty()) fitting[0] = 256;
    if (choose_type(type, tensor.name, fitting, facts) != chosen) {
      report.fallbacks.emplace_back(tensor.name);
    }
  }
  return plans;
}

}  // namespace

QuantizeReport quantize_file(const QuantizeOptions& options) {
  const FileType& type = get_file_type(options.type);
  const gguf::File file = gguf::File::open(options.input);
  QuantizeReport report;
  report.input_bytes = file.file_bytes();
  for (const auto& shard : file.shards()) refuse_to_replace(shard.path, options.output);
  const std::vector<TensorPlan> plans = plan_tensors(file, type, report);

  gguf::Writer writer(options.output, alignment_of_copy(file));
  copy_metadata(file, type.number, writer);
  for (const TensorPlan& plan : plans)
    writer.add_tensor(plan.tensor->name, plan.type, plan.tensor->shape);
  writer.begin_data();
  Converter converter(options, file, writer);
  for (const TensorPlan& plan : plans) converter.convert(plan, report_of(plan.type, report));
  writer.finish();

  for (TypeReport& entry : report.types) {
    const auto n = static_cast<double>(std::max<uint64_t>(entry.n_elements, 1));
    entry.rmse = std::sqrt(entry.rmse / n);
    entry.rms = std::sqrt(entry.rms / n);
  }
  report.output_bytes = writer.bytes_written();
  return report;
}

}  // namespace troika::forge
