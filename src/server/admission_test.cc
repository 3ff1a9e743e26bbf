#include "server/admission.h"

#include <gtest/gtest.h>

#include "server/fields.h"

namespace troika::server {
namespace {

bool is_served(const std::string& host, const std::vector<std::string>& names) {
  http::Request request;
  request.headers.push_back({"host", host});
  try {
    check_host(request, names);
    return true;
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, 403);
    return false;
  }
}

TEST(Admission, ServesAddressesAndNamesThatItWasTold) {
  for (const char* const host :
       {"", "localhost", "LocalHost:8080", "127.0.0.1", "10.0.0.7:80", "[::1]", "[fe80::1]:8080"}) {
    EXPECT_TRUE(is_served(host, {})) << host;
  }
  for (const char* const host :
       {"box.example.org", "box.example.org:8080", "localhost.evil.com", "127.0.0.1.evil.com"}) {
    EXPECT_FALSE(is_served(host, {})) << host;
  }
  const std::vector<std::string> names = {"box.example.org", "proxy"};
  for (const char* const host : {"box.example.org", "Box.Example.ORG:8080", "proxy:1"}) {
    EXPECT_TRUE(is_served(host, names)) << host;
  }
  for (const char* const host : {"example.org", "a.box.example.org", "box.example.org.evil.com"}) {
    EXPECT_FALSE(is_served(host, names)) << host;
  }
  EXPECT_TRUE(is_served("localhost", names));
}

// Returns the key by which a request with these headers is served; empty if it is refused.
std::string asker_of(const std::vector<http::Header>& headers) {
  http::Request request;
  request.headers = headers;
  try {
    return check_key(request, {"first", "second"});
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, 401);
    return "";
  }
}

TEST(Admission, TakesAKnownKeyBesideOneThatIsForSomebodyElse) {
  const http::Header good_bearer = {"authorization", "Bearer first"};
  const http::Header bad_bearer = {"authorization", "Bearer other"};
  const http::Header good_key = {"x-api-key", "second"}, bad_key = {"x-api-key", "other"};
  EXPECT_EQ(asker_of({bad_bearer, good_key}), "second");
  EXPECT_EQ(asker_of({good_key, bad_bearer}), "second");
  EXPECT_EQ(asker_of({good_bearer, bad_key}), "first");
  EXPECT_EQ(asker_of({bad_key, good_bearer}), "first");
  EXPECT_EQ(asker_of({good_bearer, good_key}), "first");
  EXPECT_EQ(asker_of({bad_bearer, bad_key}), "");
  EXPECT_EQ(asker_of({{"authorization", "Basic first"}, good_key}), "second");
  EXPECT_EQ(asker_of({{"authorization", "Bearer "}}), "");
  EXPECT_EQ(asker_of({}), "");
}

}  // namespace
}  // namespace troika::server
