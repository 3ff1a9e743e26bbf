// Answers requests about the server itself, at once and without waiting for a pass.
#pragma once

#include <string_view>

#include "http/server.h"
#include "server/context.h"

namespace troika::server {

http::Response show_health(const Context& context, const http::ServerStatistics* statistics);
// Shows the list of models, or the model that the path names, in the form of OpenAI's interface, or
// of Anthropic's where the request tells a version of that. Throws Refused for an unknown model.
// REQUIRES: is_of_models(request.path).
http::Response show_models(const Context& context, const http::Request& request);
// Says whether a path is "/v1/models", or "/models", or has a name behind these.
bool is_of_models(std::string_view path);
http::Response show_props(const Context& context, const http::ServerStatistics* statistics);
http::Response show_slots(const Context& context, const http::ServerStatistics* statistics);
// Shows the server's figures in the text format of Prometheus.
http::Response show_metrics(const Context& context, const http::ServerStatistics* statistics);

}  // namespace troika::server
