// A predictor says which rows of the gate are computed (P3): a predicted neuron has the exact
// gate's value, a missed one counts as 0, and nothing else changes a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "model/gated_ffns.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "prepare/side_files.h"
#include "prepare/streaming/neurons/neuron_stream.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"
#include "tune/default_text.h"
#include "tune/neurons/heat.h"
#include "tune/neurons/learn_predictor.h"
#include "weights/content_key.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using prepare::Options;
using test_support::copy_of;
using test_support::random_tokens;
using test_support::TinyModel;
using weights::NeuronPredictor;
using weights::PredictorShape;
using AllLogits = std::vector<float>;

constexpr float kPredictsAll = -std::numeric_limits<float>::infinity();

class NeuronPredictors : public testing::Test {
 protected:
  explicit NeuronPredictors(const std::string& architecture = "llama") {
    setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    model_ = test_support::tiny_model(architecture);
    model_.activation = model_.n_experts > 0 ? "drelu" : "relu";
    model_.n_layers = 3;
    model_.ffn_width = 1280;
    if (model_.n_experts > 0) model_.expert_width = 640;
    model_.type = test_support::kQ4_0;
    options_.model.file = folder_.file("tiny.gguf");
    options_.ffn.form = plan::FfnForm::kByNeuron;
    options_.prompts.prefill = plan::Prefill::kSame;
    options_.prompts.chunk = 32;
    options_.memory.context = 128;
    options_.memory.held_bytes = 0;
    options_.lanes.n_threads = 2;
    write_tiny_model(model_, options_.model.file);
  }
  ~NeuronPredictors() override { unsetenv("XDG_CACHE_HOME"); }

  std::vector<AllLogits> talk(const Options& options) const {
    Engine engine(options);
    Session session(engine);
    return test_support::talk(session, random_tokens(model_, 40, 5), 32);
  }
  Options predicting() const {
    Options options = options_;
    options.ffn.has_predictor = true;
    return options;
  }
  // Writes a predictor with scores of 0 and one threshold for all neurons.
  void write_constant(float threshold) const {
    const uint64_t n_neurons = model_.n_experts > 0 ? model_.expert_width : model_.ffn_width;
    NeuronPredictor predictor({n_blocks(), n_neurons, model_.width, 32}, 1.0);
    for (uint64_t block = 0; block < n_blocks(); ++block) {
      std::fill_n(predictor.layer(block).thresholds, n_neurons, threshold);
    }
    write(predictor);
  }
  uint64_t n_blocks() const { return model_.n_layers * std::max(model_.n_experts, 1u); }
  void write(const NeuronPredictor& predictor) const {
    const gguf::File file = gguf::File::open(options_.model.file);
    predictor.write(prepare::neuron_file_path("predictor", file), weights::content_key(file));
  }
  std::string path() const {
    return prepare::neuron_file_path("predictor", gguf::File::open(options_.model.file));
  }

  // Returns a plan by which a neuron is live from this magnitude on.
  plan::PlanFile plan_with_threshold(float threshold) const {
    const Engine engine(options_);
    plan::PlanFile made = {prepare::plan_identity(engine.file()), engine.plan(), std::nullopt};
    made.plan.ffn.thresholds.assign(model_.n_layers, threshold);
    return made;
  }
  // Returns options that name nothing but the model and this plan.
  Options by_file(const plan::PlanFile& made) const {
    Options options;
    options.model.file = options_.model.file;
    options.plan.file = folder_.file("plan.json");
    write_file(options.plan.file, plan::to_json(made));
    return options;
  }

  test::TempFolder folder_;
  TinyModel model_;
  Options options_;
};

