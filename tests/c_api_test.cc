// Uses the C API as programs in other languages do.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "troika/troika.h"

namespace {

using troika::test_support::TinyModel;

TinyModel model() {
  TinyModel model = troika::test_support::tiny_model("qwen2");
  model.width = 64;
  model.n_heads = 2;
  model.n_kv_heads = 1;
  model.head_dim = model.rope_dims = 32;
  model.ffn_width = 128;
  model.chat_template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}";
  return model;
}

// Returns a struct of zeros that says how large it is.
template <typename Struct>
Struct sized() {
  Struct made = {};
  made.size = sizeof(made);
  return made;
}

int append(void* user, const char* text, size_t text_bytes) {
  static_cast<std::string*>(user)->append(text, text_bytes);
  return 1;
}

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.file("small.gguf");
    write_tiny_model(model(), path_);
    auto options = sized<troika_engine_options>();
    options.threads = 2;
    options.context = 4096;
    ASSERT_EQ(troika_engine_open(path_.c_str(), &options, &engine_, &error_), TROIKA_OK)
        << error_.message;
    ASSERT_EQ(troika_session_open(engine_, &session_, &error_), TROIKA_OK) << error_.message;
    ASSERT_EQ(troika_default_generate_options(&generate_, &error_), TROIKA_OK);
    generate_.max_tokens = 20;
    generate_.seed = 3;
  }
  void TearDown() override {
    troika_session_close(session_);
    troika_engine_close(engine_);
  }

  std::string text_of(troika_session* session, const std::string& prompt,
                      troika_result* result = nullptr) const {
    std::string text;
    troika_error error;
    EXPECT_EQ(troika_generate(session, prompt.data(), prompt.size(), &generate_, append, &text,
                              result, &error),
              TROIKA_OK)
        << error.message;
    return text;
  }
  // Expects that the call was refused with the code `wanted` and a sentence that holds `part`.
  void expect_refused(troika_code code, troika_code wanted, const std::string& part) {
    EXPECT_EQ(code, wanted);
    EXPECT_EQ(error_.code, wanted);
    const std::string message = error_.message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    // Messages name fields here, not flags, nor the marks that stand for options.
    EXPECT_EQ(message.find("--"), std::string::npos) << message;
    EXPECT_EQ(message.find("‹"), std::string::npos) << message;
    error_ = {};
  }

  troika::test::TempFolder folder_;
  std::string path_;
  troika_engine* engine_ = nullptr;
  troika_session* session_ = nullptr;
  troika_error error_ = {};
  troika_generate_options generate_ = sized<troika_generate_options>();
};

TEST_F(CApi, TellsItsVersionAndTheModels) {
  EXPECT_STREQ(troika_version(), TROIKA_VERSION);
  EXPECT_EQ(troika_engine_context(engine_), 4096);
  EXPECT_EQ(troika_engine_vocabulary(engine_), 512);
}

TEST_F(CApi, RefusesNullArguments) {
  troika_engine* engine = nullptr;
  troika_session* session = nullptr;
  size_t n = 0;
  int32_t token = 1;
  char text[8];
  expect_refused(troika_engine_open(nullptr, nullptr, &engine, &error_), TROIKA_USAGE, "path");
  expect_refused(troika_engine_open(path_.c_str(), nullptr, nullptr, &error_), TROIKA_USAGE,
                 "engine");
  expect_refused(troika_session_open(nullptr, &session, &error_), TROIKA_USAGE, "engine");
  expect_refused(troika_session_open(engine_, nullptr, &error_), TROIKA_USAGE, "session");
  expect_refused(troika_tokenize(nullptr, "a", 1, 0, 0, &token, 1, &n, &error_), TROIKA_USAGE,
                 "engine");
  expect_refused(troika_tokenize(engine_, nullptr, 1, 0, 0, &token, 1, &n, &error_), TROIKA_USAGE,
                 "text");
  expect_refused(troika_tokenize(engine_, "a", 1, 0, 0, &token, 1, nullptr, &error_), TROIKA_USAGE,
                 "number");
  expect_refused(troika_tokenize(engine_, "a", 1, 0, 0, nullptr, 8, &n, &error_), TROIKA_USAGE,
                 "tokens");
  expect_refused(troika_detokenize(nullptr, &token, 1, text, 8, &n, &error_), TROIKA_USAGE,
                 "engine");
  expect_refused(troika_detokenize(engine_, nullptr, 1, text, 8, &n, &error_), TROIKA_USAGE,
                 "tokens");
  expect_refused(troika_detokenize(engine_, &token, 1, nullptr, 8, &n, &error_), TROIKA_USAGE,
                 "text");
  expect_refused(troika_generate(nullptr, "a", 1, nullptr, nullptr, nullptr, nullptr, &error_),
                 TROIKA_USAGE, "session");
  expect_refused(troika_generate(session_, nullptr, 1, nullptr, nullptr, nullptr, nullptr, &error_),
                 TROIKA_USAGE, "prompt");
  // Without a place for the message, the caller gets the code alone.
  EXPECT_EQ(troika_engine_open(nullptr, nullptr, &engine, nullptr), TROIKA_USAGE);
  EXPECT_EQ(troika_engine_context(nullptr), 0);
  EXPECT_EQ(troika_engine_vocabulary(nullptr), 0);
  troika_engine_close(nullptr);
  troika_session_close(nullptr);
  troika_session_cancel(nullptr);
}

