// troika serve: answers programs over HTTP, several at once.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/idle_flags.h"
#include "cli/flags/idle_note.h"
#include "cli/flags/sampler_flags.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/use/drafting.h"
#include "cli/use/serve_signals.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "http/server.h"
#include "server/service.h"

namespace troika::cli {
namespace {

constexpr int kMostParallel = 1024;
constexpr int kMostQueue = 100'000;
// So many whole requests may wait until they are read, and so many more for each place of an answer
// that is computed or waits.
constexpr int kMostUnread = 256, kMostUnreadEach = 4;

struct ServeFlags {
  EngineFlags engine;
  SamplerFlags sampler;
  DraftFlags draft;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string socket;
  Option* socket_option = nullptr;
  std::vector<std::string> host_names;
  std::vector<std::string> keys;
  std::string key_file;
  Option* key_file_option = nullptr;
  std::string name;
  std::string template_file;
  std::vector<std::string> forced_files;
  int n_parallel = 4;
  int n_queue = 64;
  double ping_seconds = 1.0;
  std::string cache_folder;
  uint64_t cache_bytes = uint64_t{4} << 30;
  Option* cache_bytes_option = nullptr;
  bool is_cache_shared = false;
  bool has_no_thinking = false;
  bool has_no_metrics = false, has_no_slots = false;
  bool shows_prompts = false;

  bool has_socket() const { return socket_option->count() > 0; }
};

// Says whether a client can send the key in a header.
bool is_sendable(const std::string& key) {
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  return !key.empty() && key.front() != ' ' && key.back() != ' ' &&
         std::none_of(key.begin(), key.end(), is_control);
}

// Returns the keys of the options and of the file. An empty one, as a variable gives that is not
// set, would let everybody in.
std::vector<std::string> keys_of(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.keys;
  const bool has_file = flags.key_file_option->count() > 0;
  const std::string text = has_file ? read_text(flags.key_file) : "";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) keys.push_back(line);
    at = end + 1;
  }
  if (keys.empty() && has_file) {
    throw UsageError(
        fmt::format("{}: the file holds no key. Write one on each line.", flags.key_file));
  }
  if (std::all_of(keys.begin(), keys.end(), is_sendable)) return keys;
  throw UsageError(
      "--api-key: a key is empty, begins or ends with a space, or has a control character in it, "
      "so that no client could send it. Give another one.");
}

std::string name_of(const ServeFlags& flags, const engine::Engine& engine) {
  if (!flags.name.empty()) return flags.name;
  return std::filesystem::path(engine.file().path()).stem().string();
}

// Reads what stands in files, into the options. A missing one is told before the model is loaded.
server::ServiceOptions read_files(const ServeFlags& flags) {
  server::ServiceOptions options;
  options.keys = keys_of(flags);
  if (!flags.template_file.empty()) options.chat_template = read_text(flags.template_file);
  for (const std::string& file : flags.forced_files) {
    options.forced_texts.push_back(read_text(file));
    if (!options.forced_texts.back().empty()) continue;
    throw UsageError(fmt::format("{}: the file is empty, so that an answer has no text.", file));
  }
  return options;
}

server::ServiceOptions options_of(const ServeFlags& flags, server::ServiceOptions options,
                                  engine::Engine& engine) {
  options.model_name = name_of(flags, engine);
  options.n_parallel = flags.n_parallel;
  options.n_queue = flags.n_queue;
  options.n_unread = kMostUnread + kMostUnreadEach * (flags.n_parallel + flags.n_queue);
  options.ping_seconds = flags.ping_seconds;
  options.host_names = flags.host_names;
  options.checks_hosts = !flags.has_socket();
  options.keep = {flags.cache_folder, flags.cache_bytes, flags.is_cache_shared};
  options.sampler = flags.sampler.checked();
  options.has_seed = flags.sampler.seed->count() > 0;
  options.thinks = !flags.has_no_thinking;
  options.shows_metrics = !flags.has_no_metrics;
  options.shows_slots = !flags.has_no_slots;
  options.shows_prompts = flags.shows_prompts;
  const DraftFlags draft = flags.draft;
  const prepare::Options prepared = flags.engine.checked();
  options.make_drafter = [&engine, draft,
                          prepared](std::shared_ptr<engine::Constraint> constraint) {
    DraftFlags of_one = draft;
    of_one.options.constraint = std::move(constraint);
    return of_one.make(engine, prepared);
  };
  return options;
}

