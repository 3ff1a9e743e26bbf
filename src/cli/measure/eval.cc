// troika eval: measures perplexity on a text and accuracy on tasks.
#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/idle_note.h"
#include "cli/flags/trace_flags.h"
#include "cli/json_lines.h"
#include "cli/load.h"
#include "cli/measure/eval_drafts.h"
#include "cli/output.h"
#include "measure/estimate_quality.h"
#include "measure/evaluate.h"

namespace troika::cli {
namespace {

struct EvalFlags {
  EngineFlags engine;
  TraceFlags trace;
  std::string text;
  std::string tasks;
  bool is_second_half = false;  // counts only the second half of each window of a text
  std::string losses;           // names a file for what each token of a text loses
  // Shows the estimate of sparse attention instead of the perplexity.
  bool shows_estimate = false;
  ContextTaskFlags context_tasks;
  int most = 0;
  measure::TaskOptions how;
  std::string template_file;
  bool json = false;

  // Says whether what is measured may have conversations, which go through a template.
  bool has_chats() const { return !context_tasks.file.empty() || (!tasks.empty() && how.use_chat); }
};

// Returns the documents of a JSON array of strings, or of JSONL with a `text` per line; empty for a
// plain text.
std::vector<std::string> documents_of(const std::string& path, const std::string& content) {
  std::vector<std::string> documents;
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw Error(fmt::format("{} holds no text.", path));
  if (content[first] == '[') {
    const nlohmann::json array = nlohmann::json::parse(content, nullptr, false);
    if (!array.is_array()) return {};  // the content is a plain text that begins with a bracket
    if (array.empty()) throw Error(fmt::format("{} holds no text: its JSON array is empty.", path));
    for (const nlohmann::json& element : array) {
      if (!element.is_string()) {
        throw Error(
            fmt::format("{}: the JSON array must hold strings only, one for each document.", path));
      }
      documents.push_back(element.get<std::string>());
    }
  } else if (content[first] == '{') {
    const std::string line = content.substr(first, content.find('\n', first) - first);
    if (!nlohmann::json::parse(line, nullptr, false).is_object()) return {};
    for_each_object(path, content, [&](size_t number, const nlohmann::json& object) {
      documents.push_back(string_of(object, "text", path, number));
    });
  }
  return documents;
}

void eval_text(const EvalFlags& flags, const std::string& content, engine::Session& session) {
  std::vector<std::string> documents = documents_of(flags.text, content);
  if (flags.most > 0 && documents.size() > static_cast<size_t>(flags.most)) {
    documents.resize(static_cast<size_t>(flags.most));
  }
  if (flags.most > 0 && documents.empty()) {
    note("note: --first does nothing here: a plain text has no documents to count\n");
  }
  if (flags.is_second_half && !documents.empty()) {
    throw UsageError("--second-half is for a plain text: documents have no windows.");
  }
  if (!flags.losses.empty() && flags.is_second_half) {
    throw UsageError("--losses is for all of a text: leave --second-half out.");
  }
  if (!flags.losses.empty() && !documents.empty()) {
    throw UsageError(fmt::format(
        "--losses is for a plain text, and {} is JSON: a list of documents. Leave --losses out, or "
        "give the text itself.",
        flags.text));
  }
  measure::Perplexity p;
  std::vector<double> losses;
  {
    Progress bar("perplexity");
    if (flags.is_second_half) {
      p = measure::perplexity_of_second_halves(session, content, bar.function());
    } else {
      p = documents.empty() ? measure::perplexity_of_text(session, content, bar.function(), &losses)
                            : measure::perplexity_of_documents(session, documents, bar.function());
    }
  }
  if (p.n_cut_documents > 0) {
    note(fmt::format(
        "note: {} of {} documents are longer than the context of {} tokens, and {} tokens behind "
        "it are left out; with a longer --context they count too\n",
        p.n_cut_documents, documents.size(), session.context(), p.n_cut_tokens));
  }
  if (flags.json) {
    nlohmann::ordered_json json = {{"tokens", p.n_tokens},
                                   {"nll", p.nll},
                                   {"perplexity", p.perplexity},
                                   {"bits_per_char", p.bits_per_char}};
    if (!documents.empty()) {
      json["cut_documents"] = p.n_cut_documents;
      json["cut_tokens"] = p.n_cut_tokens;
    }
    print_json(json);
  } else {
    print(
        fmt::format("tokens         {:>10}\nnll            {:>10.4f}\nperplexity     {:>10.4f}\n"
                    "bits per char  {:>10.4f}\n",
                    p.n_tokens, p.nll, p.perplexity, p.bits_per_char));
  }
  // The file comes last: what was measured is not lost where it cannot be written.
  if (flags.losses.empty()) return;
  std::string lines;
  for (const double loss : losses) lines += fmt::format("{:.6f}\n", loss);
  write_file(flags.losses, lines);
}

// Looks at what a text's queries attend to. Throws UsageError where it saw no query.
void look_at_text(const EvalFlags& flags, const std::string& content, engine::Engine& engine,
                  measure::EstimateQuality* quality) {
  if (!documents_of(flags.text, content).empty()) {
    throw UsageError("--estimate is for a plain text, which fills windows of the context.");
  }
  {
    engine::Session session(engine);
    session.watch({.inputs = quality});
    Progress bar("estimate");
    measure::perplexity_of_text(session, content, bar.function());
  }
  if (quality->ways().front().sums.n_queries > 0) return;
  throw UsageError(fmt::format(
      "No query was looked at: those of whole tiles of 64 tokens from position {} on are, of "
      "prompts in q8, bf16 or int8 on one lane. Use a longer text or --context, --prefill q8, or "
      "leave --lanes out.",
      engine.plan().attention.from));
}

// Adds how many positions tiles keep where those go by their weight.
void add_seen(const std::vector<measure::SeenByWeight>& seen, nlohmann::ordered_json* json,
              std::string* text) {
  *text += fmt::format("{:<42}{:>9} {:>16} {:>15}\n", "positions kept by weight, times the mean",
                       "all", "a tile's first", "a tile's last");
  for (const measure::SeenByWeight& at : seen) {
    (*json)["seen_by_weight"].push_back(
        {{"above", at.above}, {"share", at.mean}, {"first", at.first}, {"last", at.last}});
    *text += fmt::format("{:<42g}{:>8.1f}% {:>15.1f}% {:>14.1f}%\n", at.above, 100 * at.mean,
                         100 * at.first, 100 * at.last);
  }
}

// Adds how much of the weight of queries' softmax each form of attention keeps.
void add_kept(const std::vector<measure::KeptByForm>& kept, nlohmann::ordered_json* json,
              std::string* text) {
  *text += fmt::format("{:<42}{:>9} {:>16} {:>15}\n", "weight that is kept, mean over heads", "all",
                       "the worst tenth", "heads below 0.5");
  for (const measure::KeptByForm& of : kept) {
    (*json)["kept_weight"].push_back({{"form", of.name},
                                      {"mean", of.weight.mean},
                                      {"worst_tenth", of.weight.worst},
                                      {"heads_below_half", of.n_diffuse}});
    *text += fmt::format("{:<42}{:>9.3f} {:>16.3f} {:>15}\n", of.name, of.weight.mean,
                         of.weight.worst, of.n_diffuse);
  }
}

// Prints how well an estimate in int8 finds what queries attend to, for each source of its scales.
void eval_estimate(const EvalFlags& flags, const std::string& content, engine::Engine& engine) {
  constexpr size_t kTileStep = 8;
  measure::EstimateQuality quality(engine.kernels().table, engine.plan().attention,
                                   engine.blueprint().n_heads, kTileStep);
  look_at_text(flags, content, engine, &quality);
  const std::vector<measure::QualityOfWay> ways = quality.ways();
  const auto percent = [](double part, size_t of) {
    return of == 0 ? 0.0 : 100.0 * part / static_cast<double>(of);
  };
  nlohmann::ordered_json json = {{"queries", ways.front().sums.n_queries}, {"ways", {}}};
  std::string text = fmt::format("recall of the best float positions, {} queries\n{:<42}",
                                 ways.front().sums.n_queries, "share of positions");
  for (const double share : attention::kRecallShares) text += fmt::format("{:>8.0f}%", 100 * share);
  text += "  clipped: queries     keys\n";
  for (const measure::QualityOfWay& way : ways) {
    const attention::EstimateRecall& sums = way.sums;
    nlohmann::ordered_json& item = json["ways"].emplace_back();
    item["name"] = way.name;
    text += fmt::format("{:<42}", way.name);
    for (size_t i = 0; i < sums.recall.size(); ++i) {
      const double recall = percent(sums.recall[i], sums.n_queries);
      item["recall"].push_back(recall / 100);
      text += fmt::format("{:>9.2f}", recall);
    }
    const double of_queries =
        percent(static_cast<double>(sums.n_clipped_of_queries), sums.n_query_values);
    const double of_keys = percent(static_cast<double>(sums.n_clipped_of_keys), sums.n_key_values);
    item["clipped"] = {{"queries", of_queries / 100}, {"keys", of_keys / 100}};
    text += fmt::format("{:>17.3f}%{:>8.3f}%\n", of_queries, of_keys);
  }
  if (quality.has_scales()) {
    const measure::ScaleSpread q = quality.spread_of_queries(), k = quality.spread_of_keys();
    json["scales_over_calibrated"] = {{"queries", {q.low, q.middle, q.high}},
                                      {"keys", {k.low, k.middle, k.high}}};
    text += fmt::format(
        "scales over those of the calibration text, lowest tenth, middle, highest tenth: queries "
        "{:.2f}, {:.2f}, {:.2f}; keys {:.2f}, {:.2f}, {:.2f}\n",
        q.low, q.middle, q.high, k.low, k.middle, k.high);
  }
  add_seen(quality.seen_by_weight(), &json, &text);
  add_kept(quality.kept_by_form(), &json, &text);
  if (flags.json) {
    print_json(json);
  } else {
    print(text);
  }
}

std::vector<measure::EvalTask> read_tasks(const EvalFlags& flags) {
  std::vector<measure::EvalTask> tasks;
  for_each_object(
      flags.tasks, read_text(flags.tasks), [&](size_t number, const nlohmann::json& object) {
        tasks.push_back({string_of(object, "prompt", flags.tasks, number),
                         string_of(object, "answer", flags.tasks, number),
                         object.contains("kind") ? string_of(object, "kind", flags.tasks, number)
                                                 : std::string(),
                         fmt::format("{}:{}", flags.tasks, number)});
      });
  if (flags.most > 0 && tasks.size() > static_cast<size_t>(flags.most)) {
    tasks.resize(static_cast<size_t>(flags.most));
  }
  if (tasks.empty()) throw Error(fmt::format("{} holds no task.", flags.tasks));
  return tasks;
}

void eval_tasks(const EvalFlags& flags, const std::vector<measure::EvalTask>& tasks,
                engine::Session& session) {
  std::vector<measure::TaskScore> scores;
  {
    Progress bar("tasks");
    scores = measure::score_tasks(session, tasks, flags.how, bar.function());
  }
  const auto accuracy = [](const measure::TaskScore& score) {
    return static_cast<double>(score.n_right) / score.n;
  };
  if (!flags.json) {
    print("kind                      n  accuracy\n");
    for (const measure::TaskScore& score : scores) {
      print(fmt::format("{:<20} {:>6} {:>8.1f}%\n", score.kind, score.n, 100 * accuracy(score)));
    }
    return;
  }
  nlohmann::ordered_json json = {{"n", scores[0].n}, {"accuracy", accuracy(scores[0])}};
  json["kinds"] = nlohmann::ordered_json::object();
  for (size_t i = 1; i < scores.size(); ++i) {
    json["kinds"][scores[i].kind] = {{"n", scores[i].n}, {"accuracy", accuracy(scores[i])}};
  }
  print_json(json);
}

// Refuses what --estimate would pass over.
void check_estimate(const EvalFlags& flags) {
  if (flags.text.empty()) throw UsageError("--estimate looks at a text: give --perplexity FILE.");
  const char* const idle = !flags.losses.empty()     ? "--losses"
                           : flags.is_second_half    ? "--second-half"
                           : flags.most > 0          ? "--first"
                           : flags.trace.is_wanted() ? "--trace and --timeline"
                                                     : nullptr;
  if (idle == nullptr) return;
  throw UsageError(fmt::format(
      "--estimate looks at all of a plain text and predicts nothing: leave {} out.", idle));
}

// Says which options change nothing about what is measured.
void note_idle(const Command& command, const EvalFlags& flags) {
  const auto say = [&](const std::string& measured, std::initializer_list<const char*> names,
                       const char* wanted) {
    if (!measured.empty()) return;
    for (const char* name : names) {
      if (!command.is_given(name)) continue;
      note(fmt::format("note: {} does nothing here: it is for {}\n", name, wanted));
    }
  };
  say(flags.text, {"--second-half", "--losses"}, "--perplexity");
  say(flags.tasks, {"--chat", "--first-line", "--first-word"}, "--tasks");
  say(flags.has_chats() ? "chats" : "", {"--template"}, "--tasks with --chat, and for --cag");
  say(flags.context_tasks.file, {"--drafts", "--coverages", "--draft-width", "--answer"}, "--cag");
  note_idle_option(command, "--first-line", !flags.tasks.empty() && flags.how.first_word_only,
                   "--first-word judges no more than the first word");
}

void eval(EvalFlags& flags) {
  const int n_given =
      !flags.text.empty() + !flags.tasks.empty() + !flags.context_tasks.file.empty();
  if (n_given != 1) {
    throw UsageError("Give one of --perplexity FILE, --tasks FILE and --cag FILE.");
  }
  if (flags.shows_estimate) check_estimate(flags);
  const std::vector<std::string> read =
      files_read(flags.engine.options, {flags.text, flags.tasks, flags.context_tasks.file});
  check_output_file(flags.losses, read);
  flags.trace.check(read);
  if (!flags.template_file.empty() && flags.has_chats()) {
    flags.how.chat_template = read_text(flags.template_file);
    flags.context_tasks.chat_template = flags.how.chat_template;
  }
  // What cannot be read is told before the model is loaded, which may take long.
  const std::string content = flags.text.empty() ? std::string() : read_text(flags.text);
  std::vector<measure::EvalTask> tasks;
  if (!flags.tasks.empty()) tasks = read_tasks(flags);
  const auto engine = load(flags.engine);
  // Who compares perplexities must know how prompts were rounded.
  if (engine->phone().machine == nullptr) {
    note(fmt::format("prompts: {}\n", prefill_text(*engine)));
  }
  if (flags.shows_estimate) {
    eval_estimate(flags, content, *engine);
    return;
  }
  engine::Session session(*engine);
  session.watch(flags.trace.watch(*engine));
  if (!flags.text.empty()) eval_text(flags, content, session);
  if (!flags.tasks.empty()) eval_tasks(flags, tasks, session);
  if (!flags.context_tasks.file.empty()) {
    eval_drafts(flags.context_tasks, flags.engine.checked(), session, flags.most, flags.json);
  }
  flags.trace.end(*engine);
}

}  // namespace

void add_eval(Command& app) {
  Command* command =
      app.add_subcommand("eval", "Measure perplexity on a text, accuracy on tasks", kMeasureGroup);
  command->examples({"troika eval model.gguf --perplexity text.txt",
                     "troika eval model.gguf --tasks tasks.jsonl --chat --first 100"});
  command->footer(
      "--perplexity takes a plain text (in windows of the context), JSONL with a \"text\" per "
      "line,\n"
      "or a JSON array of strings (each a document of its own, up to the context). --tasks takes "
      "JSONL with "
      "\"prompt\"\n"
      "and \"answer\", and optionally \"kind\". An answer is right where the model's text up to "
      "its end\ntoken is the same but for white space around it.");
  auto flags = std::make_shared<EvalFlags>();
  flags->engine.add_to(*command);
  flags->engine.add_kept_plan(*command);
  command->add_option("--perplexity", flags->text, "A text file")->names_file();
  command->add_flag("--second-half", flags->is_second_half,
                    "With --perplexity: judge the second half of each whole window only, as "
                    "llama.cpp's llama-perplexity does");
  command->add_option(
      "--losses", flags->losses,
      "With --perplexity of a plain text: write the negative log likelihood of each "
      "token to this file, a line each, to compare runs token by token");
  command->add_flag("--estimate", flags->shows_estimate,
                    "With --perplexity of a plain text: how well int8 finds the positions that "
                    "matter to its queries, and how many of them, and how much of their weight, "
                    "sparse attention keeps, in place of the perplexity");
  command->add_option("--tasks", flags->tasks, "A JSONL file of tasks");
  flags->context_tasks.add_to(*command);
  command->add_option("--first", flags->most, "Only the first N documents or tasks")
      ->check(at_least(1));
  command->add_flag("--chat", flags->how.use_chat, "Put each task into the model's chat template");
  command
      ->add_option("--template", flags->template_file,
                   "With --chat, and for the messages of --cag: use this Jinja template instead of "
                   "the one in the model file")
      ->names_file();
  command->add_flag("--first-line", flags->how.first_line_only,
                    "Judge the first line of each answer only, for a model without end token");
  command->add_flag("--first-word", flags->how.first_word_only,
                    "Judge the first word of each answer only, without its punctuation: for texts "
                    "whose last word is the answer");
  flags->trace.add_to(*command);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    note_idle(*command, *flags);
    eval(*flags);
  });
}

}  // namespace troika::cli
