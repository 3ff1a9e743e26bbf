#include "http/server.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::http {
namespace {

// Counts the descriptors that are kept for files, listeners and other libraries.
constexpr int kOtherDescriptors = 64;

// Returns as many connections as the system lets this process have, but at most `wanted`.
int connections_allowed(int wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const auto needed = static_cast<rlim_t>(wanted) + kOtherDescriptors;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return wanted;
  return std::max(1, static_cast<int>(limit.rlim_cur) - kOtherDescriptors);
}

using Clock = std::chrono::steady_clock;

constexpr int kMostEvents = 256;
constexpr int kTickMs = 100;
constexpr size_t kMailboxId = 0;
constexpr size_t kFirstListenerId = 1;
constexpr size_t kFirstConnectionId = 1000;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

const char* late_text(Connection::Late late) {
  return late == Connection::Late::kHead
             ? "The head of the request did not come in time."
             : "The body of the request did not come in time; it may be slow, but not this slow.";
}

}  // namespace

Server::Server(std::vector<Listener> listeners, const ServerOptions& options, Handler& handler)
    : listeners_(std::move(listeners)),
      options_(options),
      handler_(handler),
      mailbox_(std::make_shared<Mailbox>()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      next_id_(kFirstConnectionId),
      now_(Clock::now()),
      next_tick_(now_) {
  TROIKA_ASSERT(listeners_.size() < kFirstConnectionId - kFirstListenerId);
  options_.most_connections = connections_allowed(options_.most_connections);
  if (epoll_.get() < 0) throw_errno("The list of sockets", "be made");
  must_wait_for(mailbox_->fd(), kMailboxId);
  for (size_t i = 0; i < listeners_.size(); ++i) {
    must_wait_for(listeners_[i].fd(), kFirstListenerId + i);
  }
}

Server::~Server() {
  mailbox_->close();
  for (const auto& [id, connection] : connections_) leave(*connection);
}

void Server::stop() {
  n_stops_.fetch_add(1);
  mailbox_->wake();
}

// Has the system tell of a socket's events. Returns false where it cannot, as where it has no
// memory or the user waits for as many sockets as one may.
bool Server::wait_for(int fd, Id id, uint32_t events, bool is_new) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0;
}

void Server::must_wait_for(int fd, Id id) {
  if (!wait_for(fd, id, EPOLLIN, true)) throw_errno("A socket", "be waited for");
}

void Server::run() {
  epoll_event events[kMostEvents];
  while (true) {
    const int n = epoll_wait(epoll_.get(), events, kMostEvents, kTickMs);
    if (n < 0 && errno != EINTR) throw_errno("The list of sockets", "be waited for");
    now_ = Clock::now();
    for (int i = 0; i < n; ++i) {
      const Id id = events[i].data.u64;
      if (id >= kFirstConnectionId) {
        serve(id, events[i].events);
      } else if (id != kMailboxId && !is_stopping_) {
        accept_from(listeners_[id - kFirstListenerId]);
      }
    }
    read_mail();
    end_slow_readers();
    if (now_ >= next_tick_) {
      look_at_times();
      handler_.on_tick();
      next_tick_ = now_ + std::chrono::milliseconds(kTickMs);
    }
    if (n_stops_.load() > 0) begin_stop();
    if (is_stopping_ && has_stopped()) return;
  }
}

void Server::begin_stop() {
  if (std::exchange(is_stopping_, true)) return;
  stop_deadline_ = now_ + duration_of(options_.grace);
  listeners_.clear();  // who comes now is told so at once
  std::vector<Id> idle;
  for (const auto& [id, connection] : connections_) {
    if (connection->exchange != nullptr) continue;
    if (connection->n_unsent() > 0) {
      connection->end_after_sending();
    } else {
      idle.push_back(id);
    }
  }
  for (const Id id : idle) close(id);
  const auto n_answers =
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& entry) { return entry.second->exchange != nullptr; });
  if (n_answers > 0 && options_.on_stop) options_.on_stop(static_cast<int>(n_answers));
}

// Says whether a server that was told to stop waits for nothing more. Calls the handler for what is
// under way when its time is up.
bool Server::has_stopped() {
  if (n_stops_.load() > 1 || is_quiet()) return true;
  if (now_ < stop_deadline_) return false;
  if (std::exchange(is_time_up_, true)) return true;
  stop_deadline_ = now_ + duration_of(options_.last_words);
  for (const auto& [id, connection] : connections_) {
    if (connection->exchange != nullptr) handler_.on_time_up(connection->exchange);
  }
  return false;
}

bool Server::is_quiet() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return entry.second->is_lingering(); });
}

void Server::leave(Connection& connection) {
  n_body_bytes_ -= std::exchange(connection.n_body_counted, 0);
  n_unsent_bytes_ -= std::exchange(connection.n_unsent_counted, 0);
  const std::shared_ptr<Exchange> exchange = std::move(connection.exchange);
  connection.exchange = nullptr;
  if (exchange == nullptr) return;
  exchange->is_gone_.store(true, std::memory_order_release);
  handler_.on_gone(exchange);
}