// Blocks that every token takes, and experts of a mixture.
class PredictedBlocks : public NeuronPredictors, public testing::WithParamInterface<const char*> {
 protected:
  PredictedBlocks() : NeuronPredictors(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Every, PredictedBlocks, testing::Values("llama", "mixtral"));

TEST_P(PredictedBlocks, P3WhatIsPredictedHasTheExactGatesBits) {
  const std::vector<AllLogits> exact = talk(options_);
  write_constant(kPredictsAll);
  EXPECT_EQ(talk(predicting()), exact);
  Options floats = options_;
  floats.activations = plan::Activations::kF32;
  const std::vector<AllLogits> exact_floats = talk(floats);
  floats.ffn.has_predictor = true;
  EXPECT_EQ(talk(floats), exact_floats);
  write_constant(0.5f);  // predicts no neuron
  EXPECT_NE(talk(predicting()), exact);
}

TEST_F(NeuronPredictors, P3WhatMakesNoSenseIsSaidBeforeAnythingIsRead) {
  const Engine engine(options_);
  tune::PredictorOptions how;
  how.engine = options_;
  how.text = tune::default_text();
  how.most_tokens = 400;
  const auto problem = [&] {
    return test::message_of<Error>([&] { tune::check_predictor(how, engine); });
  };
  how.rank = 64;
  EXPECT_EQ(problem(), "");
  how.rank = 100'000;
  EXPECT_NE(problem().find("at most the width of the model"), std::string::npos) << problem();
  how.rank = 64;
  how.engine.memory.limit_bytes = 1u << 30;
  EXPECT_NE(problem().find("learn without it"), std::string::npos) << problem();
  how.engine.memory.limit_bytes = 0;
  how.free_bytes = 100'000;
  EXPECT_NE(problem().find("fewer ‹tokens›"), std::string::npos) << problem();
  how.free_bytes.reset();
  how.most_tokens = 100;  // of a text that has more
  EXPECT_NE(problem().find("‹tokens› 100 are too few"), std::string::npos) << problem();
  how.text = "Few words.";
  EXPECT_NE(problem().find("give one of 128 or more"), std::string::npos) << problem();
}

TEST_P(PredictedBlocks, P3ThreadsWidthsMemoryAndReadsChangeNoBit) {
  tune::PredictorOptions how;
  how.engine = options_;
  how.text = tune::default_text();
  how.most_tokens = 400;
  how.rank = 64;
  const tune::PredictorReport report = tune::learn_predictor(how);
  EXPECT_EQ(report.rank, 64);
  EXPECT_EQ(report.bytes % n_blocks(), 0u);
  ASSERT_EQ(report.layers.size(), model_.n_layers);
  for (const tune::PredictorQuality& q : report.layers) {
    EXPECT_GT(q.predicted, 0.0);
    EXPECT_GT(q.recall, 0.5);
    EXPECT_LE(q.recall, 1.0);
  }
  const std::vector<AllLogits> expected = talk(predicting());
  EXPECT_NE(expected, talk(options_));
  for (const int n_threads : {1, 3}) {
    Options other = predicting();
    other.lanes.n_threads = n_threads;
    other.prompts.chunk = n_threads == 1 ? 64 : 32;
    EXPECT_EQ(talk(other), expected) << n_threads;
  }
  size_t whole_bytes = 0;
  {
    const Engine engine(predicting());
    whole_bytes = engine.ledger().total_bytes();
    EXPECT_EQ(engine.weights().neurons()->predictor_bytes(), report.bytes);
  }
  // Wherever gates are, the same bits come at any budget at which neurons are read.
  for (const plan::FfnGates gates : {plan::FfnGates::kInBundles, plan::FfnGates::kInMemory}) {
    Options small = predicting();
    if (gates != plan::FfnGates::kInBundles) small.ffn.gates = gates;  // those are the default
    int n_streamed = 0;
    for (size_t i = 1; i < 16 && n_streamed < 4; ++i) {
      small.memory.limit_bytes = whole_bytes - whole_bytes / 16 * i;
      try {
        const Engine engine(small);
        if (engine.loaded().stream == nullptr) continue;
        EXPECT_EQ(engine.plan().ffn.gates, gates);
        EXPECT_EQ(engine.loaded().experts, nullptr);
        // Each form has a file of its own, which the other does not replace.
        EXPECT_EQ(engine.loaded().stream->neurons()->file().is_new(), n_streamed == 0);
      } catch (const Error&) {
        break;  // is too little
      }
      EXPECT_EQ(talk(small), expected) << small.memory.limit_bytes;
      ++n_streamed;
    }
    EXPECT_GT(n_streamed, 0);
    small.memory.limit_bytes = 0;
    small.ffn.has_predictor = false;
    EXPECT_EQ(gates == plan::FfnGates::kInBundles, test::message_of<Error>([&] {
                                                     small.ffn.gates = gates;
                                                     const Engine engine(small);
                                                   }) != "");
  }
}

TEST_P(PredictedBlocks, P7NeuronsThatAreReadTwiceHaveTheBitsOfThoseInMemory) {
  // A neuron takes two pages, of which the first has its gate.
  model_.width = 1024;
  model_.type = test_support::kF16;
  write_tiny_model(model_, options_.model.file);
  write_constant(-1.0f);  // predicts every neuron, of which about half fire
  const std::vector<AllLogits> expected = talk(predicting());
  const size_t whole_bytes = Engine(predicting()).ledger().total_bytes();
  Options small = predicting();
  small.ffn.reads = plan::BundleReads::kTwice;
  int64_t n_gates = 0, n_rests = 0;
  for (size_t i = 1; i < 16; ++i) {
    small.memory.limit_bytes = whole_bytes - whole_bytes / 16 * i;
    try {
      Engine engine(small);
      if (engine.loaded().stream == nullptr) continue;
      const prepare::NeuronStream& stream = *engine.loaded().stream->neurons();
      EXPECT_TRUE(stream.reads_gates_first());
      Session session(engine);
      EXPECT_EQ(test_support::talk(session, random_tokens(model_, 40, 5), 32), expected);
      n_gates += stream.counters().n_gates;
      n_rests += stream.counters().n_rests;
    } catch (const Error&) {
      break;  // is too little
    }
  }
  EXPECT_GT(n_rests, 0);
  EXPECT_LT(n_rests, n_gates);
}

// A plan by which neurons are read twice, and what options make of it.
class PlansThatReadTwice : public NeuronPredictors {
 protected:
  PlansThatReadTwice() {
    write_constant(kPredictsAll);
    const Engine engine(predicting());
    made_ = {prepare::plan_identity(engine.file()), engine.plan(), std::nullopt};
    plan::StreamedNeurons neurons;
    neurons.budget_bytes = uint64_t{1} << 30;
    neurons.reads = plan::BundleReads::kTwice;
    made_.plan.streamed_neurons = neurons;
  }
  Options given() const {
    Options options = by_file(made_);
    options.memory.held_bytes = 0;
    return options;
  }