TEST_F(CApi, RefusesWrongFilesAndOptions) {
  troika_engine* engine = reinterpret_cast<troika_engine*>(1);
  expect_refused(troika_engine_open("/nonexistent/model.gguf", nullptr, &engine, &error_),
                 TROIKA_ERROR, "/nonexistent/model.gguf");
  EXPECT_EQ(engine, nullptr);
  const auto open = [&](auto change) {
    auto options = sized<troika_engine_options>();
    change(options);
    return troika_engine_open(path_.c_str(), &options, &engine, &error_);
  };
  using Options = troika_engine_options;
  expect_refused(open([](Options& o) { o.kv = "q3"; }), TROIKA_USAGE, "q3");
  expect_refused(open([](Options& o) { o.activations = "x"; }), TROIKA_USAGE, "x");
  expect_refused(open([](Options& o) { o.threads = -3; }), TROIKA_USAGE, "threads -3 ");
  expect_refused(open([](Options& o) { o.context = -3; }), TROIKA_USAGE, "-3");
  expect_refused(open([](Options& o) { o.context = 2000000000; }), TROIKA_ERROR, "2000000000");
  expect_refused(open([](Options& o) { o.draft = "hope"; }), TROIKA_USAGE, "hope");
  // What advises a command with flags needs a plan or a predictor, which no field can name, so the
  // path says such words here.
  expect_refused(
      troika_engine_open("/nonexistent/'troika plan MODEL --calibrate TEXT -o plan.json'", nullptr,
                         &engine, &error_),
      TROIKA_ERROR, "/nonexistent/'troika plan MODEL' (with calibrate)");
  EXPECT_EQ(engine, nullptr);
  const auto generate = [&](auto change) {
    troika_generate_options options = generate_;
    change(options);
    return troika_generate(session_, "a", 1, &options, nullptr, nullptr, nullptr, &error_);
  };
  using Generate = troika_generate_options;
  expect_refused(generate([](Generate& o) { o.temperature = -1; }), TROIKA_USAGE,
                 "temperature -1 ");
  expect_refused(generate([](Generate& o) { o.top_p = 0; }), TROIKA_USAGE, "top_p 0 ");
  expect_refused(generate([](Generate& o) { o.top_k = -1; }), TROIKA_USAGE, "top_k -1 ");
  expect_refused(generate([](Generate& o) { o.max_tokens = -2; }), TROIKA_USAGE, "max_tokens");
}

TEST_F(CApi, RefusesStructsOfSizesThatItDoesNotKnow) {
  troika_engine* engine = nullptr;
  const size_t largest = std::max(
      {sizeof(troika_engine_options), sizeof(troika_generate_options), sizeof(troika_result)});
  // One of them ends within the pointer `draft`, which would be read in part.
  for (const size_t size : {size_t{0}, size_t{8}, size_t{35}, largest + 8, SIZE_MAX}) {
    troika_engine_options options = {};
    options.size = size;
    expect_refused(troika_engine_open(path_.c_str(), &options, &engine, &error_), TROIKA_USAGE,
                   "sizeof(troika_engine_options)");
    generate_.size = size;
    expect_refused(troika_default_generate_options(&generate_, &error_), TROIKA_USAGE,
                   "sizeof(troika_generate_options)");
    expect_refused(
        troika_generate(session_, "Once", 4, &generate_, nullptr, nullptr, nullptr, &error_),
        TROIKA_USAGE, "sizeof(troika_generate_options)");
    troika_result result = {};
    result.size = size;
    expect_refused(
        troika_generate(session_, "Once", 4, nullptr, nullptr, nullptr, &result, &error_),
        TROIKA_USAGE, "sizeof(troika_result)");
  }
  expect_refused(troika_default_generate_options(nullptr, &error_), TROIKA_USAGE, "options");
}