void Server::close(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::unique_ptr<Connection> connection = std::move(found->second);
  connections_.erase(found);
  statistics_.n_open = static_cast<int>(connections_.size());
  leave(*connection);
}

void Server::serve(Id id, uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  const bool reads = (events & (EPOLLIN | EPOLLRDHUP)) != 0;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 || (reads && !connection.receive())) {
    close(id);
    return;
  }
  const bool is_ahead = connection.exchange != nullptr && !connection.wants_to_read();
  if ((events & EPOLLRDHUP) != 0 && is_ahead && !connection.saw_end()) {
    // The client has sent more requests than are read ahead, and has gone.
    close(id);
    return;
  }
  if (connection.saw_end()) left_.push_back(id);
  read_requests(id, connection);
  settle(id);
}

// Reads requests one at a time: the next one is read when the answer to this one has ended, and
// when the client has taken most of it. Else who only writes would fill the memory with answers.
void Server::read_requests(Id id, Connection& connection) {
  const auto takes_one = [&] {
    return connection.exchange == nullptr && !connection.is_ending() && connection.has_unread() &&
           connection.n_unsent() <= Connection::kMostBehind;
  };
  while (takes_one()) {
    connection.parse(now_);
    count_body(connection);
    // What others hold may be as much as there may be, and whoever sends no body adds nothing.
    const auto is_one_too_many = [&] {
      return connection.n_body_counted > 0 && has_too_many_bytes();
    };
    while (is_one_too_many() && end_a_larger_body(connection)) {
    }
    if (is_one_too_many()) {
      refuse_for_bytes(connection);
    } else if (connection.parser().is_refused()) {
      refuse(connection, connection.parser().refusal());
    } else if (connection.parser().is_done()) {
      begin_request(id, connection);
    } else if (connection.parser().has_new_head() && refuses_head(connection)) {
      return;
    } else if (connection.parser().awaits_continue() && !connection.has_unread()) {
      connection.parser().told_continue();
      connection.send(kContinue, now_);
    }
  }
}

// Asks the handler whether the body is to be read at all, before any of it is kept.
bool Server::refuses_head(Connection& connection) {
  const std::optional<Response> response = handler_.on_head(connection.parser().request());
  if (!response) return false;
  ++statistics_.n_requests;
  answer_and_end(connection, *response);
  return true;
}

void Server::count_body(Connection& connection) {
  const size_t n = connection.parser().n_body_bytes();
  n_body_bytes_ = n_body_bytes_ - connection.n_body_counted + n;
  connection.n_body_counted = n;
}

// Says that the bodies that are coming and those that are held have more bytes than they may.
bool Server::has_too_many_bytes() const {
  return n_body_bytes_ + mailbox_->n_held.load() > options_.most_body_bytes;
}

void Server::begin_request(Id id, Connection& connection) {
  ++statistics_.n_requests;
  Request request = connection.parser().take();
  connection.exchange = std::make_shared<Exchange>(mailbox_, id);
  // From now on the body is counted for as long as somebody holds the request, which may be much
  // less than the answer takes.
  if (!request.body.empty()) request.counted = connection.exchange->hold(request.body.size());
  n_body_bytes_ -= std::exchange(connection.n_body_counted, 0);
  connection.is_begun = false;
  connection.is_head_only = request.method == "HEAD";
  connection.is_last = request.wants_close || is_stopping_;
  connection.is_chunked = request.minor_version > 0;
  handler_.on_request(connection.exchange, std::move(request));
}

// Answers with a refusal and lets the connection end: behind something that is no request, nobody
// can tell where the next request begins.
void Server::refuse(Connection& connection, const Refusal& refusal) {
  ++statistics_.n_refused;
  answer_and_end(connection, handler_.refusal(refusal, connection.parser().request().path));
}

void Server::answer_and_end(Connection& connection, const Response& response) {
  const bool is_head = connection.parser().request().method == "HEAD";
  connection.send(head_of(response, static_cast<long long>(response.body.size()), false, true),
                  now_);
  if (!is_head) connection.send(response.body, now_);
  // What is no longer counted must not stay in memory until the connection ends.
  connection.parser().drop_body();
  n_body_bytes_ -= std::exchange(connection.n_body_counted, 0);
  connection.end_after_sending();
}

void Server::read_mail() {
  const auto exchange_of = [&](Id id) -> std::shared_ptr<Exchange> {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : found->second->exchange;
  };
  const std::vector<Id> left = std::exchange(left_, {});
  std::vector<std::shared_ptr<Exchange>> asked;
  asked.reserve(left.size());
  for (const Id id : left) asked.push_back(exchange_of(id));
  for (Mailbox::Letter& letter : mailbox_->take()) do_letter(letter);
  // Connections are closed whose clients have left before their answers were there. A request that
  // has begun in this turn, behind another one's answer, may have its own answer in the next.
  for (size_t i = 0; i < left.size(); ++i) {
    const std::shared_ptr<Exchange> now = exchange_of(left[i]);
    if (now == nullptr) continue;
    if (now == asked[i]) {
      close(left[i]);
    } else {
      left_.push_back(left[i]);
    }
  }
}

