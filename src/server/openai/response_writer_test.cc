#include "server/openai/response_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troika::server {
namespace {

constexpr std::string_view kEventHead = "event: ";

// Drives a writer whose exchange is a mailbox that the test reads.
class ResponseWriterTest : public testing::Test {
 protected:
  std::unique_ptr<ResponseWriter> writer(bool is_stream, const std::string& echo) const {
    return std::make_unique<ResponseWriter>("tiny \"model\"", exchange_, is_stream, echo);
  }
  // Returns the texts of the events, or the body of the whole answer, that were written since the
  // last call.
  std::vector<std::string> written() const {
    std::vector<std::string> texts;
    for (const http::Mailbox::Letter& letter : mailbox_->take()) {
      if (letter.kind == http::Mailbox::Kind::kWrite) texts.push_back(letter.bytes);
      if (letter.kind == http::Mailbox::Kind::kReply) texts.push_back(letter.response.body);
    }
    return texts;
  }
  static void answer(ResponseWriter* writer, engine::Stop stop, int n_deltas = 2) {
    writer->begin();
    writer->progress(0, {.prompt = {.n_prompt = 9, .n_read = 4, .seconds = 0.25}, .timings = {}});
    for (int i = 0; i < n_deltas; ++i) writer->write(0, {.text = "\"\u00e9\n"});
    writer->write(0, {.kind = Delta::Kind::kCall, .text = "f", .id = "call_1"});
    writer->write(0, {.kind = Delta::Kind::kArguments, .text = "{\"a\":1}"});
    Ending ending;
    ending.generated.stop = stop;
    ending.generated.n_prompt = 9;
    ending.generated.tokens = {1, 2, 3};
    writer->end(0, ending);
    writer->finish();
  }

  std::shared_ptr<http::Mailbox> mailbox_ = std::make_shared<http::Mailbox>();
  std::shared_ptr<http::Exchange> exchange_ = std::make_shared<http::Exchange>(mailbox_, size_t{1});
};

Json large_request() {
  Json body = Json::parse(
      R"({"input":"not repeated","instructions":"Say \"\u00e9\u2028\\\" and\n{}.","user":"u",)"
      R"("metadata":{"a":"b"},"reasoning":{"effort":"low"},"max_output_tokens":7,)"
      R"("parallel_tool_calls":false,"tool_choice":"required","text":{"format":{"type":"text"}},)"
      R"("tools":[]})");
  for (int i = 0; i < 20; ++i) {
    body["tools"].push_back({{"type", "function"},
                             {"name", "f" + std::to_string(i)},
                             {"parameters", {{"maximum", 1e300}, {"minimum", -0.1}}}});
  }
  return body;
}

