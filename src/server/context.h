// Holds what all requests to a server share: options, model, grammars and worker.
#pragma once

#include <atomic>
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
#include "server/desk/desk.h"
#include "server/desk/grammars.h"
#include "server/kept/kept_prefixes.h"
#include "server/reading/wanted.h"
#include "server/worker.h"
#include "text/special_matcher.h"

namespace troika::server {

struct ServiceOptions {
  std::string model_name;  // the name by which clients know the model
  bool shows_metrics = true, shows_slots = true;
  bool shows_prompts = false;     // shows prompts beside answers even if nobody asks
  int n_parallel = 4;             // counts answers that are computed at once
  int n_queue = 64;               // counts answers that may wait
  int n_unread = 512;             // counts requests that may wait until they are read
  int n_slow_grammars = 16;       // counts grammars that may wait because reading them takes long
  double ping_seconds = 1.0;      // the silence in a stream until a sign of life; 0: no signs
  std::vector<std::string> keys;  // a client must know one of them, if there are any
  // Requests may name this machine so, beside by its address and as localhost.
  std::vector<std::string> host_names;
  // Is false where no page in a browser can reach the server, as through a socket file.
  bool checks_hosts = true;
  engine::SamplerOptions sampler;         // the values that a request does not give
  bool has_seed = false;                  // all requests get `sampler`'s seed, or else a random one
  bool thinks = true;                     // lets models think before they answer
  std::string chat_template;              // replaces the model's template; empty: does not
  std::vector<std::string> forced_texts;  // answers have them in turn, in tests
  KeepOptions keep;                       // says what is kept on disk
  // Makes a drafter for an answer that is held to the constraint, which may be null. The function
  // may be empty, and may return null.
  std::function<std::unique_ptr<draft::Drafter>(std::shared_ptr<engine::Constraint>)> make_drafter;
};

// Limits texts that are only told in tokens, and not computed.
inline constexpr size_t kMostCountedBytes = size_t{4} << 20;

// A chat template, and how a model that follows it writes calls of tools, and thoughts.
struct ChatStyle {
  // Throws Error where the template does not parse.
  ChatStyle(const engine::Engine& engine, const std::string& source);

  engine::ChatFormat format;
  CallShape calls;
  ThoughtMarks thoughts;
  bool has_channels = false;
};

class Context {
 public:
  // The engine must outlive the context.
  Context(engine::Engine& engine, ServiceOptions options);
  ~Context();

  engine::Engine& engine() { return engine_; }
  const engine::Engine& engine() const { return engine_; }
  const text::Tokenizer& tokenizer() const { return engine_.tokenizer(); }
  const ServiceOptions& options() const { return options_; }
  Worker& worker() { return worker_; }
  const Worker& worker() const { return worker_; }
  Grammars& grammars() { return grammars_; }
  // Makes grammars and masks that take long.
  Desk& slow_desk() { return slow_desk_; }
  // Returns the settings of a sampler for what a request does not say.
  engine::SamplerOptions sampler() const;
  int64_t started_s() const { return started_s_; }  // seconds since 1970
  int n_context() const { return engine_.plan().context; }
  // Returns the style of chats, or of those whose request has tools, for which some models have
  // another template. Throws Refused where the model has none.
  const ChatStyle& chat(bool has_tools = false) const;
  bool has_chat() const { return chat_.has_value(); }
  // Says whether requests with tools have a template of their own.
  bool has_tool_chat() const { return tool_chat_.has_value(); }
  const text::SpecialMatcher& control_tokens() const { return control_tokens_; }

  // Throws Refused where a prompt of so many bytes cannot fit in the context, so that nobody spends
  // the time and the memory that its tokens would take.
  void check_bytes(size_t n_bytes) const;
  // Throws Refused where a prompt of so many tokens does not fit. `how` stands before their number.
  void check_tokens(size_t n_tokens, const char* how = "") const;
  // Throws Refused where a prompt is empty or does not fit. start() does so too, but whoever makes
  // a grammar asks before, so that nobody waits for the grammar of a prompt that is refused.
  void check_lengths(const Wanted& wanted) const;
  // Throws Refused where a conversation has as many messages as the context has tokens, so that
  // nobody waits for a template that takes long over them. check_conversation() looks at a request
  // before its messages, which stand in the field "messages" or "input", are read: at their number,
  // at that of their calls and parts, and at that of the tools.
  void check_messages(size_t n_messages, const std::string& what = "messages",
                      const std::string& field = "messages") const;
  void check_conversation(const Json& body, const std::string& field) const;
  // Throws Refused where a text is longer than what is only told in tokens, and not computed, may
  // be: nobody reads another request meanwhile, and each byte takes some ten bytes of memory.
  static void check_counted(size_t n_bytes);
  // Throws Refused where one request asks for more answers than there are places, or where the
  // texts of its several prompts are longer together than what is only counted may be: nobody reads
  // another request while they are made tokens of.
  void check_prompts(const Json& prompts, const Wanted& wanted) const;
  // Returns the tokens of a prompt, or a part of one, that a client gives as text. Throws Refused
  // as check_bytes() does.
  std::vector<engine::Token> encode_prompt(std::string_view text, bool add_special = true) const;

  // Takes a request: its answers are computed and told to the writer. If it throws Refused, the
  // writer has heard nothing.
  void start(const std::shared_ptr<http::Exchange>& exchange, const Wanted& wanted,
             std::unique_ptr<Writer> writer, const Answers::MakeReader& make_reader);

  // The server's thread calls forget() when nobody waits for an exchange any more, and tick() a few
  // times a second, so that silent streams show signs of life.
  void forget(const http::Exchange* exchange);
  void tick();

 private:
  void check(const Wanted& wanted) const;
  int most_tokens(const Wanted& wanted) const;
  void check_number(int64_t n_answers) const;
  std::shared_ptr<Job> make_job(const std::shared_ptr<http::Exchange>& exchange,
                                const Wanted& wanted, int index);

  engine::Engine& engine_;
  const ServiceOptions options_;
  const int64_t started_s_;
  std::optional<ChatStyle> chat_;
  std::optional<ChatStyle> tool_chat_;  // empty: requests with tools have no other one
  std::string chat_problem_;            // says why there is no style of chats
  const text::SpecialMatcher control_tokens_;
  std::vector<std::vector<engine::Token>> forced_;
  std::atomic<size_t> n_forced_ = 0;  // counts answers that got one
  Grammars grammars_;
  std::mutex mutex_;
  std::vector<std::pair<const http::Exchange*, std::weak_ptr<Answers>>> live_;
  Desk slow_desk_{Desk::Pace::kBehindOthers};
  Worker worker_;  // is the last member, so that it ends first
};

}  // namespace troika::server
