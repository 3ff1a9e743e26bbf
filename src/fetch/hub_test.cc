#include "fetch/hub.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/error.h"
#include "fetch/curl.h"
#include "tests/support/temp_folder.h"

namespace troika::fetch {
namespace {

using test::message_of;

struct Reply {
  HttpHead head;
  std::string body;
};

// A transport that gives prepared replies and keeps what it was asked.
class PlayedTransport : public Transport {
 public:
  std::string get(const HttpRequest& request, const HttpSink& sink) override {
    asked.push_back(request);
    if (replies.empty()) return "nobody is there";
    const Reply reply = replies.front();
    replies.pop_front();
    if (sink.head(reply.head)) sink.body(std::as_bytes(std::span(reply.body)));
    return "";
  }
  bool had_token(size_t i) const {
    for (const std::string& field : asked.at(i).fields) {
      if (field == "Authorization: Bearer secret") return true;
    }
    return false;
  }
  std::deque<Reply> replies;
  std::vector<HttpRequest> asked;
};

const ModelName kName = {"a", "b", ""};

std::string bytes_of(const Hub& hub, const std::string& path, uint64_t offset = 0,
                     const std::string& version = "") {
  std::string text;
  hub.get(kName, path, offset, version,
          {[](const HttpHead&) { return true; },
           [&](std::span<const std::byte> bytes) {
             text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
             return true;
           }});
  return text;
}

Reply redirect_to(const std::string& url) {
  return {{302, {{"location", url}}}, "Found. Redirecting"};
}

TEST(Hub, PagesFollowTheLink) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example/", "");
  transport.replies = {{{200, {{"link", "<https://hub.example/p2>; rel=\"next\""}}},
                        R"([{"type": "file", "path": "a.gguf", "size": 1}])"},
                       {{200, {}}, R"([{"type": "file", "path": "b.gguf", "size": 2}])"}};
  EXPECT_EQ(hub.list(kName).files.size(), 2u);
  EXPECT_EQ(transport.asked.at(0).url,
            "https://hub.example/api/models/a/b/tree/main?recursive=true");
  EXPECT_EQ(transport.asked.at(1).url, "https://hub.example/p2");
  EXPECT_NE(message_of<Error>([&] { hub.list(kName); }).find("nobody is there"), std::string::npos);
}

TEST(Hub, TheTokenStaysAtHome) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example", "secret");
  transport.replies = {redirect_to("/other"),
                       redirect_to("https://cdn.example/x"),
                       redirect_to("https://hub.example:8443/x"),
                       {{200, {}}, "bytes"}};
  EXPECT_EQ(bytes_of(hub, "d/a b.gguf", 7), "bytes");
  ASSERT_EQ(transport.asked.size(), 4u);
  EXPECT_EQ(transport.asked[0].url, "https://hub.example/a/b/resolve/main/d/a%20b.gguf");
  for (const HttpRequest& request : transport.asked) {
    EXPECT_EQ(request.fields.at(0), "Range: bytes=7-");
  }
  EXPECT_TRUE(transport.had_token(0));
  EXPECT_TRUE(transport.had_token(1));
  EXPECT_FALSE(transport.had_token(2));
  EXPECT_FALSE(transport.had_token(3));
}

TEST(Hub, OnlyTheRestIsAskedForByItsVersion) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example", "");
  transport.replies = {
      redirect_to("https://cdn.example/x"), {{206, {}}, "rest"}, {{200, {}}, "all"}};
  EXPECT_EQ(bytes_of(hub, "a.gguf", 7, "\"tag\""), "rest");
  EXPECT_EQ(bytes_of(hub, "a.gguf", 0, "\"tag\""), "all");
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(transport.asked.at(i).fields,
              (std::vector<std::string>{"Range: bytes=7-", "If-Range: \"tag\""}));
  }
  EXPECT_TRUE(transport.asked.at(2).fields.empty());
}

