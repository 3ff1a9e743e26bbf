#include "tune/proof/held_out.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "tune/proof/text_parts.h"

namespace troika::tune {
namespace {

constexpr size_t kMostKeptBytes = size_t{256} << 20;
constexpr double kWorstNats = 1e6;

double finite(double nats) {
  return std::isfinite(nats) ? std::clamp(nats, 0.0, kWorstNats) : kWorstNats;
}

}  // namespace

HeldOut::HeldOut(const prepare::Options& options, const plan::Plan& exact, const std::string& text,
                 size_t n_windows, const measure::StageFunction& stage)
    : options_(options), exact_(exact), text_(text), n_windows_(n_windows), stage_(stage) {}

template <typename Visit>
std::vector<WindowLosses> HeldOut::run(const std::string& name, const plan::Plan& plan,
                                       const Enough& is_enough, const Visit& divergence_of) {
  prepare::Options options = options_;
  options.plan.exact = plan;
  options.plan.exact->context = kWindow;
  engine::Engine engine(options);
  engine::Session session(engine);
  const size_t row = KeptOdds::bytes_of_row(static_cast<size_t>(engine.tokenizer().n_tokens()));
  const size_t most = std::max(kMostKeptBytes / (row * kWindow / kEvery), kLeastWindows);
  // The text is cut by tokens: parts of it may have far fewer of them for the same bytes than the
  // whole has.
  std::vector<std::vector<cache::Token>> windows =
      measure::windows_of_text(engine.tokenizer(), text_, kWindow);
  check_length(windows.empty() ? 0 : windows.front().size());
  windows.resize(std::min({windows.size(), n_windows_, most}));
  if (odds_ == nullptr) odds_ = std::make_unique<KeptOdds>(engine.kernels().table);
  const ProgressFunction progress = stage_("predictions of " + name);
  std::vector<WindowLosses> all;
  size_t n_compared = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    WindowLosses losses;
    measure::predict(session, windows[i], 1, [&](const measure::Prediction& prediction) {
      if (losses.nll.size() % kEvery == 0) {
        losses.divergence.push_back(finite(divergence_of(n_compared++, prediction)));
      }
      losses.nll.push_back(finite(prediction.nll));
    });
    if (progress) progress(i + 1, windows.size());
    // The end of a text may be too short to tell anything.
    if (i > 0 && losses.nll.size() < kWindow / kEvery) break;
    all.push_back(std::move(losses));
    if (is_enough && is_enough(all)) break;
  }
  return all;
}

std::vector<WindowLosses> HeldOut::read(const std::string& name, const plan::Plan& plan,
                                        const Enough& is_enough) {
  if (odds_ == nullptr) {
    of_exact_ = run(plan::prefill_name(exact_.prefill), exact_, nullptr,
                    [&](size_t, const measure::Prediction& prediction) {
                      odds_->keep(prediction);
                      return 0.0;
                    });
  }
  if (plan.prefill == exact_.prefill) return of_exact_;
  return run(name, plan, is_enough, [&](size_t position, const measure::Prediction& prediction) {
    return odds_->divergence(position, prediction);
  });
}

PromptLoss loss_between(const std::vector<WindowLosses>& usual,
                        const std::vector<WindowLosses>& other) {
  TROIKA_ASSERT(!other.empty() && usual.size() >= other.size());
  std::vector<double> text, expected;
  for (size_t i = 0; i < other.size(); ++i) {
    TROIKA_ASSERT(usual[i].nll.size() == other[i].nll.size());
    for (size_t j = 0; j < other[i].nll.size(); ++j) {
      text.push_back(other[i].nll[j] - usual[i].nll[j]);
    }
    for (size_t j = 0; j < other[i].divergence.size(); ++j) {
      expected.push_back(other[i].divergence[j] - usual[i].divergence[j]);
    }
  }
  return {mean_loss(text), mean_loss(expected)};
}

}  // namespace troika::tune
