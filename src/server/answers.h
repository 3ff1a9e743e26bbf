// Passes the answers to one request on from the worker to a writer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "server/reading/wanted.h"
#include "server/worker.h"
#include "server/writer.h"

namespace troika::server {

class Answers : public Reply, public std::enable_shared_from_this<Answers> {
 public:
  using MakeReader = std::function<std::unique_ptr<Reader>()>;

  Answers(const Wanted& wanted, std::unique_ptr<Writer> writer, const MakeReader& make_reader);

  Writer& writer() { return *writer_; }
  // Has the end of answers with many likelihoods written by whoever does such work, and not by the
  // thread that computes, which would let everybody wait. Is called before anything else.
  using Elsewhere = std::function<void(std::function<void()>)>;
  void finish_by(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }

  void on_prompt(int index, const engine::PromptProgress& progress) override;
  void on_token(int index, engine::Token token, LogprobRecorder* recorder) override;
  void on_text(int index, std::string_view text, int n_shown) override;
  void on_end(int index, engine::Generated generated) override;
  void on_error(const Failure& failure) override;

 private:
  struct One {
    std::unique_ptr<Reader> reader;
    std::vector<TokenLogprobs> logprobs;  // for tokens that are in no delta yet
    std::vector<engine::Token> tokens;    // the tokens of `logprobs`, if the client asks for them
    int n_shown = 0;                      // counts tokens of whose text the reader got something
    int n_passed_on = 0;                  // counts those of them that are in a delta
    Timings timings;
    std::chrono::steady_clock::time_point first_token;
    int n_calls = 0;
    int n_thought_tokens = 0;
    WholeAnswer whole;  // the answer, if it is compared with others
  };
  void pass_on(int index, Delta delta);
  void finish();
  void share_prompt(size_t first, size_t n);
  void choose();

  const int n_returned_, n_computed_;
  const bool wants_progress_, wants_timings_, wants_tokens_;
  std::unique_ptr<Writer> writer_;
  Elsewhere elsewhere_;  // null: the thread that computes writes every end
  std::vector<One> answers_;
  size_t n_ended_ = 0;
  size_t n_likelihoods_ = 0;  // counts those of all tokens of all answers
  bool has_failed_ = false;
};

}  // namespace troika::server
