#include "http/parser.h"

#include <gtest/gtest.h>

#include <vector>

namespace troika::http {
namespace {

constexpr Limits kLimits = {
    .target_bytes = 60, .head_bytes = 400, .n_headers = 5, .body_bytes = 20};

// Returns the status of the refusal; 0 for a whole request, and -1 if more bytes must come.
int status_of(std::string_view bytes, size_t part = 1000) {
  Parser parser(kLimits);
  while (!bytes.empty() && !parser.is_done() && !parser.is_refused()) {
    bytes.remove_prefix(parser.push(bytes.substr(0, part)));
  }
  if (parser.is_refused()) {
    EXPECT_TRUE(parser.refusal().why.ends_with('.')) << parser.refusal().why;
    return parser.refusal().status;
  }
  return parser.is_done() ? 0 : -1;  // says that more bytes must come
}

std::string get(const std::string& headers) {
  return "GET / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}
std::string post(const std::string& headers, const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body;
}

TEST(Parser, ReadsRequestsHoweverTheyAreCut) {
  const std::string bytes =
      "POST /v1/x?a=b HTTP/1.1\r\nHost: a:1\r\nContent-Length:  4 \r\n\r\nbodyGET ";
  for (size_t part = 1; part < bytes.size(); ++part) {
    Parser parser(kLimits);
    size_t n = 0;
    while (!parser.is_done()) n += parser.push(std::string_view(bytes).substr(n, part));
    EXPECT_EQ(n, bytes.size() - 4);
    const Request request = parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x");
    EXPECT_EQ(request.query, "a=b");
    EXPECT_EQ(request.body, "body");
    ASSERT_NE(request.header("content-length"), nullptr);
    EXPECT_EQ(*request.header("content-length"), "4");
    EXPECT_FALSE(request.wants_close);
    EXPECT_TRUE(parser.is_idle());
  }
}

TEST(Parser, ReadsBodiesInChunks) {
  Parser parser(kLimits);
  parser.push(post("Transfer-Encoding: Chunked\r\n", ""));
  parser.push("3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\n");
  ASSERT_TRUE(parser.is_done());
  EXPECT_EQ(parser.take().body, "abc0123456789");
}

TEST(Parser, StopsBehindAHeadThatAnnouncesABody) {
  Parser parser(kLimits);
  const std::string head = post("Content-Length: 2\r\n", "");
  EXPECT_EQ(parser.push(head + "ab"), head.size());
  EXPECT_TRUE(parser.has_new_head());
  EXPECT_EQ(parser.n_body_bytes(), 0u);
  EXPECT_EQ(parser.push("abGET"), 2u);
  EXPECT_FALSE(parser.has_new_head());
  EXPECT_TRUE(parser.is_done());
  Parser without(kLimits);
  without.push(get(""));
  EXPECT_FALSE(without.has_new_head());
}

TEST(Parser, AsksWhoMayGoOn) {
  Parser parser(kLimits);
  parser.push(post("Expect: 100-continue\r\nContent-Length: 2\r\n", ""));
  EXPECT_TRUE(parser.awaits_continue());
  parser.told_continue();
  EXPECT_FALSE(parser.awaits_continue());
  parser.push("ab");
  EXPECT_TRUE(parser.is_done());
  EXPECT_EQ(status_of(get("Expect: tea\r\n")), 417);
}

TEST(Parser, KnowsWhoWantsToClose) {
  const auto wants_close = [](const std::string& bytes) {
    Parser parser(kLimits);
    parser.push(bytes);
    EXPECT_TRUE(parser.is_done());
    return parser.take().wants_close;
  };
  EXPECT_FALSE(wants_close(get("Connection: keep-alive\r\n")));
  EXPECT_TRUE(wants_close(get("Connection: x , CLOSE\r\n")));
  EXPECT_TRUE(wants_close("GET / HTTP/1.0\r\n\r\n"));
}

TEST(Parser, RefusesWhatTwoReadersCouldReadInTwoWays) {
  const std::string chunk = "1\r\na\r\n0\r\n\r\n";
  const std::vector<std::string> bad = {
      post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunk),
      post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunk),
      post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
      post("Content-Length: 3, 3\r\n", "abc"),
      post("Content-Length: +3\r\n", "abc"),
      post("Content-Length: 0x3\r\n", "abc"),
      post("Content-Length:\r\n", "abc"),
      post("Content-Length : 3\r\n", "abc"),
      post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk),
      post("Transfer-Encoding: chunked\r\n", "1;x=y\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "+1\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "0x1\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "\r\na\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"),
      post("Transfer-Encoding: chunked\r\n", "1\na\n0\n\n"),
      post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\nHost: b\r\n\r\n"),
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk,
      get("A: b\r\n c\r\n"),
      get("A: b\n"),
      get("A: b\rc\r\n"),
      get(std::string("A: b\0c\r\n", 8)),
      get("A\r\n"),
      get(": b\r\n"),
      get("A b: c\r\n"),
      get("Host: b\r\n"),
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\n",
      "GET  / HTTP/1.1\r\n",
      "GET /  HTTP/1.1\r\n",
      "GET / x HTTP/1.1\r\n",
      "GET /\r\n",
      "GET / http/1.1\r\n",
      "GET http://a/ HTTP/1.1\r\n",
      "GET /\xc3\xa4 HTTP/1.1\r\n",
      "G@T / HTTP/1.1\r\n",
      "\r\n\r\n",
      "\x16\x03\x01",
  };
  for (const std::string& bytes : bad) {
    EXPECT_EQ(status_of(bytes), 400) << bytes;
    EXPECT_EQ(status_of(bytes, 1), 400) << bytes;
  }
}

TEST(Parser, BoundsWhatItReads) {
  EXPECT_EQ(status_of("GET /" + std::string(61, 'a') + " HTTP/1.1\r\n"), 414);
  EXPECT_EQ(status_of(std::string(500, 'a')), 414);
  EXPECT_EQ(status_of(get("A: " + std::string(400, 'a') + "\r\n")), 431);
  EXPECT_EQ(status_of(get("A: b\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n")), 431);
  EXPECT_EQ(status_of(post("Content-Length: 21\r\n", "")), 413);
  EXPECT_EQ(status_of(post("Content-Length: 99999999999999999999999999\r\n", "")), 413);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "15\r\n")), 413);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "ffffffffffffff\r\n")), 413);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "10\r\n0123456789abcdef\r\n5\r\n")),
            413);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\n")), 400);
}

