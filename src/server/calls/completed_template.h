// Completes chat templates that show tools to the model but leave out the calls that it made.
#pragma once

#include <string>

namespace troika::server {

// Returns the template so that it shows calls as the models of Liquid AI write them (LFM2, LFM2.5),
// if it is one of theirs and does not show them itself. Returns any other template as it is.
std::string completed_template(const std::string& source);

}  // namespace troika::server
