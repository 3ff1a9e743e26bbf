// Lets one thread handle a signal, whichever the system has chosen.
#pragma once

#include <pthread.h>

#include <csignal>

namespace troika::cli {

// Says whether the signal was passed on to this thread, because another one got it. A handler calls
// it first. The thread gets the signal even where it holds it back now.
inline bool is_passed_on(int signal, pthread_t thread) {
  if (pthread_equal(pthread_self(), thread) != 0) return false;
  pthread_kill(thread, signal);
  return true;
}

}  // namespace troika::cli
