// Runs tests/support/hub_server.py as a child process.
#pragma once

#include <sys/types.h>

#include <string>

namespace troika::test_support {

class HubServer {
 public:
  // Serves the files of `folder`. Throws where there is no python3.
  HubServer(const std::string& folder, const std::string& log);
  ~HubServer() { stop(); }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  // Returns the address: "http://127.0.0.1:PORT".
  const std::string& endpoint() const { return endpoint_; }
  // Returns when nobody listens at the address any more.
  void stop();

 private:
  pid_t child_ = -1;
  int input_ = -1;  // ends the server when it is closed
  std::string endpoint_;
};

}  // namespace troika::test_support
