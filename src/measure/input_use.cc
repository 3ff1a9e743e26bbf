#include "measure/input_use.h"

#include <algorithm>
#include <cmath>

#include "engine/session.h"

namespace troika::measure {
namespace {

class MeanMagnitudes : public lanes::InputObserver {
 public:
  explicit MeanMagnitudes(const model::Blueprint& blueprint) : blueprint_(blueprint) {}

  void observe(const model::Op& op, const float* x, int n_rows, int width) override {
    std::vector<double>& sums = sums_[blueprint_.weights[static_cast<size_t>(op.weight)].name];
    sums.resize(static_cast<size_t>(width));
    for (int row = 0; row < n_rows; ++row, x += width) {
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += std::fabs(x[c]);
    }
  }

  std::map<std::string, std::vector<double>> take(size_t n_tokens) {
    for (auto& [name, sums] : sums_) {
      for (double& sum : sums) sum /= static_cast<double>(n_tokens);
    }
    return std::move(sums_);
  }

 private:
  const model::Blueprint& blueprint_;
  std::map<std::string, std::vector<double>> sums_;
};

}  // namespace

std::map<std::string, std::vector<double>> measure_input_use(const std::string& model,
                                                             const std::string& text,
                                                             size_t most_tokens) {
  prepare::Options options;
  options.model.file = model;
  options.activations = plan::Activations::kF32;
  options.prompts.prefill = plan::Prefill::kF32;
  engine::Engine engine(options);
  std::vector<text::Token> tokens = engine.tokenizer().encode(text);
  tokens.resize(std::min({tokens.size(), most_tokens, static_cast<size_t>(engine.plan().context)}));
  if (tokens.empty()) return {};
  MeanMagnitudes means(engine.blueprint());
  engine::Session session(engine);
  session.watch({.inputs = &means});
  session.prefill(tokens);
  return means.take(tokens.size());
}

}  // namespace troika::measure
