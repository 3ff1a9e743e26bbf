// One request on its way to an answer, as whoever answers it sees it. All functions may be called
// from any thread, and after the server's end.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "http/listener.h"
#include "http/message.h"

namespace troika::http {

class Exchange;

// What other threads want the server's thread to do, in the order of their calls.
class Mailbox {
 public:
  enum class Kind : uint8_t { kReply, kBegin, kWrite, kEnd };
  struct Letter {
    std::shared_ptr<Exchange> exchange;
    Kind kind;
    Response response;  // of kReply and kBegin
    std::string bytes;  // of kWrite
  };

  Mailbox();  // throws Error
  void post(Letter letter);
  // Nobody reads any more: what was posted is dropped, as is what still comes.
  void close();
  // Makes the server's thread look, without a letter. May be called by a signal's handler.
  void wake() const;
  // Readable while somebody has called.
  int fd() const { return event_.get(); }
  std::vector<Letter> take();

 private:
  Descriptor event_;
  std::mutex mutex_;
  std::vector<Letter> letters_;
  bool is_closed_ = false;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // More than this much of an answer does not wait for its reader: who writes pauses.
  static constexpr size_t kMostUnsent = size_t{256} << 10;

  Exchange(std::shared_ptr<Mailbox> mailbox, size_t connection)
      : mailbox_(std::move(mailbox)), connection_(connection) {}

  // Sends the whole answer. To be called once.
  void reply(Response response);
  // Sends an answer in parts: its head, any number of parts, and its end.
  void begin(Response head);
  void write(std::string bytes);
  void end();

  // Who asks, as whoever handles requests has found out: empty for nobody in particular. To be set
  // before another thread sees the exchange.
  void set_asker(std::string asker) { asker_ = std::move(asker); }
  const std::string& asker() const { return asker_; }

  // The client has left, so that nobody waits for the answer.
  bool is_gone() const { return is_gone_.load(std::memory_order_acquire); }
  // The client reads too slowly: nothing more is to be written until the server tells that it has
  // read. Whoever is told so is told of that, too.
  bool is_full();

 private:
  friend class Server;
  size_t n_waiting() const { return posted_.load() + unsent_.load(); }

  std::shared_ptr<Mailbox> mailbox_;
  size_t connection_;
  std::string asker_;
  std::atomic<bool> is_gone_ = false;
  std::atomic<size_t> posted_ = 0;        // bytes in letters
  std::atomic<size_t> unsent_ = 0;        // bytes that the connection holds
  std::atomic<bool> is_awaited_ = false;  // somebody was told that it is full
};

}  // namespace troika::http
