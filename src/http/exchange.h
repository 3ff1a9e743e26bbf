// An exchange is one request and its answer, as the code that answers sees them. All functions may
// be called from any thread, and after the server's end.
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

// Brings the server's thread what other threads want it to do, in the order of their calls.
class Mailbox {
 public:
  enum class Kind : uint8_t { kReply, kBegin, kWrite, kEnd };
  struct Letter {
    std::shared_ptr<Exchange> exchange;
    Kind kind;
    Response response;  // for kReply and kBegin
    std::string bytes;  // for kWrite
  };

  Mailbox();  // throws Error
  void post(Letter letter);
  // Drops the letters that were posted, and all that are posted later, as nobody reads any more.
  void close();
  // Makes the server's thread look into the mailbox, though no letter was posted. A signal's
  // handler may call it.
  void wake() const;
  // Returns a descriptor to poll. It is readable while letters, or a call of wake(), have not been
  // taken.
  int fd() const { return event_.get(); }
  std::vector<Letter> take();

  // Counts the bytes of requests that others than the server's thread hold.
  std::atomic<size_t> n_held = 0;

 private:
  Descriptor event_;
  std::mutex mutex_;
  std::vector<Letter> letters_;
  bool is_closed_ = false;
};

// Counts bytes of requests in a server's total until it is destroyed.
class HeldBytes {
 public:
  HeldBytes(std::shared_ptr<Mailbox> mailbox, size_t n);
  ~HeldBytes();
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  std::shared_ptr<Mailbox> mailbox_;
  size_t n_;
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // When more bytes of an answer than this wait for the client, whoever writes the answer pauses.
  static constexpr size_t kMostUnsent = size_t{256} << 10;

  Exchange(std::shared_ptr<Mailbox> mailbox, size_t connection)
      : mailbox_(std::move(mailbox)), connection_(connection) {}

  // Sends the whole answer. It is called once.
  void reply(Response response);
  // begin(), write() and end() send an answer in parts: its head, any number of parts, and its end.
  void begin(Response head);
  void write(std::string bytes);
  void end();

  // Notes who asks, as the handler of requests has found out. The asker is empty if it is nobody in
  // particular. It is set before another thread sees the exchange.
  void set_asker(std::string asker) { asker_ = std::move(asker); }
  const std::string& asker() const { return asker_; }

  // Counts bytes in the total of all requests that the server limits, until what it returns is
  // destroyed. The body of a request is counted as long as the request is there, so whoever keeps
  // parts of one for longer calls it.
  std::shared_ptr<const HeldBytes> hold(size_t n_bytes) const {
    return std::make_shared<const HeldBytes>(mailbox_, n_bytes);
  }

  // Says that the client has left, so that nobody waits for the answer.
  bool is_gone() const { return is_gone_.load(std::memory_order_acquire); }
  // Says that the client reads too slowly, so that nothing more is to be written for now. After a
  // true answer the server calls Handler::on_drained once the client has read enough.
  bool is_full();

 private:
  friend class Server;
  size_t n_waiting() const { return posted_.load() + unsent_.load(); }

  std::shared_ptr<Mailbox> mailbox_;
  size_t connection_;
  std::string asker_;
  std::atomic<bool> is_gone_ = false;
  std::atomic<size_t> posted_ = 0;        // counts bytes in letters that the server has not taken
  std::atomic<size_t> unsent_ = 0;        // counts unsent bytes that the connection holds
  std::atomic<bool> is_awaited_ = false;  // says that is_full() has answered true
};

}  // namespace troika::http
