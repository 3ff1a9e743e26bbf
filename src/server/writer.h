// Writers tell a client, in the form of one interface, what comes of its request.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer.h"
#include "http/exchange.h"
#include "server/deltas.h"
#include "server/failure.h"
#include "server/fields.h"

namespace troika::server {

// Says how one answer has ended.
struct Ending {
  engine::Generated generated;  // without its text, which the deltas were
  std::string stop{};           // the stop string, if that was the end
  int n_calls = 0;
  int n_thought_tokens = 0;  // counts tokens of thoughts, with the marks in front of them
  bool cuts_call = false;    // says that a stop string stood within the last call's arguments
};

// Says how far a prompt is read, and what that took if the client asks for it.
struct PromptRead {
  engine::PromptProgress prompt;
  std::optional<Timings> timings;
};

// Writes the answers to one request. One thread at a time calls it, in this order: begin, progress,
// deltas, ends, finish. Answers are left out among ends. fail() may come at any time, and nothing
// comes behind it.
class Writer {
 public:
  virtual ~Writer() = default;
  // Is called when the request is taken. From then on it can no longer be refused.
  virtual void begin() {}
  // Is called while the prompt is read, if the client asks for that.
  virtual void progress(int /*answer*/, const PromptRead& /*progress*/) {}
  virtual void write(int answer, const Delta& delta) = 0;
  virtual void end(int answer, const Ending& ending) = 0;
  // Tells of an answer that was computed and is not returned, as better ones were. The prompts are
  // numbered from 0.
  virtual void leave_out(int /*prompt*/, const engine::Generated& /*generated*/) {}
  // Is called when all answers have ended.
  virtual void finish() = 0;
  virtual void fail(const Failure& failure) = 0;
  // Shows the client that the server lives, if nothing was written for `seconds`. The server's
  // thread calls it.
  virtual void ping(double /*seconds*/) {}
};

// Returns what stands in front of an event's data. `name` may be empty.
std::string event_head(std::string_view name);
inline constexpr std::string_view kEventEnd = "\n\n";

// Streams answers over an exchange, as events in lines of text.
class EventStream {
 public:
  explicit EventStream(std::shared_ptr<http::Exchange> exchange);

  void begin();
  // `name` may be empty.
  void event(const Json& data, std::string_view name = "");
  void line(std::string text);
  void end();
  // Writes why the answer failed, as interfaces do that have no form of their own, and ends.
  void fail(const Failure& failure);
  // Writes the text, usually a comment, if nothing was written for `seconds`. The first comes after
  // a share of this time, which differs from stream to stream: the signs of life of many that began
  // together would otherwise all be written at one moment, and whoever asks then would wait.
  void ping(double seconds, const char* text = ": still here\n\n");

 private:
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<http::Exchange> exchange_;
  std::atomic<bool> is_open_ = false;
  std::atomic<Clock::rep> last_ = 0;  // when something was last written
  double first_share_ = 0.0;          // which share of the time the first ping waits
  bool was_pinged_ = false;           // is used by the thread that calls ping() alone
};

// A whole answer, gathered from its deltas.
struct WholeAnswer {
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

// Returns the n-th of numbers from 0 to 1 of which any that follow each other lie evenly spread.
double spread_share(uint32_t n);
// Writes JSON as text. Bytes that are no UTF-8, which a file's name may have, become U+FFFD.
std::string dump(const Json& json);
// These functions write progress and timings in the fields that llama.cpp's clients know.
Json progress_json(const engine::PromptProgress& progress);
Json timings_json(const Timings& timings);
// Returns the prefix with letters and digits behind it that nobody can guess.
std::string random_id(const std::string& prefix);

}  // namespace troika::server
