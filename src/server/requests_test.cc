// Reads bodies of requests as strangers may send them: good ones with bytes changed, lost and
// repeated. A fuzzing program would have to be linked to the whole engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/anthropic/read_messages.h"
#include "server/calls/answer_readers.h"
#include "server/openai/read_responses.h"

namespace troika::server {
namespace {

constexpr int kChanged = 1000;  // counts changed copies of each body

constexpr const char* kBodies[] = {
    R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1",)"
    R"("type":"function","function":{"name":"f","arguments":"{\"x\":[1,null,\"\\u00e9\"]}"}}]},)"
    R"({"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"b"}]}],"tools":[{"type":)"
    R"("function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"required",)"
    R"("response_format":{"type":"json_object"},"chat_template_kwargs":{"enable_thinking":true}})",
    R"({"system":[{"type":"text","text":"a"}],"messages":[{"role":"assistant","content":[{"type":)"
    R"("tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":)"
    R"("tool_result","tool_use_id":"1","content":"b","is_error":true}]}],"tools":[{"name":"f",)"
    R"("input_schema":{}}],"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"enabled"}})",
    R"({"instructions":"a","input":[{"role":"user","content":"a"},{"type":"function_call",)"
    R"("call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1",)"
    R"("output":[{"type":"input_text","text":"b"}]}],"text":{"format":{"type":"json_schema","name":)"
    R"("n","schema":{}}},"reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f"}],)"
    R"("tool_choice":{"type":"function","name":"f"}})",
    R"({"input":[{"type":"reasoning","id":"r","summary":[]},{"role":"user","content":"a"}]})",
};

// Draws numbers that follow from a seed.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t next() { return random_bits(seed_, n_++); }

 private:
  uint64_t seed_, n_ = 0;
};

std::string changed(std::string text, Random& random) {
  const auto n_changes = 1 + random.next() % 4;
  for (uint64_t i = 0; i < n_changes && !text.empty(); ++i) {
    const size_t at = random.next() % text.size();
    const size_t n = std::min<size_t>(1 + random.next() % 12, text.size() - at);
    static constexpr std::string_view kBytes = "{}[]\":,0x\\nte\x80\xff";
    switch (random.next() % 4) {
      case 0:
        text[at] = kBytes[random.next() % kBytes.size()];
        break;
      case 1:
        text.erase(at, n);
        break;
      case 2:
        text.insert(at, text.substr(random.next() % text.size(), n));
        break;
      default:
        text.insert(at, 1, kBytes[random.next() % kBytes.size()]);
    }
  }
  return text;
}

void collect_values(Json& json, std::vector<Json*>* values) {
  values->push_back(&json);
  if (!json.is_structured()) return;
  for (Json& inner : json) collect_values(inner, values);
}

// Returns the body with one value in place of another, or without an entry of a list.
std::string with_another_kind(const std::string& body, Random& random) {
  static const Json kinds =
      Json::parse(R"([null, true, 5, -1.5, "", "no", [], {}, [[]], ["a"], {"type": 5}])");
  Json json = Json::parse(body);
  std::vector<Json*> values;
  collect_values(json, &values);
  Json& value = *values[random.next() % values.size()];
  if (value.is_array() && !value.empty() && random.next() % 2 == 0) {
    value.erase(random.next() % value.size());
  } else {
    value = kinds[random.next() % kinds.size()];
  }
  return json.dump();
}

// Checks that nothing is thrown but refusals with a sentence.
template <typename Read>
bool is_taken(const std::string& text, Read read) {
  try {
    const Json body = object_from(text);
    Fields fields(body);
    read(fields);
    read_form(fields);
    read_text_form(fields);
    fields.finish();
    return true;
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.status, 400);
    EXPECT_TRUE(std::string_view(refused.what()).ends_with('.')) << refused.what();
    return false;
  }
}

bool is_taken_as(size_t kind, const std::string& text) {
  switch (kind) {
    case 0:
      return is_taken(text, read_conversation);
    case 1:
      return is_taken(text, read_messages);
    default:
      return is_taken(text, read_responses);
  }
}

