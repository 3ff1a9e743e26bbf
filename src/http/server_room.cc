// What the server does where many want to be served: whom it accepts, and whom it ends to make
// room.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "http/server.h"

namespace troika::http {
namespace {

constexpr int kMostAccepted = 64;  // limits the connections that one turn accepts

// Has the system ask whether a client that says nothing still lives. Else nobody would hear that
// one has gone without a word, and its answer would be computed to the end.
void ask_whether_it_lives(int socket) {
  constexpr int kOn = 1, kSilentSeconds = 30, kSecondsBetween = 10, kQuestions = 3;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof(kOn));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kSilentSeconds, sizeof(kSilentSeconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kSecondsBetween, sizeof(kSecondsBetween));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kQuestions, sizeof(kQuestions));
}

}  // namespace

// Ends a connection to make room: the one that has waited longest of those that are between two
// requests, or, where there is none, the one whose request's head has taken longest to come. A head
// comes at once unless its sender means to keep the place. Returns false if there is no such one.
bool Server::end_a_waiting_one() {
  // Connections whose clients have not read their last answer yet come last: closing could lose it.
  const auto rank = [](const Connection& one) {
    return std::tuple(one.is_lingering(), !one.is_idle(), one.waits_until());
  };
  auto longest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    const Connection& one = *it->second;
    if ((!one.is_idle() && !one.awaits_head()) || one.n_unsent() > 0) continue;
    if (longest == connections_.end() || rank(one) < rank(*longest->second)) longest = it;
  }
  ++statistics_.n_crowded;
  if (longest == connections_.end()) return false;
  close(longest->first);
  return true;
}

// Refuses the largest body that is still coming, if it is larger than what has come of this
// connection's. Otherwise whoever keeps a few large bodies coming slowly would have everybody else
// refused. Returns false if there is none.
bool Server::end_a_larger_body(const Connection& than) {
  auto largest = connections_.end();
  size_t n_most = than.n_body_counted;
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    const Connection& one = *it->second;
    const bool is_coming = one.parser().is_reading_body() && !one.is_ending();
    if (!is_coming || one.n_body_counted <= n_most) continue;
    largest = it;
    n_most = one.n_body_counted;
  }
  if (largest == connections_.end()) return false;
  const Id id = largest->first;
  refuse_for_bytes(*largest->second);
  settle(id);
  return true;
}

void Server::refuse_for_bytes(Connection& connection) {
  refuse(connection, {503, "The server holds as many bytes of requests as it may. Try again."});
}

// Counts what is more than a stream keeps unsent: whole answers may be large, and nothing pauses
// them.
void Server::count_unsent(Connection& connection) {
  const size_t n = connection.n_unsent() > Exchange::kMostUnsent ? connection.n_unsent() : 0;
  n_unsent_bytes_ = n_unsent_bytes_ - connection.n_unsent_counted + n;
  connection.n_unsent_counted = n;
}

// Ends the connections whose clients have taken nothing of a large answer for the longest time,
// while all of them together hold more bytes than they may.
void Server::end_slow_readers() {
  while (n_unsent_bytes_ > options_.most_unsent_bytes) {
    auto slowest = connections_.end();
    for (auto it = connections_.begin(); it != connections_.end(); ++it) {
      const Connection& one = *it->second;
      if (one.n_unsent_counted == 0) continue;
      const bool is_slower =
          slowest == connections_.end() || one.unsent_until() < slowest->second->unsent_until();
      if (is_slower) slowest = it;
    }
    ++statistics_.n_crowded;
    close(slowest->first);
  }
}

void Server::turn_away(const Descriptor& socket) {
  const Response response =
      handler_.refusal({503, "The server has as many connections as it may. Try again."}, "");
  const std::string bytes =
      head_of(response, static_cast<long long>(response.body.size()), false, true) + response.body;
  // Bytes that the new socket does not take at once are dropped, as waiting would need a place.
  [[maybe_unused]] const ssize_t n =
      send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Server::accept_from(const Listener& listener) {
  for (int i = 0; i < kMostAccepted; ++i) {
    Descriptor socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      // While no descriptor is left, the listener stays ready and would be tried in every turn. So
      // a connection that waits is ended, which makes room for the next turn.
      if (errno == EMFILE || errno == ENFILE) end_a_waiting_one();
      return;
    }
    const bool has_room = connections_.size() < static_cast<size_t>(options_.most_connections);
    if (!has_room && !end_a_waiting_one()) {
      turn_away(socket);
      continue;
    }
    if (listener.is_tcp()) {
      const int on = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      ask_whether_it_lives(socket.get());
    }
    const Id id = next_id_++;
    constexpr uint32_t kFirstEvents = EPOLLIN | EPOLLRDHUP;
    if (!wait_for(socket.get(), id, kFirstEvents, true)) {
      ++statistics_.n_crowded;
      turn_away(socket);
      continue;
    }
    auto connection =
        std::make_unique<Connection>(std::move(socket), options_.limits, options_.patience, now_);
    connection->events = kFirstEvents;
    connections_.emplace(id, std::move(connection));
    ++statistics_.n_connections;
    statistics_.n_open = static_cast<int>(connections_.size());
  }
}

}  // namespace troika::http
