// Answers requests about the server itself, at once and without waiting for a pass.
#pragma once

#include "http/server.h"
#include "server/context.h"

namespace troika::server {

http::Response show_health(const Context& context, const http::ServerStatistics* statistics);
http::Response show_models(const Context& context, const http::ServerStatistics* statistics);
http::Response show_props(const Context& context, const http::ServerStatistics* statistics);
http::Response show_slots(const Context& context, const http::ServerStatistics* statistics);
// Shows the server's figures in the text format of Prometheus.
http::Response show_metrics(const Context& context, const http::ServerStatistics* statistics);

}  // namespace troika::server
