// Why an answer was not written to its end.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"
#include "engine/sampler.h"
#include "grammar/limits.h"

namespace troika::server {

struct Failure {
  explicit Failure(const std::exception& error)
      : why(error.what()),
        is_of_request(dynamic_cast<const grammar::TooLarge*>(&error) != nullptr ||
                      dynamic_cast<const engine::NothingMayFollow*>(&error) != nullptr) {}

  static Failure of_server_that_stops() {
    Failure failure(
        Error("The server stops, and its time to end this answer is over. Ask again "
              "when it is back."));
    failure.is_for_now = true;
    return failure;
  }

  // Returns the status that says whose fault it is.
  int status() const { return is_of_request ? 400 : is_for_now ? 503 : 500; }

  std::string why;
  // Says that the client asks for too much, or forbids whatever may follow, today and tomorrow.
  bool is_of_request;
  bool is_for_now = false;  // the same request may be answered later
};

}  // namespace troika::server