TEST(Requests, AreTakenOrRefusedInWordsWhateverTheyAre) {
  Random random(7);
  for (size_t i = 0; i < std::size(kBodies); ++i) {
    EXPECT_TRUE(is_taken_as(i, kBodies[i])) << kBodies[i];
    for (int j = 0; j < kChanged; ++j) {
      const std::string texts[] = {changed(kBodies[i], random),
                                   with_another_kind(kBodies[i], random)};
      for (const std::string& text : texts) {
        for (size_t kind = 0; kind < 3; ++kind) is_taken_as(kind, text);
      }
    }
  }
}

TEST(Requests, WithoutAMessageAreRefused) {
  EXPECT_FALSE(is_taken_as(2, R"({"input":[{"type":"reasoning","id":"r","summary":[]}]})"));
}

std::string object_of(int n_keys) {
  std::string keys = R"("a":1)";
  for (int i = 1; i < n_keys; ++i) keys += ",\"" + std::to_string(i) + "\":[\":\"]";
  return "{" + keys + "}";
}

TEST(Requests, WithVeryManyFieldsAreRefused) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      object_from(text);
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.status, 400);
      return refused.what();
    }
    return "it was taken";
  };
  EXPECT_EQ(refusal(object_of(2000)), "it was taken");
  EXPECT_EQ(refusal(object_of(2001)), "An object of the body has more than 2000 fields.");
  EXPECT_EQ(refusal(object_of(100'000)), "An object of the body has more than 2000 fields.");
  std::string list = R"({"a":[0)";
  for (int i = 0; i < 5; ++i) list += "," + object_of(2000);
  EXPECT_EQ(refusal(list + "]}"), "it was taken");
  for (int i = 0; i < 20; ++i) list += "," + object_of(2000);
  EXPECT_EQ(refusal(list + "]}"), "Too many objects of the body have many fields.");
}

// Arguments of earlier calls are texts of JSON within the JSON: a request may have many, and each
// may be as large as is allowed.
TEST(Requests, WithVeryManyFieldsInArgumentsAreRefused) {
  const auto refusal = [](auto read, const Json& body) -> std::string {
    Fields fields(body);
    try {
      read(fields);
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.status, 400);
      return refused.what();
    }
    return "it was taken";
  };
  const std::string arguments = object_of(2000);
  for (const int n_calls : {9, 11}) {
    Json calls = Json::array(), items = Json::array();
    for (int i = 0; i < n_calls; ++i) {
      calls.push_back({{"id", "1"}, {"function", {{"name", "f"}, {"arguments", arguments}}}});
      items.push_back({{"type", "function_call"}, {"name", "f"}, {"arguments", arguments}});
    }
    items.push_back({{"role", "user"}, {"content", "a"}});
    const Json chat = {{"messages", Json::array({{{"role", "assistant"}, {"tool_calls", calls}}})}};
    const char* const expected =
        n_calls < 10 ? "it was taken" : "Too many objects of the body have many fields.";
    EXPECT_EQ(refusal(read_conversation, chat), expected);
    EXPECT_EQ(refusal(read_responses, Json{{"input", items}}), expected);
  }
}

TEST(Requests, ValuesOfOtherKindsAreRefusedByName) {
  const auto refusal = [](auto read, const char* text) -> std::string {
    const Json body = object_from(text);
    Fields fields(body);
    try {
      read(fields);
    } catch (const Refused& refused) {
      return refused.field;
    }
    return "it was taken";
  };
  EXPECT_EQ(refusal(read_conversation, R"({"messages":[{"role":"user","content":[{"type":5}]}]})"),
            "messages[0].content[0].type");
  EXPECT_EQ(refusal(read_conversation, R"({"messages":[{"role":"user","content":"a"}],)"
                                       R"("chat_template_kwargs":{"enable_thinking":"no"}})"),
            "chat_template_kwargs.enable_thinking");
  for (const char* const name : {"messages", "tools", "add_generation_prompt"}) {
    const std::string body = R"({"messages":[{"role":"user","content":"a"}],)"
                             R"("chat_template_kwargs":{"style":"b",")" +
                             std::string(name) + R"(":[{"role":"user","content":"b"}]}})";
    EXPECT_EQ(refusal(read_conversation, body.c_str()),
              std::string("chat_template_kwargs.") + name);
  }
  EXPECT_EQ(refusal(read_responses, R"({"input":"a","tools":[{"type":"function","name":"f"}],)"
                                    R"("tool_choice":{"type":"function","name":5}})"),
            "tool_choice.name");
}

