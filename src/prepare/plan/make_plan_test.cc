#include "prepare/plan/make_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/system.h"
#include "kernels/choose.h"
#include "model/architecture.h"
#include "model/linear_inputs.h"
#include "plan/plan_json.h"
#include "prepare/int8/outlier_channels.h"
#include "tests/support/known_file.h"

namespace troika::prepare {
namespace {

constexpr size_t kMega = size_t{1} << 20;
constexpr size_t kGiga = size_t{1} << 30;

constexpr std::string_view kAdvice = "Use ‹context› ";

class MakePlan : public testing::Test {
 protected:
  MakePlan() : file_(known_.open()), blueprint_(model::read(file_)), weights_(file_, blueprint_) {
    blueprint_.head_dim = 64;  // is large enough for every type of keys and values
    blueprint_.trained_context = 100000;
  }
  plan::Plan make(const MemoryFigures& memory) {
    return make_plan(options_, blueprint_, weights_, memory);
  }
  std::string error_of(const MemoryFigures& memory) {
    return test::message_of<Error>([&] { make(memory); });
  }

  test_support::KnownFile known_{test_support::small_known("tiny-llama")};
  gguf::File file_;
  model::Blueprint blueprint_;
  weights::Store weights_;
  Options options_;
};

// A token takes 1 kB: keys and values of two layers with 2 heads of 64 halves. Where one thread
// computes, a context takes nothing else.
constexpr size_t kPerToken = 1024;

TEST_F(MakePlan, TheDefaultContextIsSensible) {
  EXPECT_EQ(make({64 * kGiga, 60 * kGiga}).context, 8192);
  blueprint_.trained_context = 700;
  EXPECT_EQ(make({64 * kGiga, 60 * kGiga}).context, 700);
}

// The default context does not exceed the original one. Otherwise answers would depend on how much
// memory is free.
TEST_F(MakePlan, TheDefaultContextKeepsTheOriginalTurnsOfPositions) {
  blueprint_.ropes.front().original_context = 4096;
  blueprint_.ropes.front().long_divisors = {1.0f};
  EXPECT_EQ(make({64 * kGiga, 60 * kGiga}).context, 4096);
  options_.memory.context = 6000;
  EXPECT_EQ(make({64 * kGiga, 60 * kGiga}).context, 6000);
}

TEST_F(MakePlan, APlanToBeginWithIsFittedToTheMemory) {
  plan::Plan base;
  base.lanes = {{{}, 3}};
  base.prefill = plan::Prefill::kBf16;
  base.prefill_reason = "tuned";
  base.kv_type = tensor::Type::kQ8_0;
  base.prompt_shapes = {32, 256};
  base.step_costs = {{1, 5.0}};
  base.context = 50;
  options_.plan.base = base;
  const plan::Plan plan = make({64 * kGiga, 60 * kGiga});
  EXPECT_EQ(plan.context, 8192);
  EXPECT_EQ(plan.n_threads(), 3);
  EXPECT_EQ(plan.prefill_reason, "tuned");
  EXPECT_EQ(plan.kv_type, tensor::Type::kQ8_0);
  EXPECT_EQ(plan.prompt_shapes, base.prompt_shapes);
  EXPECT_EQ(plan.step_costs, base.step_costs);
  EXPECT_LT(make({64 * kGiga, 700 * kPerToken}).context, 8192);
  // Options that are given take precedence over the plan.
  options_.memory.context = 300;
  options_.prompts.int8 = plan::Int8Method::kToken;
  options_.prompts.chunk = 64;
  const plan::Plan asked = make({64 * kGiga, 60 * kGiga});
  EXPECT_EQ(asked.context, 300);
  EXPECT_EQ(asked.prefill, plan::Prefill::kInt8);
  EXPECT_EQ(asked.chunk(), 64);
}

// A chunk may be shorter than a tile, so that no executable holds a granule which outlives tiles.
TEST_F(MakePlan, S2GranulesOfAPlanToBeginWithGoWithItsTiles) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  plan::Plan base;
  base.prefill = plan::Prefill::kBf16;
  base.attention.form = plan::AttentionForm::kSparse;
  base.reuse_granule = plan::kAttentionTile;
  options_.plan.base = base;
  EXPECT_EQ(make(plenty).reuse_granule, plan::kAttentionTile);
  options_.prompts.attention = plan::AttentionForm::kFull;
  options_.prompts.chunk = 48;
  const plan::Plan full = make(plenty);
  EXPECT_EQ(full.reuse_granule, 1);
  EXPECT_EQ(full.prompt_chunk(0, 100), (plan::Shape{plan::Phase::kPrompt, 48}));
  // Whoever asks for tiles gets them, whatever the plan had.
  options_.plan.base = full;
  options_.prompts.attention = plan::AttentionForm::kSparse;
  options_.prompts.chunk = 64;
  EXPECT_EQ(make(plenty).reuse_granule, plan::kAttentionTile);
}

// A plan that somebody kept is no reason to refuse a limit under which the model runs without it.
TEST_F(MakePlan, P10AKeptPlanIsLeftWhereMemoryHasNoRoomForIt) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga, 5 * kMega, 3 * kMega};
  options_.lanes.n_threads = 1;
  plan::Plan base = make(plenty);
  base.context = kUsefulContext;
  base.prefill = plan::Prefill::kInt8;
  base.int8.weight_scales = plan::WeightScales::kTensor;  // needs packed copies
  const size_t needed = expected_memory(options_, blueprint_, weights_, base, plenty).total_bytes();
  options_.plan.base = base;
  options_.plan.may_leave_base = true;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kInt8);
  options_.memory.limit_bytes = needed;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  options_.memory.limit_bytes = needed - 1;
  EXPECT_TRUE(leaves_base(options_, blueprint_, weights_, plenty));
  // Then everything is as without it.
  const auto outcome = [&] {
    std::string text;
    const std::string error =
        test::message_of<Error>([&] { text = plan::prefill_name(make(plenty).prefill); });
    return text + error;
  };
  const std::string with = outcome();
  options_.plan.base.reset();
  EXPECT_EQ(with, outcome());
  EXPECT_NE(with, "int8");
  options_.plan.base = base;
  // Another plan would not help, or none is wanted.
  options_.memory.load = Load::kCopy;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  options_.memory.load = Load::kAuto;
  options_.plan.may_leave_base = false;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
  // Without packed copies its weights are streamed.
  options_.plan.may_leave_base = true;
  options_.plan.base->int8.weight_scales = plan::WeightScales::kRow;
  EXPECT_FALSE(leaves_base(options_, blueprint_, weights_, plenty));
}