// The fields that a response repeats, one by one as the interface names them.
Json plain_echo(const Json& body, const Wanted& wanted) {
  const auto given = [&](const char* name, const Json& otherwise) {
    return body.contains(name) ? body[name] : otherwise;
  };
  Json echo = {{"instructions", given("instructions", nullptr)},
               {"max_output_tokens", given("max_output_tokens", nullptr)},
               {"metadata", given("metadata", Json::object())},
               {"parallel_tool_calls", given("parallel_tool_calls", true)},
               {"previous_response_id", nullptr},
               {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
               {"temperature", decimal_of(wanted.sampler.temperature)},
               {"text", given("text", {{"format", {{"type", "text"}}}})},
               {"tool_choice", given("tool_choice", "auto")},
               {"tools", given("tools", Json::array())},
               {"top_p", decimal_of(wanted.sampler.top_p)},
               {"truncation", "disabled"}};
  if (body.contains("user")) echo["user"] = body["user"];
  return echo;
}

TEST_F(ResponseWriterTest, RepeatsTheRequestAsAPlainDumpWouldWriteIt) {
  Wanted wanted;
  wanted.sampler.temperature = 0.7f;
  for (const Json& body : {large_request(), Json::parse(R"({"input":"a","text":null})")}) {
    EXPECT_EQ("{" + echo_text(body, wanted) + "}", plain_echo(body, wanted).dump());
  }
}

// An object is as the library writes it: its fields, the request's, and the usage where it has
// ended.
void expect_plain(const std::string& text, const Json& echo, bool has_usage) {
  const Json got = Json::parse(text);
  Json plain = {{"id", got["id"]},
                {"object", "response"},
                {"created_at", got["created_at"]},
                {"status", got["status"]},
                {"background", false},
                {"error", got["error"]},
                {"incomplete_details", got["incomplete_details"]},
                {"model", "tiny \"model\""},
                {"output", got["output"]}};
  plain.update(echo);
  EXPECT_EQ(got.contains("usage"), has_usage) << text;
  if (has_usage) plain["usage"] = got["usage"];
  EXPECT_EQ(text, plain.dump());
}

TEST_F(ResponseWriterTest, WritesWhatAPlainDumpWouldWrite) {
  const Json body = large_request();
  const Json echo = plain_echo(body, {});
  for (const engine::Stop stop : {engine::Stop::kEnd, engine::Stop::kLength}) {
    answer(writer(true, echo_text(body, {})).get(), stop);
    int n_responses = 0;
    for (const std::string& event : written()) {
      const size_t line = event.find('\n');
      const std::string type = event.substr(kEventHead.size(), line - kEventHead.size());
      const std::string data = event.substr(line + 7, event.size() - line - 9);
      EXPECT_EQ(event, "event: " + type + "\ndata: " + data + "\n\n");
      const Json json = Json::parse(data);
      EXPECT_EQ(json["type"], type);
      EXPECT_EQ(data, json.dump());
      if (!json.contains("response")) continue;
      ++n_responses;
      expect_plain(json["response"].dump(), echo, json["response"]["status"] != "in_progress");
    }
    EXPECT_EQ(n_responses, 4);
    answer(writer(false, echo_text(body, {})).get(), stop);
    const std::vector<std::string> whole = written();
    ASSERT_EQ(whole.size(), 1u);
    expect_plain(whole[0], echo, true);
  }
}

TEST_F(ResponseWriterTest, SaysInItsObjectsWhatHasHappened) {
  const auto last_of = [&](engine::Stop stop) {
    answer(writer(false, "\"echo\":1").get(), stop);
    return Json::parse(written().at(0));
  };
  const Json ended = last_of(engine::Stop::kEnd);
  EXPECT_EQ(ended["status"], "completed");
  EXPECT_EQ(ended["incomplete_details"], nullptr);
  EXPECT_EQ(ended["output"].size(), 2u);
  EXPECT_EQ(ended["usage"]["output_tokens"], 3);
  const Json cut = last_of(engine::Stop::kLength);
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  const std::unique_ptr<ResponseWriter> failed = writer(true, "\"echo\":1");
  failed->begin();
  failed->fail(Failure(Error("No \"memory\" for ‹context›.")));
  const std::string event = written().back();
  const Json json = Json::parse(event.substr(event.find("data: ") + 6));
  EXPECT_EQ(json["type"], "response.failed");
  EXPECT_EQ(json["sequence_number"], 2);
  EXPECT_EQ(json["response"]["status"], "failed");
  EXPECT_EQ(json["response"]["error"]["message"], "No \"memory\" for --context.");
  EXPECT_FALSE(json["response"].contains("usage"));
}

// The echo of this test is no JSON: it could be neither read nor written as such, only copied.
TEST_F(ResponseWriterTest, CopiesALargeEchoWithoutReadingItAgain) {
  const std::string echo = "\"tools\":" + std::string(size_t{1} << 20, '\xff');
  const std::unique_ptr<ResponseWriter> streaming = writer(true, echo);
  constexpr int kProgress = 20, kDeltas = 500;
  for (int i = 0; i < kProgress; ++i) streaming->progress(0, {});
  answer(streaming.get(), engine::Stop::kEnd, kDeltas);
  int n_with_echo = 0, n_without = 0;
  for (const std::string& event : written()) {
    const size_t at = event.find(echo);
    ++(at == std::string::npos ? n_without : n_with_echo);
    EXPECT_LT(event.size(), at == std::string::npos ? 10'000 : echo.size() + 10'000);
  }
  EXPECT_EQ(n_with_echo, kProgress + 4);  // also where it begins, reads on and ends
  EXPECT_GT(n_without, kDeltas);
}

// Whoever takes requests calls begin() with a lock that others wait for, so the events that it
// sends are there already.
TEST_F(ResponseWriterTest, HasItsFirstEventsBeforeItBegins) {
  const std::unique_ptr<ResponseWriter> streaming = writer(true, "\"echo\":1");
  EXPECT_TRUE(written().empty());
  streaming->begin();
  const std::vector<std::string> first = written();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_TRUE(first[0].starts_with("event: response.created\n")) << first[0];
  EXPECT_TRUE(first[1].starts_with("event: response.in_progress\n")) << first[1];
}

// What a response repeats of its request is kept longer than the request.
TEST_F(ResponseWriterTest, CountsWhatItKeepsOfTheRequest) {
  const std::string echo = R"("instructions":")" + std::string(1000, 'x') + "\"";
  auto kept = writer(false, echo);
  EXPECT_EQ(mailbox_->n_held.load(), echo.size());
  kept.reset();
  EXPECT_EQ(mailbox_->n_held.load(), 0u);
}

}  // namespace
}  // namespace troika::server
