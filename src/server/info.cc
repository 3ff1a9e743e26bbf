#include "server/info.h"

#include <fmt/format.h>

namespace troika::server {
namespace {

http::Response json_response(const Json& json) {
  http::Response response;
  response.body = dump(json);
  return response;
}

void add_metric(std::string* text, const char* name, const char* type, const char* help,
                double value) {
  *text += fmt::format("# HELP troika_{0} {1}\n# TYPE troika_{0} {2}\ntroika_{0} {3}\n", name, help,
                       type, value);
}

}  // namespace

http::Response show_health(const Context&, const http::ServerStatistics*) {
  return json_response({{"status", "ok"}});
}

http::Response show_models(const Context& context, const http::ServerStatistics*) {
  const Json model = {
      {"id", context.options().model_name},
      {"object", "model"},
      {"created", context.started_s()},
      {"owned_by", "troika"},
      {"meta", {{"n_vocab", context.tokenizer().n_tokens()}, {"n_ctx", context.n_context()}}}};
  return json_response({{"object", "list"}, {"data", Json::array({model})}});
}

http::Response show_props(const Context& context, const http::ServerStatistics*) {
  const Options& options = context.options();
  Json props;
  props["model"] = options.model_name;
  props["context"] = context.n_context();
  props["parallel"] = options.n_parallel;
  props["queue"] = options.n_queue;
  props["ping_s"] = options.ping_seconds;
  props["chat_template"] = context.has_chat() ? Json(context.chat().source()) : Json(nullptr);
  props["text_is_given"] = options.forced_text.has_value();
  props["defaults"] = {{"temperature", options.sampler.temperature},
                       {"top_k", options.sampler.top_k},
                       {"top_p", options.sampler.top_p},
                       {"min_p", options.sampler.min_p}};
  return json_response(props);
}

http::Response show_slots(const Context& context, const http::ServerStatistics*) {
  Json slots = Json::array();
  for (const Worker::View& view : context.worker().figures().running) {
    slots.push_back({{"id", view.number},
                     {"prompt_tokens", view.n_prompt},
                     {"tokens", view.n_tokens},
                     {"waits_for_its_reader", view.is_paused}});
  }
  return json_response(slots);
}

http::Response show_metrics(const Context& context, const http::ServerStatistics* statistics) {
  const Worker::Figures f = context.worker().figures();
  std::string text;
  const auto counter = [&](const char* name, const char* help, double value) {
    add_metric(&text, name, "counter", help, value);
  };
  const auto gauge = [&](const char* name, const char* help, double value) {
    add_metric(&text, name, "gauge", help, value);
  };
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  counter("answers_total", "Answers that have ended.", number(f.n_answers));
  counter("answers_cancelled_total", "Answers whose client left.", number(f.n_cancelled));
  counter("answers_failed_total", "Answers that an error ended.", number(f.n_failed));
  counter("prompt_tokens_total", "Tokens of prompts.", number(f.n_prompt_tokens));
  counter("prompt_tokens_computed_total", "Tokens of prompts that were not known from before.",
          number(f.n_computed_tokens));
  counter("tokens_total", "Tokens of answers.", number(f.n_tokens));
  counter("passes_total", "Passes through the model.", number(f.n_passes));
  counter("busy_seconds_total", "Time in passes.", f.busy_seconds);
  gauge("answers_running", "Answers that are being computed.", number(std::ssize(f.running)));
  gauge("answers_waiting", "Answers that wait for their turn.", f.n_waiting);
  if (statistics != nullptr) {
    counter("http_requests_total", "Requests.", number(statistics->n_requests));
    counter("http_refused_total", "Requests that were no good HTTP, or came too slowly.",
            number(statistics->n_refused));
    gauge("http_connections", "Open connections.", statistics->n_open);
  }
  http::Response response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = text;
  return response;
}

}  // namespace troika::server
