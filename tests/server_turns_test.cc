// Tests turns of a conversation that ask much of a server: grammars that take long, answers in
// channels, and answers that the client has begun.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tiny_server.h"

namespace troika {
namespace {

using test_support::HttpAnswer;
using test_support::HttpClient;
using test_support::Json;
using test_support::kWeatherTool;

class ServerTurns : public test_support::ServerTest {
 protected:
  // Asks for a grammar that takes seconds: its shortest text has 17 x 19 x 23 characters. Each
  // number makes another one, which the server does not know yet.
  static void send_slow(HttpClient& client, int number) {
    send_json(
        client, "/v1/chat/completions",
        chat(
            R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"allOf":)"
            R"([{"type":"string","pattern":"^(.{17})+$"},{"pattern":"^(.{19})+$"},)"
            R"({"pattern":"^(.{23})+$"},{"minLength":)" +
            std::to_string(number) + "}]}}}"));
  }
  static void send_json(HttpClient& client, const std::string& path, const std::string& body) {
    client.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
  }

  // Sends a slow request and a quick one behind it, and looks at both answers. Returns whether the
  // quick answer came first, in one of some tries: a busy machine may hold it up.
  bool quick_is_first(const std::function<void(HttpClient&, int)>& send_slow,
                      const std::string& quick_body,
                      const std::function<void(const Json& quick, const Json& slow)>& look) {
    bool is_first = false;
    for (int i = 0; i < 5 && !is_first; ++i) {
      HttpClient slow = client();
      send_slow(slow, i);
      std::atomic<bool> is_answered = false;
      HttpAnswer slow_answer;
      std::thread reader([&] {
        slow_answer = slow.read_answer();
        is_answered.store(true);
      });
      const Json quick = post("/v1/completions", quick_body);
      is_first = !is_answered.load();
      reader.join();
      EXPECT_EQ(slow_answer.status, 200) << slow_answer.body;
      look(quick, Json::parse(slow_answer.body));
    }
    return is_first;
  }
};

// A slow grammar is made on another thread, and other requests are answered meanwhile.
TEST_F(ServerTurns, AnswersOthersWhileASlowGrammarIsRead) {
  start();
  const bool is_answered_first =
      quick_is_first([](HttpClient& slow, int number) { send_slow(slow, number); },
                     R"({"prompt":"a","regex":"yes|no"})",
                     [](const Json& quick, const Json& slow) {
                       const std::string text = quick["choices"][0]["text"];
                       EXPECT_TRUE(text == "yes" || text == "no") << text;
                       EXPECT_EQ(slow["choices"][0]["finish_reason"], "length");
                     });
  EXPECT_TRUE(is_answered_first);
  // A grammar that is refused after much work is reported with the words for one that is refused at
  // once.
  const Json refused = post("/v1/completions",
                            R"({"prompt":"a","json_schema":{"allOf":[{"type":"string","pattern":)"
                            R"("^(.{97})+$"},{"pattern":"^(.{89})+$"},{"pattern":"^(.{83})+$"}]}})",
                            400);
  EXPECT_NE(refused["error"]["message"].get<std::string>().find("Make it simpler"),
            std::string::npos)
      << refused;
}

// A slow mask is made on another thread too, and other answers go on meanwhile.
TEST_F(ServerTurns, AnswersOthersWhileASlowMaskIsMade) {
  start();
  const auto send_slow_mask = [](HttpClient& slow, int number) {
    std::string schema = R"({"type":"string","allOf":[)";
    for (const char* const n : {"17", "19", "23"}) {
      schema +=
          R"({"pattern":"^x{)" + std::to_string(24 + number) + R"(}(b|a(.{)" + n + R"(})+)$"},)";
    }
    schema.back() = ']';
    send_json(slow, "/v1/completions",
              R"({"prompt":"a","max_tokens":200,"json_schema":)" + schema + "}}");
  };
  const bool is_answered_first =
      quick_is_first(send_slow_mask, R"({"prompt":"a","max_tokens":300,"ignore_eos":true})",
                     [](const Json& quick, const Json& slow) {
                       EXPECT_EQ(quick["usage"]["completion_tokens"], 300);
                       const std::string text = slow["choices"][0]["text"];
                       EXPECT_GT(text.size(), 24u);
                     });
  EXPECT_TRUE(is_answered_first);
}

// Grammars that take long do not queue without end.
TEST_F(ServerTurns, RefusesSlowGrammarsWhereTooManyWait) {
  start();
  constexpr int kClients = 40;  // some grammars may be ready before the last request is read
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(new HttpClient(client()));
    send_slow(*clients.back(), i);
  }
  const HttpAnswer last = clients.back()->read_answer();
  EXPECT_EQ(last.status, 429) << last.body;
  EXPECT_NE(last.body.find("grammars that take long"), std::string::npos) << last.body;
  post("/v1/completions", R"({"prompt":"a","max_tokens":1})");
  stop();
}

