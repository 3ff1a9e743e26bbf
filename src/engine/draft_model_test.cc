// A draft model computes what is new to it and no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "base/error.h"
#include "base/trace.h"
#include "engine/drafting/draft_model.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

using test_support::TinyEngine;

// Counts the rows of blocks' tasks in a trace, of prompts' passes and of steps'.
struct Rows {
  explicit Rows(const Trace& trace) {
    for (const TraceEvent& event : trace.events()) {
      if (event.block != 0) continue;
      int& most = event.is_prompt ? of_prompts : of_steps;
      most = std::max(most, event.n_tokens);
    }
  }
  int of_prompts = 0, of_steps = 0;
};

TEST(DraftModel, WhatItKnowsIsNotComputedAgain) {
  const TinyEngine large;
  prepare::Options options;
  options.lanes.n_threads = 1;
  DraftModel model(*large.engine, options, large.engine->file().path());
  const std::vector<Token> tokens =
      test_support::random_tokens(test_support::small_model(), 106, 9);
  const auto propose = [&](size_t from, size_t n) {
    model.observe(std::span(tokens).subspan(from, n));
    Trace trace({"lane"});
    model.session().watch({.trace = &trace});
    draft::Tree tree;
    model.propose(8, &tree);
    model.session().watch({});
    EXPECT_EQ(static_cast<size_t>(model.session().history().size()),
              from + n + static_cast<size_t>(tree.size()));
    return Rows(trace);
  };
  EXPECT_GE(propose(0, 100).of_prompts, 64);  // all is new
  const Rows one = propose(100, 1), several = propose(101, 4);
  EXPECT_EQ(one.of_prompts, 0);
  EXPECT_EQ(one.of_steps, 1);
  EXPECT_EQ(several.of_prompts, 0);
  EXPECT_EQ(several.of_steps, 3);  // the last one follows by itself
}

// Whoever cancels an answer does not wait until the draft model has read the whole prompt.
TEST(DraftModel, ACancelEndsItsReading) {
  prepare::Options options;
  options.lanes.n_threads = 1;
  options.memory.context = 1024;
  const TinyEngine large(test_support::small_model(), options);
  options.prompts.chunk = 32;
  DraftModel model(*large.engine, options, large.engine->file().path());
  model.observe(test_support::random_tokens(test_support::small_model(), 900, 9));
  std::atomic<bool> cancel = true;
  model.heed(&cancel);
  draft::Tree tree;
  model.propose(8, &tree);
  EXPECT_EQ(tree.size(), 0);
  EXPECT_LT(model.session().history().size(), 900u);
  cancel = false;
  model.propose(8, &tree);
  EXPECT_GT(tree.size(), 0);
}

// Where its guesses were not asked for, an answer goes on without them for a while.
TEST(DraftModel, AnAnswerThatItHasNotSeenForAWhileIsNotReadAgainFromItsBeginning) {
  const TinyEngine large;
  prepare::Options options;
  options.lanes.n_threads = 1;
  DraftModel model(*large.engine, options, large.engine->file().path());
  const std::vector<Token> tokens =
      test_support::random_tokens(test_support::small_model(), 120, 9);
  const auto propose = [&](size_t from, size_t n) {
    model.observe(std::span(tokens).subspan(from, n));
    Trace trace({"lane"});
    model.session().watch({.trace = &trace});
    draft::Tree tree;
    model.propose(1, &tree);
    model.session().watch({});
    return Rows(trace);
  };
  EXPECT_GE(propose(0, 40).of_prompts, 32);
  for (size_t i = 40; i < 60; ++i) EXPECT_EQ(propose(i, 1).of_prompts, 0);
  const Rows unseen = propose(60, 18);
  EXPECT_EQ(unseen.of_prompts, 0);
  EXPECT_EQ(unseen.of_steps, 17);
  EXPECT_EQ(model.session().history().size(), 78u);
  // What is as long as all steps before it is a prompt.
  EXPECT_GT(propose(78, 42).of_prompts, 0);
}

TEST(DraftModel, TheLimitOfMemoryHoldsForBothModelsTogether) {
  prepare::Options options;
  options.lanes.n_threads = 1;
  options.memory.held_bytes = 0;
  const TinyEngine large(test_support::small_model(), options);
  const std::string path = large.engine->file().path();
  const size_t taken = large.engine->ledger().total_bytes();
  options.memory.limit_bytes = taken + taken / 4;
  const std::string message =
      test::message_of<Error>([&] { DraftModel(*large.engine, options, path); });
  EXPECT_NE(message.find("‹memory›"), std::string::npos) << message;
  EXPECT_NE(message.find("The draft model " + path), std::string::npos) << message;
  options.memory.limit_bytes = 3 * taken;
  DraftModel model(*large.engine, options, path);
  const plan::Ledger& ledger = model.session().engine().ledger();
  EXPECT_GE(ledger.bytes(plan::Owner::kProgram), taken);
  EXPECT_LE(ledger.total_bytes(), options.memory.limit_bytes);
}

// The limit is of no concern to a file that is not there.
TEST(DraftModel, AMissingFileIsAllThatIsSaidOfIt) {
  prepare::Options options;
  options.lanes.n_threads = 1;
  options.memory.held_bytes = 0;
  const TinyEngine large(test_support::small_model(), options);
  options.memory.limit_bytes = size_t{1} << 30;
  const std::string path = large.folder.file("no.gguf");
  const std::string message =
      test::message_of<Error>([&] { DraftModel(*large.engine, options, path); });
  EXPECT_NE(message.find("no such file"), std::string::npos) << message;
  EXPECT_EQ(message.find("draft model"), std::string::npos) << message;
}

}  // namespace
}  // namespace troika::engine