TEST(Parser, SaysWhatIsWrongBehindAChunkHoweverLongItIs) {
  const auto why = [](const std::string& body) {
    Parser parser(kLimits);
    const std::string bytes = post("Transfer-Encoding: chunked\r\n", body);
    std::string_view rest = bytes;
    while (!rest.empty() && !parser.is_done() && !parser.is_refused()) {
      rest.remove_prefix(parser.push(rest));
    }
    return parser.is_refused() ? parser.refusal().why : "";
  };
  EXPECT_TRUE(why("0\r\nX-Checksum: abcdef0123\r\n\r\n").starts_with("Headers behind a body"));
  EXPECT_TRUE(why("1\r\nabcdefghijklmnopqrstuvwxyz").starts_with("A chunk of the body is longer"));
  EXPECT_TRUE(why("1;name=abcdefghijklmnop").starts_with("The line before a chunk is too long"));
}

TEST(Parser, ReadsLengthsWithZerosBeforeThem) {
  EXPECT_EQ(status_of(post("Content-Length: 0000000000000002\r\n", "ab")), 0);
  EXPECT_EQ(status_of(post("Content-Length: 0000000000000000\r\n", "")), 0);
}

TEST(Parser, NamesWhatItDoesNotKnow) {
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/0.9\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 0);
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\n\r\n"), 400);  // it needs a host as 1.1 does
  EXPECT_EQ(status_of("BREW / HTTP/1.1\r\n"), 501);
  EXPECT_EQ(status_of("TRACE / HTTP/1.1\r\n"), 501);
  EXPECT_EQ(status_of(post("Transfer-Encoding: gzip, chunked\r\n", "")), 501);
  EXPECT_EQ(status_of(post("", "")), 0);  // which methods a path has is not the parser's matter
  EXPECT_EQ(status_of("\r\n" + get("")), 0);
}

}  // namespace
}  // namespace troika::http