// Such a caller was built before the last fields came: behind its structs is something else.
TEST_F(CApi, NothingBehindAShorterStructIsReadOrWritten) {
  auto options = sized<troika_engine_options>();
  options.size = offsetof(troika_engine_options, draft);
  options.threads = 2;
  options.context = 4096;
  options.draft = reinterpret_cast<const char*>(1);
  troika_engine* engine = nullptr;
  troika_session* session = nullptr;
  ASSERT_EQ(troika_engine_open(path_.c_str(), &options, &engine, &error_), TROIKA_OK)
      << error_.message;
  ASSERT_EQ(troika_session_open(engine, &session, &error_), TROIKA_OK);
  auto result = sized<troika_result>(), whole = sized<troika_result>();
  result.size = offsetof(troika_result, passes);
  result.passes = -7;
  generate_.seed = 0;
  const std::string text = text_of(session_, "Once", &whole);
  generate_.size = offsetof(troika_generate_options, seed);
  generate_.seed = 5;
  generate_.chat = 7;
  EXPECT_EQ(text_of(session, "Once", &result), text);
  EXPECT_EQ(result.passes, -7);
  EXPECT_EQ(result.generated_tokens, whole.generated_tokens);
  EXPECT_EQ(result.size, offsetof(troika_result, passes));
  EXPECT_EQ(whole.size, sizeof(whole));
  ASSERT_EQ(troika_default_generate_options(&generate_, &error_), TROIKA_OK);
  EXPECT_EQ(generate_.max_tokens, -1);
  EXPECT_EQ(generate_.seed, 5u);
  EXPECT_EQ(generate_.chat, 7);
  EXPECT_EQ(generate_.size, offsetof(troika_generate_options, seed));
  troika_session_close(session);
  troika_engine_close(engine);
}

TEST_F(CApi, RefusesPromptsThatDoNotFit) {
  expect_refused(troika_generate(session_, "", 0, &generate_, nullptr, nullptr, nullptr, &error_),
                 TROIKA_ERROR, "empty");
  const std::string text(20000, '#');
  expect_refused(troika_generate(session_, text.data(), text.size(), &generate_, nullptr, nullptr,
                                 nullptr, &error_),
                 TROIKA_ERROR, "4096");
  // The session still works.
  EXPECT_FALSE(text_of(session_, "Once upon a time").empty());
}

TEST_F(CApi, TokenizesThereAndBack) {
  const std::string text = "Once upon a time, caf\xc3\xa9 <|im_end|>";
  size_t n = 0;
  expect_refused(troika_tokenize(engine_, text.data(), text.size(), 1, 0, nullptr, 0, &n, &error_),
                 TROIKA_TOO_SMALL, "too small");
  ASSERT_GT(n, 5u);
  std::vector<int32_t> tokens(n);
  expect_refused(
      troika_tokenize(engine_, text.data(), text.size(), 1, 0, tokens.data(), n - 1, &n, &error_),
      TROIKA_TOO_SMALL, "too small");
  ASSERT_EQ(n, tokens.size());
  ASSERT_EQ(troika_tokenize(engine_, text.data(), text.size(), 1, 0, tokens.data(), n, &n, &error_),
            TROIKA_OK);
  size_t n_bytes = 0;
  std::string back(text.size() + 1, '#');
  expect_refused(
      troika_detokenize(engine_, tokens.data(), n, back.data(), text.size(), &n_bytes, &error_),
      TROIKA_TOO_SMALL, "too small");  // has no room for the zero byte
  EXPECT_EQ(n_bytes, text.size());
  ASSERT_EQ(
      troika_detokenize(engine_, tokens.data(), n, back.data(), back.size(), &n_bytes, &error_),
      TROIKA_OK);
  EXPECT_EQ(back, text + '\0');
  size_t n_special = 0;
  tokens.resize(n);
  ASSERT_EQ(troika_tokenize(engine_, text.data(), text.size(), 1, 1, tokens.data(), n, &n_special,
                            &error_),
            TROIKA_OK);
  EXPECT_LT(n_special, n);
  for (const int32_t wrong : {-1, 512, 1 << 30}) {
    expect_refused(
        troika_detokenize(engine_, &wrong, 1, back.data(), back.size(), &n_bytes, &error_),
        TROIKA_USAGE, "no token");
  }
}

