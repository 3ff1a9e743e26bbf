// Makes up a vocabulary of the right kind and exact size, for models with made-up weights.
#pragma once

#include "gguf/writer.h"
#include "model/known.h"

namespace troika::forge {

// Adds the keys tokenizer.ggml.*. Pieces have one to four letters, common letters first, so that
// text becomes about one token for three letters, as with a real vocabulary. Every byte has a
// token.
void add_synth_tokenizer(const model::KnownModel& model, gguf::Writer& writer);

}  // namespace troika::forge