  plan::PlanFile made_;
};

TEST_F(PlansThatReadTwice, P7APlanWhoseGatesComeToMemoryReadsOnceAndCanBeWritten) {
  EXPECT_EQ(Engine(given()).plan().streamed_neurons->reads, plan::BundleReads::kTwice);
  for (const bool has_predictor : {false, true}) {
    Options options = given();
    options.ffn.gates = plan::FfnGates::kInMemory;
    options.ffn.has_predictor = has_predictor;
    const Engine engine(options);
    EXPECT_EQ(engine.plan().streamed_neurons->reads, plan::BundleReads::kOnce);
    EXPECT_NE(engine.loaded().note.find("neurons are read once, and not twice as the plan says"),
              std::string::npos)
        << engine.loaded().note;
    const Engine again(by_file({made_.made_for, engine.plan(), std::nullopt}));
    EXPECT_EQ(again.plan().streamed_neurons, engine.plan().streamed_neurons);
    EXPECT_EQ(again.loaded().note.find("read once"), std::string::npos) << again.loaded().note;
  }
}

TEST_F(PlansThatReadTwice, P7TwiceAndByMatricesAreRefusedWhoeverSaysThem) {
  const auto refusal = [](const Options& options) {
    return test::message_of<UsageError>([&] { const Engine engine(options); });
  };
  Options options = given();
  options.ffn.pipeline = plan::ReadPipeline::kMatrix;
  EXPECT_NE(refusal(options).find("Use ‹neuron-reads› once too"), std::string::npos)
      << refusal(options);
  options.ffn.reads = plan::BundleReads::kOnce;
  EXPECT_EQ(refusal(options), "");
  made_.plan.streamed_neurons->pipeline = plan::ReadPipeline::kMatrix;
  const std::string of_file = test::message_of<Error>([&] { const Engine engine(given()); });
  EXPECT_NE(of_file.find("by matrices nothing is computed between"), std::string::npos) << of_file;
  made_.plan.streamed_neurons->reads = plan::BundleReads::kOnce;
  options = given();
  EXPECT_EQ(refusal(options), "");
  options.ffn.reads = plan::BundleReads::kTwice;
  EXPECT_NE(refusal(options).find("Use ‹neuron-pipeline› cluster too"), std::string::npos)
      << refusal(options);
  options.ffn.pipeline = plan::ReadPipeline::kCluster;
  EXPECT_EQ(refusal(options), "");
}

TEST_F(PlansThatReadTwice, P13StagesByMatricesReadOnceWhateverThePlanSays) {
  using plan::NeuronSystem;
  for (const NeuronSystem stage : {NeuronSystem::kBundle, NeuronSystem::kCache,
                                   NeuronSystem::kFlash, NeuronSystem::kPipeline}) {
    Options options = given();
    options.phone.neurons.system = stage;
    take_neuron_stage(&options);
    const bool is_by_cluster = stage == NeuronSystem::kPipeline;
    const prepare::NeuronReads found = prepare::neuron_reads(options.ffn, made_.plan);
    EXPECT_EQ(found.reads == plan::BundleReads::kTwice, is_by_cluster);
    EXPECT_EQ(found.pipeline == plan::ReadPipeline::kCluster, is_by_cluster);
    EXPECT_NO_THROW(Engine{options});
    // The stage decides the pipeline, too.
    plan::Plan by_matrices = made_.plan;
    by_matrices.streamed_neurons->reads = plan::BundleReads::kOnce;
    by_matrices.streamed_neurons->pipeline = plan::ReadPipeline::kMatrix;
    EXPECT_EQ(prepare::neuron_reads(options.ffn, by_matrices).pipeline, found.pipeline);
  }
}

TEST_F(NeuronPredictors, P13LlmFlashHasThePredictorsBitsAndReadsNothingAhead) {
  write_constant(-1.0f);  // predicts every neuron
  const std::vector<AllLogits> expected = talk(predicting());
  const size_t whole_bytes = Engine(predicting()).ledger().total_bytes();
  Options flash = options_;
  flash.phone.neurons.system = plan::NeuronSystem::kFlash;
  take_neuron_stage(&flash);
  EXPECT_TRUE(flash.ffn.has_predictor);
  bool has_streamed = false;
  for (int i = 1; i < 40 && !has_streamed; ++i) {
    flash.memory.limit_bytes = whole_bytes - whole_bytes / 40 * static_cast<size_t>(i);
    const Engine engine(flash);
    has_streamed =
        engine.loaded().stream != nullptr && engine.loaded().stream->neurons() != nullptr;
    if (!has_streamed) continue;
    EXPECT_EQ(engine.loaded().stream->neurons()->ahead_bytes(), 0u);
    EXPECT_TRUE(engine.weights().neurons()->ffns().front().reads_gates);
  }
  ASSERT_TRUE(has_streamed);
  EXPECT_EQ(talk(flash), expected);
  flash.ffn.pinned_percent = {50};
  flash.phone.neurons.system = plan::NeuronSystem::kFlash;
  EXPECT_THROW(take_neuron_stage(&flash), UsageError);
}

TEST_F(NeuronPredictors, P13WhatLlmFlashLacksIsSaidOfTheOptionThatWasGiven) {
  Options flash = options_;
  flash.phone.neurons.system = plan::NeuronSystem::kFlash;
  take_neuron_stage(&flash);
  const std::string lacks = test::message_of<Error>([&] { const Engine engine(flash); });
  EXPECT_NE(lacks.find("There is no predictor"), std::string::npos) << lacks;
  EXPECT_NE(lacks.find("‹neurons›"), std::string::npos) << lacks;
  EXPECT_EQ(lacks.find("‹neuron-predictor›"), std::string::npos) << lacks;
  // By output no neuron is predicted, so nothing is missed.
  Options by_output = options_;
  by_output.ffn.form = plan::FfnForm::kByOutput;
  by_output.phone.neurons.system = plan::NeuronSystem::kFlash;
  take_neuron_stage(&by_output);
  EXPECT_NO_THROW(Engine{by_output});
}

TEST_F(NeuronPredictors, P3AFileThatDoesNotFitIsASentence) {
  const auto problem = [&] {
    return test::message_of<Error>([&] { const Engine engine(predicting()); });
  };
  EXPECT_NE(problem().find("There is no predictor"), std::string::npos) << problem();
  write(NeuronPredictor({model_.n_layers, 640, model_.width, 32}, 1.0));
  EXPECT_NE(problem().find("does not fit"), std::string::npos) << problem();
  write_constant(kPredictsAll);
  std::string whole = test::read_whole(path());
  for (const size_t at : {size_t{3}, size_t{30}, whole.size() - 100}) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    test::write_whole(path(), changed);
    EXPECT_NE(problem().find("Make it again"), std::string::npos) << problem();
  }
  // Somebody who can compute the header's hash has written a width that blocks do not divide.
  constexpr size_t kWidthAt = 48, kHashAt = 88;
  std::string forged = whole;
  forged[kWidthAt] = static_cast<char>(forged[kWidthAt] ^ 1);
  const uint64_t hash = hash_of(std::as_bytes(std::span(forged).first(kHashAt)));
  std::memcpy(forged.data() + kHashAt, &hash, sizeof(hash));
  test::write_whole(path(), forged);
  EXPECT_NE(problem().find("is damaged"), std::string::npos) << problem();
  test::write_whole(path(), whole.substr(0, whole.size() / 2));
  EXPECT_NE(problem().find("length"), std::string::npos) << problem();
  Options by_output = predicting();
  by_output.ffn.form = plan::FfnForm::kByOutput;
  EXPECT_THROW(Engine{by_output}, UsageError);
}

