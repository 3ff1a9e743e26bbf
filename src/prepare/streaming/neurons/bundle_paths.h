// Finds the side files of a model's bundles (P7), one for each form of its neurons, and removes
// those that no run reads any more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/file.h"

namespace troika::prepare {

// Returns "FOLDER/bundles-0123456789abcdef-01234567.bin", by keys of the model's path and of the
// form. Runs with and without gates in bundles have files of their own.
std::string bundle_file_path(const gguf::File& file, uint64_t form_key);

// Removes bundles of the model at this path that were made for another content of it, or by another
// version of this program. Returns the names of the files. What cannot be removed stays.
std::vector<std::string> remove_old_bundles(const gguf::File& file, uint64_t model_key);

}  // namespace troika::prepare
