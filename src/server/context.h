// What all requests to a server are answered with.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/chat.h"
#include "engine/constrain/constraint.h"
#include "server/answers.h"
#include "server/calls/shape.h"
#include "server/desk.h"
#include "server/grammars.h"
#include "server/kept/kept_prefixes.h"
#include "server/wanted.h"
#include "server/worker.h"

namespace troika::server {

struct Options {
  std::string model_name;  // by which clients know it
  bool shows_metrics = true, shows_slots = true;
  bool shows_prompts = false;      // beside the answers to chats, whether they ask for it or not
  int n_parallel = 4;              // answers that are computed at once
  int n_queue = 64;                // that wait
  double ping_seconds = 1.0;       // of silence in a stream until a comment shows life; 0: none
  std::vector<std::string> keys;   // one of which a client must know; empty: nobody is asked
  engine::SamplerOptions sampler;  // what a request does not say
  bool has_seed = false;           // its seed is for all of them; else each gets one by chance
  bool thinks = true;              // whether models that think before they answer do so
  std::string chat_template;       // in place of the model's; empty: that one
  std::optional<std::string> forced_text;  // of every answer, for tests
  KeepOptions keep;                        // on disk, of texts that were computed
  // What drafts for an answer that is held to this, or to nothing; may be empty, and give null.
  std::function<std::unique_ptr<draft::Drafter>(std::shared_ptr<engine::Constraint>)> make_drafter;
};

class Context {
 public:
  // The engine must outlive it.
  Context(engine::Engine& engine, Options options);
  ~Context();

  engine::Engine& engine() { return engine_; }
  const engine::Engine& engine() const { return engine_; }
  const text::Tokenizer& tokenizer() const { return engine_.tokenizer(); }
  const Options& options() const { return options_; }
  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }
  Grammars& grammars() { return grammars_; }
  // Makes grammars and masks that take long.
  Desk& slow_desk() { return slow_desk_; }
  // What a request does not say of how tokens are chosen.
  engine::SamplerOptions sampler() const;
  int64_t started_s() const { return started_s_; }  // since 1970
  int n_context() const { return engine_.plan().context; }
  // Throws Refused where the model has no template for chats.
  const engine::ChatFormat& chat() const;
  bool has_chat() const { return chat_.has_value(); }
  // How this model writes calls of tools, and thoughts.
  const CallShape& call_shape() const { return call_shape_; }
  const ThoughtMarks& thought_marks() const { return thought_marks_; }
  bool has_channels() const { return has_channels_; }

  // Takes the request: its answers are computed and told to the writer. Throws Refused, and then
  // the writer has heard nothing.
  void start(const std::shared_ptr<http::Exchange>& exchange, const Wanted& wanted,
             std::unique_ptr<Writer> writer, const Answers::MakeReader& make_reader);

  // The server's thread calls these: nobody waits for this exchange any more; time to show life.
  void forget(const http::Exchange* exchange);
  void tick();

 private:
  void check(const Wanted& wanted) const;
  std::shared_ptr<Job> make_job(const std::shared_ptr<http::Exchange>& exchange,
                                const Wanted& wanted, int index);

  engine::Engine& engine_;
  const Options options_;
  const int64_t started_s_;
  std::optional<engine::ChatFormat> chat_;
  std::string chat_problem_;  // why there is none
  CallShape call_shape_;
  ThoughtMarks thought_marks_;
  bool has_channels_ = false;
  std::vector<engine::Token> forced_;
  Grammars grammars_;
  std::mutex mutex_;
  std::vector<std::pair<const http::Exchange*, std::weak_ptr<Answers>>> live_;
  Desk slow_desk_{Desk::Pace::kBehindOthers};
  Worker worker_;  // ends first
};

}  // namespace troika::server
