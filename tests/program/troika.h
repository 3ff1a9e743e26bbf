// Runs the built program troika as a child process, on good and on damaged model files.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace troika::test {

using test_support::Command;
using test_support::Finished;

// Returns a folder of side files that is empty: what somebody has kept on this machine, above all a
// tuned plan, must not change what tests see.
inline std::string empty_cache() {
  static const TempFolder folder;
  return folder.file("cache");
}

// Returns a command of the built program, whose path is TROIKA_PROGRAM.
inline Command troika_command(std::vector<std::string> arguments) {
  Command command;
  command.environment["XDG_CACHE_HOME"] = empty_cache();
  command.words = std::move(arguments);
  command.words.insert(command.words.begin(), TROIKA_PROGRAM);
  return command;
}

inline Finished troika(std::vector<std::string> arguments, const std::string& in = "") {
  Command command = troika_command(std::move(arguments));
  command.in = in;
  return run_program(command);
}

// Expects that the program exited with status 0.
inline void expect_success(const Finished& finished) {
  EXPECT_EQ(finished.status, 0) << "signal " << finished.signal << "\n" << finished.err;
  EXPECT_FALSE(finished.timed_out);
}

// Expects that the program exited with `status` and said why in a sentence that holds all of
// `parts`.
inline void expect_refusal(const Finished& finished, int status,
                           const std::vector<std::string>& parts) {
  EXPECT_EQ(finished.status, status) << "signal " << finished.signal << "\n" << finished.err;
  EXPECT_FALSE(finished.timed_out);
  for (const std::string& part : parts) {
    EXPECT_NE(finished.err.find(part), std::string::npos)
        << "no '" << part << "' in: " << finished.err;
  }
  if (status == 1) {
    const size_t begin = finished.err.rfind("troika: ");
    ASSERT_NE(begin, std::string::npos) << finished.err;
    const std::string sentence = finished.err.substr(begin + 8);
    EXPECT_GT(sentence.size(), 20u);
    EXPECT_TRUE(sentence.ends_with(".\n")) << sentence;
    EXPECT_EQ(sentence.find('\n'), sentence.size() - 1) << sentence;
  } else {
    EXPECT_GT(finished.err.size(), 20u) << finished.err;
  }
  EXPECT_EQ(finished.err.find("terminate called"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.err.find("Sanitizer"), std::string::npos) << finished.err;
}

// Returns a model of a hundred kilobytes, which is quick to write and to run.
inline test_support::TinyModel small_model(const std::string& architecture = "llama") {
  test_support::TinyModel model = test_support::tiny_model(architecture);
  model.width = 64;
  model.n_heads = 2;
  model.n_kv_heads = 1;
  model.head_dim = model.rope_dims = 32;
  model.ffn_width = 128;
  return model;
}

constexpr const char* kChatTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

inline test_support::TinyModel small_chat_model() {
  test_support::TinyModel model = small_model("qwen2");
  model.chat_template = kChatTemplate;
  return model;
}

inline std::string model_bytes(const test_support::TinyModel& model) {
  const std::vector<uint8_t> bytes = tiny_model_bytes(model);
  return {bytes.begin(), bytes.end()};
}

// The base of tests with a folder of their own. write() puts a model into it, `small.gguf` unless
// another name is given.
class ProgramTest : public testing::Test {
 protected:
  std::string write(const std::string& bytes, const std::string& name = "small.gguf") const {
    write_whole(folder_.file(name), bytes);
    return folder_.file(name);
  }
  std::string write(const test_support::TinyModel& model,
                    const std::string& name = "small.gguf") const {
    return write(model_bytes(model), name);
  }
  TempFolder folder_;
};

}  // namespace troika::test
