// Tests outputs that cannot be written, and model files that change while they are used.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

class Disk : public ProgramTest {
 protected:
  void SetUp() override { model_ = write(small_model()); }
  std::string model_;
};

TEST_F(Disk, UnwritableOutput) {
  const std::string folder = folder_.file("missing");
  const std::string out = folder + "/out.gguf";
  expect_refusal(troika({"quantize", model_, out, "--type", "q8_0"}), 1, {out});
  expect_refusal(troika({"synth", "--like", "tiny-llama", out}), 1, {out});
  const std::string under_a_file = model_ + "/out.gguf";
  expect_refusal(troika({"synth", "--like", "tiny-llama", under_a_file}), 1, {under_a_file});
  expect_refusal(troika({"quantize", model_, "/dev/full"}), 1, {"/dev/full"});
  EXPECT_EQ(folder_.n_files(), 1u);
}

TEST_F(Disk, AFolderAsOutput) {
  const std::string folder = folder_.file("folder");
  std::filesystem::create_directory(folder);
  expect_refusal(troika({"quantize", model_, folder}), 1, {folder});
  EXPECT_EQ(folder_.n_files(), 2u);
}

TEST_F(Disk, AReadOnlyFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const std::string folder = folder_.file("folder");
  std::filesystem::create_directory(folder, folder_.file(""));
  std::filesystem::permissions(folder, std::filesystem::perms::owner_read);
  expect_refusal(troika({"quantize", model_, folder + "/out.gguf"}), 1, {folder});
}

TEST_F(Disk, FullWhileWriting) {
  const std::string out = folder_.file("out.gguf");
  for (const uint64_t limit : {1u, 4096u, 60000u}) {
    SCOPED_TRACE(limit);
    Command quantize = troika_command({"quantize", model_, out, "--type", "f16"});
    Command synth = troika_command({"synth", "--like", "tiny-llama", "--type", "q4_0", out});
    for (Command* command : {&quantize, &synth}) {
      command->most_file_bytes = limit;
      expect_refusal(run_program(*command), 1, {out, "larger than the limit"});
      EXPECT_EQ(folder_.n_files(), 1u);  // shows that nothing half-written stays
    }
  }
}

TEST_F(Disk, AnOldFileSurvivesAFullDisk) {
  const std::string out = write("precious", "out.gguf");
  Command command = troika_command({"quantize", model_, out});
  command.most_file_bytes = 4096;
  expect_refusal(run_program(command), 1, {out});
  EXPECT_EQ(read_whole(out), "precious");
  EXPECT_EQ(folder_.n_files(), 2u);
}

// What was measured is shown, although the file behind it cannot be written.
TEST_F(Disk, WhatWasMeasuredIsShownBeforeTheDiskIsFull) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Once upon a time there was a little girl. ";
  Command eval = troika_command({"eval", model_, "--perplexity", write(text, "text"), "--losses",
                                 folder_.file("losses"), "--context", "64"});
  eval.most_file_bytes = 100;
  const Finished measured = run_program(eval);
  EXPECT_EQ(measured.status, 1);
  EXPECT_NE(measured.out.find("perplexity"), std::string::npos) << measured.out;
  EXPECT_NE(measured.err.find("larger than the limit"), std::string::npos) << measured.err;
  Command profile = troika_command({"profile", "--seconds", "0.1", "--no-storage", "--no-cache",
                                    "--threads", "1", "-o", folder_.file("profile.json")});
  profile.most_file_bytes = 100;
  const Finished profiled = run_program(profile);
  EXPECT_EQ(profiled.status, 1);
  EXPECT_NE(profiled.out.find("reads GB/s"), std::string::npos) << profiled.out;
  Command neurons = troika_command(
      {"neurons", repository_file("models/troika-relu-q8_0.gguf"), "--tokens", "64"});
  neurons.most_file_bytes = 100;
  neurons.environment["XDG_CACHE_HOME"] = folder_.file("cache");
  const Finished counted = run_program(neurons);
  EXPECT_EQ(counted.status, 1);
  EXPECT_NE(counted.out.find("of the neurons fire"), std::string::npos) << counted.out;
  EXPECT_NE(counted.err.find("larger than the limit"), std::string::npos) << counted.err;
}

