// Blocks are read while others compute (P10): results are those of weights in memory, whatever the
// budget is and in whatever order blocks are asked for.
#include "prepare/streaming/weight_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "model/architecture.h"
#include "tensor/strips.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_engine.h"

namespace troika::prepare {
namespace {

using test_support::copy_of;
using test_support::random_tokens;
using test_support::TinyEngine;
using test_support::TinyModel;
using Logits = std::vector<float>;

constexpr int kContext = 256;

// Returns a model with blocks that are larger than the error of memory estimates.
TinyModel model_of(const std::string& architecture) {
  TinyModel model = test_support::tiny_model(architecture);
  model.n_layers = 6;
  model.type = test_support::kQ8_0;
  if (model.n_experts == 0) model.ffn_width = 2048;
  return model;
}

struct Case {
  const char* architecture;
  plan::Prefill prefill;
  bool has_lanes = false;  // two cores have a half of each block
};

Options options_for(const Case& c) {
  Options options;
  options.prompts.prefill = c.prefill;
  options.prompts.chunk = 32;  // gives a prompt several chunks
  options.memory.context = kContext;
  options.memory.held_bytes = 0;
  options.memory.expert_reads = ExpertReads::kInOrder;
  if (c.has_lanes) {
    options.lanes.n_threads = 0;
    options.lanes.cores = {{{}, 1}, {{}, 1}};
    for (const char* const cut : {"ffn=rows:0:1,1:1", "attention=heads:0:1,1:1"}) {
      options.lanes.cuts.push_back(plan::cut_from_text(cut));
    }
  }
  return options;
}

// Lowers a limit of memory until about half of the parts of blocks take turns.
std::unique_ptr<TinyEngine> streamed_engine(const TinyModel& model, Options options) {
  std::unique_ptr<TinyEngine> streamed;
  for (int i = 0; i < 200; ++i) {
    try {
      streamed = nullptr;
      streamed = std::make_unique<TinyEngine>(model, options);
      const WeightStream* const stream = streamed->engine->loaded().stream.get();
      if (stream != nullptr && stream->n_streamed() > stream->n_parts() / 2) break;
      options.memory.limit_bytes -= size_t{1} << 20;
    } catch (const Error&) {
      options.memory.limit_bytes += size_t{2} << 20;
    }
  }
  return streamed;
}

std::vector<Logits> conversation(engine::Session& session, const TinyModel& model) {
  return test_support::talk(session, random_tokens(model, 90, 5), 80);
}

class StreamedModels : public testing::TestWithParam<Case> {};

TEST_P(StreamedModels, P10ResultsAreThoseOfWeightsInMemory) {
  const TinyModel model = model_of(GetParam().architecture);
  Options options = options_for(GetParam());
  const TinyEngine whole(model, options);
  EXPECT_EQ(whole.engine->loaded().stream, nullptr);
  const std::vector<Logits> expected = conversation(*whole.session, model);
  options.memory.limit_bytes = whole.engine->ledger().total_bytes();
  const std::unique_ptr<TinyEngine> streamed = streamed_engine(model, options);
  ASSERT_NE(streamed, nullptr);
  ASSERT_NE(streamed->engine->loaded().stream, nullptr);
  EXPECT_EQ(conversation(*streamed->session, model), expected);
  const WeightStream& stream = *streamed->engine->loaded().stream;
  EXPECT_GT(stream.n_streamed(), stream.n_parts() / 2);
  EXPECT_LT(stream.most_bytes(), streamed->engine->weights().total_bytes());
  EXPECT_EQ(streamed->engine->ledger().bytes(plan::Owner::kWeights), stream.most_bytes());
  EXPECT_GE(stream.counters().n_parts, 12 * stream.n_streamed());
}

INSTANTIATE_TEST_SUITE_P(
    Every, StreamedModels,
    testing::Values(Case{"llama", plan::Prefill::kSame}, Case{"llama", plan::Prefill::kBf16},
                    Case{"llama", plan::Prefill::kF32}, Case{"gemma2", plan::Prefill::kQ8},
                    Case{"phi3", plan::Prefill::kBf16}, Case{"qwen3moe", plan::Prefill::kQ8},
                    Case{"llama", plan::Prefill::kInt8}, Case{"qwen3moe", plan::Prefill::kInt8},
                    Case{"llama", plan::Prefill::kQ8, true},
                    Case{"gemma2", plan::Prefill::kBf16, true}),
    [](const auto& info) {
      return std::string(info.param.architecture) + "_" + plan::prefill_name(info.param.prefill) +
             (info.param.has_lanes ? "_lanes" : "");
    });

// On several lanes a worker of one of them comes to the next block, and no error may leave it.
TEST(WeightStream, P10AFileThatIsCutShortIsASentenceOnLanesToo) {
  const TinyModel model = model_of("llama");
  Options options = options_for({"llama", plan::Prefill::kQ8, true});
  options.memory.limit_bytes = TinyEngine(model, options).engine->ledger().total_bytes();
  const std::unique_ptr<TinyEngine> streamed = streamed_engine(model, options);
  ASSERT_NE(streamed, nullptr);
  const std::vector<int32_t> tokens = random_tokens(model, 8, 5);
  const auto step = [&] {
    streamed->session->evaluate(std::span(tokens).first(1), [](int, std::span<const float>) {});
  };
  step();
  const std::string& path = streamed->engine->file().shards()[0].path;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);  // tables come first
  std::string problem;
  for (int i = 0; i < 3 && problem.empty(); ++i) problem = test::message_of<Error>(step);
  EXPECT_NE(problem.find("cannot be read"), std::string::npos) << problem;
  EXPECT_NE(test::message_of<Error>(step), "");  // it says so again
}

// A model whose blocks the test reads by hand.
struct ByHand {
  ByHand() {
    TinyModel model = model_of("llama");
    model.n_layers = 5;
    path = folder.file("tiny.gguf");
    write_tiny_model(model, path);
    file.emplace(gguf::File::open(path));
    blueprint = model::read(*file);
    weights.emplace(*file, blueprint);
    for (const model::Op& op : blueprint.ops) {
      if (op.weight == model::kNone || !weights->is_matrix(op.weight)) continue;
      if (op.kind == model::OpKind::kLinear) products.push_back(op.weight);
      const weights::Matrix& matrix = weights->matrix(op.weight);
      const size_t bytes = matrix.row_bytes * static_cast<size_t>(matrix.n_rows);
      wanted.push_back({op.layer, op.weight, std::vector(matrix.data, matrix.data + bytes)});
      if (op.layer == 0) block_bytes += bytes + 2 * 4096;  // blocks are read in whole pages
    }
  }
  // Has memory for so much more than the least as some blocks take. Rows of kept products stand 16
  // side by side where `has_strips`.
  explicit ByHand(size_t n_blocks_more, bool has_strips = false, const DiskWay& way = {})
      : ByHand() {
    const std::span<const model::WeightId> strips = has_strips
                                                        ? std::span<const model::WeightId>(products)
                                                        : std::span<const model::WeightId>();
    stream.emplace(blueprint, *file,
                   WeightStream::least_bytes(blueprint, *weights) + n_blocks_more * block_bytes,
                   &*weights, StreamedWeights(), StripMatrices{strips, 2}, way);
  }
  void expect_block(int block) {
    for (const Wanted& one : wanted) {
      if (one.block != block) continue;
      const weights::Matrix& matrix = weights->matrix(one.weight);
      n_in_strips += matrix.n_strip_rows > 0 ? 1 : 0;
      const std::vector<std::byte> expected = in_strips(one.bytes, matrix);
      EXPECT_EQ(std::memcmp(matrix.data, expected.data(), expected.size()), 0) << block;
    }
  }
  static std::vector<std::byte> in_strips(const std::vector<std::byte>& rows,
                                          const weights::Matrix& matrix) {
    std::vector<std::byte> strips = rows;
    for (size_t row = 0; row < static_cast<size_t>(matrix.n_strip_rows);
         row += tensor::kStripRows) {
      tensor::pack_strip(matrix.type, rows.data() + row * matrix.row_bytes,
                         static_cast<size_t>(matrix.row_length),
                         strips.data() + row * matrix.row_bytes);
    }
    return strips;
  }

