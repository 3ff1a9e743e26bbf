// troika chat: holds a conversation in the terminal.
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/sampler_flags.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/phone_time.h"
#include "cli/use/drafting.h"
#include "cli/use/line_editor.h"
#include "cli/use/signal_thread.h"
#include "engine/chat.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/memory/context_room.h"

namespace troika::cli {
namespace {

constexpr const char* kHelp =
    "/help           this text\n"
    "/clear          forget the conversation\n"
    "/system TEXT    set the system message and begin anew; without TEXT remove it\n"
    "/again          answer the last message once more, with another seed\n"
    "/stats          tokens, rates and drafts of the last answer, and how full the context is\n"
    "/quit           leave (also Ctrl-D)\n"
    "Ctrl-C stops the answer. A line that ends with \\ goes on in the next one.\n";

struct ChatFlags {
  EngineFlags engine;
  SamplerFlags sampler;
  DraftFlags draft;
  bool show_drafts = false;
  std::string system;
  std::string template_file;
  int n_tokens = -1;
};

// These are set by signals; a handler may touch nothing else. Ctrl-C interrupts a line or an
// answer, and what ends the program interrupts them too.
std::atomic<bool> interrupted{false};
std::atomic<int> ended_by{0};
pthread_t thread_of_chat;  // the thread that reads lines and waits in between

void on_signal_of_chat(int signal) {
  if (is_passed_on(signal, thread_of_chat)) return;  // the thread that waits for a key must notice
  // The wait for a key has ended, and the terminal is looked at.
  if (signal == SIGCONT || signal == SIGWINCH) return;
  // Where the first signal did not end the program, it may hang in a write. Ctrl-\ ends it at once.
  if (signal == SIGQUIT || (signal != SIGINT && ended_by.exchange(signal) != 0)) {
    LineEditor::restore_terminal();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  interrupted.store(true, std::memory_order_relaxed);
}

// Lets Ctrl-C end an answer. In a terminal, whose keys are read one by one and without echo, what
// ends the program lets it leave the terminal as it was, and behind Ctrl-Z it takes the terminal
// back.
void listen_to_signals_of_chat(bool is_terminal) {
  thread_of_chat = pthread_self();
  struct sigaction action = {};
  action.sa_handler = on_signal_of_chat;
  // While the terminal is stopped (Ctrl-S) the program waits in a write. Ctrl-C ends the answer,
  // and the write goes on, so that the answer is kept. In a pipe a wait for a line has to end.
  if (is_terminal) action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  if (!is_terminal) return;
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGCONT, SIGWINCH}) {
    sigaction(signal, &action, nullptr);
  }
}

// Is thrown where the context has no room for a message with what came before. The conversation
// stays as it was and goes on, in a pipe too.
class ContextFull : public Error {
 public:
  using Error::Error;
};

class Dialogue {
 public:
  Dialogue(const ChatFlags& flags, const std::string& chat_template, engine::Engine& engine,
           const TaskHistory& history)
      : flags_(flags),
        engine_(engine),
        history_(history),
        format_(engine, chat_template),
        session_(engine),
        drafter_(flags.draft.make(engine, flags.engine.checked())),
        sampler_options_(flags.sampler.checked()) {
    set_system(flags.system);
  }

  void set_system(const std::string& text) {
    messages_.clear();
    if (!text.empty()) messages_.push_back({"system", text});
    has_system_ = !text.empty();
  }
  void clear() { messages_.resize(has_system_ ? 1 : 0); }

  void ask(const std::string& text) {
    std::vector<engine::Message> messages = messages_;
    messages.push_back({"user", text});
    answer(std::move(messages), sampler_options_);
  }

  void again() {
    if (messages_.empty() || messages_.back().role != "assistant") {
      print("There is no answer to repeat.\n");
      return;
    }
    std::vector<engine::Message> messages = messages_;
    messages.pop_back();
    engine::SamplerOptions sampling = sampler_options_;
    ++sampling.seed;
    answer(std::move(messages), sampling);
    sampler_options_ = sampling;
  }

