// troika neurons: counts which neurons of a model fire, and how often.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/tune/text_reading_flags.h"
#include "tune/default_text.h"
#include "tune/neurons/heat.h"
#include "tune/neurons/learn_predictor.h"

namespace troika::cli {
namespace {

struct NeuronFlags {
  EngineFlags engine;
  std::string file;
  size_t n_tokens = 2048;
  std::optional<int> rank;  // the rank of a predictor
  int recall_percent = 95;
  bool json = false;
};

// How a layer's neurons fire: the share that fires at a token, and the least share of neurons that
// has 80 % of all firing. In a mixture a token counts for the experts that it takes.
struct LayerHeat {
  int layer = 0;
  double live = 0.0;
  double for_most = 0.0;
};

// Returns the share of neurons that fire at a token, in some of the report's blocks.
double live_share(const tune::HeatReport& report, size_t first, size_t last) {
  double n_live = 0.0, n_all = 0.0;
  for (size_t i = first; i < last; ++i) {
    const std::span<const uint32_t> counts = report.heat.counts(i);
    n_live += std::accumulate(counts.begin(), counts.end(), 0.0);
    n_all += static_cast<double>(counts.size()) * static_cast<double>(report.blocks[i].n_tokens);
  }
  return n_all > 0.0 ? n_live / n_all : 0.0;
}

// Returns a mean over a mixture's experts where the model has some.
std::vector<LayerHeat> heat_of_layers(const tune::HeatReport& report) {
  constexpr double kMost = 0.8;
  std::vector<LayerHeat> layers;
  for (size_t first = 0, last = 0; first < report.blocks.size(); first = last) {
    const int layer = report.blocks[first].layer;
    double for_most = 0.0, n_taken = 0.0;
    for (; last < report.blocks.size() && report.blocks[last].layer == layer; ++last) {
      if (report.blocks[last].n_tokens == 0) continue;
      for_most += report.heat.share_for(last, kMost);
      n_taken += 1.0;
    }
    layers.push_back({layer, live_share(report, first, last), for_most / std::max(n_taken, 1.0)});
  }
  return layers;
}

void print_table(const tune::HeatReport& report) {
  print(fmt::format("{} tokens; {:.1f} % of the neurons fire at one\n", report.heat.n_tokens(),
                    100 * live_share(report, 0, report.blocks.size())));
  if (report.n_written > 0) {
    print(
        fmt::format("{} tokens that the model wrote itself; a neuron does what it did at the one "
                    "before with probability {:.2f} beyond chance\n",
                    report.n_written, report.heat.stay()));
  }
  print(fmt::format("\n{:>6} {:>10} {:>22}\n", "layer", "live", "neurons for 80 %"));
  for (const LayerHeat& of : heat_of_layers(report)) {
    print(
        fmt::format("{:>6} {:>8.1f} % {:>20.1f} %\n", of.layer, 100 * of.live, 100 * of.for_most));
  }
}

nlohmann::ordered_json to_json(const tune::HeatReport& report) {
  nlohmann::ordered_json json = {{"file", nullptr},
                                 {"tokens", report.heat.n_tokens()},
                                 {"live", live_share(report, 0, report.blocks.size())}};
  if (!report.path.empty()) json["file"] = report.path;
  if (report.n_written > 0) {
    json["written"] = report.n_written;
    json["stay"] = report.heat.stay();
  }
  json["layers"] = nlohmann::ordered_json::array();
  for (const LayerHeat& of : heat_of_layers(report)) {
    json["layers"].push_back(
        {{"layer", of.layer}, {"live", of.live}, {"neurons_for_80_percent", of.for_most}});
  }
  return json;
}

void print_predictor(const tune::PredictorReport& report) {
  print(fmt::format(
      "\nA predictor of rank {} ({}) from {} tokens, its scores from {}, judged on {} "
      "others; {:.1f} s\n\n{:>6} {:>10} {:>12} {:>10} {:>18}\n",
      report.rank, bytes_text(report.bytes), report.n_directions, report.n_scores, report.n_judged,
      report.seconds, "layer", "live", "predicted", "recall", "of activations"));
  for (const tune::PredictedLayer& q : report.layers) {
    print(fmt::format("{:>6} {:>8.1f} % {:>10.1f} % {:>8.1f} % {:>16.2f} %\n", q.layer,
                      100 * q.live, 100 * q.predicted, 100 * q.recall, 100 * q.mass));
  }
  print(fmt::format(
      "\nperplexity {:.3f} with the exact gate, {:.3f} with the predictor ({:+.2f} %); "
      "{:.1f} % have the same likeliest token\n",
      report.perplexity, report.predicted_perplexity,
      100 * (report.predicted_perplexity / report.perplexity - 1.0), 100 * report.agreement));
}

nlohmann::ordered_json predictor_json(const tune::PredictorReport& report) {
  nlohmann::ordered_json json = {{"file", report.path},
                                 {"bytes", report.bytes},
                                 {"rank", report.rank},
                                 {"directions_from", report.n_directions},
                                 {"scores_from", report.n_scores},
                                 {"judged_on", report.n_judged},
                                 {"perplexity", report.perplexity},
                                 {"predicted_perplexity", report.predicted_perplexity},
                                 {"agreement", report.agreement},
                                 {"seconds", report.seconds},
                                 {"layers", nlohmann::ordered_json::array()}};
  for (const tune::PredictedLayer& q : report.layers) {
    json["layers"].push_back({{"layer", q.layer},
                              {"live", q.live},
                              {"predicted", q.predicted},
                              {"recall", q.recall},
                              {"mass", q.mass}});
  }
  return json;
}

tune::PredictorOptions predictor_options(NeuronFlags& flags, const std::string& text) {
  tune::PredictorOptions how;
  how.engine = flags.engine.checked();
  how.text = text;
  how.most_tokens = flags.n_tokens;
  how.rank = *flags.rank;
  how.recall = 0.01 * flags.recall_percent;
  return how;
}

void learn(NeuronFlags& flags, tune::PredictorOptions how, nlohmann::ordered_json* json) {
  tune::PredictorReport report;
  {
    Progress bar("learning");
    how.progress = bar.function();
    report = tune::learn_predictor(how);
  }
  flags.json ? void((*json)["predictor"] = predictor_json(report)) : print_predictor(report);
  note(fmt::format("{} ({}): used with --ffn by-neuron --neuron-predictor\n", report.path,
                   bytes_text(std::filesystem::file_size(report.path))));
}

void run_neurons(NeuronFlags& flags) {
  refuse_known_name(flags.engine.options);
  if (flags.rank && !flags.engine.options.memory.has_side_files) {
    throw UsageError(
        "--predictor makes a side file for later runs, and --no-cache forbids it. Leave one of "
        "them out.");
  }
  tune::HeatOptions how;
  how.engine = flags.engine.checked();
  how.text = flags.file.empty() ? std::string(tune::default_text()) : read_text(flags.file);
  std::optional<tune::PredictorOptions> predictor;
  if (flags.rank) {
    predictor = predictor_options(flags, how.text);
    tune::check_predictor_options(*predictor);
  }
  how.made = [&](const engine::Engine& engine) {
    note_idle_in_reading(flags.engine, how.engine, engine);
    if (predictor) tune::check_predictor(*predictor, engine);  // before minutes of counting
  };
  how.most_tokens = flags.n_tokens;
  tune::HeatReport report;
  {
    Progress bar("counting");
    how.progress = bar.function();
    report = tune::measure_heat(how);
  }
  nlohmann::ordered_json json = to_json(report);
  if (!flags.json) print_table(report);
  if (!report.problem.empty()) {
    if (flags.json) print_json(json);
    throw Error(report.problem);
  }
  if (!report.path.empty()) {
    note(fmt::format(
        "{} ({}): the hot neurons stay in memory where --ffn by-neuron has no room for all\n",
        report.path, bytes_text(std::filesystem::file_size(report.path))));
  }
  if (predictor) learn(flags, std::move(*predictor), &json);
  if (flags.json) print_json(json);
}

}  // namespace

void add_neurons(Command& app) {
  Command* command = app.add_subcommand(
      "neurons", "Count on a text which neurons of a model fire, and how often", kTuneGroup);
  command->examples(
      {"troika neurons model.gguf -f text.txt", "troika neurons model.gguf --predictor 256"});
  command->footer(
      "For models with ReLU, or a plan with thresholds. What is counted is kept beside the "
      "model's\n"
      "other side files. Where --ffn by-neuron has a --memory that is too small for all neurons,\n"
      "the hot ones then lie together on the disk, are read first, and stay in memory\n"
      "(--neuron-pins). Results do not change.\n"
      "--predictor makes two small matrices for each block, which tell from its input which "
      "neurons\n"
      "may fire. A run with --neuron-predictor computes the gate of these only: a missed one "
      "counts\n"
      "as 0, so results change; the table says by how much.");
  auto flags = std::make_shared<NeuronFlags>();
  flags->engine.add_to(*command, PhoneHelp::kNone);
  command->add_option("-f,--file", flags->file, "A text (default: the program's own)")
      ->names_file();
  command->add_option("--tokens", flags->n_tokens, "Most tokens of the text")
      ->check(at_least(tune::kLeastHeatTokens))
      ->capture_default_str();
  command
      ->add_option("--predictor", flags->rank,
                   "Make a predictor too, of this rank; 0: a quarter of the model's width")
      ->check(at_least(0));
  command
      ->add_option("--recall", flags->recall_percent,
                   "With --predictor: percent of the tokens at which a neuron fires that it is to "
                   "be predicted for")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags, command] {
    if (!flags->rank && command->is_given("--recall")) {
      note("note: --recall does nothing here: it is for --predictor\n");
    }
    run_neurons(*flags);
  });
}

}  // namespace troika::cli