TEST_F(MakePlan, TheDefaultContextLeavesHalfOfTheMemory) {
  options_.lanes.n_threads = 1;
  const plan::Plan plan = make({64 * kGiga, 4000 * kPerToken});
  EXPECT_EQ(plan.context, 2000);
  // A limit holds the weights and a reserve too.
  const plan::Plan limited = make({300 * kMega, 64 * kGiga});
  EXPECT_GT(limited.context, 2000);
  EXPECT_LE(static_cast<size_t>(limited.context) * kPerToken, 44 * kMega / 2);
}

TEST_F(MakePlan, AShortMemoryStillGivesAUsefulContext) {
  EXPECT_EQ(make({64 * kGiga, 700 * kPerToken}).context, 512);
  EXPECT_EQ(make({64 * kGiga, 300 * kPerToken}).context, 300);
  EXPECT_EQ(make({64 * kGiga, 1 * kPerToken}).context, 1);
  // The limit is less than the reserve. The model is mapped, so it may run nevertheless.
  EXPECT_GT(make({100 * kMega, 50 * kMega}).context, 100);
}

TEST_F(MakePlan, WeightsOfOutliersChannelsTakeMemoryFromTheContext) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  options_.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  options_.lanes.placements = {{"shadow", 0, 1}};
  options_.prompts.int8 = plan::Int8Method::kSplit;
  options_.memory.context = 0;
  // The split method keeps outliers of all products, and without a calibration no channel is known
  // to be cold.
  size_t all_bytes = 0;
  std::vector<model::LinearInput> inputs = model::linear_inputs(blueprint_);
  for (const model::LinearInput& input : inputs) {
    for (const model::WeightId id : input.weights) {
      all_bytes += static_cast<size_t>(weights_.matrix(id).n_rows) * input.width;
    }
  }
  plan::Plan plan = make({64 * kGiga, 60 * kGiga});
  EXPECT_EQ(resident_channel_bytes(options_, blueprint_, weights_, plan), all_bytes);
  const size_t limit = weights_.total_bytes() + (256 * kMega) + all_bytes + 1000 * kPerToken;
  fit_context(options_, blueprint_, weights_, &plan, {limit, 60 * kGiga});
  EXPECT_EQ(plan.context, 512);
  options_.memory.shadow_rows = prepare::ShadowRows::kNone;
  fit_context(options_, blueprint_, weights_, &plan, {limit, 60 * kGiga});
  // Without copies, measurements of rows take memory too, with which they are unpacked when needed.
  const size_t measured = expected_memory(options_, blueprint_, weights_, plan, {limit, 60 * kGiga})
                              .bytes(plan::Owner::kPacked);
  EXPECT_EQ(static_cast<size_t>(plan.context),
            (1000 * kPerToken + all_bytes - measured) / kPerToken / 2);
  // With a calibration the hot channels stay, and only those of products whose outliers are not
  // ignored.
  options_.memory.shadow_rows = prepare::ShadowRows::kHot;
  options_.prompts.int8 = plan::Int8Method::kShadow;
  for (const model::LinearInput& input : inputs) {
    plan.int8.inputs.push_back({input.name, 8.0f, 1.0f, 8.0f, 0.1, 2, {3, 5}, {}});
  }
  options_.prompts.outlier_prune = 0;
  const size_t hot_bytes = resident_channel_bytes(options_, blueprint_, weights_, plan);
  EXPECT_GT(hot_bytes, 0u);
  EXPECT_LT(hot_bytes, all_bytes / 16);
  // A calibration of another model is refused later, so that its inputs are not looked for here.
  plan::Plan of_another = plan;
  of_another.int8.inputs.resize(1);
  EXPECT_EQ(resident_channel_bytes(options_, blueprint_, weights_, of_another), 0u);
  options_.prompts.outlier_prune = 100;
  EXPECT_EQ(resident_channel_bytes(options_, blueprint_, weights_, plan), 0u);
  options_.lanes.placements.clear();
  EXPECT_EQ(resident_channel_bytes(options_, blueprint_, weights_, make({64 * kGiga, 60 * kGiga})),
            0u);
}