TEST_F(CApi, TheSameSeedGivesTheSameText) {
  const std::string text = text_of(session_, "Once upon a time");
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text_of(session_, "Once upon a time"), text);
  generate_.seed = 4;
  EXPECT_NE(text_of(session_, "Once upon a time"), text);
}

TEST_F(CApi, GuessesChangeNothingButTheNumberOfPasses) {
  generate_.max_tokens = 120;
  generate_.temperature = 0;  // makes a small model with random weights repeat itself
  auto options = sized<troika_engine_options>();
  options.threads = 2;
  options.context = 4096;
  options.draft = "none";
  troika_engine* plain_engine = nullptr;
  troika_session* plain_session = nullptr;
  ASSERT_EQ(troika_engine_open(path_.c_str(), &options, &plain_engine, &error_), TROIKA_OK);
  ASSERT_EQ(troika_session_open(plain_engine, &plain_session, &error_), TROIKA_OK);
  auto plain = sized<troika_result>(), drafted = sized<troika_result>();
  const std::string text = text_of(plain_session, "Once upon a time", &plain);
  troika_session_close(plain_session);
  troika_engine_close(plain_engine);
  EXPECT_EQ(plain.passes, plain.generated_tokens - 1);
  // Several answers are needed, because guesses wait until passes of one token have been measured.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(text_of(session_, "Once upon a time", &drafted), text);
    EXPECT_LE(drafted.passes, plain.passes);
  }
  EXPECT_EQ(drafted.generated_tokens, plain.generated_tokens);
}

TEST_F(CApi, AGrowingPromptIsNotComputedAgain) {
  auto first = sized<troika_result>(), second = sized<troika_result>();
  generate_.max_tokens = 0;
  text_of(session_, "Once upon a time", &first);
  EXPECT_EQ(first.computed_tokens, first.prompt_tokens);
  EXPECT_EQ(first.generated_tokens, 0);
  text_of(session_, "Once upon a time there was", &second);
  EXPECT_GT(second.prompt_tokens, first.prompt_tokens);
  // The new text may spell the last piece of the first prompt with other tokens.
  EXPECT_LE(second.computed_tokens, second.prompt_tokens - first.prompt_tokens + 1);
  EXPECT_GT(second.computed_tokens, 0);
}

TEST_F(CApi, ACallbackCanStop) {
  generate_.max_tokens = -1;
  int n_calls = 0;
  const auto stop_at_third = [](void* user, const char*, size_t) {
    return ++*static_cast<int*>(user) < 3 ? 1 : 0;
  };
  auto result = sized<troika_result>();
  ASSERT_EQ(
      troika_generate(session_, "Once", 4, &generate_, stop_at_third, &n_calls, &result, &error_),
      TROIKA_OK);
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(result.stop, TROIKA_STOP_CANCELLED);
}

// The end of an answer may bring text that was held back, such as half a character.
TEST_F(CApi, ACallbackThatStoppedIsNotCalledAgain) {
  generate_.max_tokens = -1;
  generate_.temperature = 8;  // makes all tokens nearly as likely, bytes among them
  generate_.top_k = 0;
  generate_.top_p = 1;
  generate_.min_p = 0;
  const auto stop_at_once = [](void* user, const char*, size_t) {
    ++*static_cast<int*>(user);
    return 0;
  };
  for (generate_.seed = 0; generate_.seed < 400; ++generate_.seed) {
    int n_calls = 0;
    ASSERT_EQ(
        troika_generate(session_, "Once", 4, &generate_, stop_at_once, &n_calls, nullptr, &error_),
        TROIKA_OK);
    EXPECT_LE(n_calls, 1) << generate_.seed;
  }
}

TEST_F(CApi, WhateverACallbackThrowsIsASentence) {
  const auto throw_number = [](void*, const char*, size_t) -> int { throw 7; };
  expect_refused(
      troika_generate(session_, "Once", 4, &generate_, throw_number, nullptr, nullptr, &error_),
      TROIKA_ERROR, "return 0");
  EXPECT_FALSE(text_of(session_, "Once upon a time").empty());
}

