#include "http/exchange.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/os_error.h"

namespace troika::http {

Mailbox::Mailbox() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_.get() < 0) throw_errno("A counter of events", "be made");
}

void Mailbox::wake() const {
  const uint64_t one = 1;
  // The write fails only where the event's counter is full, and then the server is awake anyway.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof(one));
}

void Mailbox::post(Letter letter) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_closed_) return;
    letters_.push_back(std::move(letter));
    if (letters_.size() > 1) return;  // the first one has woken the server
  }
  wake();
}

std::vector<Mailbox::Letter> Mailbox::take() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.get(), &count, sizeof(count));
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(letters_, {});
}

void Mailbox::close() {
  std::vector<Letter> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = true;
  dropped.swap(letters_);
}

HeldBytes::HeldBytes(std::shared_ptr<Mailbox> mailbox, size_t n)
    : mailbox_(std::move(mailbox)), n_(n) {
  mailbox_->n_held.fetch_add(n_);
}

HeldBytes::~HeldBytes() { mailbox_->n_held.fetch_sub(n_); }

// The mark is set before the second look. If the server takes bytes away before that look, the look
// sees it; if the server takes them away later, the server sees the mark.
bool Exchange::is_full() {
  if (n_waiting() <= kMostUnsent) return false;
  is_awaited_.store(true);
  return n_waiting() > kMostUnsent;
}

void Exchange::reply(Response response) {
  mailbox_->post({shared_from_this(), Mailbox::Kind::kReply, std::move(response), {}});
}

void Exchange::begin(Response head) {
  mailbox_->post({shared_from_this(), Mailbox::Kind::kBegin, std::move(head), {}});
}

void Exchange::write(std::string bytes) {
  if (bytes.empty() || is_gone()) return;
  posted_.fetch_add(bytes.size());
  mailbox_->post({shared_from_this(), Mailbox::Kind::kWrite, {}, std::move(bytes)});
}

void Exchange::end() { mailbox_->post({shared_from_this(), Mailbox::Kind::kEnd, {}, {}}); }

}  // namespace troika::http