// Each thread has lists of sparse attention, and threads share segments of steps: both grow with
// the text.
TEST_F(MakePlan, ListsOfAttentionTakeMemoryFromTheContext) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  const auto lists = [&](int n_threads, plan::AttentionForm form) {
    options_.lanes.n_threads = n_threads;
    options_.prompts.prefill = plan::Prefill::kBf16;
    options_.prompts.attention = form;
    return context_bytes(blueprint_, make(plenty), 4000).lists;
  };
  EXPECT_EQ(lists(1, plan::AttentionForm::kFull), 0u);
  const size_t segments = lists(4, plan::AttentionForm::kFull);
  EXPECT_GT(segments, 4000u);
  const size_t of_one = lists(1, plan::AttentionForm::kQuery);
  EXPECT_GT(of_one, 64u * 4000);  // the levels of keys alone take as much
  const size_t of_four = lists(4, plan::AttentionForm::kQuery);
  EXPECT_GT(of_four, 4 * of_one - 4 * 64);
  EXPECT_LE(of_four, 4 * of_one);
  // They leave the context less.
  const MemoryFigures little = {64 * kGiga, 4000 * kPerToken};
  EXPECT_LT(static_cast<size_t>(make(little).context), 2000 - of_four / kPerToken / 8);
  options_.prompts.attention = plan::AttentionForm::kFull;
  const int full = make(little).context;
  EXPECT_LT(full, 2000);
  EXPECT_GT(static_cast<size_t>(full), 2000 - segments / kPerToken);
}

// The scores that heads hand on grow with the context, so that they shorten it.
TEST_F(MakePlan, S6ScoresOfHeadsTakeMemoryFromTheContext) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "two lanes need two cores";
  options_.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga, 5 * kMega, 3 * kMega};
  EXPECT_EQ(make(plenty).context, 8192);
  options_.prompts.attention = plan::AttentionForm::kQuery;
  options_.prompts.attention_lanes = {1, 0, 0};
  plan::Plan plan = make(plenty);
  EXPECT_EQ(plan.context, 8192);
  plan.context = 2048;
  const plan::Ledger ledger = expected_memory(options_, blueprint_, weights_, plan, plenty);
  EXPECT_GT(ledger.bytes(plan::Owner::kHeads), ledger.bytes(plan::Owner::kCache));
  options_.memory.limit_bytes = ledger.total_bytes();
  plan = make(plenty);
  EXPECT_LE(plan.context, 2048);
  EXPECT_GE(plan.context, 1024);
  expected_memory(options_, blueprint_, weights_, plan, plenty).check();  // does not throw
  options_.memory.context = 2048;
  EXPECT_EQ(make(plenty).context, 2048);
  options_.memory.context = 2049;
  const std::string message = error_of(plenty);
  EXPECT_NE(message.find("for scores of heads"), std::string::npos) << message;
  EXPECT_NE(message.find("Use ‹context› 2048"), std::string::npos) << message;
  EXPECT_NE(message.find("‹attention-lanes›"), std::string::npos) << message;
  // Without a limit, too, they count beside keys and values.
  options_.memory = {};
  const MemoryFigures little = {64 * kGiga, 2 * ledger.bytes(plan::Owner::kHeads)};
  EXPECT_LT(make(little).context, 2048 + 64);
  EXPECT_GT(make(little).context, 1024);
}