// A wish that is ignored is found out too late, also where it stands within others.
TEST(Requests, UnknownFieldsOfInnerObjectsAreRefusedByName) {
  const auto refusal = [](const std::string& messages, const std::string& more) -> std::string {
    const Json body = object_from(R"({"messages":[)" + messages + "]" + more + "}");
    Fields fields(body);
    try {
      read_conversation(fields);
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.status, 400);
      return refused.field;
    }
    return "it was taken";
  };
  const std::string tools =
      R"(,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":)";
  const auto choice = [&](const std::string& given) {
    return refusal(R"({"role":"user","content":"a"})", tools + given);
  };
  EXPECT_EQ(choice(R"({"type":"custom","function":{"name":"f"}})"), "tool_choice.type");
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"f"},"bogus":1})"),
            "tool_choice.bogus");
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"f","zz":1}})"),
            "tool_choice.function.zz");
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"f","description":null}})"),
            "it was taken");
  const auto call = [&](const std::string& given) {
    return refusal(
        R"({"role":"user","content":"a"},{"role":"assistant","tool_calls":[)" + given + "]}", "");
  };
  const std::string inner = "messages[1].tool_calls[0].";
  EXPECT_EQ(call(R"({"type":"zzz","function":{"name":"f"}})"), inner + "type");
  EXPECT_EQ(call(R"({"type":"function","function":{"name":"f"},"bogus":1})"), inner + "bogus");
  EXPECT_EQ(call(R"({"function":{"name":"f","arguments":"{}","zz":1}})"), inner + "function.zz");
  EXPECT_EQ(call(R"({"id":"1","index":0,"type":null,"custom":null,"function":{"name":"f",)"
                 R"("arguments":"{}","parsed_arguments":{"a":1},"description":"","index":0,)"
                 R"("provider_specific_fields":{"thought_signature":"x"}}})"),
            "it was taken");
  const auto answer = [&](const std::string& more) {
    return refusal(R"({"role":"assistant","content":"a")" + more + "}", "");
  };
  EXPECT_EQ(answer(R"(,"zz":1)"), "messages[0].zz");
  EXPECT_EQ(answer(R"(,"parsed":{"a":1},"refusal":null,"annotations":[],"zz":null)"),
            "it was taken");
  const auto part = [&](const std::string& more) {
    return refusal(R"({"role":"user","content":[{"type":"text","text":"a")" + more + "}]}", "");
  };
  EXPECT_EQ(part(R"(,"zz":1)"), "messages[0].content[0].zz");
  EXPECT_EQ(part(R"(,"image_url":null,"refusal":"","cache_control":{"type":"ephemeral"},)"
                 R"("annotations":[],"logprobs":[],"citations":null)"),
            "it was taken");
}

std::string read_in_parts(std::string_view text, size_t part) {
  CallReader reader({"<tool_call>\n{\"name\": \"", "\", \"arguments\": ",
                     "}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>", true});
  std::string seen;
  const auto add = [&](const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      if (delta.kind == Delta::Kind::kCall) seen += '\x01';
      seen += delta.text;
    }
  };
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) {
    add(reader.push(text.substr(0, part)));
  }
  add(reader.finish());
  return seen;
}

TEST(Requests, CallsAreTheSameHoweverTheirTextIsCut) {
  const std::string calls =
      "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":\"}\"}}\n</tool_call>\n<tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\nb";
  Random random(8);
  for (int i = 0; i < kChanged; ++i) {
    const std::string text = changed(calls, random);
    const std::string whole = read_in_parts(text, text.size() + 1);
    EXPECT_EQ(read_in_parts(text, 1), whole) << text;
    EXPECT_EQ(read_in_parts(text, 7), whole) << text;
  }
}

}  // namespace
}  // namespace troika::server