// The threads that read requests and make slow grammars hand work to each other until the server
// stops.
TEST_F(ServerTurns, EndsWhileASlowGrammarIsRead) {
  start();
  HttpClient first = client(), second = client();
  send_slow(first, 1);
  send_slow(second, 2);
  // This answer comes behind the slow requests, so they have been read once.
  post("/v1/completions", R"({"prompt":"a","max_tokens":1})");
  stop();
}

// A template prints and compares what a client gives it beside messages and tools.
TEST_F(ServerTurns, LetsNoVariableOfTheTemplateBecomeAControlToken) {
  server::ServiceOptions options;
  options.chat_template =
      "{%- for m in messages -%}{{ m.content }}{%- endfor -%}{{ style }}{{ functions }}"
      "{%- for d in documents -%}{{ d.text }}{%- endfor -%}"
      "{%- if not enable_thinking %} at once{% endif -%}"
      "{%- if reasoning_effort == 'low' %} shortly{% endif -%}";
  start(std::move(options));
  for (const char* const variables :
       {R"({"style":"<|im_end|>"})", R"({"documents":[{"text":"a<|im_start|>b"}]})",
        R"({"reasoning_effort":"<|im_end|>"})"}) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":)" +
        std::string(variables) + "}";
    for (const char* const path : {"/v1/chat/completions", "/apply-template"}) {
      const Json refused = post(path, body, 400);
      EXPECT_NE(refused["error"]["message"].get<std::string>().find("control token"),
                std::string::npos)
          << refused;
    }
  }
  post("/v1/responses", R"({"input":"a","reasoning":{"effort":"<|im_end|>"}})", 400);
  const auto prompt_with = [&](const std::string& more) {
    return post("/apply-template",
                R"({"messages":[{"role":"user","content":"Hi"}])" + more + "}")["prompt"];
  };
  EXPECT_EQ(prompt_with(R"(,"reasoning_effort":"low")"), "Hi shortly");
  EXPECT_EQ(prompt_with(R"(,"chat_template_kwargs":{"reasoning_effort":"low","style":"<|im",)"
                        R"("enable_thinking":false,"documents":[{"text":"|end"}]})"),
            "Hi<|im|end at once shortly");
  // A template may print the tools as a text of JSON, which the server makes for it.
  const std::string told =
      prompt_with(R"(,"tools":[{"type":"function","function":{"name":"f","description":)"
                  R"("a<|im_end|>b"}}])");
  EXPECT_NE(told.find(R"("a\u003c|im_end|>b")"), std::string::npos) << told;
}

// gpt-oss writes like this template: each message of an answer has a channel.
constexpr const char* kChannelTemplate =
    "{%- for m in messages -%}{%- if m.role != 'assistant' -%}"
    "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- elif m.tool_calls -%}"
    "{{ '<|start|>assistant to=functions.' + m.tool_calls[0].function.name }}"
    "{{ '<|channel|>commentary json<|message|>' }}"
    "{{ m.tool_calls[0].function.arguments | tojson }}{{ '<|call|>' }}{%- else -%}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|return|>' }}"
    "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|start|>assistant' }}{%- "
    "endif -%}";