// Which neurons are live goes by thresholds, so others make another predictor.
TEST_F(NeuronPredictors, P3APredictorServesTheThresholdsThatItWasMadeWith) {
  const auto problem = [&](const Options& options) {
    return test::message_of<Error>([&] { const Engine engine(options); });
  };
  write_constant(kPredictsAll);  // is made without thresholds
  EXPECT_EQ(problem(predicting()), "");
  plan::PlanFile made = plan_with_threshold(0.01f);
  Options exactly = predicting();
  exactly.plan.exact = made.plan;
  EXPECT_NE(problem(exactly).find("other thresholds"), std::string::npos) << problem(exactly);
  tune::PredictorOptions how;
  how.engine = by_file(made);
  how.text = tune::default_text();
  how.most_tokens = 400;
  how.rank = 64;
  (void)tune::learn_predictor(how);
  EXPECT_EQ(problem(exactly), "");
  Options from_file = by_file(made);
  from_file.ffn.has_predictor = true;
  EXPECT_EQ(problem(from_file), "");
  EXPECT_NE(problem(predicting()).find("other thresholds"), std::string::npos);
  // A plan that names the predictor keeps it no longer than its thresholds.
  {
    const Engine engine(from_file);
    made.plan = engine.plan();
  }
  ASSERT_TRUE(made.plan.ffn.predictor.is_there());
  EXPECT_EQ(problem(by_file(made)), "");
  made.plan.ffn.thresholds.back() *= 2;
  const Options changed = by_file(made);
  EXPECT_NE(problem(changed).find("other thresholds"), std::string::npos) << problem(changed);
}

