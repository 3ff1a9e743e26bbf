#include "server/service.h"

#include <fmt/format.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

#include "server/admission.h"
#include "server/anthropic/messages.h"
#include "server/info/info.h"
#include "server/llama/completion.h"
#include "server/llama/text_tools.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/openai/responses.h"
#include "server/refusals.h"

namespace troika::server {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

// A grammar takes seconds at most.
constexpr int kSlowGrammarSeconds = 2;
constexpr int kUnreadSeconds = 1;

// Reading a request takes some forty times its bytes, and beyond so many bytes that is given back
// at once.
constexpr size_t kLargeBytes = size_t{1} << 20;

// Gives free pages back to the system. malloc() does so by itself only where nothing that is in use
// lies behind them, and something nearly always does. It takes milliseconds for each 100 MB.
void give_back_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

using Show = http::Response (*)(const Context&, const http::ServerStatistics*);
// Reads a request's body, and answers it at once or later.
using ServeBody = void (*)(Context&, const ExchangePtr&, const Json& body);

// A path whose requests have a body. The desk does the work.
struct Post {
  std::string_view path;
  ServeBody serve;
};
constexpr Post kPosts[] = {
    {"/v1/chat/completions", serve_chat},
    {"/chat/completions", serve_chat},
    {"/v1/completions", serve_completions},
    {"/completions", serve_completion},
    {"/completion", serve_completion},
    {"/v1/responses", serve_responses},
    {"/responses", serve_responses},
    {"/v1/chat/completions/input_tokens", count_chat},
    {"/chat/completions/input_tokens", count_chat},
    {"/v1/responses/input_tokens", count_responses},
    {"/v1/messages", serve_messages},
    {"/v1/messages/count_tokens", serve_count_tokens},
    {"/tokenize", serve_tokenize},
    {"/detokenize", serve_detokenize},
    {"/apply-template", serve_template},
};

// A path that is answered at once, without waiting for anybody.
struct Get {
  std::string_view path;
  Show show;
  bool needs_key;
};
constexpr Get kGets[] = {
    {.path = "/health", .show = show_health, .needs_key = false},
    {.path = "/v1/health", .show = show_health, .needs_key = false},
    {.path = "/props", .show = show_props, .needs_key = true},
    {.path = "/slots", .show = show_slots, .needs_key = true},
    {.path = "/metrics", .show = show_metrics, .needs_key = true},
};

template <typename Table>
auto find(const Table& table, std::string_view path) {
  return std::find_if(std::begin(table), std::end(table),
                      [&](const auto& row) { return row.path == path; });
}

// What serves a request, which is one of the first three, and who asks.
struct Admitted {
  Show show = nullptr;
  bool shows_models = false;
  ServeBody serve = nullptr;
  std::string asker{};
};

[[noreturn]] void refuse_method(const std::string& why, const char* allowed) {
  Refused refused(405, why);
  refused.allowed = allowed;
  throw Refused(refused);
}

void check_is_read(const http::Request& request) {
  if (request.method == "GET" || request.method == "HEAD") return;
  refuse_method(fmt::format("{} is read with GET.", request.path), "GET, HEAD");
}

// Looks at everything but the body. Throws Refused.
Admitted admit(const http::Request& request, const ServiceOptions& options) {
  if (options.checks_hosts) check_host(request, options.host_names);
  const std::string& path = request.path;
  if (const auto get = find(kGets, path); get != std::end(kGets)) {
    if (get->needs_key) check_key(request, options.keys);
    check_is_read(request);
    return {.show = get->show};
  }
  if (is_of_models(path)) {
    check_is_read(request);
    return {.shows_models = true};
  }
  std::string asker = check_key(request, options.keys);
  const auto post = find(kPosts, path);
  if (post == std::end(kPosts)) throw Refused(404, why_unknown(path));
  if (request.method != "POST") refuse_method(fmt::format("{} takes a POST.", path), "POST");
  if (request.lacks_length) throw Refused(411, "The request needs the header Content-Length.");
  check_type(request);
  return {.serve = post->serve, .asker = std::move(asker)};
}

}  // namespace

Service::Service(engine::Engine& engine, ServiceOptions how) : context_(engine, std::move(how)) {}

// Each of the two desks posts to the other, so both threads end before either desk is destroyed.
Service::~Service() {
  desk_.stop();
  context_.slow_desk().stop();
}

