// A server of a tiny model behind a socket, with a client, for tests of what clients see.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "server/service.h"
#include "tests/support/http_client.h"
#include "tests/support/tiny_engine.h"

namespace troika::test_support {

using Json = nlohmann::ordered_json;

inline constexpr const char* kServerTemplate =
    "{%- if tools %}{{ '<|im_start|>tools ' }}{{ tools | tojson }}{{ '<|im_end|>' }}{% endif -%}"
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- if m.tool_calls -%}{%- for c in m.tool_calls -%}"
    "{{ '<call>' + c.function.name + '(' }}{{ c.function.arguments | tojson }}{{ ')</call>' }}"
    "{%- endfor -%}{%- endif -%}{{ '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}";
inline constexpr const char* kWeatherTool =
    R"("tools":[{"type":"function","function":{"name":"weather","description":"It.","parameters":)"
    R"({"type":"object","properties":{"city":{"type":"string","maxLength":4}},"required":["city"],)"
    R"("additionalProperties":false}}}])";
// A context of this length takes seconds to fill.
inline constexpr int kServerContext = 16384;

inline TinyModel chat_model() {
  TinyModel model = small_model("qwen2");
  model.context = kServerContext;
  model.chat_template = kServerTemplate;
  return model;
}

class ServerTest : public testing::Test {
 protected:
  void start(server::ServiceOptions options = {}, int context = 1024) {
    start(chat_model(), std::move(options), context);
  }
  void start(const TinyModel& model, server::ServiceOptions options = {}, int context = 1024) {
    prepare::Options prepared;
    prepared.memory.context = context;
    tiny_ = std::make_unique<TinyEngine>(model, prepared);
    serve(std::move(options));
  }
  // Ends the server, and starts the same model anew with these options.
  void start_again(server::ServiceOptions options, prepare::Options prepared = {}) {
    const int context = tiny_->engine->plan().context;
    stop();
    tiny_->session.reset();
    tiny_->engine.reset();
    prepared.model.file = tiny_->folder.file("tiny.gguf");
    prepared.lanes.n_threads = 1;
    if (prepared.memory.context == 0) prepared.memory.context = context;
    tiny_->engine = std::make_unique<engine::Engine>(prepared);
    serve(std::move(options));
  }
  void serve(server::ServiceOptions options) {
    options.model_name = "tiny";
    options.sampler.temperature = 0.0f;
    service_ = std::make_unique<server::Service>(*tiny_->engine, std::move(options));
    std::vector<http::Listener> listeners;
    listeners.push_back(http::Listener::unix_socket(folder_.file("s")));
    server_ = std::make_unique<http::Server>(std::move(listeners), http_options_, *service_);
    thread_ = std::thread([this] { server_->run(); });
  }
  void start_with_text(const std::string& text) {
    server::ServiceOptions options;
    options.forced_texts = {text};
    start(std::move(options));
  }
  void TearDown() override { stop(); }
  void stop() {
    if (server_ == nullptr) return;
    server_->stop();
    server_->stop();
    thread_.join();
    server_.reset();
    service_.reset();
  }
  HttpClient client() const { return HttpClient(folder_.file("s")); }
  Json post(const std::string& path, const std::string& body, int status = 200) const {
    const HttpAnswer answer = client().post(path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << "\n" << answer.body;
    return Json::parse(answer.body);
  }
  // Returns the data of all events of a stream.
  std::vector<Json> stream(const std::string& path, const std::string& body) const {
    const HttpAnswer answer = client().post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_NE(answer.head.find("text/event-stream"), std::string::npos);
    std::vector<Json> events;
    for (size_t at = 0; (at = answer.body.find("data: ", at)) != std::string::npos; ++at) {
      const size_t end = answer.body.find("\n\n", at);
      const std::string data = answer.body.substr(at + 6, end - at - 6);
      events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
    }
    return events;
  }
  static std::string chat(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":60)" + more + "}";
  }
  std::string metric(const std::string& name) const {
    const std::string text = "\n" + client().get("/metrics").body;
    const size_t at = text.find("\ntroika_" + name + " ");
    if (at == std::string::npos) return "none";
    const size_t begin = at + name.size() + 9;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  void wait_for(const std::string& name, const std::string& value) const {
    for (int i = 0; i < 1000 && metric(name) != value; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(metric(name), value) << name;
  }

  test::TempFolder folder_;
  std::unique_ptr<TinyEngine> tiny_;
  std::unique_ptr<server::Service> service_;
  http::ServerOptions http_options_;  // are those of the next server
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

}  // namespace troika::test_support
