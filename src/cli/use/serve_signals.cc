#include "cli/use/serve_signals.h"

#include <pthread.h>

#include <atomic>
#include <csignal>

namespace troika::cli {
namespace {

constexpr int kStopping[] = {SIGINT, SIGTERM};

// The signal's handler is given nothing else.
std::atomic<http::Server*> served{nullptr};
pthread_t thread_of_server;

void on_signal_of_server(int signal) {
  // The system may choose any thread. On another one the handler could still be at work while the
  // server is destroyed.
  if (pthread_equal(pthread_self(), thread_of_server) == 0) {
    pthread_kill(thread_of_server, signal);
    return;
  }
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