http::Response Service::refusal(const http::Refusal& refusal, const std::string& path) {
  return refusal_response(path, Refused(refusal.status, refusal.why));
}

// Refuses requests while too many wait to be read.
void Service::check_line() const {
  if (desk_.n_waiting() < static_cast<size_t>(context_.options().n_unread)) return;
  throw Refused::for_now("Too many requests wait to be read. Try again later.", kUnreadSeconds);
}

// Whoever may not ask, or asks for what is not there, need not send the body.
std::optional<http::Response> Service::on_head(const http::Request& request) {
  try {
    if (admit(request, context_.options()).serve != nullptr) check_line();
    return std::nullopt;
  } catch (const Refused& refused) {
    return refusal_response(request.path, refused);
  } catch (const std::exception& error) {
    return refusal_response(request.path, Refused(500, error.what()));
  }
}

void Service::on_gone(const ExchangePtr& exchange) {
  desk_.forget(exchange.get());
  context_.slow_desk().forget(exchange.get());
  context_.forget(exchange.get());
}

void Service::on_drained(const ExchangePtr&) { context_.worker().look_again(); }

void Service::on_tick() { context_.tick(); }

// What has not been read by now is not answered: grammars take seconds, and whoever stops a server
// gives it longer.
void Service::on_time_up(const ExchangePtr&) { context_.worker().end_all(); }

void Service::on_request(const ExchangePtr& exchange, http::Request request) {
  const std::string path = request.path;
  try {
    serve(exchange, std::move(request));
  } catch (const Refused& refused) {
    exchange->reply(refusal_response(path, refused));
  } catch (const std::exception& error) {
    exchange->reply(refusal_response(path, Refused(500, error.what())));
  }
}

void Service::serve(const ExchangePtr& exchange, http::Request request) {
  const Admitted admitted = admit(request, context_.options());
  if (admitted.show != nullptr) {
    exchange->reply(admitted.show(context_, statistics_));
    return;
  }
  if (admitted.shows_models) {
    exchange->reply(show_models(context_, request));
    return;
  }
  check_line();
  exchange->set_asker(admitted.asker);
  desk_.post(exchange, [this, exchange, serve = admitted.serve,
                        request = std::make_shared<const http::Request>(std::move(request))] {
    read(exchange, serve, request);
  });
}

// Reads a request again when the grammar that it asks for is there.
void Service::read_later(const ExchangePtr& exchange, Serve serve,
                         const std::shared_ptr<const http::Request>& request,
                         const Grammars::TakesLonger& wanted) {
  const auto n_most = static_cast<size_t>(context_.options().n_slow_grammars);
  if (context_.slow_desk().n_waiting() >= n_most) {
    const Refused refused = Refused::for_now(
        "Too many grammars that take long wait to be read. Try again later.", kSlowGrammarSeconds);
    exchange->reply(refusal_response(request->path, refused));
    return;
  }
  context_.slow_desk().post(exchange, [this, exchange, serve, request, wanted] {
    Grammars::KeptPtr held;
    try {
      held = context_.grammars().make(wanted);
    } catch (const std::exception& error) {
      exchange->reply(refusal_response(request->path, Refused(500, error.what())));
      return;
    }
    desk_.post(exchange,
               [this, exchange, serve, request, held] { read(exchange, serve, request); });
  });
}

void Service::read(const ExchangePtr& exchange, Serve serve,
                   const std::shared_ptr<const http::Request>& request) {
  try {
    serve(context_, exchange, object_from(request->body));
  } catch (const Grammars::TakesLonger& wanted) {
    read_later(exchange, serve, request, wanted);
  } catch (const Refused& refused) {
    exchange->reply(refusal_response(request->path, refused));
  } catch (const Error& error) {
    exchange->reply(refusal_response(request->path, Refused(400, error.what())));
  } catch (const Json::exception&) {
    // The readers of fields name the one that is wrong. This is for what they have overlooked.
    exchange->reply(refusal_response(
        request->path, Refused(400, "A value in the body is not of the kind that it must be.")));
  } catch (const std::exception& error) {
    exchange->reply(refusal_response(request->path, Refused(500, error.what())));
  }
  if (request->body.size() > kLargeBytes) give_back_free_memory();
}

}  // namespace troika::server