TEST(SafePrefill, TakesWholeNumbersWhereTheyAreFast) {
  const auto q8 = plan::Activations::kQ8;
  const kernels::Table& table = kernels::choose(detect_cpu_features()).table;
  const bool is_fast = kernels::find(table.matmul_q8_strips, tensor::Type::kQ4_K) != nullptr &&
                       !detect_cpu_features().has_all(CpuFeatures(CpuFeature::kAmxBf16));
  EXPECT_EQ(safe_prefill(q8, "", tensor::Type::kQ4_K),
            is_fast ? plan::Prefill::kQ8 : plan::Prefill::kBf16);
  if (is_fast && detect_cpu_features().has_all(CpuFeatures(CpuFeature::kAvx2))) {
    EXPECT_EQ(safe_prefill(q8, "avx2", tensor::Type::kQ4_K), plan::Prefill::kQ8);
  }
  EXPECT_EQ(safe_prefill(q8, "reference", tensor::Type::kQ4_K), plan::Prefill::kBf16);
  EXPECT_EQ(safe_prefill(q8, "", tensor::Type::kF16), plan::Prefill::kBf16);
  EXPECT_EQ(safe_prefill(plan::Activations::kF32, "", tensor::Type::kQ4_K), plan::Prefill::kF32);
}

TEST_F(MakePlan, PromptsTakeThePrecisionThatIsAskedForOrTheNextThatFits) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kBf16) << "of weights that are floats";
  EXPECT_NE(make(plenty).prefill_reason, "");
  options_.activations = plan::Activations::kF32;
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kF32);
  options_.activations = plan::Activations::kQ8;
  options_.prompts.prefill = plan::Prefill::kSame;
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kSame);
  options_.prompts.prefill = plan::Prefill::kInt8;
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kInt8);
  const std::string unpacked = make(plenty).prefill_reason;
  options_.memory.packed_bytes = 1 << 30;
  EXPECT_EQ(make(plenty).packed_bytes, size_t{1} << 30);
  EXPECT_NE(make(plenty).prefill_reason, unpacked);
}

TEST_F(MakePlan, P2PromptsTakeWholeMatricesWhereThoseAreASmallPartOfTheLimit) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  plan::Plan plan;
  options_.ffn.form = plan.ffn.form = plan::FfnForm::kEveryNeuron;
  plan.prefill = plan::Prefill::kSame;
  EXPECT_EQ(prompt_bytes(blueprint_, weights_, plan), 0u);
  plan.prefill = plan::Prefill::kBf16;
  EXPECT_GT(prompt_bytes(blueprint_, weights_, plan), 0u);
  options_.memory.limit_bytes = kGiga;  // holds all weights and neurons
  EXPECT_EQ(make(plenty).prefill, plan::Prefill::kBf16);
  // Whatever the limit, the default takes no more than prompts by neuron do.
  for (size_t limit = kMega / 4; limit < 4 * kMega; limit += kMega / 16) {
    options_.memory.limit_bytes = limit;
    const auto total_of = [&](std::optional<plan::Prefill> prefill) -> std::optional<size_t> {
      options_.prompts.prefill = prefill;
      try {
        return expected_memory(options_, blueprint_, weights_, make(plenty), plenty).total_bytes();
      } catch (const Error&) {
        return std::nullopt;
      }
    };
    const std::optional<size_t> by_neuron = total_of(plan::Prefill::kSame);
    const std::optional<size_t> by_default = total_of(std::nullopt);
    EXPECT_EQ(by_default && *by_default <= limit, by_neuron && *by_neuron <= limit) << limit;
  }
}

TEST_F(MakePlan, P2AKeptPlanIsLeftWhereItsPromptsReadTooMuch) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  options_.ffn.form = plan::FfnForm::kEveryNeuron;
  options_.lanes.n_threads = 1;
  const plan::Plan base = make(plenty);
  ASSERT_NE(base.prefill, plan::Prefill::kSame);
  size_t n_left = 0;
  for (size_t limit = kMega / 4; limit < 4 * kMega; limit += kMega / 16) {
    options_.memory.limit_bytes = limit;
    options_.plan = {};
    plan::Prefill without = plan::Prefill::kF32;
    try {
      without = make(plenty).prefill;
    } catch (const Error&) {
      continue;
    }
    options_.plan.base = base;
    options_.plan.may_leave_base = true;
    const bool is_left = leaves_base(options_, blueprint_, weights_, plenty);
    EXPECT_EQ(is_left, without == plan::Prefill::kSame) << limit;
    EXPECT_EQ(make(plenty).prefill, is_left ? plan::Prefill::kSame : base.prefill) << limit;
    n_left += is_left ? 1 : 0;
  }
  EXPECT_GT(n_left, 0u);
}

