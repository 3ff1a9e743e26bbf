#include "forge/quantize_file.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "forge/synth.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "tensor/codec.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/raw_gguf_bytes.h"
#include "tests/support/split_model.h"
#include "tests/support/temp_folder.h"

namespace troika::forge {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;

class QuantizeFile : public testing::Test {
 protected:
  void SetUp() override { synth({.like = "tiny-qwen2", .output = input(), .type = "f32"}); }

  std::string input() const { return folder_.file("in.gguf"); }
  std::string output() const { return folder_.file("out.gguf"); }
  QuantizeReport quantize(const std::string& type, int n_threads = 2) const {
    return quantize_file(
        {.input = input(), .output = output(), .type = type, .n_threads = n_threads});
  }

  TempFolder folder_;
};

const TypeReport* find(const QuantizeReport& report, tensor::Type type) {
  for (const TypeReport& entry : report.types) {
    if (entry.type == type) return &entry;
  }
  return nullptr;
}

TEST_F(QuantizeFile, ToTheSameTypeChangesNoWeight) {
  const QuantizeReport report = quantize("f32");
  const gguf::File before = gguf::File::open(input());
  const gguf::File after = gguf::File::open(output());
  for (const gguf::TensorInfo& tensor : before.tensors()) {
    const auto old_bytes = before.data(tensor);
    const auto new_bytes = after.data(after.get_tensor(tensor.name));
    EXPECT_TRUE(std::equal(old_bytes.begin(), old_bytes.end(), new_bytes.begin(), new_bytes.end()));
  }
  ASSERT_EQ(report.types.size(), 1u);
  EXPECT_EQ(report.types[0].rmse, 0.0);
  EXPECT_GT(report.types[0].rms, 0.0);
}

TEST_F(QuantizeFile, KeepsMetadataAndSetsTheFileType) {
  quantize("q8_0");
  const gguf::File before = gguf::File::open(input());
  const gguf::File after = gguf::File::open(output());
  EXPECT_EQ(after.find_uint("general.file_type"), 7u);
  EXPECT_EQ(after.metadata().size(), before.metadata().size());
  EXPECT_EQ(after.strings("tokenizer.ggml.merges"), before.strings("tokenizer.ggml.merges"));
  EXPECT_EQ(after.find_float("qwen2.rope.freq_base"), 1e6);
}

TEST_F(QuantizeFile, ReportsTheErrorOfEachType) {
  const QuantizeReport report = quantize("q4_k_m");
  const gguf::File before = gguf::File::open(input());
  const gguf::File after = gguf::File::open(output());
  double squares = 0;
  double largest = 0;
  uint64_t n = 0;
  for (const gguf::TensorInfo& tensor : after.tensors()) {
    if (tensor.type != tensor::Type::kQ4_K) continue;
    const auto* old_values =
        reinterpret_cast<const float*>(before.data(before.get_tensor(tensor.name)).data());
    std::vector<float> values(tensor.n_elements());
    tensor::dequantize_row(tensor.type, after.data(tensor).data(), values.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = std::abs(static_cast<double>(values[i]) - old_values[i]);
      squares += error * error;
      largest = std::max(largest, error);
    }
    n += values.size();
  }
  const TypeReport* entry = find(report, tensor::Type::kQ4_K);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->n_elements, n);
  EXPECT_NEAR(entry->rmse, std::sqrt(squares / static_cast<double>(n)), 1e-9);
  EXPECT_EQ(entry->max_error, largest);
  EXPECT_LT(entry->rmse, 0.1 * entry->rms);
  EXPECT_LT(find(report, tensor::Type::kQ6_K)->rmse, entry->rmse);
  EXPECT_TRUE(report.fallbacks.empty());
  EXPECT_EQ(report.output_bytes, after.file_bytes());
}

TEST_F(QuantizeFile, ThreadsDoNotMatter) {
  quantize("q4_0", 1);
  const std::string one = read_whole(output());
  quantize("q4_0", 3);
  EXPECT_EQ(one, read_whole(output()));
}

TEST_F(QuantizeFile, QuantisesWhatIsQuantised) {
  quantize("q8_0");
  const std::string again = folder_.file("again.gguf");
  quantize_file({.input = output(), .output = again, .type = "q4_0"});
  EXPECT_EQ(gguf::File::open(again).get_tensor("blk.0.attn_q.weight").type, tensor::Type::kQ4_0);
}