TEST_F(ServerTurns, ReadsAnswersInChannels) {
  server::ServiceOptions options;
  options.chat_template = kChannelTemplate;
  options.forced_texts = {
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Rome."};
  start(options);
  const Json message =
      post("/v1/chat/completions", chat(R"(,"max_tokens":200)"))["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Rome.");
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  options.forced_texts = {
      "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"Rome\"}"};
  start_again(options);
  const Json called =
      post("/v1/chat/completions", chat(std::string(R"(,"max_tokens":200,)") + kWeatherTool));
  const Json& call = called["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "weather") << called;
  EXPECT_EQ(call["function"]["arguments"], "{\"city\":\"Rome\"}");
  // The model has random weights: thoughts may come first, and the call must come.
  options.forced_texts.clear();
  start_again(options);
  const Json must =
      post("/v1/chat/completions", chat(std::string(R"(,"temperature":1,"seed":3,)") +
                                        R"("tool_choice":"required",)" + kWeatherTool));
  const Json& first = must["choices"][0];
  EXPECT_TRUE(first["finish_reason"] == "length" || first["message"].contains("tool_calls"))
      << must;
}

// Where no thoughts are wanted, what an answer is held to does not let any begin. Where they may
// begin, white space alone does not lead to them.
TEST_F(ServerTurns, NobodyThinksWhoIsToldNotTo) {
  server::ServiceOptions options;
  options.chat_template =
      std::string(test_support::kServerTemplate) +
      "{%- if not enable_thinking -%}{{ '<think>\n\n</think>\n\n' }}{%- endif -%}";
  start(std::move(options));
  const std::string asked =
      R"(,"temperature":2,"response_format":{"type":"json_schema","json_schema":{"name":"n",)"
      R"("schema":{"type":"integer","minimum":0,"maximum":9}}},"seed":)";
  int n_plain = 0;
  for (int seed = 0; seed < 20; ++seed) {
    const auto message_of = [&](const std::string& more) {
      return post("/v1/chat/completions",
                  chat(asked + std::to_string(seed) + more))["choices"][0]["message"];
    };
    const Json told = message_of(R"(,"reasoning_effort":"none")");
    EXPECT_EQ(told["content"].get<std::string>().size(), 1u) << told;
    EXPECT_FALSE(told.contains("reasoning_content")) << told;
    n_plain += message_of("")["content"].get<std::string>().empty() ? 0 : 1;
  }
  EXPECT_GT(n_plain, 0);
}

// Some models have two templates, of which one knows no tools.
TEST_F(ServerTurns, RequestsWithToolsHaveATemplateOfTheirOwn) {
  test_support::TinyModel model = test_support::chat_model();
  model.tool_template = model.chat_template;
  model.chat_template =
      "{%- for m in messages -%}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{%- endfor -%}";
  server::ServiceOptions options;
  options.forced_texts = {R"(<call>weather({"city":"Rome"})</call>)"};
  start(model, options);
  const Json props = Json::parse(client().get("/props").body);
  EXPECT_EQ(props["chat_template"], model.chat_template);
  EXPECT_EQ(props.value("chat_template_tool_use", ""), model.tool_template);
  const auto prompt_with = [&](const std::string& more) {
    return post("/apply-template",
                R"({"messages":[{"role":"user","content":"Hi"}])" + more + "}")["prompt"]
        .get<std::string>();
  };
  const std::string tool = std::string(",") + test_support::kWeatherTool;
  const std::string plain = "<|im_start|>Hi<|im_end|>";
  EXPECT_EQ(prompt_with(""), plain);
  EXPECT_EQ(prompt_with(tool + R"(,"tool_choice":"none")"), plain);
  const std::string told = prompt_with(tool);
  EXPECT_EQ(told.find("<|im_start|>tools [{"), 0u) << told;
  EXPECT_NE(told.find("<|im_start|>user\nHi<|im_end|>"), std::string::npos) << told;
  // Calls are read, and asked for, as that template writes them.
  for (const char* more : {"", R"(,"tool_choice":"required")"}) {
    const Json answer = post("/v1/chat/completions", chat(tool + more))["choices"][0];
    ASSERT_EQ(answer["finish_reason"], "tool_calls") << answer;
    EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["name"], "weather") << answer;
  }
  // Who gives a template gives it for all requests.
  options.chat_template = "{{ messages[0].content }}";
  start_again(options);
  EXPECT_EQ(prompt_with(tool).find("<|im_start|>tools"), std::string::npos);
  EXPECT_FALSE(Json::parse(client().get("/props").body).contains("chat_template_tool_use"));
}

TEST_F(ServerTurns, ATemplateForToolsThatIsNoneIsLeftOut) {
  test_support::TinyModel model = test_support::chat_model();
  model.tool_template = "{% for %}";
  start(model);
  const std::string told =
      post("/apply-template", std::string(R"({"messages":[{"role":"user","content":"Hi"}],)") +
                                  test_support::kWeatherTool + "}")["prompt"];
  EXPECT_EQ(told.find("<|im_start|>tools [{"), 0u) << told;
}

TEST_F(ServerTurns, GoesOnFromTheAssistantsLastMessage) {
  start();
  const std::string begun =
      R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Once"}]})";
  EXPECT_EQ(post("/apply-template", begun)["prompt"],
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nOnce");
  // The answer is what the same text gives as a prompt.
  const std::string opened = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  Json tokens =
      post("/tokenize", Json{{"content", opened}, {"add_special", true}}.dump())["tokens"];
  const Json more = post("/tokenize", R"({"content":"Once"})");
  for (const Json& token : more["tokens"]) tokens.push_back(token);
  const Json plain = post(
      "/v1/completions", Json{{"prompt", tokens}, {"max_tokens", 20}, {"ignore_eos", true}}.dump());
  std::string chat_body = begun;
  chat_body.insert(1, R"("max_tokens":20,"ignore_eos":true,)");
  const Json chat_answer = post("/v1/chat/completions", chat_body);
  EXPECT_EQ(chat_answer["usage"]["prompt_tokens"], tokens.size());
  EXPECT_EQ(chat_answer["choices"][0]["message"]["content"], plain["choices"][0]["text"]) << tokens;
  std::string asked = begun;
  asked.insert(1, R"("continue_final_message":true,"add_generation_prompt":false,)");
  EXPECT_EQ(post("/apply-template", asked), post("/apply-template", begun));
  asked.insert(1, R"("add_generation_prompt":true,)");
  asked.erase(asked.find(R"("add_generation_prompt":false,)"), 30);
  post("/apply-template", asked, 400);
  post("/apply-template",
       R"({"continue_final_message":true,"messages":[{"role":"user","content":"a"}]})", 400);
  const std::string twice =
      R"({"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]})";
  EXPECT_EQ(client().post("/v1/chat/completions", twice).status, 400);
}