TEST_F(MakePlan, P3AContextLeavesRoomForThePredictor) {
  options_.lanes.n_threads = 1;
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga, 5 * kMega, 3 * kMega};
  for (model::Op& op : blueprint_.ops) op.activation = model::Activation::kRelu;
  options_.ffn.form = plan::FfnForm::kEveryNeuron;
  plan::Plan plan = make(plenty);
  plan.context = 0;
  const size_t others = expected_memory(options_, blueprint_, weights_, plan, plenty).total_bytes();
  options_.memory.limit_bytes = others + 4096 * kPerToken;
  const int without = make(plenty).context;
  options_.ffn.predictor = {.key = 1, .rank = 4, .bytes = 1000 * kPerToken};
  EXPECT_EQ(make(plenty).context, without) << "this form has no predictor";
  options_.ffn.form = plan::FfnForm::kByNeuron;
  EXPECT_EQ(make(plenty).ffn.predictor, *options_.ffn.predictor);
  plan = make(plenty);
  EXPECT_LE(plan.context, without - 1000);
  expected_memory(options_, blueprint_, weights_, plan, plenty).check();  // does not throw
}

TEST_F(MakePlan, ALimitBoundsTheDefaultContext) {
  options_.lanes.n_threads = 1;
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga, 5 * kMega, 3 * kMega};
  plan::Plan plan = make(plenty);
  plan.context = 0;
  const size_t others = expected_memory(options_, blueprint_, weights_, plan, plenty).total_bytes();
  options_.memory.limit_bytes = others + 4096 * kPerToken;
  plan = make(plenty);
  EXPECT_GE(plan.context, 3000);
  EXPECT_LE(plan.context, 4096);
  expected_memory(options_, blueprint_, weights_, plan, plenty).check();  // does not throw
  // The memory that the process had before counts too.
  EXPECT_LT(make({64 * kGiga, 60 * kGiga, 6 * kMega, 3 * kMega}).context, plan.context);
  // A larger context is refused with a hint, which is right to a page of the cache.
  options_.memory.context = 5000;
  const std::string message = error_of(plenty);
  const size_t at = message.find(kAdvice);
  ASSERT_NE(at, std::string::npos) << message;
  EXPECT_NE(message.find("values"), std::string::npos) << message;
  options_.memory.context = std::stoi(message.substr(at + kAdvice.size()));
  EXPECT_EQ(options_.memory.context, 4096);
  EXPECT_EQ(make(plenty).context, 4096);
  options_.memory.context += 1;
  EXPECT_NE(error_of(plenty), "");
  options_.memory.context = 0;
  options_.memory.limit_bytes = others;
  EXPECT_NE(error_of(plenty).find("‹memory›"), std::string::npos);
}

// A model of two blocks has none that could be read while another computes, so all weights stay.
TEST_F(MakePlan, P10WeightsGiveWayToNoMoreThanTheyCan) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  plan::Plan plan = make(plenty);
  plan.context = 0;
  const size_t others = expected_memory(options_, blueprint_, weights_, plan, plenty).total_bytes();
  for (const size_t more : {size_t{0}, size_t{100} * kPerToken, size_t{3000} * kPerToken}) {
    options_.memory.limit_bytes = others + more;
    const plan::Ledger ledger = expected_memory(options_, blueprint_, weights_, plan, plenty);
    EXPECT_EQ(ledger.bytes(plan::Owner::kWeights), weights_.total_bytes());
  }
}

TEST_F(MakePlan, ALimitBoundsPackedCopies) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  options_.prompts.prefill = plan::Prefill::kInt8;
  options_.memory.packed_bytes = 1 << 30;
  options_.memory.context = 256;
  plan::Plan plan = make(plenty);
  const plan::Ledger all = expected_memory(options_, blueprint_, weights_, plan, plenty);
  const size_t packed = all.bytes(plan::Owner::kPacked);
  options_.memory.limit_bytes = all.total_bytes();
  plan = make(plenty);
  EXPECT_GE(plan.packed_bytes, packed);
  EXPECT_EQ(plan.prefill_reason, "from packed copies");
  // The limit has room for half of the copies, beside what unpacking the others takes.
  plan.packed_bytes = 0;
  options_.memory.limit_bytes =
      expected_memory(options_, blueprint_, weights_, plan, plenty).total_bytes() + packed / 2;
  plan = make(plenty);
  EXPECT_LT(plan.packed_bytes, packed);
  EXPECT_EQ(plan.prefill_reason, "in part unpacked for each chunk");
  expected_memory(options_, blueprint_, weights_, plan, plenty).check();  // does not throw
  // A method that needs copies is refused.
  options_.prompts.weight_scales = plan::WeightScales::kTensor;
  EXPECT_NE(error_of(plenty).find("less ‹packed›"), std::string::npos) << error_of(plenty);
}