  void print_stats() const {
    print(fmt::format(
        "prompt {} tokens ({} computed, {:.1f} tokens/s), answer {} tokens ({:.1f} "
        "tokens/s), context {} of {}\n",
        last_.n_prompt, last_.n_computed, last_.prefill_tokens_per_s(), last_.tokens.size(),
        last_.decode_tokens_per_s(), session_.history().size(), session_.context()));
    print(phone_.text());
    if (drafter_ != nullptr) print(draft_text(flags_.draft, *drafter_, true, phone_.is_modelled()));
  }

 private:
  void check_room(const std::vector<engine::Message>& messages, size_t n_prompt) const {
    if (n_prompt <= static_cast<size_t>(session_.context())) return;
    const bool has_earlier = messages.size() > (has_system_ ? 2u : 1u);
    if (has_earlier) {
      throw ContextFull(fmt::format(
          "The conversation has {} tokens with this message, but {}. /clear begins anew; to go on, "
          "{}.",
          n_prompt, engine::context_held(engine_),
          engine::advised_context(engine_, n_prompt, flags_.n_tokens)));
    }
    try {
      session_.check_room(n_prompt, flags_.n_tokens);
    } catch (const Error& error) {
      throw ContextFull(error.what());
    }
  }

  // Answers these messages, which become the conversation with the answer. Where that fails, or is
  // interrupted before any text comes, the conversation stays as it was; where the context has no
  // room, so do the figures of the answer before.
  void answer(std::vector<engine::Message> messages, const engine::SamplerOptions& sampling) {
    const std::vector<cache::Token> prompt = format_.prompt(messages);
    check_room(messages, prompt.size());
    engine::Sampler sampler(sampling);
    engine::GenerateOptions options;
    options.most_tokens = flags_.n_tokens;
    options.cancel = &interrupted;
    options.drafter = drafter_.get();
    if (drafter_ != nullptr) drafter_->clear_statistics();
    const DraftColours colours(flags_.show_drafts, &options);
    phone_ = PhoneTime(engine_);
    last_ = generate(session_, prompt, sampler, options,
                     [&](std::string_view fragment, int) { print(colours.coloured(fragment)); });
    print("\n");
    // A message that was interrupted before any of its answer came was not meant: it would be read
    // to its end before the next one, behind an answer that says nothing.
    if (last_.stop == engine::Stop::kCancelled && last_.text.empty()) return;
    messages.push_back({"assistant", last_.text});
    messages_ = std::move(messages);
    if (last_.stop == engine::Stop::kContext) {
      print(fmt::format("(The context is full. /clear begins anew; for more room {}.)\n",
                        with_flags(engine::any_larger_context(engine_))));
    }
    // The answer was shown, so it belongs to the conversation even where it cannot be kept.
    history_.keep(prompt, last_.tokens);
  }

