#include "http/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::http {
namespace {

constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address tcp_address(const std::string& host, int port) {
  Address address;
  const std::string digits = host == "localhost" ? "127.0.0.1" : host;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, digits.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    address.length = sizeof(*v4);
  } else if (inet_pton(AF_INET6, digits.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    address.length = sizeof(*v6);
  } else {
    throw UsageError(
        fmt::format("{} is no address to listen at. Use digits, such as 127.0.0.1, ::1 or 0.0.0.0.",
                    quoted(host)));
  }
  return address;
}

std::string tcp_name(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, port)
               : fmt::format("http://{}:{}", host, port);
}

Address unix_address(const std::string& path) {
  Address address;
  auto* const file = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof(file->sun_path)) {
    throw UsageError(fmt::format("{}: the path has {} bytes; a socket's may have {}.", quoted(path),
                                 path.size(), sizeof(file->sun_path) - 1));
  }
  file->sun_family = AF_UNIX;
  std::memcpy(file->sun_path, path.c_str(), path.size() + 1);
  address.length = sizeof(*file);
  return address;
}

Descriptor new_socket(int family, const std::string& name) {
  Descriptor made(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.get() < 0) throw_errno(name, "be opened");
  return made;
}

// Removes the socket file at `path` if no server answers there any more. `address` is its address.
void remove_left_behind(const std::string& path, const Address& address) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode)) {
    throw Error(
        fmt::format("{}: there is a file already, and it is no socket. Choose another "
                    "path, or remove it.",
                    path));
  }
  const Descriptor probe = new_socket(AF_UNIX, path);
  if (connect(probe.get(), address.get(), address.length) == 0 || errno != ECONNREFUSED) {
    throw Error(
        fmt::format("{}: another server listens there. Choose another path, or end it.", path));
  }
  unlink(path.c_str());
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

void Descriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Listener Listener::tcp(const std::string& host, int port) {
  Address address = tcp_address(host, port);
  const bool is_v6 = address.storage.ss_family == AF_INET6;
  Listener listener;
  listener.name_ = tcp_name(host, port);
  listener.socket_ = new_socket(address.storage.ss_family, listener.name_);
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (is_v6) setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(listener.fd(), address.get(), address.length) != 0) {
    if (errno == EADDRINUSE) {
      throw Error(
          fmt::format("{}: another program listens there. Choose another port.", listener.name_));
    }
    throw_errno(listener.name_, "be listened to");
  }
  if (listen(listener.fd(), kBacklog) != 0) throw_errno(listener.name_, "be listened to");
  address.length = sizeof(address.storage);
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  listener.port_ = ntohs(is_v6 ? reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port
                               : reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
  listener.name_ = tcp_name(host, listener.port_);
  return listener;
}

Listener Listener::unix_socket(const std::string& path) {
  const Address address = unix_address(path);
  remove_left_behind(path, address);
  Listener listener;
  listener.name_ = path;
  listener.socket_ = new_socket(AF_UNIX, path);
  // With this mask the socket file belongs to this user alone from its first moment on.
  const mode_t before = umask(0177);
  const int bound = bind(listener.fd(), address.get(), address.length);
  const int bind_errno = errno;
  umask(before);
  errno = bind_errno;
  if (bound != 0) throw_errno(path, "be listened to");
  listener.path_ = path;
  if (listen(listener.fd(), kBacklog) != 0) throw_errno(path, "be listened to");
  return listener;
}

Listener::~Listener() {
  if (socket_.get() >= 0 && !path_.empty()) unlink(path_.c_str());
}

}  // namespace troika::http
