#include "convert/convert_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/os_error.h"
#include "base/threads/team.h"
#include "convert/family.h"
#include "convert/source_folder.h"
#include "convert/tokenizer.h"
#include "forge/file_type.h"
#include "forge/row_stream.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace troika::convert {
namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{4} << 20;

// A planned tensor, with its place in the folder and its type in the file.
struct Job {
  const PlannedTensor* planned;
  FoundTensor found;  // null pointers where the plan itself has the values
  tensor::Type source_type = tensor::Type::kF32;
  tensor::Type type = tensor::Type::kF32;

  uint64_t n_rows() const { return planned->shape.size() > 1 ? planned->shape[1] : 1; }
};

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text;
  for (const uint64_t length : shape)
    text += fmt::format("{}{}", text.empty() ? "" : " x ", length);
  return text.empty() ? "a single value" : text;
}

// Returns nothing where an optional tensor is not there.
std::optional<Job> find_job(const PlannedTensor& planned, const SourceFolder& folder,
                            const std::string& where) {
  Job job{&planned, {}};
  if (planned.source.empty()) return job;
  job.found = folder.find(planned.source);
  if (job.found.tensor == nullptr) {
    if (planned.is_optional) return std::nullopt;
    throw Error(fmt::format(
        "{}: the tensor {} is missing, which config.json asks for. Download the folder again.",
        where, troika::quoted(planned.source)));
  }
  const SourceTensor& tensor = *job.found.tensor;
  const std::vector<uint64_t> wanted(planned.shape.rbegin(), planned.shape.rend());
  if (tensor.shape != wanted) {
    throw Error(fmt::format(
        "{}: tensor {} is {}, but config.json asks for {}. The two do not belong together; "
        "download the folder again.",
        job.found.file->path(), troika::quoted(tensor.name), shape_text(tensor.shape),
        shape_text(wanted)));
  }
  job.source_type = source_type(tensor, job.found.file->path());
  return job;
}

// Throws Error for tensors of the folder that are not used, unless they are known to be of no use.
void check_all_used(const std::vector<Job>& jobs, const SourceFolder& folder,
                    const ConversionPlan& plan, const std::string& where) {
  std::vector<const SourceTensor*> used;
  used.reserve(jobs.size());
  for (const Job& job : jobs) used.push_back(job.found.tensor);
  std::sort(used.begin(), used.end());
  for (const auto& [name, found] : folder.tensors()) {
    if (std::binary_search(used.begin(), used.end(), found.tensor)) continue;
    // Frequencies of rotation and masks of attention are computed from the configuration instead.
    if (name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".self_attn.bias")) continue;
    const bool is_known =
        std::any_of(plan.unused_prefixes.begin(), plan.unused_prefixes.end(),
                    [&, n = name](const std::string& prefix) { return n.starts_with(prefix); });
    if (is_known) continue;
    throw Error(fmt::format(
        "{}: the tensor {} has no place in a model of this class, as this program knows it. It was "
        "made by other code, and would compute something else without it. Save the model with the "
        "library transformers, without what was added to it.",
        where, troika::quoted(name)));
  }
}

std::vector<Job> make_jobs(const ConversionPlan& plan, const SourceFolder& folder,
                           const forge::FileType& type, const std::string& where) {
  std::vector<Job> jobs;
  forge::ModelFacts facts;
  facts.tied_embeddings = true;
  for (const PlannedTensor& planned : plan.tensors) {
    const auto job = find_job(planned, folder, where);
    if (!job) continue;
    facts.tied_embeddings &= planned.name != "output.weight";
    jobs.push_back(*job);
  }
  uint32_t n_heads = 1, n_kv_heads = 1;
  for (const auto& [key, value] : plan.metadata) {
    if (key == "block_count") facts.n_layers = std::get<uint32_t>(value);
    if (key == "attention.head_count") n_heads = std::get<uint32_t>(value);
    if (key == "attention.head_count_kv") n_kv_heads = std::get<uint32_t>(value);
  }
  facts.heads_per_kv = n_heads / n_kv_heads;
  for (Job& job : jobs) {
    job.type = forge::choose_type(type, job.planned->name, job.planned->shape, facts);
  }
  check_all_used(jobs, folder, plan, where);
  return jobs;
}

