#include "tests/support/hub_server.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/support/repository.h"

namespace troika::test_support {

HubServer::HubServer(const std::string& folder, const std::string& log) {
  const std::string script = test::repository_file("tests/support/hub_server.py");
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2 failed");
  }
  child_ = fork();
  if (child_ < 0) throw std::runtime_error("fork failed");
  if (child_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execlp("python3", "python3", script.c_str(), folder.c_str(), log.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  input_ = in[1];
  std::string port;
  for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) port.push_back(c);
  close(out[0]);
  if (port.empty()) throw std::runtime_error("python3 does not run " + script);
  endpoint_ = "http://127.0.0.1:" + port;
}

void HubServer::stop() {
  if (child_ < 0) return;
  close(input_);
  waitpid(child_, nullptr, 0);
  child_ = -1;
}

}  // namespace troika::test_support
