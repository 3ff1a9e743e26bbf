// troika tune: finds out how a model runs best here, and keeps that for later runs.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/atomic_file.h"
#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/idle_note.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/tune/busy_machine.h"
#include "cli/tune/kept_plan.h"
#include "cli/use/models.h"
#include "tune/default_text.h"
#include "tune/kept_plan.h"
#include "tune/tune.h"

namespace troika::cli {
namespace {

struct TuneFlags {
  tune::TuneRequest request;
  std::string text;  // names a file; empty: the program's own text
  std::string output;
  double most_loss_percent = 100 * tune::kMostLoss;
  double attention_percent = 100 * plan::PromptAttention::kUsualShare;
  bool again = false;
  bool json = false;
};

// Set by Ctrl-C; a signal handler may touch nothing else.
std::atomic<bool> is_cut_off{false};

void on_cut_off(int) { is_cut_off.store(true, std::memory_order_relaxed); }

// Ends the work with a sentence at the first signal, as soon as possible, and at once at the
// second.
void listen_to_signals() {
  struct sigaction action = {};
  action.sa_handler = on_cut_off;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// Shows a bar for each stage, and looks whether the work was cut off.
class Stages {
 public:
  explicit Stages(bool is_anew) : is_anew_(is_anew) {}

  measure::StageFunction function() {
    return [this](const std::string& name) -> ProgressFunction {
      bar_.reset();
      bar_ = std::make_unique<Progress>("tuning: " + name);
      return [this, thread = std::this_thread::get_id()](uint64_t done, uint64_t total) {
        bar_->update(done, total);
        // Throws only on the thread that made the function: nobody waits for another thread there.
        if (!is_cut_off || std::this_thread::get_id() != thread) return;
        throw Error(
            is_anew_
                ? "Cut off. --again measures anew; where no plan is kept, the same command without "
                  "it goes on from here."
                : "Cut off. What was measured until now is kept: the same command goes on from "
                  "there.");
      };
    };
  }
  void end() { bar_.reset(); }

 private:
  const bool is_anew_;
  std::unique_ptr<Progress> bar_;
};

std::string text_of(const tune::TriedMethod& tried) {
  std::string name = fmt::format("int8 {}", plan::int8_method_name(tried.method));
  if (!plan::has_shadow(tried.method)) return name;
  return name + fmt::format(", outliers of {} %", 100 - tried.outlier_prune);
}

void print_result(const tune::Tuning& tuning, const tune::TuneRequest& request) {
  if (!tuning.tried.empty()) {
    print(fmt::format("more perplexity than {}, on held-out tokens of {} ({:g} % are allowed)\n",
                      tuning.usual().name, request.text_name, 100 * request.most_loss));
    for (const tune::TriedMethod& tried : tuning.tried) {
      print(fmt::format("{:<36} {}, {} tokens: {}\n", text_of(tried), tune::loss_text(tried.loss),
                        tried.loss.text.n_tokens,
                        tune::verdict_text(verdict_of(tried.loss, request.most_loss))));
    }
    print("\n");
  }
  std::string head = fmt::format("{:<44}", "ms at best");
  for (const tune::PromptTime& time : tuning.usual().times) {
    head +=
        fmt::format("{:>12}", time.n_tokens == 1 ? "a step" : fmt::format("{} tok", time.n_tokens));
  }
  print(head + "\n");
  for (size_t i = 0; i < tuning.candidates.size(); ++i) {
    std::string row = fmt::format("{:<44}", tuning.candidates[i].name + (i == 0 ? ", usual" : ""));
    for (const tune::PromptTime& time : tuning.candidates[i].times) {
      row += fmt::format("{:>12.{}f}", time.ms, time.ms < 1.0 ? 3 : 1);
    }
    // One that was out after its prompts has no time of a step.
    const size_t n_missing = tuning.usual().times.size() - tuning.candidates[i].times.size();
    for (size_t n = 0; n < n_missing; ++n) row += fmt::format("{:>12}", "-");
    const bool is_out = tuning.candidates[i].is_out;
    print(row + (i == tuning.chosen ? "  chosen\n" : is_out ? "  slower\n" : "\n"));
  }
  print(fmt::format("\n{}\n", tune::summary(tuning.file.plan)));
  if (!tuning.int8_reason.empty()) print(tuning.int8_reason + "\n");
  print(fmt::format("attention {}\n", with_flags(tuning.attention.attention.reason)));
  for (size_t i = 0; i < tuning.usual().times.size(); ++i) {
    const tune::PromptTime& usual = tuning.usual().times[i];
    if (usual.n_tokens == 1) continue;
    print(
        fmt::format("prompts of {:>5} tokens: {:>8.1f} tokens/s, {:.2f} times as fast as without\n",
                    usual.n_tokens, 1e3 * usual.n_tokens / tuning.best().times[i].ms,
                    usual.ms / tuning.best().times[i].ms));
  }
}

// Counts what a run that was cut off had measured: beside that it left when it began.
size_t n_measured_earlier(const tune::Tuning& tuning) {
  return tuning.n_found_earlier > 0 ? tuning.n_found_earlier - 1 : 0;
}

nlohmann::ordered_json to_json(const tune::Tuning& tuning, double most_loss) {
  using nlohmann::ordered_json;
  ordered_json json;
  json["summary"] = tune::summary(tuning.file.plan);
  json["when"] = tuning.file.tuned->when;
  json["is_new"] = true;
  json["found_earlier"] = n_measured_earlier(tuning);
  json["prefill_reason"] = tuning.file.plan.prefill_reason;
  json["int8_reason"] = tuning.int8_reason;
  json["most_loss"] = most_loss;
  const tune::AttentionTuning& attention = tuning.attention;
  json["attention"] = {{"form", plan::attention_form_name(attention.attention.form)},
                       {"reason", with_flags(attention.attention.reason)}};
  if (attention.loss) {
    json["attention"]["tokens"] = attention.loss->n_tokens;
    json["attention"]["loss"] = attention.loss->share;
    json["attention"]["standard_error"] = attention.loss->error;
    json["attention"]["is_proven"] = tune::is_proven(*attention.loss);
  }
  json["tried"] = ordered_json::array();
  for (const tune::TriedMethod& tried : tuning.tried) {
    const tune::LossVerdict verdict = tune::verdict_of(tried.loss, most_loss);
    json["tried"].push_back({{"method", plan::int8_method_name(tried.method)},
                             {"outlier_prune", tried.outlier_prune},
                             {"tokens", tried.loss.text.n_tokens},
                             {"loss", tried.loss.text.share},
                             {"standard_error", tried.loss.text.error},
                             {"expected_loss", tried.loss.expected.share},
                             {"expected_standard_error", tried.loss.expected.error},
                             {"verdict", tune::verdict_text(verdict)},
                             {"is_proven", verdict == tune::LossVerdict::kLittle}});
  }
  json["candidates"] = ordered_json::array();
  for (size_t i = 0; i < tuning.candidates.size(); ++i) {
    ordered_json times = ordered_json::array();
    for (const tune::PromptTime& time : tuning.candidates[i].times) {
      times.push_back({{"tokens", time.n_tokens}, {"ms", time.ms}});
    }
    json["candidates"].push_back(
        {{"name", tuning.candidates[i].name},
         {"times", std::move(times)},
         {"is_chosen", i == tuning.chosen},
         {"is_slower", i != tuning.chosen && tuning.candidates[i].is_out}});
  }
  return json;
}

void write_plan(const std::string& path, const std::string& json) {
  write_file(path, json);
  note(fmt::format("{}: {}\n", path, bytes_text(json.size())));
}

// Says whether nothing need be done: the model is tuned, and nothing else was asked for.
bool is_done(const Command& command, const TuneFlags& flags, bool asks) {
  if (flags.again || asks) return false;
  std::string problem;
  const auto kept = tune::find_kept_plan(flags.request.options.model.file, &problem);
  if (kept) problem = tune::device_problem(*kept);
  if (!problem.empty()) note("note: tuned anew: " + problem + "\n");
  if (!kept || !problem.empty()) return false;
  note(fmt::format("This model was tuned on {}; --again measures anew.\n",
                   day_of(kept->file.tuned->when)));
  note_idle_option(command, "--seconds", true, "nothing is measured; with --again it counts");
  if (flags.json) {
    print_json({{"summary", tune::summary(kept->file.plan)},
                {"when", kept->file.tuned->when},
                {"is_new", false},
                {"prefill_reason", kept->file.plan.prefill_reason},
                {"plan", kept->path}});
  } else {
    print(fmt::format("{}\n{}\n{}\n", tune::summary(kept->file.plan),
                      terminal_text(kept->file.plan.prefill_reason), kept->path));
  }
  if (!flags.output.empty()) write_plan(flags.output, plan::to_json(kept->file));
  return true;
}

// Says where a limit of int8's loss limits nothing.
void note_idle(const Command& command, const TuneFlags& flags) {
  const std::optional<plan::Prefill>& asked = flags.request.options.prompts.prefill;
  const bool has_int8 = !asked || *asked == plan::Prefill::kInt8;
  note_idle_option(command, "--most-loss", !has_int8,
                   fmt::format("prompts are in {}, not in int8",
                               has_int8 ? "int8" : plan::prefill_name(*asked)));
}

// Reads how prompts are to be computed. Half floats need what is not tuned: everything on an OpenCL
// device, in floats.
std::optional<plan::Prefill> prefill_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const plan::Prefill prefill : {plan::Prefill::kF32, plan::Prefill::kBf16, plan::Prefill::kQ8,
                                      plan::Prefill::kInt8, plan::Prefill::kSame}) {
    if (text == plan::prefill_name(prefill)) return prefill;
  }
  if (text == plan::prefill_name(plan::Prefill::kF16)) {
    throw UsageError(
        "--prefill f16 is for a model that an OpenCL device computes in floats, and such a plan is "
        "not tuned. Leave it out, or run without tuning: 'troika run MODEL --lanes opencl:0 "
        "--activations f32 --prefill f16'.");
  }
  throw UsageError(
      fmt::format("'{}' is no precision of prompts that is tuned. Known are f32, bf16, q8, int8, "
                  "same (as decoding), and auto.",
                  text));
}

void add_tuned_prefill(Command& command, std::optional<plan::Prefill>& prefill) {
  command
      .add_text(
          "--prefill", [&prefill](const std::string& text) { prefill = prefill_of(text); },
          "For prompts in this precision, whatever it loses: f32, bf16, q8, int8 or same; "
          "auto takes the fastest that loses little")
      ->shows_default("auto");
}

void tune_model(const Command& command, TuneFlags& flags, bool asks) {
  refuse_known_name(flags.request.options);
  check_output_file(flags.output, files_read_for_plan(flags.request.options, {flags.text}));
  if (is_done(command, flags, asks)) return;
  tune::TuneRequest& request = flags.request;
  request.text = flags.text.empty() ? std::string(tune::default_text()) : read_text(flags.text);
  request.text_name = flags.text.empty() ? tune::kDefaultTextName
                                         : std::filesystem::path(flags.text).filename().string();
  request.folder = cache_folder();
  if (!(flags.attention_percent >= 2.0 && flags.attention_percent <= 100.0)) {
    throw UsageError(fmt::format("--attention-share {:g} makes no sense; it is between 2 and 100.",
                                 flags.attention_percent));
  }
  if (!(flags.most_loss_percent >= 0.0 && flags.most_loss_percent <= 100.0)) {
    throw UsageError(
        fmt::format("--most-loss {:g} makes no sense; it is between 0 and 100 percent.",
                    flags.most_loss_percent));
  }
  request.most_loss = flags.most_loss_percent / 100;
  request.attention_share = flags.attention_percent / 100;
  listen_to_signals();
  request.keeps_lanes = is_machine_busy(
      "what is measured may not last, and threads and lanes stay as usual; --again measures anew");
  request.is_anew = flags.again;
  const auto start = std::chrono::steady_clock::now();
  Stages stages(flags.again);
  std::string path;
  request.keep = [&](const plan::PlanFile& file) {
    stages.end();
    path = tune::keep_plan(gguf::File::open(request.options.model.file), file);
  };
  const tune::Tuning tuning = tune::tune(request, stages.function());
  if (tuning.n_found_earlier > 0) {
    note(fmt::format("went on where a run of {} was cut off: {} measurements were there\n",
                     day_of(tuning.begun), n_measured_earlier(tuning)));
  }
  const double seconds = seconds_since(start);
  if (flags.json) {
    nlohmann::ordered_json json = to_json(tuning, request.most_loss);
    json["plan"] = path;
    json["seconds"] = seconds;
    print_json(json);
  } else {
    print_result(tuning, request);
  }
  note(fmt::format(
      "tuned in {:.0f} s; kept as {} ({}), which run, chat, serve, bench and eval use from "
      "now on\n",
      seconds, path, bytes_text(std::filesystem::file_size(path))));
  if (!flags.output.empty()) write_plan(flags.output, plan::to_json(tuning.file));
}

void add_attention(Command& command, const std::shared_ptr<TuneFlags>& flags) {
  command
      .add_option("--attention-share", flags->attention_percent,
                  "With shares, and for --attention query: the percent of the positions that heads "
                  "keep on average")
      ->shows_default("20");
  command
      .add_text(
          "--attention-shares",
          [flags](const auto& text) {
            flags->request.share_rule = tune::share_rule_from_name(text);
          },
          "What heads keep: what weighs enough (weight; diffuse heads keep all), or shares, "
          "kept-mass (most of the softmax weight is kept), importance (by what is lost without a "
          "head, as shadowAttn has it; takes minutes) or equal")
      ->shows_default("weight");
}

}  // namespace