// Returns the row of the source that becomes a row. Rotation of halves becomes rotation of
// neighbours: row 2 i + j of a head is row j n / 2 + i of the source.
uint64_t source_row(const PlannedTensor& planned, uint64_t n_rows, uint64_t row) {
  if (planned.n_rotated_heads == 0) return row;
  const uint64_t head_dim = n_rows / planned.n_rotated_heads;
  const uint64_t inner = row % head_dim;
  return row - inner + inner % 2 * (head_dim / 2) + inner / 2;
}

class RowWriter {
 public:
  RowWriter(const ConvertOptions& options, gguf::Writer& writer, std::span<const Job> jobs)
      : options_(options),
        writer_(writer),
        team_(std::max(options.n_threads, 1)),
        rows_(static_cast<size_t>(team_.size())) {
    // What the folder has beside the tensors that are read is not waited for.
    for (const Job& job : jobs) {
      if (job.found.tensor != nullptr) total_bytes_ += job.found.tensor->data.size();
    }
  }

  void write(const Job& job) {
    if (job.found.tensor == nullptr) {
      writer_.write(std::as_bytes(std::span(job.planned->values)));
      return;
    }
    const bool is_vector = job.planned->shape.size() < 2;
    is_vector ? write_vector(job) : write_matrix(job);
    job.found.file->check_intact();
    if (!all_finite_) {
      throw Error(fmt::format(
          "{}: tensor {} holds values that are not finite numbers. Download the model again.",
          job.found.file->path(), troika::quoted(job.found.tensor->name)));
    }
    if (all_fit_) return;
    throw Error(fmt::format("{}: tensor {} holds values that are too large for {}. Try ‹type› {}.",
                            job.found.file->path(), troika::quoted(job.found.tensor->name),
                            tensor::type_name(job.type),
                            job.type == tensor::Type::kBF16 ? "f32" : "bf16"));
  }

 private:
  void write_matrix(const Job& job) {
    const uint64_t length = job.planned->shape[0];
    const size_t in_bytes = tensor::row_bytes(job.source_type, length);
    const size_t out_bytes = tensor::row_bytes(job.type, length);
    const std::byte* in = job.found.tensor->data.data();
    for (auto& row : rows_) row.resize(length);
    forge::stream_rows(
        writer_, team_, job.n_rows(), out_bytes,
        [&](int worker, uint64_t first, uint64_t n_rows, std::byte* out) {
          std::vector<float>& row = rows_[static_cast<size_t>(worker)];
          for (uint64_t i = 0; i < n_rows; ++i) {
            const uint64_t from = source_row(*job.planned, job.n_rows(), first + i);
            tensor::dequantize_row(job.source_type, in + from * in_bytes, row.data(), length);
            encode(job, row, out + i * out_bytes);
          }
        },
        [&](uint64_t n_rows) { tell(n_rows * in_bytes); });
  }

  // Writes a vector, each element of which is treated as a row of a matrix is.
  void write_vector(const Job& job) {
    const uint64_t length = job.planned->shape.empty() ? 1 : job.planned->shape[0];
    std::vector<float> from(length), values(length);
    tensor::dequantize_row(job.source_type, job.found.tensor->data.data(), from.data(), length);
    for (uint64_t i = 0; i < length; ++i) {
      values[i] = from[source_row(*job.planned, length, i)] + job.planned->added;
    }
    std::vector<std::byte> out(tensor::row_bytes(job.type, length));
    encode(job, values, out.data());
    writer_.write(out);
    tell(job.found.tensor->data.size());
  }