TEST_F(Disk, FullStandardOutput) {
  write("Once upon a time there was a little girl", "text");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", model_, "-p", "Once", "-n", "20"},
        {"run", model_, "-p", "Once", "-n", "3", "--json"},
        {"inspect", model_},
        {"inspect", model_, "--json"},
        {"tokenize", model_, "-p", "Once"},
        {"synth", "--list"},
        {"--version"},
        {"eval", model_, "--perplexity", folder_.file("text")},
        {"bench", model_, "-p", "8", "-n", "2", "-r", "1", "--json"}}) {
    SCOPED_TRACE(words[0]);
    Command command = troika_command(words);
    command.out_path = "/dev/full";
    expect_refusal(run_program(command), 1, {"Standard output"});
  }
}

TEST_F(Disk, FullStandardOutputOfHelp) {
  Command command = troika_command({"--help"});
  command.out_path = "/dev/full";
  expect_refusal(run_program(command), 1, {"Standard output"});
}

TEST_F(Disk, FullStandardErrorDoesNotMatter) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", model_, "-p", "Once", "-n", "2", "-c", "1024"},
        {"tokenize", model_, "-p", "Once"}}) {
    SCOPED_TRACE(words[0]);
    Command command = troika_command(words);
    command.err_path = "/dev/full";
    const Finished finished = run_program(command);
    expect_success(finished);
    EXPECT_NE(finished.out, "");
  }
  Command wrong = troika_command({"run", folder_.file("none.gguf"), "-p", "a"});
  wrong.err_path = "/dev/full";
  EXPECT_EQ(run_program(wrong).status, 1);
}

TEST_F(Disk, AClosedPipeEndsARun) {
  Command command =
      troika_command({"run", model_, "-p", "Once", "-c", "4096", "--ignore-end", "--seed", "1"});
  command.watch = [](const std::string& out) { return out.size() < 10; };
  const Finished finished = run_program(command);
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.err.find("Standard output"), std::string::npos) << finished.err;
  EXPECT_LT(finished.out.size(), 4096u);
}

// Returns a model so large that pages are still unread when its file is cut, and so slow that the
// cut comes in time.
test_support::TinyModel large_model() {
  test_support::TinyModel model = test_support::tiny_model("llama");
  model.width = 512;
  model.n_heads = 8;
  model.ffn_width = 2048;
  model.n_layers = 4;
  return model;
}

class Truncation : public ProgramTest {
 protected:
  // Runs the model, and cuts the file once the first text has come.
  Finished run_and_cut(uint64_t length, const std::vector<std::string>& more) const {
    const std::string path = write(large_model(), "large.gguf");
    std::vector<std::string> words = {"run",    path,           "-p",     "Once", "-c",
                                      "100000", "--ignore-end", "--seed", "1"};
    words.insert(words.end(), more.begin(), more.end());
    Command command = troika_command(words);
    bool was_cut = false;
    command.watch = [&](const std::string& out) {
      if (!was_cut && out.size() > 20) {
        std::filesystem::resize_file(path, length);
        was_cut = true;
      }
      return true;
    };
    const Finished finished = run_program(command);
    EXPECT_TRUE(was_cut);
    return finished;
  }

  void expect_refused(uint64_t length, std::vector<std::string> more) const {
    more.insert(more.end(), {"--load", "map"});
    expect_refusal(run_and_cut(length, more), 1, {folder_.file("large.gguf")});
  }
};

TEST_F(Truncation, ToHalfWhileItRuns) { expect_refused(8'000'000, {}); }

TEST_F(Truncation, ToNothingWhileItRuns) { expect_refused(0, {}); }

TEST_F(Truncation, ToAPartOfAPageWhileManyThreadsRun) { expect_refused(100, {"--threads", "4"}); }

// A model that was copied into memory needs its file no more.
TEST_F(Truncation, DoesNotMatterToACopy) {
  const Finished finished = run_and_cut(0, {"--load", "copy", "-n", "60"});
  EXPECT_EQ(finished.status, 0) << finished.err;
}

}  // namespace
}  // namespace troika::test
