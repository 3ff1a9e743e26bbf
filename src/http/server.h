// The HTTP server: one thread that waits for sockets, for other threads, and for the time.
// Everything that a client can make the server hold or wait for is limited.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "http/connection.h"
#include "http/exchange.h"
#include "http/listener.h"
#include "http/parser.h"

namespace troika::http {

// Answers a server's requests. The server's thread calls all functions, so they must not take long.
class Handler {
 public:
  virtual ~Handler() = default;
  // Looks at a request whose head has come and whose body has not been read. A response that it
  // returns is the answer: it is sent at once, and the connection ends without the body. It is not
  // asked about requests without a body.
  virtual std::optional<Response> on_head(const Request&) { return std::nullopt; }
  // Takes a request, which may be answered now or later, from any thread.
  virtual void on_request(const std::shared_ptr<Exchange>& exchange, Request request) = 0;
  // Is called when the client has left before the end of the answer.
  virtual void on_gone(const std::shared_ptr<Exchange>& exchange) = 0;
  // Is called when a client that had read too slowly has read enough that more may be written.
  virtual void on_drained(const std::shared_ptr<Exchange>& exchange) = 0;
  // Is called a few times a second.
  virtual void on_tick() {}
  // Is called once for each answer that is under way when the time to end is over. What is written
  // soon is sent, so that the client can be told why there is no more.
  virtual void on_time_up(const std::shared_ptr<Exchange>&) {}
  // Returns the answer to bytes that are no valid request. The path is empty where the bytes do not
  // tell it.
  virtual Response refusal(const Refusal& refusal, const std::string& path) = 0;
};

struct ServerOptions {
  Limits limits{};
  Patience patience{};
  int most_connections = 2048;
  // Limits the bodies of all requests that are coming, or that somebody still holds, together.
  size_t most_body_bytes = size_t{128} << 20;
  // Limits the unsent bytes of all connections together that hold more of them than a stream may.
  size_t most_unsent_bytes = size_t{256} << 20;
  double grace = 20;  // seconds that answers under way have once the server is told to stop
  // Counts seconds in which clients whose answers have not ended by then are told why.
  double last_words = 2;
  // Is told as the server stops how many answers are under way; not where there is none. The
  // server's thread calls it.
  std::function<void(int n_answers)> on_stop = {};
};

// Counts what has happened to a server so far.
struct ServerStatistics {
  int64_t n_connections = 0;  // counts connections that were accepted
  int64_t n_requests = 0;
  int64_t n_refused = 0;  // counts requests that were not valid, or came too slowly
  int64_t n_crowded = 0;  // counts connections for which there was no room, here or in the system
  int n_open = 0;
};

class Server {
 public:
  // Throws Error. The handler must outlive the server.
  Server(std::vector<Listener> listeners, const ServerOptions& options, Handler& handler);
  ~Server();

  // Serves until stop() is called. From then on nobody new is served, and answers under way get the
  // time `grace` to end, and `last_words` to say why they did not. A second stop() ends them at
  // once.
  void run();
  // Stops the server. Any thread may call it, and a signal's handler.
  void stop();

  const std::vector<Listener>& listeners() const { return listeners_; }
  // Returns what has happened so far. Only the server's thread may call it.
  const ServerStatistics& statistics() const { return statistics_; }

 private:
  using Id = size_t;
  bool wait_for(int fd, Id id, uint32_t events, bool is_new);
  void must_wait_for(int fd, Id id);
  void accept_from(const Listener& listener);
  bool end_a_waiting_one();
  bool end_a_larger_body(const Connection& than);
  void refuse_for_bytes(Connection& connection);
  void end_slow_readers();
  void turn_away(const Descriptor& socket);
  void serve(Id id, uint32_t events);
  void read_requests(Id id, Connection& connection);
  void begin_request(Id id, Connection& connection);
  bool refuses_head(Connection& connection);
  void refuse(Connection& connection, const Refusal& refusal);
  void answer_and_end(Connection& connection, const Response& response);
  void count_body(Connection& connection);
  bool has_too_many_bytes() const;
  void count_unsent(Connection& connection);
  void read_mail();
  void do_letter(Mailbox::Letter& letter);
  void begin_answer(Connection& connection, const Response& head, bool is_whole);
  void end_answer(Id id, Connection& connection);
  // Sends what the connection has to send, and then decides what happens to the connection.
  void settle(Id id);
  void look_at_times();
  void close(Id id);
  void leave(Connection& connection);
  bool is_quiet() const;
  void begin_stop();
  bool has_stopped();

  std::vector<Listener> listeners_;
  ServerOptions options_;
  Handler& handler_;
  std::shared_ptr<Mailbox> mailbox_;
  Descriptor epoll_;
  std::unordered_map<Id, std::unique_ptr<Connection>> connections_;
  Id next_id_ = 0;
  std::vector<Id> left_;     // the connections whose clients send no more
  size_t n_body_bytes_ = 0;  // of bodies that are coming
  size_t n_unsent_bytes_ = 0;
  std::atomic<int> n_stops_ = 0;
  bool is_stopping_ = false;
  bool is_time_up_ = false;
  Time stop_deadline_;
  Time now_;
  Time next_tick_;
  ServerStatistics statistics_;
};

}  // namespace troika::http
