#include "cli/use/serve_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"

namespace troika::cli {
namespace {

class Silent : public http::Handler {
 public:
  void on_request(const std::shared_ptr<http::Exchange>&, http::Request) override {}
  void on_gone(const std::shared_ptr<http::Exchange>&) override {}
  void on_drained(const std::shared_ptr<http::Exchange>&) override {}
  http::Response refusal(const http::Refusal&, const std::string&) override { return {}; }
};

bool is_default(int signal) {
  struct sigaction now = {};
  sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_DFL;
}

// Whoever presses Ctrl-C a second time, while the program saves what it keeps, ends it.
TEST(ServeSignals, StopAServerAndThenEndTheProgram) {
  const test::TempFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    std::vector<http::Listener> listeners;
    listeners.push_back(http::Listener::unix_socket(folder.file("s")));
    Silent silent;
    http::Server server(std::move(listeners), {}, silent);
    {
      const StoppedBySignals stopped(&server);
      // The system may choose any thread of a program to hear a signal.
      std::thread other([signal] { std::raise(signal); });
      server.run();
      other.join();
      EXPECT_FALSE(is_default(signal));
    }
    EXPECT_TRUE(is_default(SIGINT));
    EXPECT_TRUE(is_default(SIGTERM));
  }
}

}  // namespace
}  // namespace troika::cli