  struct Wanted {
    int block;
    model::WeightId weight;
    std::vector<std::byte> bytes;
  };
  test::TempFolder folder;
  std::string path;
  std::optional<gguf::File> file;
  model::Blueprint blueprint;
  std::optional<weights::Store> weights;
  std::vector<Wanted> wanted;
  std::vector<model::WeightId> products;
  size_t block_bytes = 0;
  int n_in_strips = 0;
  std::optional<WeightStream> stream;
};

// Every weight has its place: in a part, beside the blocks, in the table or in the map.
TEST(WeightParts, P10HoldAllWeightsOfAModel) {
  const ByHand model;
  const WeightParts parts = weight_parts(model.blueprint, *model.weights, {});
  size_t bytes = 0;
  const auto count = [&](const weights::Matrix& matrix) { bytes += matrix.bytes(); };
  for (const WeightPart& part : parts.of_blocks) {
    EXPECT_FALSE(part.matrices.empty());
    std::for_each(part.matrices.begin(), part.matrices.end(), count);
  }
  std::for_each(parts.of_none.matrices.begin(), parts.of_none.matrices.end(), count);
  ASSERT_TRUE(parts.table);
  EXPECT_EQ(table_room(*parts.table), parts.table->bytes()) << "so small a table may stay whole";
  EXPECT_EQ(bytes + parts.mapped_bytes, model.weights->total_bytes());
  EXPECT_EQ(parts.of_none.matrices.size(), 1u) << "the head";
  // Attention's matrices are one part, and each of the three large ones is another.
  EXPECT_EQ(parts.of_blocks.size(), 5u * 4u);
}

TEST(WeightStream, P10BlocksAreThereInAnyOrderOfAsking) {
  int n_streamed = std::numeric_limits<int>::max();
  for (const size_t n_more : {size_t{0}, size_t{1}, size_t{2}}) {
    ByHand model(n_more);
    model.stream->load_kept({});
    EXPECT_EQ(model.stream->n_streamed() == model.stream->n_parts(), n_more == 0);
    EXPECT_LT(model.stream->n_streamed(), n_streamed);
    n_streamed = model.stream->n_streamed();
    EXPECT_GT(n_streamed, 0);
    for (uint64_t i = 0; i < 400; ++i) {
      // The next block is mostly asked for, as in passes; sometimes a pass ends, or any block is
      // asked for.
      const uint64_t what = random_bits(7, 2 * i) % 10;
      const auto block = static_cast<int>(what < 7 ? i % 5 : random_bits(7, 2 * i + 1) % 5);
      model.stream->before_block(block, plan::Phase::kStep, 1, {});
      model.expect_block(block);
      if (what == 9 || block == 4) model.stream->after_blocks({});
    }
    model.expect_block(model::kNone);  // checks embedding and head
  }
}

// A disk on which reads end short, or have to come again, so that those behind them end before.
struct RandomDisk {
  int64_t operator()(const lanes::ReadRequest& read, int64_t returned) {
    const std::lock_guard<std::mutex> lock(mutex);
    const uint64_t call = n_calls++;
    if (returned >= 2 && random_unit(5, call) < 0.6) {
      waiting.insert(read.offset);
      if (random_unit(6, call) < 0.5) return -EAGAIN;
      return 1 + static_cast<int64_t>(random_bits(7, call) % static_cast<uint64_t>(returned - 1));
    }
    waiting.erase(read.offset);
    n_overtaking += waiting.empty() ? 0 : 1;
    return returned;
  }
  std::mutex mutex;
  uint64_t n_calls = 0;
  std::set<uint64_t> waiting;  // the reads that are on their way again
  int64_t n_overtaking = 0;    // counts reads that ended meanwhile
};

TEST(WeightStream, P10BlocksAreThereInAnyOrderOfArrival) {
  for (const bool may_use_io_uring : {true, false}) {
    for (const int depth : {1, 5, 64}) {
      RandomDisk disk;
      ByHand model(1, false, {depth, may_use_io_uring, std::ref(disk)});
      model.stream->load_kept({});
      for (uint64_t i = 0; i < 60; ++i) {
        const bool is_next = random_bits(7, 2 * i) % 10 < 8;
        const auto block = static_cast<int>(is_next ? i % 5 : random_bits(7, 2 * i + 1) % 5);
        model.stream->before_block(block, plan::Phase::kStep, 1, {});
        model.expect_block(block);
        if (block == 4) model.stream->after_blocks({});
      }
      const bool has_ring = may_use_io_uring && model.stream->notes().empty();
      model.stream.reset();
      EXPECT_GT(disk.n_calls, 300u);
      if (has_ring && depth > 1) {
        EXPECT_GT(disk.n_overtaking, 30) << depth;
      }
    }
  }
}

// A read that fails is a sentence, and the next pass finds all blocks again.
TEST(WeightStream, P10AfterAReadThatFailedBlocksAreReadAgain) {
  for (const bool may_use_io_uring : {true, false}) {
    std::atomic<bool> is_broken = false;
    const auto spoil = [&](const lanes::ReadRequest&, int64_t returned) -> int64_t {
      return is_broken ? -EIO : returned;
    };
    ByHand model(0, false, {64, may_use_io_uring, spoil});
    model.stream->load_kept({});
    for (int round = 0; round < 6; ++round) {
      const auto pass = [&] {
        for (int block = 0; block < 5; ++block) {
          model.stream->before_block(block, plan::Phase::kStep, 1, {});
          model.expect_block(block);
        }
        model.stream->after_blocks({});
      };
      is_broken = true;
      const std::string problem = test::message_of<Error>([&] {
        pass();  // has been read ahead in part
        pass();
      });
      EXPECT_NE(problem.find("cannot be read"), std::string::npos) << problem;
      model.stream->after_blocks({});
      is_broken = false;
      // What could not be read ahead while the disk failed is asked for once more.
      EXPECT_EQ(test::message_of<Error>(pass), "");
    }
    model.stream.reset();
  }
}

// Where reading is slower than computing, there is never a moment without reads under way.
TEST(WeightStream, P10TimesOfReadsCountWhileOthersAreUnderWay) {
  ByHand model(0);
  model.stream->load_kept({});
  WeightStream::Counters last = model.stream->counters();
  for (int i = 0; i < 500; ++i) {
    model.stream->before_block(i % 5, plan::Phase::kStep, 1, {});
    const WeightStream::Counters now = model.stream->counters();
    if (now.n_parts > last.n_parts) {
      EXPECT_GT(now.read_us, last.read_us) << i;
    }
    if (i % 5 == 4) model.stream->after_blocks({});
    last = now;
  }
  EXPECT_GE(last.n_parts, 100u);
}

TEST(WeightStream, P10KeptRowsStandSideBySideAndOthersAsInTheFile) {
  for (const size_t n_more : {size_t{0}, size_t{2}}) {
    ByHand model(n_more, true);
    model.stream->load_kept({});
    for (uint64_t pass = 0; pass < 60; ++pass) {
      const bool is_prompt = random_bits(8, pass) % 3 == 0;
      const plan::Phase phase = is_prompt ? plan::Phase::kPrompt : plan::Phase::kStep;
      // Some passes end early, as they do when they fail.
      const int n_blocks = random_bits(9, pass) % 4 == 0 ? 2 : 5;
      model.n_in_strips = 0;
      for (int block = 0; block < n_blocks; ++block) {
        model.stream->before_block(block, phase, is_prompt ? 8 : 1, {});
        model.expect_block(block);
      }
      EXPECT_EQ(model.n_in_strips > 0, n_more > 0);
      model.stream->after_blocks({});
    }
    model.expect_block(model::kNone);
  }
}

TEST(WeightStream, P2BlocksThatPromptsNeedNothingOfAreLeftOut) {
  ByHand model;
  std::vector<model::WeightId> for_prompts;
  for (const ByHand::Wanted& one : model.wanted) {
    if (one.block >= 0 && one.block < 4) for_prompts.push_back(one.weight);
  }
  const StreamedWeights which = {{}, for_prompts};
  model.stream.emplace(model.blueprint, *model.file,
                       WeightStream::least_bytes(model.blueprint, *model.weights, which),
                       &*model.weights, which);
  model.stream->load_kept({});
  EXPECT_EQ(model.stream->n_streamed(), model.stream->n_parts());
  constexpr int kPasses = 3;
  for (int pass = 0; pass < kPasses; ++pass) {
    model.stream->plan_prompt(8 * (kPasses - pass), 8, pass == 0);
    for (int block = 0; block < 5; ++block) {
      model.stream->before_block(block, plan::Phase::kPrompt, 8, {});
      model.expect_block(block);
    }
    model.stream->after_blocks({});
  }
  // Each chunk of the prompt reads all of them once, and nothing is read for who comes behind it.
  EXPECT_EQ(model.stream->counters().n_parts, kPasses * model.stream->n_streamed());
}

// A part of a prompt reads all parts once for itself, and the first ones again for the next part.
TEST(WeightStream, P2TheSecondOfTwoPartsOfAPromptIsReadAhead) {
  ByHand model;
  std::vector<model::WeightId> for_prompts;
  for (const ByHand::Wanted& one : model.wanted) {
    if (one.block >= 0) for_prompts.push_back(one.weight);
  }
  const StreamedWeights which = {{}, for_prompts};
  model.stream.emplace(model.blueprint, *model.file,
                       WeightStream::least_bytes(model.blueprint, *model.weights, which),
                       &*model.weights, which);
  model.stream->load_kept({});
  model.stream->plan_prompt(16, 8, true);
  for (int block = 0; block < 5; ++block) {
    model.stream->before_block(block, plan::Phase::kPrompt, 8, {});
  }
  model.stream->after_blocks({});
  const auto n_read = [&] { return model.stream->counters().n_parts; };
  for (int i = 0; i < 10'000 && n_read() <= model.stream->n_streamed(); ++i) usleep(1000);
  EXPECT_GT(n_read(), model.stream->n_streamed());
}

// Returns the bytes in memory of all mappings that hold some of these addresses. Rows of tables
// have a mapping of their own, as pages are brought one by one there.
size_t resident_bytes_of(const void* begin, size_t size) {
  std::ifstream file("/proc/self/smaps");
  bool is_it = false;
  size_t bytes = 0;
  for (std::string line; std::getline(file, line);) {
    uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2) {
      const auto at = reinterpret_cast<uintptr_t>(begin);
      is_it = from < at + size && at < to;
    }
    if (is_it && line.rfind("Rss:", 0) == 0) bytes += 1024 * std::stoul(line.substr(4));
  }
  return bytes;
}

// Forgets what of the model's file is in the page cache, where the file system forgets anything.
bool forget_file(const gguf::File& file) {
  const int descriptor = file.shards()[0].map->descriptor();
  struct statfs system {};
  if (fstatfs(descriptor, &system) != 0 || system.f_type == TMPFS_MAGIC) return false;
  return fsync(descriptor) == 0 && posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0;
}

// Tokens are looked up in a table of 24 MB, of which 16 may be in memory.
TEST(WeightStream, P10TablesTakeTheMemoryOfFewRows) {
  TinyModel model = model_of("llama");
  model.width = 1024;
  model.ffn_width = 256;
  model.vocabulary = 6000;
  model.types["token_embd.weight"] = test_support::kF32;
  Options options = options_for({"llama", plan::Prefill::kQ8});
  const size_t all = TinyEngine(model, options).engine->ledger().total_bytes();
  options.memory.limit_bytes = all - (size_t{12} << 20);
  const TinyEngine tiny(model, options);
  const WeightStream* const stream = tiny.engine->loaded().stream.get();
  ASSERT_NE(stream, nullptr);
  EXPECT_GT(stream->n_streamed(), 0);
  if (!forget_file(tiny.engine->file())) GTEST_SKIP() << "files of this folder are memory";
  const weights::Store& weights = tiny.engine->weights();
  const auto& ops = tiny.engine->blueprint().ops;
  const auto embeds = [](const model::Op& op) { return op.kind == model::OpKind::kEmbed; };
  const auto embed = std::find_if(ops.begin(), ops.end(), embeds);
  ASSERT_NE(embed, ops.end());
  const weights::Matrix& table = weights.matrix(embed->weight);
  ASSERT_LT(table_room(table), table.bytes());
  EXPECT_LT(stream->most_bytes(), weights.total_bytes() - table.bytes() + table_room(table));
  size_t most = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    tiny.session->truncate(0);
    tiny.session->evaluate(random_tokens(model, 200, seed), {});
    const size_t resident = resident_bytes_of(table.data + table.bytes() / 2, 1);
    EXPECT_LE(resident, table_room(table)) << seed;
    most = std::max(most, resident);
  }
  EXPECT_GT(most, size_t{1} << 20);
}