void add_tune(Command& app) {
  Command* command =
      app.add_subcommand("tune", "Find out how a model runs best here, and keep that", kTuneGroup);
  command->examples({"troika tune model.gguf", "troika tune model.gguf --text book.txt --again",
                     "troika tune model.gguf --prompts 128,512,2048 -o plan.json"});
  command->footer(
      "Measures prompts in each precision. Where int8 is faster, it shows on a text how much worse "
      "the model predicts with it, finds the outliers that must stay in float, and takes it only "
      "where little is lost. Then lanes, chunk and arrangements by the profile of this machine, "
      "and what drafts cost. The plan is kept in the folder of side files ('troika cache' lists "
      "it), and run, chat, serve, bench and eval use it; --no-plan runs without.\n"
      "Cut off (Ctrl-C), the same command goes on where it stood, unless --again is given. Other "
      "programs that run meanwhile disturb it.");
  auto flags = std::make_shared<TuneFlags>();
  prepare::Options& options = flags->request.options;
  add_model(*command, "MODEL", options.model.file)->required();
  command
      ->add_option("--text", flags->text,
                   "A text that precisions are judged by; half of it calibrates, half is held out "
                   "(default: two chapters that the program carries)")
      ->names_file();
  command->add_option("-p,--prompts", flags->request.prompts, "Prompt lengths to be fast at")
      ->delimiter(',')
      ->check(at_least(2))
      ->capture_default_str();
  command
      ->add_option("--seconds", flags->request.seconds,
                   "About how long it may take; the amounts of text and operations follow, but not "
                   "below what they need")
      ->check(non_negative())
      ->capture_default_str();
  command->add_option("-t,--threads", options.lanes.n_threads,
                      "For N threads (default: what is fastest)");
  add_cores(*command, options.lanes.cores,
            "For these groups of cores, as 'troika run' has them (default: what is fastest)");
  add_kv(*command, options.memory.kv_type);
  add_tuned_prefill(*command, options.prompts.prefill);
  command
      ->add_option("--most-loss", flags->most_loss_percent,
                   "The percent of perplexity that int8 may cost in prompts")
      ->shows_default("0.5");
  add_attention(*command, flags);
  command->add_flag(
      "--again", flags->again,
      "Also where a plan is kept already, without what a run measured that was cut off");
  command->add_option("-o,--output", flags->output, "Write the plan to this file as well")
      ->names_file();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    bool asks = false;
    for (const char* name : {"--text", "--prompts", "--threads", "--lanes", "--kv", "--prefill",
                             "--attention-share", "--attention-shares", "--most-loss"}) {
      asks |= command->is_given(name);
    }
    note_idle(*command, *flags);
    tune_model(*command, *flags, asks);
  });
}

}  // namespace troika::cli
