#include "tune/neurons/text_reading.h"

#include <algorithm>

#include "base/error.h"
#include "engine/session.h"
#include "measure/evaluate.h"
#include "prepare/plan/one_lane.h"

namespace troika::tune {
namespace {

void note_row(std::span<const float> logits, const kernels::Table& kernels, text::Token next,
              std::vector<float>* room, Reading* reading) {
  reading->nll +=
      measure::log_sum_of(kernels, logits, room) - double{logits[static_cast<size_t>(next)]};
  reading->likeliest.push_back(
      static_cast<text::Token>(kernels.argmax(logits.data(), logits.size())));
  ++reading->n_tokens;
}

}  // namespace

void choose_form_alone(plan::FfnForm form, prepare::Options* options) {
  options->ffn.form = form;
  options->ffn.has_predictor = options->ffn.may_predict = false;
  options->ffn.hot_percent = 0;
  options->ffn.hot_lane.reset();
}

prepare::Options reading_options(const prepare::Options& asked, plan::FfnForm form) {
  if (!prepare::is_here(asked)) {
    throw UsageError(
        "‹machine› names a virtual phone, which computes no values, and neurons are told apart by "
        "their values. Leave it out.");
  }
  prepare::Options options = asked;
  options.prompts = {};
  options.prompts.prefill = plan::Prefill::kSame;
  options.plan.is_read_as_steps = true;
  choose_form_alone(form, &options);
  options.memory.context = kReadTogether;
  prepare::put_on_one_lane(&options);
  return options;
}

Reading read_tokens(engine::Engine& engine, std::span<const text::Token> tokens,
                    lanes::InputObserver* observer) {
  Reading reading;
  std::vector<float> room;
  for (size_t first = 0; first + 1 < tokens.size(); first += kReadTogether) {
    const std::span<const text::Token> window =
        tokens.subspan(first, std::min<size_t>(kReadTogether, tokens.size() - first));
    reading.n_read += window.size();
    engine::Session session(engine);
    engine::Watch watch;
    watch.inputs = observer;
    session.watch(watch);
    session.evaluate(window, [&](int i, std::span<const float> logits) {
      const auto next = static_cast<size_t>(i) + 1;
      if (next < window.size()) {
        note_row(logits, engine.kernels().table, window[next], &room, &reading);
      }
    });
  }
  return reading;
}

double agreement(const Reading& a, const Reading& b) {
  size_t n_equal = 0;
  for (size_t i = 0; i < a.likeliest.size(); ++i) n_equal += a.likeliest[i] == b.likeliest[i];
  return static_cast<double>(n_equal) / static_cast<double>(a.likeliest.size());
}

}  // namespace troika::tune