std::vector<http::Listener> listeners_of(const ServeFlags& flags) {
  std::vector<http::Listener> listeners;
  if (flags.has_socket()) {
    listeners.push_back(http::Listener::unix_socket(flags.socket));
  } else {
    listeners.push_back(http::Listener::tcp(flags.host, flags.port));
  }
  return listeners;
}

void check_host_names(const ServeFlags& flags) {
  if (flags.has_socket() && !flags.host_names.empty()) {
    throw UsageError("--allow-host names the machine of a port; a socket file has none.");
  }
  for (const std::string& name : flags.host_names) {
    if (!name.empty() && name.find_first_of(":/*@ ") == std::string::npos) continue;
    throw UsageError(fmt::format(
        "--allow-host {}: a name alone is wanted, without a port, such as box.example.org.", name));
  }
}

void check_kept(const ServeFlags& flags) {
  const bool has_size = flags.cache_bytes_option->count() > 0;
  if (flags.cache_folder.empty() && has_size) {
    throw UsageError("--cache-size says how much --cache-dir keeps. Name a folder.");
  }
  if (flags.cache_bytes > 0) return;
  throw UsageError(
      "--cache-size 0 has room for nothing. Leave --cache-dir out if nothing is to be kept.");
}

// A phone's time is modelled, and clients wait for a real one.
void refuse_phone(const ServeFlags& flags) {
  const std::string given = given_phone_flag(flags.engine);
  if (given.empty()) return;
  throw UsageError(
      fmt::format("{} is for a virtual phone, whose time is modelled, and a server answers in the "
                  "time of this machine. Leave out what is for phones; run, eval and chat take it.",
                  given));
}

// Says which options change nothing about the answers, and which one may mean another.
void note_idle(const Command& command, const ServeFlags& flags) {
  for (const char* name : kSamplerOptions) {
    note_idle_option(command, name, !flags.forced_files.empty(),
                     "--force-text says what every answer is");
  }
  for (const std::string& key : flags.keys) {
    std::error_code ignored;
    if (!std::filesystem::exists(key, ignored)) continue;
    note(
        "note: --api-key is the key itself, and there is a file of that name; --api-key-file reads "
        "keys from a file\n");
  }
}

void serve(const ServeFlags& flags) {
  refuse_phone(flags);
  check_kept(flags);
  check_host_names(flags);
  server::ServiceOptions options = read_files(flags);
  if (flags.is_cache_shared && options.keys.empty()) {
    note(
        "note: --cache-shared does nothing here: without --api-key clients are not told apart, and "
        "share what was computed of prompts\n");
  }
  // Each request makes a sampler and a drafter of these options. So that wrong ones are told now,
  // and not to clients who did not choose them, one of each is made here.
  (void)engine::Sampler(flags.sampler.checked());
  // Ports are opened before the model is loaded: one that is taken is known at once.
  std::vector<http::Listener> listeners = listeners_of(flags);
  const auto engine = load(flags.engine);
  flags.sampler.check_tokens(*engine);
  (void)flags.draft.make(*engine, flags.engine.checked());
  server::Service service(*engine, options_of(flags, std::move(options), *engine));
  http::ServerOptions how;
  how.on_stop = [grace = how.grace](int n_answers) {
    note(
        fmt::format("stopping: {} answer{} under way {} up to {:g} s to end; Ctrl-C again ends "
                    "{} at once\n",
                    n_answers, n_answers == 1 ? "" : "s", n_answers == 1 ? "has" : "have", grace,
                    n_answers == 1 ? "it" : "them"));
  };
  http::Server server(std::move(listeners), how, service);
  service.set_statistics(&server.statistics());
  const StoppedBySignals stopped(&server);
  const std::string& name = server.listeners().front().name();
  const bool is_tcp = server.listeners().front().is_tcp();
  note(fmt::format("{} serves {}, {} answers at once, context {}. Ctrl-C ends it.\n",
                   is_tcp ? name + "/v1" : name, service.context().options().model_name,
                   flags.n_parallel, engine->plan().context));
  server.run();
}