  const ChatFlags& flags_;
  const engine::Engine& engine_;
  const TaskHistory& history_;
  engine::ChatFormat format_;
  engine::Session session_;
  std::unique_ptr<draft::Drafter> drafter_;
  engine::SamplerOptions sampler_options_;
  std::vector<engine::Message> messages_;
  bool has_system_ = false;
  engine::Generated last_;
  PhoneTime phone_;  // of the last answer
};

// Returns false where the person wants to leave.
bool handle(std::string line, Dialogue* conversation) {
  if (line.starts_with('/')) line.erase(line.find_last_not_of(" \t") + 1);
  const auto argument = [&](std::string_view command) {
    const size_t begin = line.find_first_not_of(' ', command.size());
    return begin == std::string::npos ? std::string() : line.substr(begin);
  };
  if (line.empty()) return true;
  if (line[0] != '/') {
    conversation->ask(line);
  } else if (line == "/quit" || line == "/exit") {
    return false;
  } else if (line == "/help") {
    print(kHelp);
  } else if (line == "/clear") {
    conversation->clear();
    print("The conversation is forgotten.\n");
  } else if (line == "/system" || line.starts_with("/system ")) {
    conversation->set_system(argument("/system"));
    print("The conversation begins anew.\n");
  } else if (line == "/again") {
    conversation->again();
  } else if (line == "/stats") {
    conversation->print_stats();
  } else {
    print(fmt::format("'{}' is no command. /help lists them.\n", line));
  }
  return true;
}

// Reads one message. Lines that end with a backslash are joined.
std::optional<std::string> read_message(LineEditor* editor) {
  std::optional<std::string> message = editor->read("> ");
  while (message && !message->empty() && message->back() == '\\') {
    message->back() = '\n';
    const std::optional<std::string> more = editor->read(". ");
    if (!more && interrupted) return std::nullopt;  // Ctrl-C drops the lines before, too
    if (!more) break;
    *message += *more;
  }
  return message;
}

void chat(ChatFlags& flags) {
  if (flags.template_file == "-") {
    throw UsageError(
        "--template - would read standard input, from which the conversation comes. Name a file.");
  }
  // A missing file is told before the model is loaded.
  const std::string chat_template =
      flags.template_file.empty() ? "" : read_text(flags.template_file);
  flags.engine.options.memory.most_texts = 1;
  const auto engine = load(flags.engine);
  flags.sampler.check_tokens(*engine);
  const TaskHistory history(flags.draft.history, *engine);
  flags.draft.options.history = history.texts();
  Dialogue conversation(flags, chat_template, *engine, history);
  LineEditor editor(interrupted);
  listen_to_signals_of_chat(editor.is_terminal());
  if (editor.is_terminal()) {
    note(fmt::format("{}, context {}. /help lists the commands.\n",
                     terminal_text(engine->blueprint().name.empty() ? engine->file().path()
                                                                    : engine->blueprint().name),
                     engine->plan().context));
  }
  int n_unanswered = 0;
  while (true) {
    interrupted = false;
    if (ended_by != 0) break;
    const std::optional<std::string> message = read_message(&editor);
    if (!message && ended_by != 0) break;
    if (!message) {
      if (interrupted || editor.is_terminal()) print("\n");
      if (!interrupted) break;
      continue;  // Ctrl-C at the prompt only drops the line
    }
    // A Ctrl-C that comes from now on is meant for the answer.
    interrupted = false;
    if (ended_by != 0) break;
    try {
      const LineEditor::KeysWait keys(editor);  // what is typed meanwhile is for the next line
      if (!handle(*message, &conversation)) break;
    } catch (const Error& error) {
      const bool goes_on =
          editor.is_terminal() || dynamic_cast<const ContextFull*>(&error) != nullptr;
      if (!goes_on) throw;
      note(fmt::format("troika: {}\n", message_of(error)));
      ++n_unanswered;
    }
  }
  if (n_unanswered == 0 || editor.is_terminal()) return;
  throw Error(
      fmt::format("{} of the messages had no answer, for the reasons above.", n_unanswered));
}

}  // namespace

void add_chat(Command& app) {
  Command* command = app.add_subcommand("chat", "Talk with a model", kUseGroup);
  command->examples({"troika chat model.gguf",
                     "troika chat model.gguf --system \"Answer in one sentence.\" --temp 0.3"});
  command->footer(kHelp);
  auto flags = std::make_shared<ChatFlags>();
  flags->engine.add_to(*command);
  flags->engine.add_kept_plan(*command);
  command->add_option("--system", flags->system, "System message");
  command
      ->add_option("--template", flags->template_file,
                   "Use this Jinja template instead of the one in the model file")
      ->names_file();
  command->add_option("-n,--tokens", flags->n_tokens, "Most tokens of an answer")
      ->check(at_least(0));
  flags->sampler.add_to(*command);
  flags->draft.add_to(*command);
  command->add_flag("--show-drafts", flags->show_drafts, "Colour the guesses that were right");
  command->callback([flags] {
    chat(*flags);
    if (ended_by == 0) return;
    std::signal(ended_by, SIG_DFL);  // who waits for the program sees what ended it
    std::raise(ended_by);
  });
}

}  // namespace troika::cli
