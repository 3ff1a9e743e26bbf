#include "cli/use/serve_signals.h"

#include <atomic>
#include <csignal>

#include "cli/use/signal_thread.h"

namespace troika::cli {
namespace {

constexpr int kStopping[] = {SIGINT, SIGTERM};

// The signal's handler is given nothing else.
std::atomic<http::Server*> served{nullptr};
pthread_t thread_of_server;

void on_signal_of_server(int signal) {
  // On another thread the handler could still be at work while the server is destroyed.
  if (is_passed_on(signal, thread_of_server)) return;
  if (http::Server* const server = served.load(); server != nullptr) server->stop();
}

}  // namespace

StoppedBySignals::StoppedBySignals(http::Server* server) {
  thread_of_server = pthread_self();
  served.store(server);
  struct sigaction action = {};
  action.sa_handler = on_signal_of_server;
  for (const int signal : kStopping) sigaction(signal, &action, nullptr);
}

StoppedBySignals::~StoppedBySignals() {
  for (const int signal : kStopping) std::signal(signal, SIG_DFL);
  served.store(nullptr);
}

}  // namespace troika::cli