// Has a message so long that no string of it can be made in little memory.
struct LongThrow : std::exception {
  const char* what() const noexcept override { return message->c_str(); }
  const std::string* message;
};

TEST_F(CApi, NothingIsThrownWhereThereIsNoMemoryForASentence) {
  if (troika::test::kIsSanitized) GTEST_SKIP() << "sanitizers want memory without end";
  const std::string message = "The end " + std::string(size_t{64} << 20, '.') + " has come.";
  struct Throwing {
    const std::string* message;
    rlimit before = {};
  } throwing{&message};
  const auto throw_long = [](void* user, const char*, size_t) -> int {
    auto& to_throw = *static_cast<Throwing*>(user);
    getrlimit(RLIMIT_AS, &to_throw.before);
    const rlimit little = {size_t{1} << 20, to_throw.before.rlim_max};
    setrlimit(RLIMIT_AS, &little);
    LongThrow thrown;
    thrown.message = to_throw.message;
    throw thrown;
  };
  for (troika_error* const error : {&error_, static_cast<troika_error*>(nullptr)}) {
    troika_code code = TROIKA_OK;
    bool has_thrown = false;
    try {
      code =
          troika_generate(session_, "Once", 4, &generate_, throw_long, &throwing, nullptr, error);
    } catch (...) {
      has_thrown = true;
    }
    setrlimit(RLIMIT_AS, &throwing.before);
    EXPECT_FALSE(has_thrown);
    EXPECT_EQ(code, TROIKA_ERROR);
  }
  EXPECT_TRUE(std::string(error_.message).starts_with("The end .")) << error_.message;
  EXPECT_TRUE(std::string(error_.message).ends_with(". has come.")) << error_.message;
}

// Holds a prompt in memory that cancels the session when it is first read: then troika_generate has
// begun and has no tokens yet.
class CancellingPage {
 public:
  explicit CancellingPage(troika_session* session) {
    session_ = session;
    page_ = static_cast<char*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(page_, "Once", 4);
    mprotect(page_, kBytes, PROT_NONE);
    struct sigaction action = {};
    action.sa_handler = [](int) {
      mprotect(page_, kBytes, PROT_READ);
      troika_session_cancel(session_);
    };
    sigaction(SIGSEGV, &action, &before_);
  }
  ~CancellingPage() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(page_, kBytes);
  }
  CancellingPage(const CancellingPage&) = delete;
  CancellingPage& operator=(const CancellingPage&) = delete;

  const char* text() const { return page_; }

 private:
  static constexpr size_t kBytes = 65536;  // is a multiple of any size of pages
  // A signal's handler gets no argument of ours.
  static inline char* page_ = nullptr;
  static inline troika_session* session_ = nullptr;
  struct sigaction before_ = {};
};

TEST_F(CApi, ACancelThatComesBeforeTheFirstTokenHolds) {
  generate_.max_tokens = -1;
  auto result = sized<troika_result>();
  const CancellingPage prompt(session_);
  ASSERT_EQ(
      troika_generate(session_, prompt.text(), 4, &generate_, nullptr, nullptr, &result, &error_),
      TROIKA_OK)
      << error_.message;
  EXPECT_EQ(result.stop, TROIKA_STOP_CANCELLED);
  EXPECT_EQ(result.generated_tokens, 0);
}

TEST_F(CApi, AnotherThreadCanCancel) {
  generate_.max_tokens = -1;
  std::atomic<bool> started{false};
  const auto tell = [](void* user, const char*, size_t) {
    static_cast<std::atomic<bool>*>(user)->store(true);
    return 1;
  };
  auto result = sized<troika_result>();
  // A seed whose text ends by itself before the cancel would prove nothing.
  for (generate_.seed = 0; generate_.seed < 50; ++generate_.seed) {
    started = false;
    std::atomic<bool> done{false};
    std::thread canceller([&] {
      while (!started && !done) std::this_thread::yield();
      troika_session_cancel(session_);
    });
    const troika_code code =
        troika_generate(session_, "Once", 4, &generate_, tell, &started, &result, &error_);
    done = true;
    canceller.join();
    ASSERT_EQ(code, TROIKA_OK) << error_.message;
    if (result.stop == TROIKA_STOP_CANCELLED) break;
  }
  EXPECT_EQ(result.stop, TROIKA_STOP_CANCELLED);
  // A cancel holds only for the answer that is running.
  EXPECT_FALSE(text_of(session_, "Once upon a time").empty());
}