TEST_F(NeuronPredictors, P8CountsServeTheThresholdsThatTheyWereMadeWith) {
  const plan::PlanFile made = plan_with_threshold(0.01f);
  tune::HeatOptions how;
  how.engine = by_file(made);
  how.text = tune::default_text();
  how.most_tokens = 200;
  (void)tune::measure_heat(how);
  const Engine engine(options_);
  const std::vector<model::GatedFfn> ffns = model::gated_ffns(engine.blueprint());
  std::string note;
  const auto is_known = [&](std::span<const float> thresholds) {
    note.clear();
    return prepare::kept_heat(engine.file(), ffns, thresholds, engine.weights(), &note).has_value();
  };
  EXPECT_TRUE(is_known(made.plan.ffn.thresholds)) << note;
  EXPECT_EQ(note, "");
  EXPECT_FALSE(is_known({}));
  EXPECT_NE(note.find("other thresholds"), std::string::npos) << note;
  EXPECT_FALSE(is_known(plan_with_threshold(0.02f).plan.ffn.thresholds));
}

// A plan from a file has a predictor without any option that asks for one.
TEST_F(NeuronPredictors, P3AnErrorNamesWhoAskedForThePredictor) {
  write_constant(kPredictsAll);
  Options by_plan = options_;
  by_plan.plan.file = folder_.file("plan.json");
  {
    Options made = predicting();
    made.ffn.gates = plan::FfnGates::kInBundles;
    const Engine engine(made);
    ASSERT_TRUE(engine.plan().ffn.predictor.is_there());
    test::write_whole(by_plan.plan.file,
                      plan::to_json({prepare::plan_identity(engine.file()), engine.plan()}));
  }
  const auto problem = [](const Options& options) {
    return test::message_of<Error>([&] { const Engine engine(options); });
  };
  EXPECT_EQ(problem(by_plan), "");
  // Blocks by output have no gates to read, wherever those of the plan are.
  Options by_output = by_plan;
  by_output.ffn.form = plan::FfnForm::kByOutput;
  EXPECT_EQ(problem(by_output), "");
  const std::string whole = test::read_whole(path());
  for (const size_t n_bytes : {whole.size() / 2, size_t{0}}) {
    test::write_whole(path(), whole.substr(0, n_bytes));
    const std::string of_plan = problem(by_plan);
    EXPECT_NE(of_plan.find("leave ‹plan› out"), std::string::npos) << of_plan;
    EXPECT_EQ(of_plan.find("‹neuron-predictor›"), std::string::npos) << of_plan;
    const std::string of_option = problem(predicting());
    EXPECT_NE(of_option.find("leave ‹neuron-predictor› out"), std::string::npos) << of_option;
    EXPECT_EQ(of_option.find("‹plan›"), std::string::npos) << of_option;
  }
}

