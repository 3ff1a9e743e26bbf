#include "forge/hollow.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "forge/file_type.h"
#include "gguf/writer.h"

namespace troika::forge {

HollowModel::HollowModel(const model::KnownModel& model, std::string_view type)
    : name_(model.name) {
  const FileType& file_type = get_file_type(type);
  const ModelFacts facts{model.n_layers, model.n_experts, model.tied_embeddings,
                         model.n_heads / model.n_kv_heads};
  gguf::Writer writer;
  model::add_known_metadata(model, writer);
  writer.add_uint32("general.file_type", file_type.number);
  for (const model::KnownTensor& tensor : model::known_tensors(model)) {
    writer.add_tensor(tensor.name, choose_type(file_type, tensor.name, tensor.shape, facts),
                      tensor.shape);
  }
  uint64_t data_bytes = 0;
  const std::string header = writer.header(&data_bytes);
  bytes_ = header.size() + data_bytes;
  void* const pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    throw Error(fmt::format(
        "{}: the system gives no addresses for {:.1f} GB, which would take no memory: {}. Lift "
        "the limit of the address space (ulimit -v unlimited).",
        name_, 1e-9 * static_cast<double>(bytes_), std::strerror(errno)));
  }
  begin_ = {static_cast<std::byte*>(pages), Unmap{bytes_}};
  std::memcpy(begin_.get(), header.data(), header.size());
  // The factors of the rotation belong to the shapes: readers refuse zeros.
  const std::vector<float> factors = model::rope_factors(model);
  if (!factors.empty()) {
    const gguf::File file = open();
    const gguf::TensorInfo& tensor = file.get_tensor("rope_freqs.weight");
    std::memcpy(begin_.get() + file.shards()[0].data_offset + tensor.offset, factors.data(),
                factors.size() * sizeof(float));
  }
  // Whoever wrote here would take the zeros for weights, so writing is forbidden.
  if (mprotect(begin_.get(), bytes_, PROT_READ) != 0) {
    throw Error(fmt::format(
        "{}: the system does not let the model's zeros be protected: {}. Lift the limit of "
        "mappings (sysctl vm.max_map_count).",
        name_, std::strerror(errno)));
  }
}

void HollowModel::Unmap::operator()(std::byte* begin) const { munmap(begin, bytes); }

gguf::File HollowModel::open() const { return gguf::File::parse({begin_.get(), bytes_}, name_); }

}  // namespace troika::forge
