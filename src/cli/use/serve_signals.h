// Lets Ctrl-C, and what ends a program, stop a server.
#pragma once

#include "http/server.h"

namespace troika::cli {

// Has SIGINT and SIGTERM stop a server for as long as this lives, also where the server ends with
// an error. Afterwards they end the program, which may take seconds to save what it keeps. The
// thread that makes it hears all of them and must outlive it. There is one at a time.
class StoppedBySignals {
 public:
  explicit StoppedBySignals(http::Server* server);
  ~StoppedBySignals();
  StoppedBySignals(const StoppedBySignals&) = delete;
  StoppedBySignals& operator=(const StoppedBySignals&) = delete;
};

}  // namespace troika::cli