// Whoever asks for both layouts gets both, or learns that memory has no room for them.
TEST_F(MakePlan, D1BothLayoutsAreReckonedAndNotMadeFewer) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  const auto reckoned = [&](const plan::Plan& plan) {
    return expected_memory(options_, blueprint_, weights_, plan, plenty);
  };
  options_.prompts.prefill = plan::Prefill::kInt8;
  options_.memory.layouts = Layouts::kBoth;
  options_.memory.context = 256;
  plan::Plan plan = make(plenty);
  const plan::Ledger all = reckoned(plan);
  const size_t packed = all.bytes(plan::Owner::kPacked);
  plan.packed_bytes = 0;
  const plan::Ledger none = reckoned(plan);
  ASSERT_GT(packed, none.bytes(plan::Owner::kPacked));
  options_.memory.limit_bytes = all.total_bytes();
  EXPECT_EQ(reckoned(make(plenty)).bytes(plan::Owner::kPacked), packed);
  reckoned(make(plenty)).check();  // does not throw
  options_.memory.limit_bytes = none.total_bytes() + packed / 2;
  const std::string message = error_of(plenty);
  EXPECT_NE(message.find("‹layouts› blocks"), std::string::npos) << message;
  // A plan to begin with that has fewer copies does not count against the option.
  options_.memory.limit_bytes = 0;
  options_.plan.base = plan;
  EXPECT_EQ(reckoned(make(plenty)).bytes(plan::Owner::kPacked), packed);
}

// What was made as options say may be written, and is read again then.
TEST_F(MakePlan, NoPlanIsMadeThatItsFileIsRefusedFor) {
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  options_.lanes.n_threads = 1;
  const std::string fine = plan::to_json({{}, make(plenty)});
  EXPECT_EQ(plan::to_json(plan::plan_from_json(fine, "plan.json")), fine);
  const Options usual = options_;
  const auto expect_none = [&](auto PromptChoice::*number, auto value) {
    options_ = usual;
    options_.prompts.*number = value;
    EXPECT_THROW(make(plenty), UsageError) << value;
  };
  for (const double share : {0.0, 500.0, -5.0}) expect_none(&PromptChoice::attention_share, share);
  for (const double above : {-3.0, 1e9}) expect_none(&PromptChoice::attention_above, above);
  for (const int from : {-64, 1 << 30}) expect_none(&PromptChoice::attention_from, from);
  options_ = usual;
  options_.prompts.attention_share = 100.0;
  options_.prompts.attention_from = 1 << 20;
  options_.memory.packed_bytes = INT64_MAX;
  options_.prompts.prefill = plan::Prefill::kInt8;
  options_.lanes.limits = {{0, INT64_MAX}};
  const std::string most = plan::to_json({{}, make(plenty)});
  EXPECT_EQ(plan::to_json(plan::plan_from_json(most, "plan.json")), most);
}

model::KnownModel wider_known() {
  model::KnownModel model = test_support::small_known("tiny-llama");
  model.width = 256;
  model.head_dim = 64;
  model.ffn_width = 1024;
  model.n_vocab = 2000;
  return model;
}

// Makes plans for a model whose weights count beside a few contexts, and one device.
class MakePlanForADevice : public MakePlan {
 protected:
  MakePlanForADevice() {
    wide_blueprint_.trained_context = 100000;
    options_.lanes.cores = {device("opencl", "0")};
    options_.activations = plan::Activations::kF32;
    options_.prompts.order = plan::Order::kInOrder;  // takes one set of buffers
  }
  static plan::PlannedLane device(const char* kind, const char* name) {
    plan::PlannedLane lane;
    lane.kind = kind;
    lane.device = name;
    lane.n_threads = 0;
    return lane;
  }
  plan::Plan make_wide() { return make_plan(options_, wide_blueprint_, wide_weights_, plenty_); }
  plan::Ledger reckon(const plan::Plan& plan) {
    return expected_memory(options_, wide_blueprint_, wide_weights_, plan, plenty_);
  }
  // Returns how many elements the matrices of all products have together.
  size_t n_elements() const {
    std::set<const std::byte*> seen;
    size_t n = 0;
    for (const model::Op& op : wide_blueprint_.ops) {
      if (op.kind != model::OpKind::kLinear) continue;
      const weights::Matrix& matrix = wide_weights_.matrix(op.weight);
      if (!seen.insert(matrix.data).second) continue;
      n += static_cast<size_t>(matrix.n_rows) * static_cast<size_t>(matrix.row_length);
    }
    return n;
  }