TEST(Hub, WhereARedirectionMustNotLead) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example", "secret");
  for (const char* url : {"", "file:///etc/passwd", "http://hub.example/a", "ftp://a/b",
                          "https://hub.example\\@evil.example/a",
                          "https://hub.example@evil.example", "/\\@evil.example/a"}) {
    transport.asked.clear();
    transport.replies = {redirect_to(url)};
    EXPECT_THROW(bytes_of(hub, "a.gguf"), Error) << url;
    EXPECT_EQ(transport.asked.size(), 1u) << url;
  }
  for (int i = 0; i < 20; ++i) transport.replies.push_back(redirect_to("https://hub.example/a"));
  EXPECT_NE(message_of<Error>([&] { bytes_of(hub, "a.gguf"); }).find("without an end"),
            std::string::npos);
}

TEST(Hub, StatusesAreSentences) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example", "secret");
  const std::pair<int, const char*> wanted[] = {
      {401, "HF_TOKEN"}, {403, "licence"}, {404, "no such"}, {429, "in 9 s"}, {418, "418"}};
  for (const auto& [status, words] : wanted) {
    transport.replies = {{{status, {{"retry-after", "9"}}}, ""}};
    const std::string message = message_of<Error>([&] { bytes_of(hub, "a.gguf"); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
  // A hub passes on the statuses 206, 416 and 503: whoever downloads deals with them.
  for (const int status : {206, 416, 503}) {
    transport.replies = {{{status, {}}, "x"}};
    EXPECT_EQ(bytes_of(hub, "a.gguf"), "x");
  }
}

TEST(Hub, WhoeverRefusesIsNamed) {
  PlayedTransport transport;
  const Hub hub(transport, "https://hub.example", "");
  for (const int status : {401, 403, 404, 429}) {
    transport.replies = {redirect_to("https://cdn.example/x"), {{status, {}}, ""}};
    const std::string message = message_of<Error>([&] { bytes_of(hub, "a.gguf"); });
    EXPECT_NE(message.find("https://cdn.example, which answers with the status"), message.npos)
        << message;
    for (const char* advice : {"HF_TOKEN", "licence", "spelling"}) {
      EXPECT_EQ(message.find(advice), message.npos) << message;
    }
  }
  transport.replies = {redirect_to("https://cdn.example/x"), {{403, {}}, ""}};
  std::string message = message_of<Error>([&] { hub.list(kName); });
  EXPECT_NE(message.find("https://cdn.example, which"), message.npos) << message;
  transport.replies = {redirect_to("https://cdn.example/x")};
  message = message_of<Error>([&] { hub.list(kName); });
  EXPECT_NE(message.find("https://cdn.example cannot be asked"), message.npos) << message;
  transport.replies = {redirect_to("/elsewhere"), {{403, {}}, ""}};
  message = message_of<Error>([&] { bytes_of(hub, "a.gguf"); });
  EXPECT_NE(message.find("licence"), message.npos) << message;
}

TEST(Hub, EndpointsAndTokensThatCannotBe) {
  PlayedTransport transport;
  for (const char* endpoint :
       {"", "hub.example", "file:///tmp", "https://a@b", "https://a/?x", "https://a\\@b"}) {
    EXPECT_THROW(Hub(transport, endpoint, ""), UsageError) << endpoint;
  }
  const std::string message =
      message_of<UsageError>([&] { Hub(transport, "https://a", "se\r\ncret"); });
  EXPECT_NE(message.find("HF_TOKEN"), std::string::npos);
  EXPECT_EQ(message.find("cret\""), std::string::npos) << message;
}

TEST(Curl, IsAskedForWhereItIsMissing) {
  const std::string message = message_of<Error>([] { make_curl_transport("libnosuchcurl.so.4"); });
  EXPECT_NE(message.find("libcurl"), std::string::npos) << message;
  EXPECT_NE(message.find("give its path"), std::string::npos) << message;
}

}  // namespace
}  // namespace troika::fetch
