#include "server/answers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/clock.h"

namespace troika::server {
namespace {

// Limits the likelihoods that the thread which computes writes in one piece. Each takes it some
// microseconds.
constexpr size_t kMostAtOnce = 8192;

// Takes the first `n` of the values, or all if there are fewer.
template <typename T>
std::vector<T> take_first(std::vector<T>* values, size_t n) {
  const auto end = values->begin() + static_cast<std::ptrdiff_t>(std::min(n, values->size()));
  std::vector<T> first(std::make_move_iterator(values->begin()), std::make_move_iterator(end));
  values->erase(values->begin(), end);
  return first;
}

}  // namespace

Answers::Answers(const Wanted& wanted, std::unique_ptr<Writer> writer,
                 const MakeReader& make_reader)
    : n_returned_(wanted.n_returned),
      n_computed_(wanted.n_computed),
      wants_progress_(wanted.wants_progress),
      wants_timings_(wanted.wants_timings),
      wants_tokens_(wanted.wants_tokens),
      writer_(std::move(writer)),
      answers_(static_cast<size_t>(wanted.n_answers())) {
  for (One& one : answers_) one.reader = make_reader();
}

void Answers::on_prompt(int index, const engine::PromptProgress& progress) {
  Timings& timings = answers_[static_cast<size_t>(index)].timings;
  timings.n_cached = progress.n_known;
  timings.n_computed = progress.n_read - progress.n_known;
  timings.prompt_seconds = progress.seconds;
  if (!wants_progress_) return;
  writer_->progress(index, {progress, wants_timings_ ? std::optional(timings) : std::nullopt});
}

void Answers::on_token(int index, engine::Token token, LogprobRecorder* recorder) {
  One& one = answers_[static_cast<size_t>(index)];
  if (++one.timings.n_tokens == 1) one.first_token = std::chrono::steady_clock::now();
  if (wants_tokens_) one.tokens.push_back(token);
  if (recorder == nullptr) return;
  one.logprobs.push_back(recorder->take(token));
  n_likelihoods_ += 1 + one.logprobs.back().top.size();
}

void Answers::pass_on(int index, Delta delta) {
  One& one = answers_[static_cast<size_t>(index)];
  if (delta.kind == Delta::Kind::kCall) ++one.n_calls;
  const int n_read = one.n_shown - std::exchange(one.n_passed_on, one.n_shown);
  if (delta.kind == Delta::Kind::kThought) one.n_thought_tokens += n_read;
  delta.logprobs = take_first(&one.logprobs, static_cast<size_t>(n_read));
  delta.tokens = take_first(&one.tokens, static_cast<size_t>(n_read));
  if (wants_timings_) {
    one.timings.answer_seconds = seconds_since(one.first_token);
    delta.timings = one.timings;
  }
  if (n_computed_ > n_returned_) {
    one.whole.add(delta);
  } else {
    writer_->write(index, delta);
  }
}

void Answers::on_text(int index, std::string_view text, int n_shown) {
  One& one = answers_[static_cast<size_t>(index)];
  one.n_shown = n_shown;
  for (Delta& delta : one.reader->push(text)) pass_on(index, std::move(delta));
}

void Answers::on_end(int index, engine::Generated generated) {
  if (has_failed_) return;
  One& one = answers_[static_cast<size_t>(index)];
  // Tokens whose text has not come by now belong to the stop string, which nobody is shown.
  if (generated.stop != engine::Stop::kString) one.n_shown = one.timings.n_tokens;
  const bool cuts_call = generated.stop == engine::Stop::kString && one.reader->is_in_call();
  for (Delta& delta : one.reader->finish()) pass_on(index, std::move(delta));
  const bool has_left = !one.logprobs.empty() || !one.tokens.empty();
  if (has_left && one.n_passed_on < one.n_shown) pass_on(index, {});
  Ending ending{std::move(generated), "", one.n_calls, one.n_thought_tokens, cuts_call};
  ending.stop = ending.generated.stop_string;
  if (n_computed_ > n_returned_) {
    one.whole.ending = std::move(ending);
  } else {
    writer_->end(index, ending);
  }
  if (++n_ended_ < answers_.size()) return;
  if (elsewhere_ == nullptr || n_likelihoods_ <= kMostAtOnce) {
    finish();
  } else {
    elsewhere_([self = shared_from_this()] {
      try {
        self->finish();
      } catch (const std::exception& error) {  // memory may be short
        self->on_error(Failure(error));
      }
    });
  }
}

void Answers::finish() {
  if (n_computed_ > n_returned_) choose();
  writer_->finish();
}

// Lets each answer to a prompt, of `n` from `first` on, tell what reading the prompt took: the
// first one read it, and the others knew it then, which says nothing of what was known before.
void Answers::share_prompt(size_t first, size_t n) {
  const auto generated = [&](size_t i) -> engine::Generated& {
    return answers_[first + i].whole.ending.generated;
  };
  size_t reader = 0;
  for (size_t i = 1; i < n; ++i) {
    if (generated(i).n_computed > generated(reader).n_computed) reader = i;
  }
  for (size_t i = 0; i < n; ++i) {
    generated(i).n_computed = generated(reader).n_computed;
    generated(i).prefill_seconds = generated(reader).prefill_seconds;
  }
}

// Writes the most likely answers to each prompt in the order of their likelihood, which is the mean
// of their tokens' likelihoods. Answers without a text come last.
void Answers::choose() {
  const auto n_computed = static_cast<size_t>(n_computed_);
  int next = 0;
  for (size_t first = 0; first < answers_.size(); first += n_computed) {
    share_prompt(first, n_computed);
    std::vector<double> means;
    for (size_t i = 0; i < n_computed; ++i) {
      const WholeAnswer& message = answers_[first + i].whole;
      means.push_back(message.logprobs.empty() ? -std::numeric_limits<double>::infinity()
                                               : message.mean_logprob());
    }
    const std::vector<size_t> order = engine::best_first(means);
    for (int i = 0; i < n_returned_; ++i, ++next) {
      const WholeAnswer& message = answers_[first + order[static_cast<size_t>(i)]].whole;
      writer_->write(next, {.text = message.text, .logprobs = message.logprobs});
      writer_->end(next, message.ending);
    }
    const auto prompt = static_cast<int>(first / n_computed);
    for (size_t i = static_cast<size_t>(n_returned_); i < n_computed; ++i) {
      writer_->leave_out(prompt, answers_[first + order[i]].whole.ending.generated);
    }
  }
}

void Answers::on_error(const Failure& failure) {
  if (has_failed_) return;
  has_failed_ = true;
  writer_->fail(failure);
}

}  // namespace troika::server