TEST_F(QuantizeFile, WhatHasItsTypeAlreadyIsCopied) {
  quantize("q4_k_m");
  const std::string again = folder_.file("again.gguf");
  const QuantizeReport report =
      quantize_file({.input = output(), .output = again, .type = "q4_k_m"});
  EXPECT_EQ(read_whole(again), read_whole(output()));
  EXPECT_GE(report.types.size(), 3u);
  for (const TypeReport& entry : report.types) {
    EXPECT_EQ(entry.rmse, 0.0);
    EXPECT_EQ(entry.max_error, 0.0);
    EXPECT_GT(entry.rms, 0.0);
  }
}

TEST_F(QuantizeFile, ProgressReachesTheEnd) {
  uint64_t last = 0;
  uint64_t whole = 1;
  quantize_file({.input = input(),
                 .output = output(),
                 .type = "q4_0",
                 .progress = [&](uint64_t done, uint64_t total) {
                   EXPECT_GE(done, last);
                   last = done;
                   whole = total;
                 }});
  EXPECT_EQ(last, whole);
}

TEST_F(QuantizeFile, WrongPathsAndTypesAreSentences) {
  EXPECT_THROW(quantize("q3"), UsageError);
  EXPECT_THROW(quantize_file({.input = folder_.file("no"), .output = output()}), Error);
  EXPECT_THROW(quantize_file({.input = input(), .output = folder_.file("no/out")}), Error);
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(QuantizeFile, AFullDiskIsASentenceAndLeavesNothing) {
  const std::string message = message_of<Error>([&] {
    const test::FileSizeLimit limit(100000);
    quantize("q8_0");
  });
  EXPECT_NE(message.find("cannot write more than"), std::string::npos) << message;
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST(QuantizeFileInput, RowsThatDoNotFitAreReported) {
  TempFolder folder;
  {
    gguf::Writer writer(folder.file("in.gguf"));
    writer.add_tensor("blk.0.attn_q.weight", tensor::Type::kF32, std::vector<uint64_t>{96, 4});
    writer.begin_data();
    writer.write(std::vector<std::byte>(96 * 4 * 4));
    writer.finish();
  }
  const QuantizeReport report = quantize_file(
      {.input = folder.file("in.gguf"), .output = folder.file("out.gguf"), .type = "q6_k"});
  EXPECT_EQ(report.fallbacks, std::vector<std::string>{"blk.0.attn_q.weight"});
  EXPECT_EQ(report.types.at(0).type, tensor::Type::kQ8_0);
}

TEST(QuantizeFileInput, VeryLongRowsAreTakenInPieces) {
  TempFolder folder;
  constexpr uint64_t kLength = (uint64_t{1} << 20) + 256;
  std::vector<float> values(kLength * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 48.0F;
  {
    gguf::Writer writer(folder.file("in.gguf"));
    writer.add_tensor("a.weight", tensor::Type::kF32, std::vector<uint64_t>{kLength, 2});
    writer.begin_data();
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
  }
  quantize_file(
      {.input = folder.file("in.gguf"), .output = folder.file("out.gguf"), .type = "bf16"});
  const gguf::File file = gguf::File::open(folder.file("out.gguf"));
  std::vector<float> after(values.size());
  tensor::dequantize_row(tensor::Type::kBF16, file.data(file.tensors()[0]).data(), after.data(),
                         after.size());
  EXPECT_EQ(after, values);
}

TEST_F(QuantizeFile, ASplitModelBecomesOneFile) {
  const auto parts = test_support::split_model(input(), folder_.file("m"), 3);
  quantize_file({.input = input(), .output = output(), .type = "q4_0"});
  const std::string whole = test::read_whole(output());
  quantize_file({.input = parts[1], .output = output(), .type = "q4_0"});
  EXPECT_EQ(test::read_whole(output()), whole);
}

TEST_F(QuantizeFile, AFileThatIsReadIsNotReplaced) {
  const auto parts = test_support::split_model(input(), folder_.file("m"), 3);
  for (const std::string& part : parts) {
    const std::string before = test::read_whole(part);
    EXPECT_THROW(quantize_file({.input = parts[0], .output = part, .type = "q4_0"}), UsageError);
    EXPECT_EQ(test::read_whole(part), before);
  }
  EXPECT_THROW(quantize_file({.input = input(), .output = input(), .type = "q4_0"}), UsageError);
}

// A file of 70 bytes must not become one of a gigabyte.
TEST(QuantizeFileInput, AlignmentsBeyondAPageAreNotCarriedOver) {
  TempFolder folder;
  const auto alignment_after = [&](uint32_t alignment) {
    test::RawGgufBytes b;
    b.header(3, 0, 1).entry("general.alignment", 4).u32(alignment);
    test::write_whole(folder.file("in.gguf"), b.text());
    quantize_file({.input = folder.file("in.gguf"), .output = folder.file("out.gguf")});
    const gguf::File out = gguf::File::open(folder.file("out.gguf"));
    EXPECT_LE(out.file_bytes(), 1u << 16);
    return out.alignment();
  };
  EXPECT_EQ(alignment_after(1u << 30), 32u);
  EXPECT_EQ(alignment_after(1u << 17), 32u);
  EXPECT_EQ(alignment_after(1u << 16), 1u << 16);
  EXPECT_EQ(alignment_after(8), 8u);
}

TEST(QuantizeFileInput, UnsupportedTypesAreNamed) {
  TempFolder folder;
  test::RawGgufBytes b;
  b.header(3, 1, 0).tensor("blk.0.attn_q.weight", {256, 2}, 16, 0).pad(32).zeros(168);
  test::write_whole(folder.file("in.gguf"), b.text());
  const std::string message = message_of<Error>(
      [&] { quantize_file({.input = folder.file("in.gguf"), .output = folder.file("out.gguf")}); });
  EXPECT_NE(message.find("\"blk.0.attn_q.weight\" has the element type IQ2_XXS"),
            std::string::npos);
  EXPECT_EQ(folder.n_files(), 1u);
}

// A half holds at most 65504, and so does the scale of a block.
TEST(QuantizeFileInput, WeightsThatAreTooLargeForTheirNewTypeAreRefused) {
  TempFolder folder;
  const auto message = [&](uint64_t width, float largest, const std::string& type) {
    std::vector<float> values(width * 4, 1.0F);
    values[width + 7] = largest;
    gguf::Writer writer(folder.file("in.gguf"));
    writer.add_tensor("large.weight", tensor::Type::kF32, std::vector<uint64_t>{width, 4});
    writer.begin_data();
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    const std::string problem = message_of<Error>([&] {
      quantize_file(
          {.input = folder.file("in.gguf"), .output = folder.file("out.gguf"), .type = type});
    });
    EXPECT_EQ(folder.n_files(), problem.empty() ? 2u : 1u);
    std::filesystem::remove(folder.file("out.gguf"));
    return problem;
  };
  const auto refused = [](const std::string& type, const std::string& other = "bf16") {
    return "\"large.weight\" holds values that are too large for " + type + ". Try ‹type› " + other;
  };
  EXPECT_NE(message(256, 1e5F, "f16").find(refused("F16")), std::string::npos);
  EXPECT_NE(message(100, -1e5F, "q8_0").find(refused("F16")), std::string::npos);
  EXPECT_EQ(message(256, 1e8F, "bf16"), "");
  EXPECT_NE(message(256, 3.402e38F, "bf16").find(refused("BF16", "f32")), std::string::npos);
  for (const auto& [type, name] :
       {std::pair{"q8_0", "Q8_0"}, {"q4_0", "Q4_0"}, {"q5_1", "Q5_1"}, {"iq4_nl", "IQ4_NL"}}) {
    EXPECT_NE(message(256, 1e8F, type).find(refused(name)), std::string::npos) << type;
    EXPECT_NE(message(256, -1e8F, type).find(refused(name)), std::string::npos) << type;
    EXPECT_EQ(message(256, 1e4F, type), "") << type;
  }
  EXPECT_EQ(message(256, 1e8F, "mxfp4"), "");  // whose scales are powers of two
  EXPECT_NE(message(256, 1e12F, "mxfp4").find(refused("MXFP4")), std::string::npos);
}

TEST(QuantizeFileInput, WeightsThatAreNotFiniteAreRefused) {
  TempFolder folder;
  std::vector<float> values(256 * 4, 1.0F);
  values[700] = std::numeric_limits<float>::quiet_NaN();
  {
    gguf::Writer writer(folder.file("in.gguf"));
    writer.add_tensor("bad.weight", tensor::Type::kF32, std::vector<uint64_t>{256, 4});
    writer.begin_data();
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
  }
  EXPECT_NE(message_of<Error>([&] {
              quantize_file({.input = folder.file("in.gguf"), .output = folder.file("out.gguf")});
            }).find("\"bad.weight\" holds values that are not finite"),
            std::string::npos);
  EXPECT_EQ(folder.n_files(), 1u);
}

}  // namespace
}  // namespace troika::forge
