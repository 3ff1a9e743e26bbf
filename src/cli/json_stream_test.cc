#include "cli/json_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troika::cli {
namespace {

using Json = nlohmann::ordered_json;

// Writes objects and arrays down to a depth piece by piece, and what lies deeper as whole values.
void stream(const Json& json, int depth, JsonStream& out) {
  if (depth == 0 || !json.is_structured()) return out.value(json);
  json.is_object() ? out.begin_object() : out.begin_array();
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) out.key(key);
    stream(value, depth - 1, out);
  }
  json.is_object() ? out.end_object() : out.end_array();
}

std::string streamed(const Json& json, int depth, int indent) {
  std::string text;
  JsonStream out([&](const std::string& piece) { text += piece; }, indent);
  stream(json, depth, out);
  out.flush();
  return text;
}

TEST(JsonStream, WritesWhatTheWholeDocumentWouldGive) {
  Json json = Json::parse(R"({"": {}, "a\n\"b": [], "c": [[], [1, -2, [3.5, null, {"x": true}]]],
                              "d": {"e": {"f": "line\nline"}, "g": [{}]}, "h": "\u0001"})");
  json["bytes"] = "\xff no text";
  for (const Json& one : {json, Json::array(), Json::object(), Json(7), Json("text")}) {
    for (const int indent : {-1, 0, 2}) {
      const std::string whole = one.dump(indent, ' ', false, Json::error_handler_t::replace);
      for (const int depth : {0, 1, 2, 3, 9}) EXPECT_EQ(streamed(one, depth, indent), whole);
    }
  }
}

TEST(JsonStream, LongDocumentsComeInPieces) {
  size_t longest = 0, n_bytes = 0;
  JsonStream out(
      [&](const std::string& piece) {
        longest = std::max(longest, piece.size());
        n_bytes += piece.size();
      },
      -1);
  out.begin_array();
  for (int i = 0; i < 500'000; ++i) out.value(1);
  out.end_array();
  out.flush();
  EXPECT_EQ(n_bytes, 1'000'001u);
  EXPECT_LT(longest, 100'000u);
}

}  // namespace
}  // namespace troika::cli
