// Tests the line of answers at the worker where answers fail.
#include "server/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/tiny_engine.h"
#include "tests/support/turns.h"

namespace troika {
namespace {

// Notes how often an answer failed, and how many answers waited in the end.
class FailureCount : public server::Reply {
 public:
  void on_prompt(int, const engine::PromptProgress&) override {}
  void on_token(int, engine::Token, server::LogprobRecorder*) override {
    turn_ns = test::turns_here().turn_ns;
  }
  void on_text(int, std::string_view, int) override {}
  void on_end(int, engine::Generated) override { note(&n_ended_); }
  void on_error(const server::Failure& failure) override {
    if (on_failure) on_failure();
    if (failure.is_of_request) is_of_request = true;
    note(&n_failed_);
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return n_failed_ + n_ended_ > 0; });
  }
  int n_failed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return n_failed_;
  }
  std::function<void()> on_failure;  // is called first; may be empty
  std::atomic<bool> is_of_request = false;
  std::atomic<uint64_t> turn_ns = 0;  // is that of the thread that told of the last token

 private:
  void note(int* counter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++*counter;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_failed_ = 0, n_ended_ = 0;
};

// Notes how much of a prompt was read at each report.
class ProgressNotes : public server::Reply {
 public:
  void on_prompt(int, const engine::PromptProgress& progress) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    n_read_.push_back(progress.n_read);
    changed_.notify_all();
  }
  void on_token(int, engine::Token, server::LogprobRecorder*) override {}
  void on_text(int, std::string_view, int) override {}
  void on_end(int, engine::Generated) override {}
  void on_error(const server::Failure&) override {}

  // Waits until the prompt is read, and returns all reports.
  std::vector<int> reports_until(int n_prompt) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !n_read_.empty() && n_read_.back() == n_prompt; });
    return n_read_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> n_read_;
};

template <typename Thrown>
class BrokenMask : public engine::LogitMask {
 public:
  void apply(std::span<const engine::Token>, std::span<float>) override {
    throw Thrown("The mask is broken.");
  }
};

class WorkerLine : public testing::Test {
 protected:
  // Submits the answers of one request, waits until one fails and the worker has nothing to do.
  server::Worker::Figures figures_after(const std::function<void(server::Job&)>& prepare) {
    constexpr int kAnswers = 8;
    server::Worker worker(*tiny_.engine, 1, kAnswers, {});
    worker_ = &worker;
    const auto exchange =
        std::make_shared<http::Exchange>(std::make_shared<http::Mailbox>(), size_t{1});
    std::vector<std::shared_ptr<server::Job>> jobs;
    for (int i = 0; i < kAnswers; ++i) {
      jobs.push_back(std::make_shared<server::Job>());
      server::Job& job = *jobs.back();
      job.exchange = exchange;
      job.reply = reply_;
      job.index = i;
      job.prompt = {1, 2, 3};
      job.options.most_tokens = 2;
      prepare(job);
    }
    EXPECT_TRUE(worker.submit(jobs, [] {}));
    reply_->wait();
    server::Worker::Figures figures = worker.figures();
    while (figures.n_failed + figures.n_cancelled + figures.n_answers < kAnswers) {
      std::this_thread::yield();
      figures = worker.figures();
    }
    return figures;
  }

  test_support::TinyEngine tiny_;
  const server::Worker* worker_ = nullptr;  // while figures_after() runs
  std::shared_ptr<FailureCount> reply_ = std::make_shared<FailureCount>();
};

TEST_F(WorkerLine, EndsWithTheFirstAnswerThatFails) {
  const server::Worker::Figures figures = figures_after(
      [](server::Job& job) { job.mask = std::make_shared<BrokenMask<std::runtime_error>>(); });
  EXPECT_EQ(figures.n_failed, 1);
  EXPECT_EQ(figures.n_cancelled, 7);
  EXPECT_EQ(figures.n_waiting, 0);
  EXPECT_EQ(reply_->n_failed(), 1);
  EXPECT_FALSE(reply_->is_of_request);
}

// That a grammar is too large may show only while the answer is written.
TEST_F(WorkerLine, BlamesTheRequestForAGrammarThatIsTooLarge) {
  figures_after(
      [](server::Job& job) { job.mask = std::make_shared<BrokenMask<grammar::TooMuchWork>>(); });
  EXPECT_TRUE(reply_->is_of_request);
}

TEST_F(WorkerLine, EndsWithTheFirstAnswerThatCannotBegin) {
  const server::Worker::Figures figures = figures_after([](server::Job& job) {
    job.make_drafter = []() -> std::unique_ptr<draft::Drafter> {
      throw std::runtime_error("There is no memory for a drafter.");
    };
  });
  EXPECT_EQ(figures.n_failed, 1);
  EXPECT_EQ(figures.n_cancelled, 7);
  EXPECT_EQ(figures.n_waiting, 0);
  EXPECT_EQ(reply_->n_failed(), 1);
}

// Clients on the same machine would else wait for their cores. The thread that tells of a token has
// computed it, so it has short turns by then.
TEST_F(WorkerLine, GivesWayToOtherPrograms) {
  const std::string why_not = test::why_no_shorter_turns();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  figures_after([](server::Job&) {});
  EXPECT_GT(reply_->turn_ns, 0u);
  EXPECT_LT(reply_->turn_ns, test::turns_here().turn_ns);
  EXPECT_FALSE(tiny_.engine->passes().batches.gives_way()) << "though no worker is left";
}

// What is written to a client may be large, and meanwhile others look at the figures.
TEST_F(WorkerLine, TellsOfFailuresWhileOthersMayLookAtIt) {
  std::future<void> look;
  bool has_looked = false;
  reply_->on_failure = [&] {
    look = std::async(std::launch::async, [this] { worker_->figures(); });
    has_looked = look.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  };
  figures_after([](server::Job& job) {
    job.make_drafter = []() -> std::unique_ptr<draft::Drafter> {
      throw std::runtime_error("There is no memory for a drafter.");
    };
  });
  EXPECT_TRUE(has_looked);
}

TEST_F(WorkerLine, TellsWhoReadsNothingTheEndOfThePromptAlone) {
  for (const bool is_full : {false, true}) {
    const auto notes = std::make_shared<ProgressNotes>();
    server::Worker worker(*tiny_.engine, 1, 1, {});
    const auto job = std::make_shared<server::Job>();
    const auto mailbox = std::make_shared<http::Mailbox>();
    job->exchange = std::make_shared<http::Exchange>(mailbox, size_t{1});
    if (is_full) job->exchange->write(std::string(http::Exchange::kMostUnsent + 1, 'x'));
    job->reply = notes;
    job->prompt = {1, 2, 3};
    job->options.most_tokens = 1;
    EXPECT_TRUE(worker.submit({job}, [] {}));
    const std::vector<int> reports = notes->reports_until(3);
    EXPECT_EQ(reports.size(), is_full ? 1u : 2u);
    mailbox->close();  // letters that nobody takes hold the exchange, which holds the mailbox
  }
}

}  // namespace
}  // namespace troika
