// Sockets that wait for connections: TCP addresses and unix sockets.
#pragma once

#include <string>

namespace troika::http {

// A file descriptor with one owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void reset();

 private:
  int fd_;
};

class Listener {
 public:
  // An address in digits or "localhost"; port 0: the system chooses. Throws Error.
  static Listener tcp(const std::string& host, int port);
  // A file that only this user may open. One that a server which has ended left behind is replaced.
  // Throws Error.
  static Listener unix_socket(const std::string& path);
  ~Listener();
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;

  int fd() const { return socket_.get(); }
  bool is_tcp() const { return path_.empty(); }
  // "http://127.0.0.1:8080", or the path of the socket.
  const std::string& name() const { return name_; }
  int port() const { return port_; }

 private:
  Listener() = default;

  Descriptor socket_;
  std::string path_;  // of a unix socket; removed at the end
  std::string name_;
  int port_ = 0;
};

}  // namespace troika::http
