// How one interface tells a client what comes of its request.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/answer.h"
#include "http/exchange.h"
#include "server/deltas.h"
#include "server/fields.h"

namespace troika::server {

// How one answer has ended.
struct Ending {
  engine::Generated generated;  // without its text, which the deltas were
  std::string stop{};           // the stop string, if that was the end
  int n_calls = 0;
};

// How far a prompt is read, and what that took, where somebody asks for it.
struct Progress {
  engine::PromptProgress prompt;
  std::optional<Timings> timings;
};

// Called by one thread at a time, in this order: begin, progress, deltas, ends, finish; or `fail`,
// behind which nothing comes.
class Writer {
 public:
  virtual ~Writer() = default;
  // The request is taken: from now on it can no longer be refused.
  virtual void begin() {}
  // So much of the prompt is read; where somebody asks for it.
  virtual void progress(int /*answer*/, const Progress& /*progress*/) {}
  virtual void write(int answer, const Delta& delta) = 0;
  virtual void end(int answer, const Ending& ending) = 0;
  // All answers have ended.
  virtual void finish() = 0;
  virtual void fail(const std::string& why) = 0;
  // Shows a client that has read nothing for so long that somebody is there. Called by the server's
  // thread.
  virtual void ping(double /*seconds*/) {}
};

// What answers to a request need of its exchange where they stream: events as lines of text.
class EventStream {
 public:
  explicit EventStream(std::shared_ptr<http::Exchange> exchange) : exchange_(std::move(exchange)) {}

  void begin();
  // `name` may be empty.
  void event(const Json& data, std::string_view name = "");
  void line(std::string_view text);
  void end();
  // Writes the text if nothing else was written for so long.
  void ping(std::string_view text, double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<http::Exchange> exchange_;
  std::atomic<bool> is_open_ = false;
  std::atomic<Clock::rep> last_ = 0;  // when something was written
};

// A whole answer, made of its deltas.
struct Message {
  struct Call {
    std::string id, name, arguments;
  };
  std::string text, thought;
  std::vector<Call> calls;
  std::vector<TokenLogprobs> logprobs;
  Ending ending;

  void add(const Delta& delta);
  double mean_logprob() const;
};

// Bytes that are no UTF-8, as they may stand in a file's name, become U+FFFD.
std::string dump(const Json& json);
// The fields that llama.cpp's clients know.
Json progress_json(const engine::PromptProgress& progress);
Json timings_json(const Timings& timings);
// Letters and digits that nobody can guess.
std::string random_id(const std::string& prefix);

}  // namespace troika::server