  test_support::KnownFile wide_{wider_known()};
  gguf::File wide_file_ = wide_.open();
  model::Blueprint wide_blueprint_ = model::read(wide_file_);
  weights::Store wide_weights_{wide_file_, wide_blueprint_};
  const MemoryFigures plenty_ = {64 * kGiga, 60 * kGiga};
};

TEST_F(MakePlanForADevice, ItsCopiesOfWeightsAreReckonedBeforeTheyAreTaken) {
  plan::Plan plan = make_wide();
  ASSERT_EQ(plan.prefill, plan::Prefill::kF32);
  const size_t panels = n_elements() * sizeof(float);  // no number of rows is filled up
  plan.context = 0;
  plan::Ledger ledger = reckon(plan);
  EXPECT_GE(ledger.bytes(plan::Owner::kLanes), panels);
  EXPECT_LE(ledger.bytes(plan::Owner::kLanes), 2 * panels);
  // A limit with room for 1,000 tokens beside the copies leaves no more to a context.
  options_.memory.limit_bytes = ledger.total_bytes() + 1000 * kPerToken;
  EXPECT_LE(make_wide().context, 1000);
  EXPECT_GE(make_wide().context, 200);
  // What a rule puts on cores has no copy.
  options_.lanes.cores.push_back({{}, 1});
  options_.lanes.placements = {{"", 0, 1}};
  EXPECT_GT(make_wide().context, 2000);
}

// Each product has its levels or bf16, and once more what each number of tokens packs.
TEST_F(MakePlanForADevice, AVendorsRuntimeHasACopyMoreForEachShapeOfPrompts) {
  options_.lanes.cores = {{{}, 1}, device("openvino", "CPU")};
  options_.lanes.placements = {plan::placement_from_text("qkv@prompt=1"),
                               plan::placement_from_text("ffn@prompt=1")};
  options_.prompts.prefill = plan::Prefill::kBf16;
  plan::Plan plan = make_wide();
  ASSERT_EQ(plan.prompt_shapes.size(), 3u);
  const auto on_device = [&] {
    plan::Plan without = plan;
    without.placements.clear();
    return reckon(plan).bytes(plan::Owner::kLanes) - reckon(without).bytes(plan::Owner::kLanes);
  };
  const size_t n_head = 2000 * 256;
  EXPECT_GE(on_device(), 4 * 2 * (n_elements() - n_head));
  plan.prompt_shapes = {512};
  EXPECT_LT(on_device(), 4 * 2 * (n_elements() - n_head));
  EXPECT_GE(on_device(), 2 * 2 * (n_elements() - n_head));
}

TEST_F(MakePlan, SlotsOfSeveralAnswersAreWhatTheLedgerLeaves) {
  options_.memory.limit_bytes = 100 * kMega;
  options_.memory.context = 1024;
  const MemoryFigures plenty = {64 * kGiga, 60 * kGiga};
  const plan::Plan plan = make(plenty);
  const cache::KvShape shape = kv_shape(plan, blueprint_);
  plan::Ledger ledger = expected_memory(options_, blueprint_, weights_, plan, plenty);
  EXPECT_EQ(ledger.bytes(plan::Owner::kCache), 1024 * kPerToken);
  ledger.set(plan::Owner::kWeights, 0);
  const size_t others = ledger.total_bytes() - 1024 * kPerToken;
  ledger.set(plan::Owner::kWeights, 100 * kMega - others - 2600 * kPerToken);
  EXPECT_EQ(most_slots(ledger, shape, 1, 0), 1024);
  EXPECT_EQ(most_slots(ledger, shape, 2, 0), 2048);
  EXPECT_EQ(most_slots(ledger, shape, 3, 0), 2560);  // has whole pages of 256
  EXPECT_EQ(most_slots(plan::Ledger(), shape, 3, 6144 * kPerToken), 3072);
  // The cache takes half of what is free.
  EXPECT_EQ(most_slots(plan::Ledger(), shape, 4, 6144 * kPerToken), 3072);
  EXPECT_EQ(most_slots(plan::Ledger(), shape, 4, 0), 1024);  // is what was promised to one answer
}

TEST_F(MakePlan, NoMemoryAtAllIsAnError) {
  for (const int context : {0, 1, 4096}) {
    options_.memory.context = context;
    const std::string message = error_of({64 * kGiga, kPerToken - 1});
    EXPECT_NE(message.find("even one token"), std::string::npos) << message;
  }
}

TEST_F(MakePlan, TheHintForATooLargeContextWorks) {
  options_.lanes.n_threads = 1;
  const MemoryFigures memory = {64 * kGiga, 3000 * kPerToken + 5};
  options_.memory.context = 3001;
  const std::string message = error_of(memory);
  EXPECT_NE(message.find("‹kv› q8_0"), std::string::npos) << message;
  const size_t at = message.find(kAdvice);
  ASSERT_NE(at, std::string::npos) << message;
  options_.memory.context = std::stoi(message.substr(at + kAdvice.size()));
  EXPECT_EQ(make(memory).context, 3000);
  options_.memory.kv_type = tensor::Type::kQ8_0;
  options_.memory.context = 3001;
  EXPECT_EQ(make(memory).context, 3001);
}

