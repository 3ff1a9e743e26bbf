// The service answers the requests of an HTTP server: it checks whether the client may ask, and
// calls the function that serves the path.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "http/server.h"
#include "server/context.h"
#include "server/desk/desk.h"

namespace troika::server {

class Service : public http::Handler {
 public:
  // The engine must outlive the service. Throws Error for a chat template that cannot be read.
  Service(engine::Engine& engine, ServiceOptions options);
  ~Service() override;

  std::optional<http::Response> on_head(const http::Request& request) override;
  void on_request(const std::shared_ptr<http::Exchange>& exchange, http::Request request) override;
  void on_gone(const std::shared_ptr<http::Exchange>& exchange) override;
  void on_drained(const std::shared_ptr<http::Exchange>& exchange) override;
  void on_tick() override;
  void on_time_up(const std::shared_ptr<http::Exchange>& exchange) override;
  http::Response refusal(const http::Refusal& refusal, const std::string& path) override;

  const Context& context() const { return context_; }
  // Sets the counts of connections and the like, for /metrics; null if they are not known.
  void set_statistics(const http::ServerStatistics* statistics) { statistics_ = statistics; }

 private:
  using Serve = void (*)(Context&, const std::shared_ptr<http::Exchange>&, const Json& body);
  void check_line() const;
  void serve(const std::shared_ptr<http::Exchange>& exchange, http::Request request);
  void read(const std::shared_ptr<http::Exchange>& exchange, Serve serve,
            const std::shared_ptr<const http::Request>& request);
  void read_later(const std::shared_ptr<http::Exchange>& exchange, Serve serve,
                  const std::shared_ptr<const http::Request>& request,
                  const Grammars::TakesLonger& wanted);

  Context context_;
  const http::ServerStatistics* statistics_ = nullptr;
  Desk desk_;
};

}  // namespace troika::server