TEST_F(CApi, StopsWhereTheContextIsFull) {
  troika_engine* engine = nullptr;
  troika_session* session = nullptr;
  auto options = sized<troika_engine_options>();
  options.context = 16;
  ASSERT_EQ(troika_engine_open(path_.c_str(), &options, &engine, &error_), TROIKA_OK);
  ASSERT_EQ(troika_session_open(engine, &session, &error_), TROIKA_OK);
  generate_.max_tokens = -1;
  auto result = sized<troika_result>();
  for (generate_.seed = 0; generate_.seed < 50; ++generate_.seed) {
    text_of(session, "Once", &result);
    if (result.stop == TROIKA_STOP_CONTEXT) break;
  }
  EXPECT_EQ(result.stop, TROIKA_STOP_CONTEXT);
  EXPECT_EQ(result.prompt_tokens + result.generated_tokens, 16);
  troika_session_close(session);
  troika_engine_close(engine);
}

TEST_F(CApi, ChatUsesTheTemplate) {
  auto plain = sized<troika_result>(), chat = sized<troika_result>();
  generate_.max_tokens = 1;
  text_of(session_, "Once", &plain);
  generate_.chat = 1;
  text_of(session_, "Once", &chat);
  EXPECT_EQ(chat.prompt_tokens, plain.prompt_tokens + 2);
}

TEST_F(CApi, AdvisesFieldsThatItHasAndSaysWhatOnlyTheProgramHas) {
  TinyModel plain = model();
  plain.chat_template.clear();
  const std::string path = folder_.file("plain.gguf");
  write_tiny_model(plain, path);
  troika_engine* engine = nullptr;
  troika_session* session = nullptr;
  ASSERT_EQ(troika_engine_open(path.c_str(), nullptr, &engine, &error_), TROIKA_OK);
  ASSERT_EQ(troika_session_open(engine, &session, &error_), TROIKA_OK);
  generate_.chat = 1;
  expect_refused(
      troika_generate(session, "Once", 4, &generate_, nullptr, nullptr, nullptr, &error_),
      TROIKA_ERROR, "Set chat to 0");
  EXPECT_EQ(std::string(error_.message).find("template FILE"), std::string::npos);
  troika_session_close(session);
  troika_engine_close(engine);
  plain.pre = "of-tomorrow";
  write_tiny_model(plain, path);
  expect_refused(troika_engine_open(path.c_str(), nullptr, &engine, &error_), TROIKA_ERROR,
                 "with the program's option 'pre' NAME");
}

// A path of letters that take two bytes is longer than the place for the message.
TEST_F(CApi, ALongMessageIsCutBetweenCharactersInItsMiddle) {
  for (const std::string begin : {"/tmp/", "/tmp/x"}) {
    std::string path = begin;
    for (int i = 0; i < 600; ++i) path += "ä";
    troika_engine* engine = nullptr;
    EXPECT_EQ(troika_engine_open(path.c_str(), nullptr, &engine, &error_), TROIKA_ERROR);
    std::string rest = error_.message;
    EXPECT_GT(rest.size(), sizeof(error_.message) - 8);
    EXPECT_TRUE(rest.starts_with(begin)) << rest;
    EXPECT_TRUE(rest.ends_with("choose a shorter one.")) << rest;
    for (size_t at = rest.find("ä"); at != rest.npos; at = rest.find("ä")) rest.erase(at, 2);
    for (const char byte : rest) ASSERT_TRUE(byte > 0) << rest;
  }
}

TEST_F(CApi, TwoSessionsInTwoThreadsSayWhatEachSaysAlone) {
  generate_.max_tokens = 60;
  generate_.temperature = 0.7f;
  const std::string prompts[2] = {"Once upon a time", "The little girl was"};
  std::string alone[2], together[2];
  for (int i = 0; i < 2; ++i) alone[i] = text_of(session_, prompts[i]);
  ASSERT_NE(alone[0], alone[1]);
  troika_session* other = nullptr;
  ASSERT_EQ(troika_session_open(engine_, &other, &error_), TROIKA_OK);
  std::thread first([&] { together[0] = text_of(session_, prompts[0]); });
  std::thread second([&] { together[1] = text_of(other, prompts[1]); });
  first.join();
  second.join();
  troika_session_close(other);
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
}

}  // namespace
