// troika run: continues a prompt, or answers it with --chat.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/median.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/sampler_flags.h"
#include "cli/flags/trace_flags.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/phone_time.h"
#include "cli/tune/layouts.h"
#include "cli/use/answers/run_answers.h"
#include "cli/use/by_neuron.h"
#include "cli/use/drafting.h"
#include "cli/use/grammar_flags.h"
#include "cli/use/memory.h"
#include "cli/use/streaming.h"
#include "engine/chat.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "measure/forced_text.h"

namespace troika::cli {
namespace {

constexpr int kMostAnswers = 1024;

struct RunFlags {
  EngineFlags engine;
  SamplerFlags sampler;
  TraceFlags trace;
  DraftFlags draft;
  GrammarFlags grammar;
  std::string forced_file;
  bool stats = false;
  bool show_drafts = false;
  std::string prompt;
  std::string file;
  std::string dash;
  std::string system;
  std::string template_file;
  Option* prompt_option = nullptr;
  int n_tokens = -1;
  std::vector<std::string> stops;
  bool chat = false;
  bool special = false;
  bool ignore_end = false;
  bool json = false;
  int n_answers = 0;  // 0: there is one answer, which streams
  int n_best = 0;     // counts answers of which the best is shown; 0: all are shown
};

std::string read_prompt(const RunFlags& flags) {
  if (!flags.dash.empty() && flags.dash != "-") {
    throw UsageError(
        fmt::format("'{}' is not understood. Give a prompt with -p TEXT.", flags.dash));
  }
  const int n_given =
      (flags.prompt_option->count() > 0) + !flags.file.empty() + !flags.dash.empty();
  if (n_given != 1) {
    throw UsageError(fmt::format("{}: -p TEXT, -f FILE, or - for standard input.",
                                 n_given == 0 ? "There is no prompt. Give one"
                                              : "The prompt is given several times. Give it once"));
  }
  if (!flags.dash.empty()) return read_text("-");
  return flags.file.empty() ? flags.prompt : read_text(flags.file);
}

nlohmann::ordered_json to_json(const engine::Generated& g, const engine::Engine& engine,
                               const PhoneTime& phone, uint64_t seed, bool is_replay) {
  nlohmann::ordered_json json;
  if (is_replay) json["replay"] = true;
  // The text stream has already replaced bytes that are no UTF-8.
  json["text"] = g.text;
  json["tokens"] = g.tokens;
  json["stop"] = engine::stop_name(g.stop);
  json["seed"] = seed;
  json["context"] = engine.plan().context;
  phone.add_to(json);
  json["load_s"] = engine.start().seconds;
  const plan::PromptAttention& attention = engine.plan().attention;
  json["attention"] = {{"form", plan::attention_form_name(attention.form)}};
  if (attention.is_sparse()) json["attention"]["from"] = attention.from;
  json["prefill"] = {{"tokens", g.n_prompt},
                     {"seconds", g.prefill_seconds},
                     {"tokens_per_s", g.prefill_tokens_per_s()}};
  const double n_steps = g.n_steps;
  json["decode"] = {
      {"tokens", g.tokens.size()},
      {"seconds", g.decode_seconds},
      {"tokens_per_s", g.decode_tokens_per_s()},
      {"tokens_per_step", n_steps > 0 ? (static_cast<double>(g.tokens.size()) - 1) / n_steps : 1.0},
      {"step_ms",
       {{"p50", percentile(g.step_ms, 0.5)},
        {"p90", percentile(g.step_ms, 0.9)},
        {"p99", percentile(g.step_ms, 0.99)}}}};
  add_memory(engine, &json);
  return json;
}

// Returns how long steps took, where that depends on what they find in memory.
std::string steps_text(const engine::Generated& g, const engine::Engine& engine) {
  if (g.step_ms.empty() || engine.loaded().stream == nullptr) return {};
  return fmt::format("steps      {:7.1f} ms   at 50 %, {:.1f} at 90 %, {:.1f} at 99 %\n",
                     percentile(g.step_ms, 0.5), percentile(g.step_ms, 0.9),
                     percentile(g.step_ms, 0.99));
}

// Returns what tokens of the prompt attended to, where that is not all.
std::string sparse_text(const engine::Generated& g, const engine::Engine& engine) {
  const plan::PromptAttention& attention = engine.plan().attention;
  if (!attention.is_sparse()) return {};
  if (g.n_prompt > attention.from) {
    return attention_text(engine.plan()).insert(std::strlen("attention"), " ") + "\n";
  }
  return fmt::format(
      "attention  full: the prompt has {} tokens, and {} chooses from position {} on "
      "(--attention-from)\n",
      g.n_prompt, plan::attention_form_name(attention.form), attention.from);
}

void print_summary(const engine::Generated& g, const engine::Engine& engine, const PhoneTime& phone,
                   uint64_t seed, bool is_replay) {
  note(fmt::format("\nload       {:8.2f} s   {}, context {}, {}, seed {}\n", engine.start().seconds,
                   tensor::type_name(engine.weights().main_type()), engine.plan().context,
                   engine.plan().workers_text(), seed));
  note(fmt::format("weights    {}\n", engine.loaded().pages.text));
  for (const lanes::Lane* lane : engine.machine().lanes()) {
    if (!lane->note().empty()) note(fmt::format("lane       {}\n", lane->note()));
  }
  note(phone.text());
  note(fmt::format("prompt     {:8.2f} s   {} tokens, {:.1f} tokens/s\n", g.prefill_seconds,
                   g.n_prompt, g.prefill_tokens_per_s()));
  note(sparse_text(g, engine));
  // The prompt's pass gives the first token, which the rate leaves out.
  const std::string rate =
      g.tokens.size() > 1 ? fmt::format(", {:.1f} tokens/s", g.decode_tokens_per_s()) : "";
  note(fmt::format("{} {:8.2f} s   {} token{}{}, stopped by {}\n",
                   is_replay ? "replay    " : "generation", g.decode_seconds, g.tokens.size(),
                   g.tokens.size() == 1 ? "" : "s", rate, engine::stop_name(g.stop)));
  note(steps_text(g, engine));
  note(layouts_text(engine));
  note(by_neuron_text(engine));
  note(streaming_text(engine));
  note(fmt::format("memory     {:>10}   at its peak\n", bytes_text(peak_resident_bytes())));
}

// The texts of a run. They are read before the model is loaded, so that a missing file is told
// before.
struct RunTexts {
  std::string prompt, chat_template, forced;

