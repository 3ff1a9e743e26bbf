// Opens sockets that wait for connections, on TCP addresses or as unix sockets.
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
  // Listens on `host`, an address in digits or "localhost". With port 0 the system chooses a port.
  // Throws Error.
  static Listener tcp(const std::string& host, int port);
  // Listens on a socket file that only this user may open. A file that was left behind by a server
  // which has ended is replaced. Throws Error.
  static Listener unix_socket(const std::string& path);
  ~Listener();
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) = delete;

  int fd() const { return socket_.get(); }
  bool is_tcp() const { return path_.empty(); }
  // Returns a text like "http://127.0.0.1:8080", or the path of the socket file.
  const std::string& name() const { return name_; }
  int port() const { return port_; }

 private:
  Listener() = default;

  Descriptor socket_;
  std::string path_;  // the file of a unix socket, which is removed at the end; empty for TCP
  std::string name_;
  int port_ = 0;
};

}  // namespace troika::http
