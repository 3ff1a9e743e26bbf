// HTTP by libcurl, which is loaded when it is needed: the program runs without it, and building it
// takes nothing of it.
#pragma once

#include <memory>

#include "fetch/http.h"

namespace troika::fetch {

// Throws Error that says what to install where there is no libcurl, and in a static program, which
// cannot load one. `library` is a file to load instead, for tests.
std::unique_ptr<Transport> make_curl_transport(const char* library = nullptr);

}  // namespace troika::fetch
