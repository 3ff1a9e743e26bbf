// Writes the logits of every token of a text as 32-bit floats, for comparisons with other programs:
// troika_logits MODEL OUT TOKEN...
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/session.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: troika_logits MODEL OUT TOKEN...\n");
    return 2;
  }
  try {
    troika::prepare::Options options;
    options.model.file = argv[1];
    options.memory.context = 512;
    options.activations = troika::plan::Activations::kF32;
    options.memory.kv_type = troika::tensor::Type::kF32;
    options.prompts.prefill = troika::plan::Prefill::kF32;
    troika::engine::Engine engine(options);
    troika::engine::Session session(engine);
    std::vector<troika::text::Token> tokens;
    for (int i = 3; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
    std::FILE* out = std::fopen(argv[2], "wb");
    if (out == nullptr) throw troika::Error("the output cannot be written");
    session.evaluate(tokens, [&](int, std::span<const float> row) {
      std::fwrite(row.data(), sizeof(float), row.size(), out);
    });
    return std::fclose(out) == 0 ? 0 : 1;
  } catch (const troika::Error& error) {
    std::fprintf(stderr, "troika_logits: %s\n", error.what());
    return 1;
  }
}