  void encode(const Job& job, std::vector<float>& row, std::byte* out) {
    tensor::quantize_row(job.type, row.data(), out, row.size());
    const auto is_finite = [](float value) { return std::isfinite(value); };
    if (!std::all_of(row.begin(), row.end(), is_finite)) all_finite_ = false;
    if (!tensor::holds(job.type, row.data(), out, row.size())) all_fit_ = false;
  }

  void tell(uint64_t bytes) {
    done_bytes_ += bytes;
    if (options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  const ConvertOptions& options_;
  gguf::Writer& writer_;
  uint64_t total_bytes_ = 0;
  uint64_t done_bytes_ = 0;
  Team team_;
  std::vector<std::vector<float>> rows_;  // one for each worker
  std::atomic<bool> all_finite_{true};
  std::atomic<bool> all_fit_{true};  // says that their new type holds values of their size
};

void write_metadata(const ConversionPlan& plan, const std::string& name, uint32_t file_type,
                    gguf::Writer& writer) {
  writer.add_string("general.architecture", plan.architecture);
  writer.add_string("general.type", "model");
  if (!name.empty()) writer.add_string("general.name", name);
  writer.add_uint32("general.file_type", file_type);
  writer.add_uint32("general.quantization_version", 2);
  for (const auto& [key, value] : plan.metadata) {
    const std::string full = fmt::format("{}.{}", plan.architecture, key);
    if (const auto* u = std::get_if<uint32_t>(&value)) writer.add_uint32(full, *u);
    if (const auto* f = std::get_if<float>(&value)) writer.add_float32(full, *f);
    if (const auto* b = std::get_if<bool>(&value)) writer.add_bool(full, *b);
    if (const auto* s = std::get_if<std::string>(&value)) writer.add_string(full, *s);
  }
}

// Returns what a person calls the model: the name of the folder.
std::string model_name(const std::string& folder) {
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::canonical(folder, failure);
  return failure ? std::string() : whole.filename().string();
}

}  // namespace

ConvertReport convert_folder(const ConvertOptions& options) {
  const forge::FileType& type = forge::get_file_type(options.type);
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.folder, ignored)) {
    throw Error(
        fmt::format("{}: it is no folder. Give the folder that holds config.json and the weights.",
                    options.folder));
  }
  for (auto entry = std::filesystem::directory_iterator(options.folder, ignored);
       !ignored && entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    refuse_to_replace(entry->path().string(), options.output);
  }
  const std::string config_path = options.folder + "/config.json";
  const Json config = read_json(config_path, kMostConfigBytes);
  const ConversionPlan plan = plan_model(config, config_path);
  const SourceFolder folder(options.folder);
  const std::vector<Job> jobs = make_jobs(plan, folder, type, options.folder);
  std::vector<std::string> notes;
  if (!folder.note().empty()) notes.push_back(folder.note());
  const text::Vocabulary vocabulary = read_folder_tokenizer(
      {options.folder, options.pre, plan.n_vocab, plan.has_space_prefix}, config, &notes);
  if (options.note) std::for_each(notes.begin(), notes.end(), options.note);

  ConvertReport report;
  report.architecture = plan.architecture;
  report.name = model_name(options.folder);
  report.input_bytes = folder.bytes();
  report.n_tensors = jobs.size();
  report.n_tokens = vocabulary.tokens.size();
  gguf::Writer writer(options.output);
  write_metadata(plan, report.name, type.number, writer);
  write_tokenizer(vocabulary, writer);
  for (const Job& job : jobs) writer.add_tensor(job.planned->name, job.type, job.planned->shape);
  writer.begin_data();
  RowWriter rows(options, writer, jobs);
  for (const Job& job : jobs) rows.write(job);
  writer.finish();
  report.output_bytes = writer.bytes_written();
  return report;
}

}  // namespace troika::convert