  explicit RunTexts(const RunFlags& flags) : prompt(read_prompt(flags)) {
    if (flags.chat && !flags.template_file.empty()) chat_template = read_text(flags.template_file);
    if (!flags.forced_file.empty()) forced = read_text(flags.forced_file);
  }
};

// Returns the tokens that --force-text gives. The answer ends behind them, if not before.
measure::ForcedText forced_text(const RunFlags& flags, const std::string& text,
                                const engine::Engine& engine, size_t n_prompt,
                                engine::GenerateOptions* options) {
  if (flags.forced_file.empty()) return {n_prompt, {}};
  measure::ForcedText forced(
      n_prompt, engine.tokenizer().encode(text, {.add_special = false, .parse_special = false}));
  const auto n = static_cast<int>(forced.n_tokens());
  options->most_tokens = options->most_tokens < 0 ? n : std::min(n, options->most_tokens);
  options->ignore_end = true;
  return forced;
}

std::vector<cache::Token> prompt_tokens(const RunFlags& flags, engine::Engine& engine,
                                        const RunTexts& texts) {
  if (!flags.chat) {
    return engine.tokenizer().encode(texts.prompt,
                                     {.add_special = true, .parse_special = flags.special});
  }
  const engine::ChatFormat format(engine, texts.chat_template);
  std::vector<engine::Message> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", texts.prompt});
  return format.prompt(messages);
}

void check(const RunFlags& flags) {
  if (std::find(flags.stops.begin(), flags.stops.end(), "") != flags.stops.end()) {
    throw UsageError("--stop is empty, and every answer begins so. Give a text, or leave it out.");
  }
  if (flags.n_answers > 0 && flags.n_best > 0) {
    throw UsageError("--best already says how many answers there are; leave --answers out.");
  }
  if (flags.n_answers + flags.n_best > 0 && (!flags.forced_file.empty() || flags.show_drafts)) {
    throw UsageError(
        "--force-text and --show-drafts are for one answer that streams; leave --answers and "
        "--best out.");
  }
  if (flags.grammar.is_given() && (flags.ignore_end || !flags.forced_file.empty())) {
    throw UsageError(fmt::format(
        "{} says what the answer may be and where it ends; leave --ignore-end and --force-text "
        "out.",
        flags.grammar.name()));
  }
  std::vector<std::string> read = flags.draft.files_read();
  read.insert(read.end(),
              {flags.file, flags.forced_file, flags.template_file, flags.grammar.file()});
  flags.trace.check(files_read(flags.engine.options, std::move(read)));
}

// Says which options change nothing about this run.
void note_idle(const Command& command, const RunFlags& flags) {
  const auto say = [&](const char* name, bool is_idle, const char* why) {
    if (!is_idle || !command.is_given(name)) return;
    note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  say("--system", !flags.chat, "it is for the model's chat template (--chat)");
  say("--template", !flags.chat, "it takes the place of the model's chat template (--chat)");
  say("--special", flags.chat, "in a chat special tokens come from the template");
  say("--show-drafts", flags.json, "--json prints no colours");
  say("--stats", flags.json, "--json tells all figures");
  say("--stats", !flags.json && flags.draft.options.kind == "none", "--draft none guesses nothing");
  const bool has_several = flags.n_answers + flags.n_best > 0;
  say("--stats", !flags.json && has_several, "it is for one answer that streams");
  const bool is_replay = !flags.forced_file.empty();
  for (const char* name : {"--temp", "--repeat-penalty", "--frequency-penalty",
                           "--presence-penalty", "--logit-bias"}) {
    say(name, is_replay, "--force-text says what the answer is");
  }
  say("--penalty-window", is_replay && flags.sampler.has_penalty(),
      "--force-text says what the answer is");
  const bool is_greedy = flags.sampler.options.temperature == 0.0f;
  for (const char* name : {"--top-k", "--top-p", "--min-p", "--seed"}) {
    say(name, is_replay && !is_greedy, "--force-text says what the answer is");
  }
  for (const char* name : {"--best", "--answers"}) {
    say(name, is_greedy && std::max(flags.n_answers, flags.n_best) > 1,
        "at --temp 0 all answers are the same");
  }
  say("--ignore-end", is_replay, "--force-text says where the answer ends");
  say("--history", is_replay, "what --force-text says is no answer of the model");
}

// What is known of an answer before it begins.
struct Request {
  std::vector<cache::Token> prompt;
  engine::SamplerOptions sampler;
  engine::GenerateOptions options;
  std::shared_ptr<grammar::Grammar> grammar;
};

void answer_several(RunFlags& flags, engine::Engine& engine, const Request& request) {
  const TaskHistory history(flags.draft.history, engine);
  flags.draft.options.history = history.texts();
  run_answers(engine, flags.engine, flags.draft, flags.grammar,
              {.n_answers = std::max(flags.n_answers, flags.n_best),
               .prompt = request.prompt,
               .sampler = request.sampler,
               .options = request.options,
               .grammar = request.grammar,
               .watch = flags.trace.watch(engine),
               .is_json = flags.json,
               .is_best = flags.n_best > 0},
              history);
}

void answer_one(RunFlags& flags, const RunTexts& texts, engine::Engine& engine, Request& request) {
  engine::Session session(engine);
  measure::ForcedText forced =
      forced_text(flags, texts.forced, engine, request.prompt.size(), &request.options);
  const bool is_replay = !flags.forced_file.empty();
  std::shared_ptr<engine::Constraint> constraint;
  if (request.grammar != nullptr) {
    constraint = std::make_shared<engine::Constraint>(request.grammar, request.prompt.size());
  }
  engine::LogitMask* mask = constraint.get();
  if (is_replay) mask = &forced;
  engine::Sampler sampler(request.sampler, mask);
  const TaskHistory history(is_replay ? std::string() : flags.draft.history, engine);
  flags.draft.options.history = history.texts();
  flags.draft.options.constraint = constraint;
  const std::unique_ptr<draft::Drafter> drafter = flags.draft.make(engine, flags.engine.checked());
  request.options.drafter = drafter.get();
  const DraftColours colours(flags.show_drafts && !flags.json, &request.options);
  const auto stream = [&](std::string_view fragment, int) {
    if (!flags.json) print(colours.coloured(fragment));
  };
  session.watch(flags.trace.watch(engine));
  const PhoneTime phone(engine);
  const engine::Generated generated =
      generate(session, request.prompt, sampler, request.options, stream);
  flags.trace.count(generated);
  const uint64_t seed = request.sampler.seed;
  if (flags.json) {
    nlohmann::ordered_json json = to_json(generated, engine, phone, seed, is_replay);
    json["draft"] = draft_json(flags.draft, drafter.get());
    if (constraint != nullptr) json["grammar"] = flags.grammar.json(constraint->statistics());
    print_json(json);
  } else {
    print("\n");
    print_summary(generated, engine, phone, seed, is_replay);
    if (constraint != nullptr) note(flags.grammar.text(constraint->statistics()));
    if (drafter != nullptr)
      note(draft_text(flags.draft, *drafter, flags.stats, phone.is_modelled()));
  }
  if (constraint != nullptr) flags.grammar.note_cut(generated.stop);
  history.keep(request.prompt, generated.tokens);
}

void run(RunFlags& flags) {
  check(flags);
  flags.grammar.read();
  const RunTexts texts(flags);
  Request request;
  request.sampler = flags.sampler.checked();
  flags.engine.options.memory.most_texts = std::max({1, flags.n_answers, flags.n_best});
  const auto engine = load(flags.engine);
  flags.sampler.check_tokens(*engine);
  request.prompt = prompt_tokens(flags, *engine, texts);
  request.options.most_tokens = flags.n_tokens;
  request.options.stops = flags.stops;
  request.options.ignore_end = flags.ignore_end;
  request.grammar = flags.grammar.compile(*engine);
  if (flags.n_answers + flags.n_best > 0) {
    answer_several(flags, *engine, request);
  } else {
    answer_one(flags, texts, *engine, request);
  }
  flags.trace.end(*engine);
}

}  // namespace

void add_run(Command& app) {
  Command* command =
      app.add_subcommand("run", "Continue a prompt, or answer it with --chat", kUseGroup);
  command->examples({"troika run model.gguf -p \"Once upon a time\" -n 100",
                     "troika run model.gguf --chat -p \"Tell me a story.\" --seed 7",
                     "troika run model.gguf --chat -p \"Tell me a story.\" --answers 4",
                     "troika run model.gguf --chat -p \"Name a city.\" --json-schema city.json",
                     "cat notes.txt | troika run model.gguf - --temp 0 --json"});
  auto flags = std::make_shared<RunFlags>();
  flags->engine.add_to(*command);
  flags->engine.add_kept_plan(*command);
  command->add_option("DASH", flags->dash, "- reads the prompt from standard input");
  flags->prompt_option = command->add_option("-p,--prompt", flags->prompt, "The prompt");
  command->add_option("-f,--file", flags->file, "Read the prompt from a file; - is standard input")
      ->names_file();
  command
      ->add_option("-n,--tokens", flags->n_tokens,
                   "Most tokens to generate (default: until the model ends or the context is full)")
      ->check(at_least(0));
  command->add_flag("--chat", flags->chat, "Put the prompt into the model's chat template");
  command->add_option("--system", flags->system, "System message, with --chat");
  command
      ->add_option("--template", flags->template_file,
                   "With --chat: use this Jinja template instead of the one in the model file")
      ->names_file();
  command->add_option("--stop", flags->stops, "Stop before this text (repeatable)");
  command->add_flag("--special", flags->special, "Special tokens in the prompt count as such");
  command->add_flag("--ignore-end", flags->ignore_end, "Go on after the model's end token");
  flags->grammar.add_to(*command);
  flags->sampler.add_to(*command);
  flags->draft.add_to(*command);
  command->begin_group(kDraftGroup);
  command
      ->add_option("--force-text", flags->forced_file,
                   "Replay: the answer is this file's text, whatever the model says; drafts and "
                   "times are real")
      ->names_file();
  command->add_flag("--stats", flags->stats, "More figures about drafts");
  command->add_flag("--show-drafts", flags->show_drafts, "Colour the guesses that were right");
  command->end_group();
  flags->trace.add_to(*command);
  command
      ->add_option("--answers", flags->n_answers,
                   "N answers to the prompt, computed together; the first has the seed --seed, "
                   "and each further one the next seed")
      ->check(within(1, kMostAnswers));
  command
      ->add_option("--best", flags->n_best,
                   "N answers, of which the most likely is shown: by the mean "
                   "log-probability of its tokens; give --temp more than 0, or all are the same")
      ->check(within(1, kMostAnswers));
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    note_idle(*command, *flags);
    run(*flags);
  });
}

}  // namespace troika::cli
