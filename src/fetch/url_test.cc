#include "fetch/url.h"

#include <gtest/gtest.h>

namespace troika::fetch {
namespace {

TEST(Url, PercentEncoding) {
  EXPECT_EQ(percent_encoded("a/b-c_d.~9"), "a/b-c_d.~9");
  EXPECT_EQ(percent_encoded("a b?#%&+"), "a%20b%3F%23%25%26%2B");
  EXPECT_EQ(percent_encoded("\xc3\xa4"), "%C3%A4");
}

TEST(Url, Origins) {
  EXPECT_EQ(origin_of("https://HuggingFace.co/a/b"), "https://huggingface.co");
  EXPECT_EQ(origin_of("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
  EXPECT_EQ(origin_of("HTTP://[::1]:80/x?y"), "http://[::1]:80");
  EXPECT_EQ(origin_of("https://a?b://c"), "https://a");
  // A program that reads these URLs differently from libcurl would send a token to the wrong host,
  // so they have no origin.
  for (const char* url :
       {"", "huggingface.co", "ftp://a/b", "file:///etc/passwd", "https://",
        "https://huggingface.co@evil.example/", "https://a:b@c", "https://a b/",
        "https://huggingface.co\\@evil.example/x", "https://huggingface.co/a\\@evil.example"}) {
    EXPECT_EQ(origin_of(url), "") << url;
  }
}

TEST(Url, LinksAreAddressesOrPaths) {
  EXPECT_EQ(resolved("https://b/c?d", "https://a/x"), "https://b/c?d");
  EXPECT_EQ(resolved("/c?d", "https://a:8/x/y"), "https://a:8/c?d");
  for (const char* link : {"", "c", "//b/c", "file:///etc/passwd", "?cursor=1"}) {
    EXPECT_EQ(resolved(link, "https://a/x"), "") << link;
  }
}

TEST(Url, NextPage) {
  EXPECT_EQ(next_page("<https://a/b?cursor=x>; rel=\"next\""), "https://a/b?cursor=x");
  EXPECT_EQ(next_page("<https://a/1>; rel=\"prev\", <https://a/2>; rel=\"next\""), "https://a/2");
  EXPECT_EQ(next_page("<https://a/3>;rel=next"), "https://a/3");
  for (const char* link : {"", "<", "<>", "next", "<https://a/1>; rel=\"last\"", "<https://a/1"}) {
    EXPECT_EQ(next_page(link), "") << link;
  }
}

TEST(Url, ContentRanges) {
  const auto range = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 100u);
  EXPECT_EQ(range->total, 1000u);
  ASSERT_TRUE(parse_content_range("bytes 0-0/*"));
  EXPECT_FALSE(parse_content_range("bytes 0-0/*")->total);
  for (const char* text : {"", "bytes", "bytes 5-4/10", "bytes 0-10/10", "bytes */10", "0-1/2",
                           "bytes 1-/2", "bytes -1-2/3", "bytes 0-99999999999999999999/*"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

TEST(Url, VersionsOfFiles) {
  const std::string early = "Mon, 30 Nov 2026 14:00:00 GMT", late = "Mon, 30 Nov 2026 15:00:00 GMT";
  EXPECT_EQ(version_of({200, {{"etag", "\"a-b\""}, {"last-modified", early}, {"date", late}}}),
            "\"a-b\"");
  EXPECT_EQ(version_of({200, {{"last-modified", early}, {"date", late}}}), early);
  // A file that has just changed may change once more in the same second.
  EXPECT_EQ(version_of({200, {{"last-modified", late}, {"date", late}}}), "");
  EXPECT_EQ(version_of({200, {{"last-modified", early}}}), "");
  EXPECT_EQ(version_of({200, {{"last-modified", "a\tb"}, {"date", late}}}), "");
  // Whoever has a tag may not ask by the date, even if the tag is weak.
  for (const char* tag : {"W/\"a\"", "a", "\"", "\"\"", "\"a\"b\"", "\"a\n\""}) {
    EXPECT_EQ(version_of({200, {{"etag", tag}, {"last-modified", early}, {"date", late}}}), "")
        << tag;
  }
  EXPECT_EQ(version_of({200, {{"etag", "\"" + std::string(2000, 'a') + "\""}}}), "");

  EXPECT_TRUE(is_of_version({206, {{"etag", "\"a\""}}}, "\"a\""));
  EXPECT_FALSE(is_of_version({206, {{"etag", "\"b\""}}}, "\"a\""));
  EXPECT_FALSE(is_of_version({206, {}}, "\"a\""));
  EXPECT_TRUE(is_of_version({206, {}}, early));
  EXPECT_FALSE(is_of_version({206, {{"last-modified", late}}}, early));
  EXPECT_FALSE(is_of_version({206, {}}, ""));
}

}  // namespace
}  // namespace troika::fetch