// The scales of int8 weights are measured through the map of the file.
TEST(WeightStream, P10WhatIsMeasuredForPromptsLeavesNothingOfTheFileInMemory) {
  TinyModel model = model_of("llama");
  Options options = options_for({"llama", plan::Prefill::kInt8});
  const size_t all = TinyEngine(model, options).engine->ledger().total_bytes();
  options.memory.limit_bytes = all - (size_t{2} << 20);
  const TinyEngine tiny(model, options);
  ASSERT_NE(tiny.engine->loaded().stream, nullptr);
  EXPECT_EQ(tiny.engine->plan().prefill, plan::Prefill::kInt8);
  const gguf::File::Shard& shard = tiny.engine->file().shards()[0];
  EXPECT_LT(resident_bytes_of(shard.bytes.data(), shard.bytes.size()), shard.bytes.size() / 4);
}

TEST(WeightStream, P10AFileThatIsCutShortIsASentence) {
  ByHand model(0);
  model.stream->load_kept({});
  model.stream->before_block(0, plan::Phase::kStep, 1, {});
  std::filesystem::resize_file(model.path, 4096);
  std::string problem;
  for (int i = 0; i < 12 && problem.empty(); ++i) {
    try {
      model.stream->before_block(i % 5, plan::Phase::kStep, 1, {});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  EXPECT_NE(problem.find("cannot be read"), std::string::npos) << problem;
  EXPECT_NE(problem.find("tiny.gguf"), std::string::npos) << problem;
  EXPECT_THROW(model.stream->before_block(1, plan::Phase::kStep, 1, {}), Error);
}

TEST(WeightStream, P10WhatIsTooLittleForTwoBlocksIsRefused) {
  Options options = options_for({"llama", plan::Prefill::kQ8});
  options.memory.limit_bytes = size_t{1} << 20;
  try {
    const TinyEngine tiny(model_of("llama"), options);
    FAIL() << "it was loaded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("‹memory›"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace troika::prepare