// Adds the options that say where the server listens, and to whom.
void add_access(Command& command, ServeFlags& flags) {
  Option* host =
      command.add_option("--host", flags.host, "Address to listen at; 0.0.0.0 lets others in")
          ->capture_default_str();
  Option* port = command.add_option("--port", flags.port, "Port to listen at; 0: any that is free")
                     ->capture_default_str()
                     ->check(within(0, 65535));
  flags.socket_option =
      command.add_option("--socket", flags.socket, "Listen at this unix socket in place of a port")
          ->excludes(host)
          ->excludes(port);
  command.add_option("--allow-host", flags.host_names,
                     "Serve also who asks for this name, which stands for the machine or a proxy "
                     "before it (repeatable; default: addresses and localhost)");
  command.add_option("--api-key", flags.keys,
                     "Serve only who sends this key (repeatable; default: everybody)");
  flags.key_file_option =
      command
          .add_option("--api-key-file", flags.key_file,
                      "Serve only who sends a key of this file, which has one on each line")
          ->names_file();
}

// Adds the options of what is kept of prompts.
void add_kept(Command& command, ServeFlags& flags) {
  command.add_option("--cache-dir", flags.cache_folder,
                     "Keep what was computed of prompts in this folder, also for later starts");
  flags.cache_bytes_option =
      command
          .add_option("--cache-size", flags.cache_bytes,
                      "Most bytes in --cache-dir; what nobody asked for the longest goes first")
          ->shows_default("4G")
          ->with_byte_units();
  command.add_flag("--cache-shared", flags.is_cache_shared,
                   "Clients with different keys share what was computed of prompts, in memory "
                   "and in --cache-dir");
}

}  // namespace

void add_serve(Command& app) {
  Command* command = app.add_subcommand(
      "serve", "Answer programs over HTTP, as OpenAI's and Anthropic's services do", kUseGroup);
  command->examples(
      {"troika serve model.gguf",
       "troika serve hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_0 --port 9000 --api-key SECRET",
       "curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \\\n"
       "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'"});
  command->footer(
      "Clients: set the base URL to http://127.0.0.1:8080/v1, those of Anthropic's interface to\n"
      "http://127.0.0.1:8080, and any key, unless --api-key is given.");
  auto flags = std::make_shared<ServeFlags>();
  flags->engine.add_to(*command, PhoneHelp::kNone);
  flags->engine.add_kept_plan(*command);
  add_access(*command, *flags);
  command->add_option("--parallel", flags->n_parallel, "Most answers that are computed at once")
      ->capture_default_str()
      ->check(within(1, kMostParallel));
  command
      ->add_option("--queue", flags->n_queue,
                   "Most answers that wait; whoever comes then is told to come again (429)")
      ->capture_default_str()
      ->check(within(0, kMostQueue));
  command
      ->add_option("--ping", flags->ping_seconds,
                   "Seconds of silence in a stream until a comment shows life; 0: none")
      ->capture_default_str()
      ->check(non_negative());
  add_kept(*command, *flags);
  command->add_option("--name", flags->name, "The model's name (default: that of its file)")
      ->check(not_empty());
  command
      ->add_option("--template", flags->template_file,
                   "Use this Jinja template instead of the one in the model file")
      ->names_file();
  command->add_flag("--no-thinking", flags->has_no_thinking,
                    "Models that think before they answer are told not to");
  command->add_flag("--no-metrics", flags->has_no_metrics, "/metrics tells nobody how it goes");
  command->add_flag("--no-slots", flags->has_no_slots, "/slots tells nobody who is answered");
  command->add_flag("--show-prompts", flags->shows_prompts,
                    "Answers to chats tell the prompt they were given, as __verbose");
  command
      ->add_option("--force-text", flags->forced_files,
                   "Replay: every answer is this file's text, whatever the model says "
                   "(repeatable: answers have the texts in turn)")
      ->names_file();
  flags->sampler.are_defaults = true;
  flags->sampler.add_to(*command);
  flags->draft.is_for_many = true;
  flags->draft.add_to(*command);
  command->callback([flags, command] {
    note_idle(*command, *flags);
    serve(*flags);
  });
}

}  // namespace troika::cli
