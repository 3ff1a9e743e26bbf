// Looks for tensors of a file that a blueprint does not read.
#pragma once

#include "gguf/file.h"
#include "model/blueprint.h"

namespace troika::model {

// Throws Error for a tensor that no weight of the blueprint names, unless its name tells that the
// text is right without it: then the model computes something else than what it was trained for.
// Where the file lacks a weight nothing is thrown: who reads the weights says that, which tells
// more.
void check_all_read(const gguf::File& file, const Blueprint& blueprint);

}  // namespace troika::model
