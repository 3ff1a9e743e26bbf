// Holds the table of architectures: the one place where their names stand.
#pragma once

#include <string>
#include <string_view>

#include "gguf/file.h"
#include "model/blueprint.h"

namespace troika::model {

// Reads the metadata of a file and writes down what the model computes. Throws Error for an
// architecture that is not known, for metadata that is missing or senseless, and for tensors that
// the model would need and that nothing reads.
Blueprint read(const gguf::File& file);

// Returns "bamboo, gemma, ...", for messages.
std::string known_architectures();

}  // namespace troika::model
