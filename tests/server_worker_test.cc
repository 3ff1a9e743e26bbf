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
  int n_ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return n_ended_;
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

// Has a worker compute answers whose clients read nothing, and others beside them.
class WorkerPauses : public WorkerLine {
 protected:
  ~WorkerPauses() override { mailbox_->close(); }

  // Submits an answer to a request of its own, once there is room for it. Returns null if there is
  // none for long.
  std::shared_ptr<FailureCount> submit(server::Worker& worker, bool is_read, int most_tokens = 20) {
    const auto job = std::make_shared<server::Job>();
    job->exchange = std::make_shared<http::Exchange>(mailbox_, size_t{1});
    if (!is_read) job->exchange->write(std::string(http::Exchange::kMostUnsent + 1, 'x'));
    const auto reply = std::make_shared<FailureCount>();
    job->reply = reply;
    job->prompt = {1, 2, 3};
    job->options.most_tokens = most_tokens;
    return holds_soon([&] { return worker.submit({job}, [] {}); }) ? reply : nullptr;
  }
  static bool holds_soon(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  // Waits until so many answers pause.
  static bool has_paused(const server::Worker& worker, size_t n_wanted) {
    return holds_soon([&] {
      size_t n = 0;
      for (const server::Worker::View& view : worker.figures().running) n += view.is_paused ? 1 : 0;
      return n == n_wanted;
    });
  }

  std::shared_ptr<http::Mailbox> mailbox_ = std::make_shared<http::Mailbox>();
};

TEST_F(WorkerPauses, TakeNoPlaceFromNewcomers) {
  server::Worker worker(*tiny_.engine, 1, 0, {});
  const auto unread = submit(worker, false);
  ASSERT_TRUE(unread != nullptr && has_paused(worker, 1));
  for (int i = 0; i < 3; ++i) {
    const auto read = submit(worker, true);
    ASSERT_TRUE(read != nullptr) << "though nothing is computed";
    EXPECT_TRUE(holds_soon([&] { return read->n_ended() == 1; }));
  }
  EXPECT_EQ(unread->n_failed(), 0);
}

TEST_F(WorkerPauses, EndWithTheLongestWhereTooManyPause) {
  server::Worker worker(*tiny_.engine, 1, 0, {});
  std::vector<std::shared_ptr<FailureCount>> unread;
  for (size_t i = 0; i < server::Worker::kMostPaused; ++i) {
    unread.push_back(submit(worker, false));
    ASSERT_TRUE(unread.back() != nullptr && has_paused(worker, i + 1)) << i;
  }
  EXPECT_EQ(unread.front()->n_failed(), 0);
  unread.push_back(submit(worker, false));
  EXPECT_TRUE(holds_soon([&] { return unread.front()->n_failed() == 1; }));
  EXPECT_TRUE(has_paused(worker, server::Worker::kMostPaused));
  for (size_t i = 1; i < unread.size(); ++i) EXPECT_EQ(unread[i]->n_failed(), 0) << i;
}

// Paused answers keep their keys and values, and what they may need of them may be all there is.
TEST_F(WorkerPauses, EndWithTheLongestWhereANewcomerHasNoSlots) {
  server::Worker worker(*tiny_.engine, 1, 0, {}, /*most_pause_seconds=*/0.2);
  constexpr int kToTheEnd = -1;
  // The cache has room for at most as many contexts.
  std::vector<std::shared_ptr<FailureCount>> unread;
  for (size_t i = 0; i < server::Worker::kMostPaused; ++i) {
    unread.push_back(submit(worker, false, kToTheEnd));
    ASSERT_TRUE(unread.back() != nullptr && has_paused(worker, i + 1)) << i;
  }
  for (const auto& one : unread) EXPECT_EQ(one->n_failed(), 0);
  const auto read = submit(worker, true, kToTheEnd);
  ASSERT_TRUE(read != nullptr);
  EXPECT_TRUE(holds_soon([&] { return read->n_ended() == 1; }));
  EXPECT_EQ(unread.front()->n_failed(), 1);
}

}  // namespace
}  // namespace troika
