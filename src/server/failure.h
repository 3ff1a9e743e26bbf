// Why an answer was not written to its end.
#pragma once

#include <exception>
#include <string>

#include "grammar/limits.h"

namespace troika::server {

struct Failure {
  explicit Failure(const std::exception& error)
      : why(error.what()),
        is_of_request(dynamic_cast<const grammar::TooLarge*>(&error) != nullptr) {}

  // Returns the status that says whose fault it is.
  int status() const { return is_of_request ? 400 : 500; }

  std::string why;
  bool is_of_request;  // what the client asks for is too large, today and tomorrow
};

}  // namespace troika::server
