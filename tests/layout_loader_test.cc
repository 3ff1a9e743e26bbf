#include "prepare/layouts/layout_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "model/architecture.h"
#include "plan/plan_json.h"
#include "prepare/open_model.h"
#include "prepare/plan/choose_plan.h"
#include "prepare/plan/saved_plan.h"
#include "tests/support/logits.h"
#include "tests/support/tiny_engine.h"

namespace troika::prepare {
namespace {

using test_support::copy_of;
using test_support::random_tokens;
using test_support::small_model;
using test_support::TinyEngine;
using test_support::TinyModel;
using Logits = std::vector<float>;

constexpr int kChunk = 64;

TinyModel model_of(const std::string& architecture, uint32_t type = test_support::kQ8_0) {
  TinyModel model = small_model(architecture);
  model.n_layers = 4;
  model.type = type;
  return model;
}

Options options_for(prepare::Layouts layouts, int n_threads = 1) {
  Options options;
  options.prompts.prefill = plan::Prefill::kInt8;
  options.memory.layouts = layouts;
  options.prompts.chunk = kChunk;
  options.memory.context = 512;
  options.lanes.n_threads = n_threads;
  return options;
}

std::span<const cache::Token> first(const std::vector<cache::Token>& tokens, size_t n) {
  return std::span<const cache::Token>(tokens).first(n);
}

void expect_one_copy(const engine::Engine& engine) {
  const weights::SwitchedBlocks& blocks = engine.loaded().layouts->blocks();
  EXPECT_GT(blocks.held().peak, 0u);
  EXPECT_LE(blocks.held().peak, blocks.copy_bytes() + blocks.largest_bytes());
}

bool is_in_steps_layout(const engine::Engine& engine) {
  const auto& layouts = engine.loaded().layouts->layouts().layouts();
  return std::count(layouts.begin(), layouts.end(), schedule::Layout::kPrompt) == 0;
}

// Runs a conversation of prompts of these lengths with three steps behind each, and returns all
// logits on the way.
std::vector<Logits> conversation(engine::Session& session, const std::vector<cache::Token>& tokens,
                                 const std::vector<size_t>& lengths) {
  std::vector<Logits> all;
  std::vector<cache::Token> text;
  auto next = tokens.begin();
  for (const size_t length : lengths) {
    text.insert(text.end(), next, next + static_cast<ptrdiff_t>(length));
    next += static_cast<ptrdiff_t>(length);
    session.prefill(text);
    all.push_back(copy_of(session.logits()));
    for (int i = 0; i < 3; ++i) {
      session.append(*next);
      text.push_back(*next++);
      all.push_back(copy_of(session.logits()));
    }
  }
  return all;
}

class Layouts : public testing::TestWithParam<std::string> {};

// Prompts have less than a chunk, a chunk or several, and rests of both classes. Blocks change
// their layout as the loader decides, or by a plan that sends all of them back.
TEST_P(Layouts, D1ResultsAreThoseOfOneLayout) {
  const TinyModel model = model_of(GetParam());
  const auto tokens = random_tokens(model, 512);
  TinyEngine blocks(model, options_for(prepare::Layouts::kBlocks));
  TinyEngine both(model, options_for(prepare::Layouts::kBoth));
  TinyEngine one(model, options_for(prepare::Layouts::kSwitch)),
      back(model, options_for(prepare::Layouts::kSwitch, 2));
  back.engine->loaded().layouts->force_plan(schedule::SwitchPlan{4, 4});
  for (const std::vector<size_t>& lengths : std::vector<std::vector<size_t>>{
           {5}, {33}, {kChunk}, {kChunk + 1}, {40, 60}, {100, 3, 50}, {200, 70, 90}}) {
    for (TinyEngine* tiny : {&blocks, &both, &one, &back}) tiny->session->truncate(0);
    const auto judge = conversation(*blocks.session, tokens, lengths);
    EXPECT_TRUE(conversation(*both.session, tokens, lengths) == judge) << lengths.size();
    EXPECT_TRUE(conversation(*one.session, tokens, lengths) == judge) << lengths.size();
    EXPECT_TRUE(conversation(*back.session, tokens, lengths) == judge) << lengths.size();
    EXPECT_TRUE(is_in_steps_layout(*one.engine));
  }
  expect_one_copy(*one.engine);
  expect_one_copy(*back.engine);
  EXPECT_GT(one.engine->loaded().layouts->counters().n_loads, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, Layouts, testing::ValuesIn(test_support::tiny_architectures()),
                         [](const auto& info) { return info.param; });

TEST(LayoutLoader, D1EveryTypeOfWeightsAndOfTheCacheGivesTheSame) {
  for (const uint32_t type : {test_support::kF32, test_support::kF16, test_support::kQ4_0}) {
    for (const auto kv : {tensor::Type::kF32, tensor::Type::kF16, tensor::Type::kQ8_0}) {
      TinyModel model = model_of("llama", type);
      const auto tokens = random_tokens(model, 200);
      Options options = options_for(prepare::Layouts::kBlocks);
      options.memory.kv_type = kv;
      TinyEngine blocks(model, options);
      options.memory.layouts = prepare::Layouts::kSwitch;
      TinyEngine one(model, options);
      EXPECT_TRUE(conversation(*one.session, tokens, {100, 40}) ==
                  conversation(*blocks.session, tokens, {100, 40}));
      expect_one_copy(*one.engine);
    }
  }
}

// A prompt that follows an answer sends blocks back if that is planned, and steps send them forth
// again.
TEST(LayoutLoader, D1TheWayBack) {
  const TinyModel model = model_of("llama");
  const auto tokens = random_tokens(model, 400);
  TinyEngine tiny(model, options_for(prepare::Layouts::kSwitch));
  LayoutLoader& loader = *tiny.engine->loaded().layouts;
  tiny.session->prefill(first(tokens, 5));  // is computed as a step
  ASSERT_TRUE(is_in_steps_layout(*tiny.engine));
  loader.force_plan(schedule::SwitchPlan{4, 1 << 20});
  TinyEngine judge(model, options_for(prepare::Layouts::kBlocks));
  judge.session->prefill(first(tokens, 384));
  for (int i = 0; i < 1000 && loader.counters().n_loads_back < 4; ++i) {
    tiny.session->truncate(0);
    tiny.session->prefill(first(tokens, 384));  // has no rest that would be a step
    ASSERT_EQ(copy_of(tiny.session->logits()), copy_of(judge.session->logits()));
  }
  EXPECT_EQ(loader.counters().n_loads_back, 4);
  for (int block = 0; block < 4; ++block) {
    EXPECT_EQ(loader.layouts().layout(block), schedule::Layout::kPrompt);
  }
  tiny.session->append(tokens[384]);
  judge.session->append(tokens[384]);
  EXPECT_EQ(copy_of(tiny.session->logits()), copy_of(judge.session->logits()));
  EXPECT_TRUE(is_in_steps_layout(*tiny.engine));
  EXPECT_GE(loader.counters().n_loads, 8);
  expect_one_copy(*tiny.engine);
}

// A step waits for blocks that the prompt has not loaded, and the wait is counted.
TEST(LayoutLoader, D1AStepWaitsForWhatIsMissing) {
  const TinyModel model = model_of("llama");
  const auto tokens = random_tokens(model, 100);
  TinyEngine tiny(model, options_for(prepare::Layouts::kSwitch));
  LayoutLoader& loader = *tiny.engine->loaded().layouts;
  loader.force_plan(schedule::SwitchPlan{0, 1 << 20});  // loads nothing during the prompt
  tiny.session->prefill(first(tokens, kChunk));
  EXPECT_EQ(loader.counters().n_loads, 0);
  EXPECT_EQ(loader.counters().wait_us, 0.0);
  tiny.session->append(tokens[kChunk]);
  tiny.session->logits();
  EXPECT_EQ(loader.counters().n_loads, 4);
  EXPECT_GT(loader.counters().wait_us, 0.0);
  EXPECT_GT(loader.counters().read_bytes, 0u);
}

// A load that fails is no matter of a prompt, which needs none, nor of a step behind it whose own
// loads are well. A step that cannot load its blocks says so.
TEST(LayoutLoader, D1OnlyAStepThatCannotLoadItsBlocksFails) {
  const TinyModel model = model_of("llama");
  const test::TempFolder folder;
  write_tiny_model(model, folder.file("tiny.gguf"));
  const gguf::File file = gguf::File::open(folder.file("tiny.gguf"));
  const model::Blueprint blueprint = model::read(file);
  weights::Store store(file, blueprint);
  weights::SwitchedBlocks blocks(blueprint, store, file);
  std::atomic<bool> is_broken = false;
  const auto spoil = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
    return is_broken ? -EIO : returned;
  };
  LayoutLoader loader(file, blocks, 1, {.spoil = spoil});
  loader.load_all({});
  const auto read_prompt = [&] {
    loader.plan_prompt(kChunk, kChunk, true);
    for (int block = 0; block < 4; ++block) {
      loader.before_block(block, plan::Phase::kPrompt, kChunk, {});
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that loads end meanwhile
    }
    loader.after_blocks({});
  };
  const auto step = [&] {
    for (int block = 0; block < 4; ++block) {
      loader.before_block(block, plan::Phase::kStep, 1, {});
    }
    loader.after_blocks({});
  };
  is_broken = true;
  loader.force_plan(schedule::SwitchPlan{0, 0});  // loads from the first block on
  read_prompt();
  read_prompt();
  EXPECT_EQ(loader.counters().n_loads, 0);
  const std::string problem = test::message_of<Error>(step);
  EXPECT_NE(problem.find("cannot change to the layout of steps"), std::string::npos) << problem;
  read_prompt();  // leaves a load behind that fails
  is_broken = false;
  step();
  EXPECT_EQ(loader.counters().n_loads, 4);
}

TEST(LayoutLoader, D1TreesOfDraftsAndSeveralSessions) {
  const TinyModel model = model_of("qwen2");
  const auto tokens = random_tokens(model, 300);
  TinyEngine blocks(model, options_for(prepare::Layouts::kBlocks)),
      one(model, options_for(prepare::Layouts::kSwitch, 2));
  const auto run_both = [&](TinyEngine& tiny) {
    std::vector<std::vector<Logits>> results(2);
    const auto use = [&](size_t which) {
      engine::Session session(*tiny.engine);
      std::vector<cache::Token> text(tokens.begin() + static_cast<ptrdiff_t>(which) * 10,
                                     tokens.end());
      results[which] = conversation(session, text, {90, 40, 70});
      cache::Batch batch;
      const int position = static_cast<int>(session.history().size());
      for (const int parent : {-1, 0, 0, 1, 1}) {
        const int at = parent < 0 ? position : batch.rows[static_cast<size_t>(parent)].position + 1;
        batch.rows.push_back(
            {static_cast<cache::Token>(20 + 3 * batch.size()), at, 0, parent, true});
      }
      session.run_batch(
          batch, [&](int, std::span<const float> row) { results[which].push_back(copy_of(row)); },
          [] { return std::vector<int>{}; });
    };
    std::thread other([&] { use(1); });
    use(0);
    other.join();
    return results;
  };
  EXPECT_TRUE(run_both(one) == run_both(blocks));
  expect_one_copy(*one.engine);
}

TEST(LayoutLoader, D1AFileCutShortIsAnErrorAndNoMore) {
  const TinyModel model = model_of("llama");
  const auto tokens = random_tokens(model, 100);
  TinyEngine tiny(model, options_for(prepare::Layouts::kSwitch));
  tiny.engine->loaded().layouts->force_plan(schedule::SwitchPlan{0, 1 << 20});
  tiny.session->prefill(first(tokens, kChunk));
  const std::string path = tiny.folder.file("tiny.gguf");
  const auto size = std::filesystem::file_size(path);
  std::filesystem::copy_file(path, path + ".whole");
  std::filesystem::resize_file(path, size / 4);
  tiny.session->append(tokens[kChunk]);
  const std::string message = test::message_of<Error>([&] { tiny.session->logits(); });
  EXPECT_NE(message.find("cannot change to the layout of steps"), std::string::npos) << message;
  EXPECT_NE(message.find("cut short"), std::string::npos) << message;
  EXPECT_THROW(tiny.session->logits(), Error);
  expect_one_copy(*tiny.engine);
}

TEST(LayoutLoader, D1BlocksAndLoadsStandInTheTrace) {
  const TinyModel model = model_of("llama");
  const auto tokens = random_tokens(model, 100);
  TinyEngine tiny(model, options_for(prepare::Layouts::kSwitch));
  const auto rows = tiny.engine->passes().trace_rows();
  ASSERT_EQ(rows.size(), 3u);
  Trace trace(rows);
  tiny.session->watch({.trace = &trace});
  tiny.session->prefill(first(tokens, kChunk + 3));
  int n_loads = 0, n_panels = 0, n_blocks = 0;
  for (const TraceEvent& event : trace.events()) {
    n_loads += event.lane == 2;
    n_panels += event.lane == 1 && std::string(event.name) == "panels";
    n_blocks += event.lane == 1 && std::string(event.name) == "blocks";
  }
  EXPECT_EQ(n_loads, 4);
  EXPECT_EQ(n_panels + n_blocks, 8);
  EXPECT_GE(n_blocks, 4);
}

TEST(LayoutLoader, D1WhatCannotBeIsSaid) {
  const TinyModel model = model_of("llama");
  const auto message = [&](const std::function<void(Options&)>& change) {
    Options options = options_for(prepare::Layouts::kSwitch);
    change(options);
    return test::message_of<UsageError>([&] { TinyEngine tiny(model, options); });
  };
  const auto expect = [&](const std::string& part, const std::function<void(Options&)>& change) {
    const std::string text = message(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect("Add ‹prefill› int8", [](Options& o) { o.prompts.prefill = plan::Prefill::kBf16; });
  expect("Add ‹prefill› int8", [](Options& o) {
    o.memory.layouts = prepare::Layouts::kBoth, o.prompts.prefill = std::nullopt;
  });
  expect("a scale for each row",
         [](Options& o) { o.prompts.weight_scales = plan::WeightScales::kTensor; });
  expect("a scale for each row", [](Options& o) { o.prompts.int8 = plan::Int8Method::kGroup; });
  expect("‹load› copy", [](Options& o) { o.memory.load = prepare::Load::kCopy; });
  expect("‹packed›", [](Options& o) { o.memory.packed_bytes = 1000; });
}

// Options of prompts do nothing beside a plan from a file, so none is advised.
TEST(LayoutLoader, D1APlanOfOtherPromptsIsNotMendedByOptions) {
  const test_support::TinyModelFile file(model_of("llama"));
  const test::TempFolder folder;
  Options options = options_for(prepare::Layouts::kBoth);
  options.model.file = file.path();
  {
    Options in_bf16 = options;
    in_bf16.memory.layouts.reset();
    in_bf16.prompts.prefill = plan::Prefill::kBf16;
    const engine::Engine engine(in_bf16);
    test::write_whole(folder.file("plan.json"),
                      plan::to_json({plan_identity(engine.file()), engine.plan()}));
  }
  options.plan.file = folder.file("plan.json");
  options.prompts.prefill = std::nullopt;
  const std::string message =
      test::message_of<UsageError>([&] { const engine::Engine engine(options); });
  EXPECT_NE(message.find("Give a ‹plan› of prompts in int8"), std::string::npos) << message;
  EXPECT_EQ(message.find("‹prefill›"), std::string::npos) << message;
}

// What a plan from a file says of neurons is not dropped without a word.
TEST(LayoutLoader, D1APlanByNeuronIsRefusedAndByOutputIsTheWayOut) {
  TinyModel model = model_of("llama");
  model.activation = "relu";
  model.ffn_width = 1280;
  const test_support::TinyModelFile file(model);
  const test::TempFolder folder;
  Options options = options_for(prepare::Layouts::kSwitch);
  options.model.file = file.path();
  {
    Options by_neuron = options;
    by_neuron.memory.layouts.reset();
    by_neuron.ffn.form = plan::FfnForm::kByNeuron;
    const engine::Engine engine(by_neuron);
    ASSERT_NE(engine.weights().neurons(), nullptr);
    test::write_whole(folder.file("plan.json"),
                      plan::to_json({plan_identity(engine.file()), engine.plan()}));
  }
  options.plan.file = folder.file("plan.json");
  const std::string message =
      test::message_of<UsageError>([&] { const engine::Engine engine(options); });
  EXPECT_NE(message.find("feed-forward blocks by-neuron"), std::string::npos) << message;
  EXPECT_NE(message.find("Add ‹ffn› by-output"), std::string::npos) << message;
  options.ffn.form = plan::FfnForm::kByOutput;
  const engine::Engine engine(options);
  EXPECT_NE(engine.loaded().layouts, nullptr);
  EXPECT_EQ(engine.weights().neurons(), nullptr);
}

TEST(LayoutLoader, D1BothLayoutsOfAGivenPlanAreReckonedBeforeTheyAreMade) {
  const test_support::TinyModelFile file(model_of("llama"));
  Options options = options_for(prepare::Layouts::kBoth);
  options.model.file = file.path();
  plan::Plan plan = engine::Engine(options).plan();
  plan.packed_bytes = 0;
  options.plan.exact = plan;
  const size_t reckoned =
      choose_plan(options, *open_model(options)).ledger.bytes(plan::Owner::kPacked);
  const engine::Engine engine(options);
  EXPECT_GT(engine.weights().packed_bytes(), 0u);
  EXPECT_GE(reckoned, engine.weights().packed_bytes());
}

}  // namespace
}  // namespace troika::prepare
