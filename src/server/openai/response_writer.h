// Writes the objects and events of /v1/responses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"
#include "server/blocks.h"
#include "server/reading/wanted.h"

namespace troika::server {

// Returns the fields of its request that a response repeats, as the text of an object's fields
// without the braces: "\"instructions\":null,...".
std::string echo_text(const Json& body, const Wanted& wanted);

// A response repeats its request in several events, and a request may be large. So the writer is
// given the echo as text and copies it; nothing is read or written as JSON again.
class ResponseWriter : public BlockWriter {
 public:
  // `echo` is what echo_text() returns. `tokenizer` names the tokens whose likelihoods are told,
  // and must outlive this; if it is null, none are told. The first events are written here, because
  // begin() is called where others wait.
  ResponseWriter(std::string model, const std::shared_ptr<http::Exchange>& exchange, bool is_stream,
                 std::string echo, const text::Tokenizer* tokenizer = nullptr);

  void begin() override;
  void progress(int answer, const PromptRead& progress) override;
  void finish() override;
  void fail(const Failure& failure) override;
  void ping(double seconds) override { events_.ping(seconds); }

 private:
  void open_block() override;
  void grow_block(const Delta& delta) override;
  void close_block() override;

  // What differs between the objects of one response.
  struct State {
    const char* status;
    Json error = nullptr;
    Json incomplete_details = nullptr;
    Json output = Json::array();
    Json usage = nullptr;  // null: the object has no such field
  };
  int index() const { return static_cast<int>(blocks().size()) - 1; }
  bool is_cut() const;
  const char* status_of(size_t block) const;
  void add_response(const State& state, std::string* text) const;
  std::string response_event(std::string_view type, const State& state, const Json& more = {});
  void send_part(const char* type, const Json& part);
  void send(const std::string& type, const Json& more);

  const std::string id_ = random_id("resp_");
  const int64_t created_;  // seconds since 1970
  const std::string model_;
  const bool is_stream_;
  const std::string echo_;
  const std::shared_ptr<const http::HeldBytes> held_;  // counts the echo
  const text::Tokenizer* const tokenizer_;
  std::shared_ptr<http::Exchange> exchange_;
  EventStream events_;
  std::vector<std::string> ids_;         // of items
  std::vector<TokenLogprobs> logprobs_;  // of the open block, if it is a text
  Json items_ = Json::array();           // of the blocks that are closed
  int n_sent_ = 0;
  std::vector<std::string> first_events_;  // those that begin() sends
};

}  // namespace troika::server
