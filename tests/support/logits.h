// Computes logits of a tiny model with the engine and with the reference, so that tests can compare
// them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/session.h"
#include "tests/reference/forward.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika::test_support {

// A tiny model in a file, which is removed at the end.
class TinyModelFile {
 public:
  explicit TinyModelFile(const TinyModel& model, const Rewrite& rewrite = {})
      : path_(folder_.file("tiny.gguf")) {
    const std::vector<uint8_t> bytes = tiny_model_bytes(model, rewrite);
    test::write_whole(path_, {bytes.begin(), bytes.end()});
  }
  const std::string& path() const { return path_; }

  // Returns the setting nearest to the reference: activations, keys and values in float, one
  // thread. Prompts are computed as single tokens are, so that every division of a text gives the
  // same bits.
  prepare::Options float_options() const {
    prepare::Options options;
    options.model.file = path_;
    options.lanes.n_threads = 1;
    options.memory.context = 128;
    options.activations = plan::Activations::kF32;
    options.memory.kv_type = tensor::Type::kF32;
    options.prompts.prefill = plan::Prefill::kSame;
    return options;
  }

 private:
  test::TempFolder folder_;
  std::string path_;
};

// Returns the logits of every token. The tokens are computed in pieces of the given lengths; the
// rest is the last piece.
inline std::vector<reference::Vector> engine_logits(engine::Session& session,
                                                    std::span<const int32_t> tokens,
                                                    const std::vector<size_t>& pieces = {}) {
  std::vector<reference::Vector> logits;
  const auto keep = [&](int, std::span<const float> row) {
    logits.emplace_back(row.begin(), row.end());
  };
  for (size_t length : pieces) {
    session.evaluate(tokens.first(length), keep);
    tokens = tokens.subspan(length);
  }
  if (!tokens.empty()) session.evaluate(tokens, keep);
  return logits;
}

inline std::vector<reference::Vector> engine_logits(const prepare::Options& options,
                                                    std::span<const int32_t> tokens,
                                                    const std::vector<size_t>& pieces = {}) {
  engine::Engine engine(options);
  engine::Session session(engine);
  return engine_logits(session, tokens, pieces);
}

// Returns an error as reference::relative_error does, but spares a quarter of the positions in
// models with experts: where two experts are nearly tied, a rounding decides which one a token
// takes, and its logits change. It is for paths that round; paths in float must agree everywhere.
inline double rounded_error(const TinyModel& tiny, const std::vector<reference::Vector>& logits,
                            const std::vector<reference::Vector>& judge) {
  if (tiny.n_experts == 0) return reference::relative_error(logits, judge);
  double largest = 0;
  for (const reference::Vector& row : judge) {
    for (const double value : row) largest = std::max(largest, std::fabs(value));
  }
  std::vector<double> errors;
  for (size_t i = 0; i < judge.size(); ++i) {
    double row_largest = 0;
    for (const double value : judge[i]) row_largest = std::max(row_largest, std::fabs(value));
    errors.push_back(reference::relative_error({logits.at(i)}, {judge[i]}) * row_largest / largest);
    if (std::isnan(errors.back())) return errors.back();
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() * 3 / 4];
}

inline std::vector<reference::Vector> reference_logits(const TinyModel& tiny,
                                                       const std::vector<int32_t>& tokens,
                                                       bool eight_bit_activations = false) {
  reference::Model model(reference::parse_gguf(tiny_model_bytes(tiny)));
  model.eight_bit_activations = eight_bit_activations;
  return reference::forward(model, tokens);
}

}  // namespace troika::test_support