// With a limit that has room for a context, memory may be short nevertheless.
TEST_F(MakePlan, AContextIsRefusedByWhatHasNoRoomForIt) {
  options_.lanes.n_threads = 1;
  options_.memory.limit_bytes = kGiga;
  options_.memory.context = 3001;
  const MemoryFigures little = {64 * kGiga, 3000 * kPerToken};
  const std::string message = error_of(little);
  EXPECT_NE(message.find("3.1 MB are free"), std::string::npos) << message;
  EXPECT_NE(message.find("end other programs"), std::string::npos) << message;
  EXPECT_EQ(message.find("‹memory›"), std::string::npos) << message;
  MemoryFigures in_cgroup = little;
  in_cgroup.is_of_cgroup = true;
  EXPECT_NE(error_of(in_cgroup).find("raise the limit of the cgroup"), std::string::npos);
  const size_t at = message.find(kAdvice);
  ASSERT_NE(at, std::string::npos) << message;
  options_.memory.context = std::stoi(message.substr(at + kAdvice.size()));
  EXPECT_GT(options_.memory.context, 2000);
  EXPECT_EQ(make(little).context, options_.memory.context);
  options_.memory.context += 1;
  EXPECT_NE(error_of(little).find("are free"), std::string::npos);
  // Where the limit has room for less than is free, it is the limit that refuses.
  options_.memory.context = 1 << 24;
  const std::string of_limit = error_of({64 * kGiga, 60 * kGiga});
  EXPECT_NE(of_limit.find("‹memory› 1073.7 MB leaves room"), std::string::npos) << of_limit;
  EXPECT_NE(of_limit.find("give more ‹memory›"), std::string::npos) << of_limit;
  // Not even one token fits into what is free, whatever the limit has for it.
  options_.memory.context = 1 << 24;
  EXPECT_NE(error_of({64 * kGiga, kPerToken}).find("even one token"), std::string::npos);
}

TEST_F(MakePlan, KeysAndValuesThatHaveNoFormAreAnError) {
  blueprint_.head_dim = 16;
  options_.memory.kv_type = tensor::Type::kQ8_0;
  const std::string message = error_of({64 * kGiga, 60 * kGiga});
  EXPECT_NE(message.find("‹kv› f16"), std::string::npos) << message;
  // The error offers no q8_0 where that cannot help.
  options_.memory.kv_type = tensor::Type::kF16;
  options_.memory.context = 1 << 30;
  EXPECT_EQ(error_of({64 * kGiga, 60 * kMega}).find("q8_0"), std::string::npos);
}

TEST_F(MakePlan, NoShapeIsLargerThanNeeded) {
  const MemoryFigures memory = {64 * kGiga, 60 * kGiga};
  const std::pair<int, int> chunks[] = {{1, 32},    {32, 32},   {33, 128},  {128, 128},
                                        {129, 512}, {512, 512}, {513, 512}, {9999, 512}};
  for (const auto& [context, chunk] : chunks) {
    options_.memory.context = context;
    EXPECT_EQ(make(memory).chunk(), chunk) << context;
  }
  // One that is asked for has as many rows as a context can, and can be read again from a file.
  const std::pair<int, int> asked[] = {
      {100, 128}, {2048, 2048}, {2000, 2048}, {2'000'000, 300'000}};
  for (const auto& [context, chunk] : asked) {
    options_.memory.context = context;
    options_.prompts.chunk = 300'000;
    EXPECT_EQ(make(memory).chunk(), chunk) << context;
  }
  options_.prompts.chunk = plan::kMostShapeRows + 1;
  EXPECT_NE(test::message_of<UsageError>([&] { make(memory); }).find("‹chunk›"), std::string::npos);
}

TEST_F(MakePlan, Threads) {
  const MemoryFigures memory = {64 * kGiga, 60 * kGiga};
  EXPECT_EQ(make(memory).n_threads(), usable_cores());
  options_.lanes.n_threads = 3;
  EXPECT_EQ(make(memory).n_threads(), 3);
  for (const int wrong : {-1, 1025}) {
    options_.lanes.n_threads = wrong;
    EXPECT_THROW(make(memory), UsageError);
  }
  options_.lanes.n_threads = 1;
  options_.memory.context = -1;
  EXPECT_THROW(make(memory), UsageError);
}

}  // namespace
}  // namespace troika::prepare