void Server::do_letter(Mailbox::Letter& letter) {
  Exchange& exchange = *letter.exchange;
  const auto found = connections_.find(exchange.connection_);
  const bool is_here = found != connections_.end() && found->second->exchange == letter.exchange;
  if (is_here) {
    Connection& connection = *found->second;
    switch (letter.kind) {
      case Mailbox::Kind::kReply:
        if (letter.response.body.size() > options_.most_unsent_bytes) {
          // Sent whole, it would be taken for what others leave unread, and end in the middle.
          letter.response =
              handler_.refusal({500,
                                "The answer is larger than what this server sends at once. "
                                "Ask for less of it, or for a stream."},
                               "");
        }
        begin_answer(connection, letter.response, true);
        end_answer(exchange.connection_, connection);
        break;
      case Mailbox::Kind::kBegin:
        begin_answer(connection, letter.response, false);
        break;
      case Mailbox::Kind::kWrite:
        TROIKA_ASSERT(connection.is_begun);
        if (connection.is_head_only) break;
        connection.send(connection.is_chunked ? chunk_of(letter.bytes) : letter.bytes, now_);
        exchange.unsent_.store(connection.n_unsent());
        break;
      case Mailbox::Kind::kEnd:
        if (connection.is_chunked && !connection.is_head_only) connection.send(kLastChunk, now_);
        end_answer(exchange.connection_, connection);
        break;
    }
  }
  exchange.posted_.fetch_sub(letter.bytes.size());
  if (is_here) settle(exchange.connection_);
}

void Server::begin_answer(Connection& connection, const Response& head, bool is_whole) {
  TROIKA_ASSERT(!connection.is_begun);
  connection.is_begun = true;
  connection.is_last = connection.is_last || is_stopping_ || (!is_whole && !connection.is_chunked);
  const auto length = is_whole ? static_cast<long long>(head.body.size()) : -1;
  connection.send(head_of(head, length, !is_whole && connection.is_chunked, connection.is_last),
                  now_);
  if (is_whole && !connection.is_head_only) connection.send(head.body, now_);
}

void Server::end_answer(Id id, Connection& connection) {
  connection.exchange = nullptr;
  connection.begin_idle(now_);
  if (connection.is_last || is_stopping_) {
    connection.end_after_sending();
  } else {
    read_requests(id, connection);
  }
}

void Server::settle(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  // What has been sent may have been all that a request waited for.
  const auto send_and_read = [&] {
    const bool was_behind = connection.n_unsent() > Connection::kMostBehind;
    if (!connection.flush(now_)) return false;
    if (!was_behind || connection.n_unsent() > Connection::kMostBehind) return true;
    read_requests(id, connection);
    // Whoever has ended its side is looked at again, as where bytes come.
    if (connection.saw_end()) left_.push_back(id);
    return connection.flush(now_);
  };
  if (!send_and_read()) {
    close(id);
    return;
  }
  count_unsent(connection);
  const bool is_sent = connection.n_unsent() == 0;
  if (const std::shared_ptr<Exchange> exchange = connection.exchange; exchange != nullptr) {
    exchange->unsent_.store(connection.n_unsent());
    const bool is_read = exchange->n_waiting() <= Exchange::kMostUnsent / 2;
    if (is_read && exchange->is_awaited_.exchange(false)) handler_.on_drained(exchange);
  }
  if (is_sent && connection.is_ending() && !connection.is_lingering()) connection.linger(now_);
  const bool is_idle_end = connection.saw_end() && connection.exchange == nullptr;
  if (is_idle_end && is_sent && (connection.is_lingering() || !connection.has_unread())) {
    close(id);
    return;
  }
  uint32_t events = connection.saw_end() ? 0u : static_cast<uint32_t>(EPOLLRDHUP);
  if (connection.wants_to_read()) events |= EPOLLIN;
  if (!is_sent) events |= EPOLLOUT;
  if (events == connection.events) return;
  connection.events = events;
  // Without its events the connection would stay for ever.
  if (!wait_for(connection.fd(), id, events, false)) close(id);
}

void Server::look_at_times() {
  std::vector<std::pair<Id, Connection::Late>> late;
  for (const auto& [id, connection] : connections_) {
    const Connection::Late what = connection->late(now_);
    if (what != Connection::Late::kNo) late.emplace_back(id, what);
  }
  for (const auto& [id, what] : late) {
    const bool has_sentence = what == Connection::Late::kHead || what == Connection::Late::kBody;
    if (!has_sentence) {
      close(id);
      continue;
    }
    refuse(*connections_.at(id), {408, late_text(what)});
    settle(id);
  }
}

}  // namespace troika::http