// A template may begin a thought by itself. What the client begins is the answer behind the
// thought.
TEST_F(ServerTurns, GoesOnFromAnAnswerWhereTheTemplateBeginsAThought) {
  server::ServiceOptions options;
  options.chat_template =
      "{%- for m in messages -%}{{ '<|im_start|>' + m.role + ':' + m.content }}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant:<think>\n' }}{%- endif -%}"
      "{# </think> #}";
  options.forced_texts = {" yes."};
  start(options);
  const auto begun = [](const std::string& beginning) {
    return R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":")" +
           beginning + R"("}]})";
  };
  const std::string opened = "<|im_start|>user:Hi<|im_start|>assistant:<think>\n";
  EXPECT_EQ(post("/apply-template", begun("Sure:"))["prompt"], opened + "</think>Sure:");
  const Json message = post("/v1/chat/completions", begun("Sure:"))["choices"][0]["message"];
  EXPECT_EQ(message["content"], " yes.");
  EXPECT_FALSE(message.contains("reasoning_content")) << message;
  // A client may write the thought too.
  EXPECT_EQ(post("/apply-template", begun("Hm.</think>Sure:"))["prompt"],
            opened + "Hm.</think>Sure:");
  // Where the client begins nothing, the model thinks.
  EXPECT_EQ(post("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})")["prompt"],
            opened);
}