// With little memory fewer threads fit blocks, which changes nothing but the time.
TEST_F(NeuronPredictors, P3LearnsTheSameWhereMemoryIsShort) {
  tune::PredictorOptions how;
  how.engine = options_;
  how.engine.lanes.n_threads = 3;
  how.text = tune::default_text();
  how.most_tokens = 400;
  how.rank = 32;
  std::string expected;
  for (const bool is_short : {false, true}) {
    if (is_short) {
      // Finds the least memory that is enough, in which one thread has room.
      const Engine engine(options_);
      how.free_bytes = 1000;
      const auto is_too_little = [&] {
        const std::string problem =
            test::message_of<Error>([&] { tune::check_predictor(how, engine); });
        if (problem.empty()) return false;
        EXPECT_NE(problem.find("‹tokens›"), std::string::npos) << problem;
        return !HasFailure();
      };
      while (is_too_little()) how.free_bytes = *how.free_bytes * 5 / 4;
    }
    (void)tune::learn_predictor(how);
    const std::string learned = test::read_whole(path());
    if (!is_short) expected = learned;
    EXPECT_EQ(learned, expected);
  }
}

// On a model with trained weights the predictor finds nearly all live neurons.
TEST_F(NeuronPredictors, P3ATrainedModelLosesLittle) {
  tune::PredictorOptions how;
  how.engine.model.file = test::repository_file("models/troika-relu-q8_0.gguf");
  how.engine.lanes.n_threads = 2;
  how.text = tune::default_text();
  how.most_tokens = 2000;
  how.rank = 64;
  const tune::PredictorReport report = tune::learn_predictor(how);
  for (const tune::PredictorQuality& q : report.layers) {
    if (q.live < 0.001) continue;  // the layer is dead
    EXPECT_GT(q.recall, 0.8);
    EXPECT_GT(q.mass, 0.9);
    EXPECT_LT(q.predicted, 0.9);
  }
  EXPECT_LT(report.predicted_perplexity, 1.2 * report.perplexity);
}

}  // namespace
}  // namespace troika
