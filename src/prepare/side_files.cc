#include "prepare/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "plan/profile_cache.h"
#include "weights/content_key.h"

namespace troika::prepare {

std::string neuron_file_path(std::string_view kind, const gguf::File& file) {
  std::error_code failure;
  const std::filesystem::path whole = std::filesystem::absolute(file.path(), failure);
  const std::string name = failure ? file.path() : whole.lexically_normal().string();
  return fmt::format("{}/{}-{:016x}.bin", plan::cache_folder(), kind, hash_of(name));
}

std::optional<weights::NeuronHeat> kept_heat(const gguf::File& file,
                                             std::span<const model::GatedFfn> ffns,
                                             const weights::Store& weights, std::string* note) {
  int n_neurons = 0;
  for (const model::GatedFfn& ffn : ffns) {
    n_neurons = std::max(n_neurons, weights.matrix(ffn.up).n_rows);
  }
  const std::string path = neuron_file_path("heat", file);
  std::string problem;
  std::optional<weights::NeuronHeat> heat =
      weights::read_heat(path, weights::content_key(file), ffns.size(),
                         static_cast<uint64_t>(n_neurons), &problem);
  if (!problem.empty()) {
    *note = fmt::format("{} {}, so it does not say which neurons are hot; 'troika neurons' counts "
                        "them again",
                        path, problem);
  }
  return heat;
}

}  // namespace troika::prepare