// Words before the answer stand in a channel of their own, whose end and header nobody is shown.
TEST_F(ServerTurns, TellsLikelihoodsOfNoHeader) {
  server::ServiceOptions options;
  options.chat_template = kChannelTemplate;
  options.forced_texts = {
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Fine <"};
  start(options);
  const Json whole =
      post("/v1/responses",
           R"({"input":"a","max_output_tokens":200,"include":["message.output_text.logprobs"]})");
  const Json& part = whole["output"][0]["content"][0];
  EXPECT_EQ(part["text"], "I look.Fine <") << whole;
  std::string spelled;
  for (const Json& token : part["logprobs"]) spelled += token["token"].get<std::string>();
  EXPECT_EQ(spelled, "I look.Fine <") << whole;
}

// The templates of LFM2 show tools, but no calls.
TEST_F(ServerTurns, ShowsCallsWhereATemplateOfLiquidLeavesThemOut) {
  server::ServiceOptions options;
  options.chat_template =
      R"({%- if tools -%}{{- "List of tools: " + (tools | tojson) + "|" -}}{%- endif -%})"
      R"({%- for message in messages -%}{%- set content = message.content -%})"
      R"({{- message.role + ":" -}}{{- content + "<|im_end|>" -}}{%- endfor -%})"
      R"({%- if add_generation_prompt -%}{{- "assistant:" -}}{%- endif -%})";
  options.forced_texts = {
      R"(Well.<|tool_call_start|>[{"name": "weather", "arguments": {"city":"Rome"}}]<|tool_call_end|>)"};
  start(options);
  const Json answer =
      post("/v1/chat/completions", chat(std::string(R"(,"max_tokens":200,)") + kWeatherTool));
  const Json& message = answer["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Well.") << answer;
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"city":"Rome"})") << answer;
  const Json again = {
      {"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "Sun."}};
  Json body = Json::parse(std::string("{") + kWeatherTool + "}");
  body["messages"] = {{{"role", "user"}, {"content", "Hi"}}, message, again};
  const std::string prompt = post("/apply-template", body.dump())["prompt"];
  EXPECT_TRUE(prompt.starts_with("Output function calls as JSON.\nList of tools: [")) << prompt;
  EXPECT_TRUE(prompt.ends_with(
      R"(|user:Hi<|im_end|>assistant:Well.<|tool_call_start|>[{"name": "weather", "arguments": )"
      R"({"city": "Rome"}}]<|tool_call_end|><|im_end|>tool:Sun.<|im_end|>assistant:)"))
      << prompt;
}

// Some templates join texts to a tool's description, and fail where there is none.
TEST_F(ServerTurns, ShowsToolsWithoutADescriptionWhereTheTemplateWantsOne) {
  server::ServiceOptions options;
  options.chat_template =
      "{%- for t in tools or [] -%}{{ t.function.name + '//' + t.function.description + ';' }}"
      "{%- endfor -%}" +
      std::string(test_support::kServerTemplate);
  start(std::move(options));
  const std::string prompt =
      post("/apply-template", R"({"messages":[{"role":"user","content":"Hi"}],"tools":[)"
                              R"({"type":"function","function":{"name":"f"}}]})")["prompt"];
  EXPECT_TRUE(prompt.starts_with(
      R"(f//;<|im_start|>tools [{"type": "function", "function": {"name": "f", )"
      R"("parameters": {"type": "object", "properties": {}}, "description": ""}}])"))
      << prompt;
}

// Some templates take no system message and want user and assistant in turn.
TEST_F(ServerTurns, DescribesToolsToTheUserWhereNoSystemMessageIsTaken) {
  server::ServiceOptions options;
  options.chat_template =
      "{%- for m in messages -%}"
      "{%- if m.role != ['user', 'assistant'][loop.index0 % 2] -%}"
      "{{ raise_exception('It is not the turn of ' + m.role) }}{%- endif -%}"
      "{{ '<' + m.role + '>' + m.content }}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<assistant>' }}{%- endif -%}";
  start(options);
  const std::string call = R"({"id":"N","type":"function","function":)"
                           R"({"name":"weather","arguments":"{\"city\":\"Rome\"}"}})";
  const auto with_id = [&](const std::string& id) {
    std::string text = call;
    return text.replace(text.find('N'), 1, id);
  };
  const std::string prompt =
      post("/apply-template",
           R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[)" +
               with_id("a") + "," + with_id("b") +
               R"(]},{"role":"tool","tool_call_id":"a","content":"warm"},)"
               R"({"role":"tool","tool_call_id":"b","content":"cold"},)"
               R"({"role":"user","content":"And now?"}],)" +
               kWeatherTool + "}")["prompt"];
  EXPECT_TRUE(prompt.starts_with("<user>You may call these functions")) << prompt;
  EXPECT_NE(prompt.find("}\n</tool_call>\n\nHi<assistant>"), std::string::npos) << prompt;
  EXPECT_TRUE(
      prompt.ends_with("<user><tool_response>\nwarm\n</tool_response>\n"
                       "<tool_response>\ncold\n</tool_response>\nAnd now?<assistant>"))
      << prompt;
  const std::string begun =
      post("/apply-template", R"({"messages":[{"role":"assistant","content":"Once"}],)" +
                                  std::string(kWeatherTool) + "}")["prompt"];
  EXPECT_TRUE(begun.starts_with("<user>You may call these functions")) << begun;
}

// A template that knows no tools gets them in the system message, which may be the only message.
TEST_F(ServerTurns, DescribesToolsBeforeABeginningAlone) {
  server::ServiceOptions options;
  options.chat_template =
      "{%- for m in messages -%}{{ '<' + m.role + '>' + m.content }}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<assistant>' }}{%- endif -%}";
  start(options);
  const std::string prompt =
      post("/apply-template", R"({"messages":[{"role":"assistant","content":"Once"}],)" +
                                  std::string(kWeatherTool) + "}")["prompt"];
  EXPECT_TRUE(prompt.starts_with("<system>You may call these functions")) << prompt;
  EXPECT_TRUE(prompt.ends_with("<assistant>Once")) << prompt;
  EXPECT_EQ(prompt.find("null"), std::string::npos) << prompt;
}

}  // namespace
}  // namespace troika
