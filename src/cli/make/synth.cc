// troika synth: makes model files with real shapes and random weights, or with planted outliers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/column_width.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/use/models.h"
#include "forge/plant_outliers.h"
#include "forge/plant_sites.h"
#include "forge/synth.h"
#include "gguf/file.h"
#include "measure/input_use.h"
#include "model/architecture.h"
#include "model/known.h"

namespace troika::cli {
namespace {

using forge::PlantReport;

struct SynthFlags {
  forge::SynthOptions options;
  forge::PlantOptions plant;
  std::string channels = "0.3%";
  std::string hidden_channels = "2.5%";
  std::string text;  // names a file
  std::string live;  // the share of live neurons
  Option* overlap = nullptr;
  std::string kept;  // the share of positions that tiles keep
  Option* kept_length = nullptr;
  std::vector<Option*> for_random;    // options that make no sense with --plant-outliers
  std::vector<Option*> for_planting;  // options that make no sense without it
  Option* type = nullptr;
  Option* seed = nullptr;
  Option* output = nullptr;
  Option* planted = nullptr;  // --plant-outliers
  // These say which channels are scaled.
  Option* of_channels = nullptr;
  Option* of_hidden = nullptr;
  Option* of_text = nullptr;
  bool list = false;
  bool json = false;
};

void list(bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  const size_t width = column_width(model::known_models(), &model::KnownModel::name);
  std::string table =
      fmt::format("{:<{}} {:<12} {:>11} {:>6} {:>6} {:>6} {:>7} {:>10}\n", "name", width,
                  "architecture", "parameters", "blocks", "width", "heads", "FFN", "vocabulary");
  for (const model::KnownModel& m : model::known_models()) {
    table +=
        fmt::format("{:<{}} {:<12} {:>9.1f} M {:>6} {:>6} {:>6} {:>7} {:>10}\n", m.name, width,
                    m.architecture, static_cast<double>(model::n_parameters(m)) * 1e-6, m.n_layers,
                    m.width, fmt::format("{}/{}", m.n_heads, m.n_kv_heads), m.ffn_width, m.n_vocab);
    json.push_back({{"name", m.name},
                    {"architecture", m.architecture},
                    {"parameters", model::n_parameters(m)},
                    {"blocks", m.n_layers},
                    {"width", m.width},
                    {"heads", m.n_heads},
                    {"kv_heads", m.n_kv_heads},
                    {"ffn", m.ffn_width},
                    {"vocabulary", m.n_vocab},
                    {"context", m.n_context}});
  }
  as_json ? print_json(json) : print(table);
}

// Reads "0.3%" or "0.003".
double share_of(const std::string& text, const char* option = "--channels") {
  double number = 0.0;
  size_t end = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    end = std::string::npos;
  }
  if (end != std::string::npos && text.substr(end) == "%") return number / 100;
  if (end == text.size() && !text.empty()) return number;
  throw UsageError(
      fmt::format("{}: '{}' is no share. Give a percentage, for example 0.3%.", option, text));
}

nlohmann::ordered_json to_json(const PlantReport& report) {
  nlohmann::ordered_json sites = nlohmann::ordered_json::array();
  for (const forge::PlantedSite& site : report.sites) {
    nlohmann::ordered_json planted = nlohmann::ordered_json::array();
    for (const auto& [channel, scale] : site.planted) {
      planted.push_back({{"channel", channel}, {"scale", scale}});
    }
    sites.push_back({{"name", site.name}, {"channels", site.n_channels}, {"planted", planted}});
  }
  return {{"sites", sites},
          {"scaled_heads", report.n_scaled_heads},
          {"f16_matrices", report.n_f16},
          {"f32_matrices", report.n_f32},
          {"inexact_in_f16", report.n_inexact_in_f16},
          {"rounded", report.n_rounded},
          {"input_bytes", report.input_bytes},
          {"output_bytes", report.output_bytes}};
}

void print_table(const PlantReport& report, const std::string& output) {
  print(fmt::format("{:<22} {:>8} {:>8} {:>12}\n", "activation made by", "channels", "planted",
                    "scales"));
  size_t n_planted = 0;
  for (const forge::PlantedSite& site : report.sites) {
    const int most = site.planted.front().scale;
    const int least = site.planted.back().scale;
    n_planted += site.planted.size();
    print(fmt::format("{:<22} {:>8} {:>8} {:>12}\n", site.name, site.n_channels,
                      site.planted.size(),
                      most == least ? fmt::format("{}", most) : fmt::format("{}-{}", least, most)));
  }
  print(fmt::format(
      "\n{}: {} channels of {} activations scaled up, and back in the weights that read "
      "them; {}.\n{} matrices in F16, {} in F32{}.\n",
      output, n_planted, report.sites.size(), bytes_text(report.output_bytes), report.n_f16,
      report.n_f32, report.n_inexact_in_f16 > 0 ? " because F16 would round them" : ""));
  if (report.n_scaled_heads > 0) {
    print(fmt::format("Queries of {} heads of keys scaled, and their keys back.\n",
                      report.n_scaled_heads));
  }
  if (report.n_rounded > 0) {
    print(fmt::format("{} weights were too small for that and were rounded.\n", report.n_rounded));
  }
}

// Notes options that change nothing about what is planted. Returns whether hidden channels are.
bool note_idle(const SynthFlags& flags) {
  const auto note_if_given = [](const Option* option, const char* why) {
    if (option->count() == 0) return;
    note(fmt::format("note: {} does nothing here: {}\n", option->get_name(), why));
  };
  if (flags.plant.scale == 1 && flags.plant.head_scale > 1) {
    for (const Option* option : {flags.of_channels, flags.of_hidden, flags.of_text}) {
      note_if_given(option, "--scale 1 scales no channels, and --head-scales all heads alike");
    }
    return false;
  }
  const std::vector<forge::PlantSite> sites =
      forge::find_plant_sites(model::read(gguf::File::open(flags.plant.input)));
  const bool has_hidden =
      std::any_of(sites.begin(), sites.end(), [](const auto& site) { return site.is_hidden; });
  if (!has_hidden) {
    for (const Option* option : {flags.of_hidden, flags.of_text}) {
      note_if_given(option, "this model has no down matrix whose inputs can be scaled");
    }
  }
  return has_hidden;
}

void plant(SynthFlags& flags) {
  for (const Option* option : flags.for_random) {
    if (option->count() == 0) continue;
    throw UsageError(fmt::format("{} makes random weights and does not go with --plant-outliers.",
                                 option->get_name()));
  }
  if (flags.options.output.empty()) {
    throw UsageError("Give the file to write: troika synth --plant-outliers FROM OUT");
  }
  forge::PlantOptions& options = flags.plant;
  options.output = flags.options.output;
  check_output_file(options.output, {options.input, flags.text});
  options.channels = share_of(flags.channels);
  options.hidden_channels = share_of(flags.hidden_channels);
  const bool has_hidden = note_idle(flags);
  if (!flags.text.empty() && has_hidden) {
    constexpr size_t kTokens = 1024;
    options.uses = measure::measure_input_use(options.input, read_text(flags.text), kTokens);
  }
  options.seed = flags.options.seed;
  if (flags.type->count() > 0) options.type = flags.options.type;
  options.n_threads = usable_cores();
  PlantReport report;
  {
    Progress bar("writing " + options.output);
    options.progress = bar.function();
    report = forge::plant_outliers(options);
  }
  flags.json ? print_json(to_json(report)) : print_table(report, options.output);
}

// Reads what is planted in random weights.
void read_laws(SynthFlags& flags) {
  forge::SynthOptions& options = flags.options;
  if (!flags.live.empty()) {
    options.sparsity.live = share_of(flags.live, "--plant-sparsity");
    if (!(options.sparsity.live > 0.0)) {  // a share that is no number plants nothing either
      throw UsageError("--plant-sparsity: give the share of live neurons, for example 15%.");
    }
  } else if (flags.overlap->count() > 0) {
    throw UsageError("--overlap needs --plant-sparsity LIVE.");
  }
  if (!flags.kept.empty()) {
    options.attention.share = share_of(flags.kept, "--plant-attention");
    if (options.attention.share == 0.0) {
      throw UsageError(
          "--plant-attention: give the share of positions that tiles keep, for example 40%.");
    }
  } else if (flags.kept_length->count() > 0) {
    throw UsageError("--plant-length needs --plant-attention SHARE.");
  }
}

void note_beyond_context(const forge::SynthOptions& options) {
  const model::KnownModel* const model = model::find_known(options.like);
  const int length = options.attention.length;
  if (model == nullptr || length <= static_cast<int>(model->n_context)) return;
  note(
      fmt::format("note: --plant-length {} is beyond the context of {}, {} tokens: run the file "
                  "with a --context that is larger than the prompts\n",
                  length, model->name, model->n_context));
}

// Says what planted attention keeps.
std::string text_of(const std::vector<forge::ShareAtLength>& shares) {
  std::string text = "positions that tiles keep by weight, of prompts of";
  bool is_beyond = false;
  for (const forge::ShareAtLength& at : shares) {
    const bool is_known = at.length <= forge::kLongestKnown;
    is_beyond |= !is_known;
    text += fmt::format("{} {} tokens: {:.0f} %{}", at.length == shares.front().length ? "" : ",",
                        at.length, 100 * at.share, is_known ? "" : " (extrapolated)");
  }
  text += "\n";
  if (is_beyond) {
    text += fmt::format(
        "What a real model keeps was measured up to {} tokens; a share of longer prompts is an "
        "extrapolation.\n",
        forge::kLongestKnown);
  }
  return text;
}

nlohmann::ordered_json json_of(const std::vector<forge::ShareAtLength>& shares) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const forge::ShareAtLength& at : shares) {
    json.push_back({{"length", at.length},
                    {"share", at.share},
                    {"extrapolated", at.length > forge::kLongestKnown}});
  }
  return json;
}

// Refuses options that would make a model, beside the list of those that could be made.
void check_list(const SynthFlags& flags) {
  std::vector<const Option*> others = {flags.output, flags.type, flags.seed, flags.planted};
  others.insert(others.end(), flags.for_random.begin(), flags.for_random.end());
  others.insert(others.end(), flags.for_planting.begin(), flags.for_planting.end());
  for (const Option* option : others) {
    if (option->count() == 0) continue;
    throw UsageError(fmt::format(
        "--list shows the known models and writes none. Leave it out, or {}.", option->get_name()));
  }
}

void synth(SynthFlags& flags) {
  if (flags.list) {
    check_list(flags);
    return list(flags.json);
  }
  if (!flags.plant.input.empty()) return plant(flags);
  for (const Option* option : flags.for_planting) {
    if (option->count() == 0) continue;
    throw UsageError(fmt::format("{} needs --plant-outliers FROM.", option->get_name()));
  }
  if (flags.options.like.empty() || flags.options.output.empty()) {
    throw UsageError(
        "Give --like NAME and the file to write; --list shows the names. Or --plant-outliers FROM "
        "and the file.");
  }
  read_laws(flags);
  flags.options.n_threads = usable_cores();
  note_beyond_context(flags.options);
  forge::SynthReport report;
  {
    Progress bar("writing " + flags.options.output);
    flags.options.progress = bar.function();
    report = forge::synth(flags.options);
  }
  if (flags.json) {
    nlohmann::ordered_json json = {{"file", flags.options.output},
                                   {"parameters", report.n_parameters},
                                   {"tensors", report.n_tensors},
                                   {"bytes", report.bytes}};
    if (!report.attention.empty()) json["kept_positions"] = json_of(report.attention);
    print_json(json);
    return;
  }
  print(
      fmt::format("{}: {:.1f} M parameters of random weights in {} tensors, {}. Its text is "
                  "noise.\n",
                  flags.options.output, static_cast<double>(report.n_parameters) * 1e-6,
                  report.n_tensors, bytes_text(report.bytes)));
  if (!report.attention.empty()) print(text_of(report.attention));
}

// Adds the options of what is planted in random weights, and returns them.
std::vector<Option*> add_laws(Command& command, SynthFlags& flags) {
  Option* live = command.add_option(
      "--plant-sparsity", flags.live,
      "With --like: this share of the neurons of a feed-forward block with ReLU are live for a "
      "token (15%), "
      "each as often as a law says; docs/powerinfer-2.md says what such models may show");
  live->check(not_empty());
  flags.overlap = command
                      .add_option("--overlap", flags.options.sparsity.overlap,
                                  "With --plant-sparsity: how much successive tokens have in "
                                  "common, 0 to less than 1")
                      ->capture_default_str();
  Option* kept = command.add_option(
      "--plant-attention", flags.kept,
      "With --like: attention is concentrated so that `--attention sparse` keeps this share of the "
      "positions (42%) of prompts of random tokens; docs/shadowattn.md says what such models may "
      "show");
  kept->check(not_empty());
  flags.kept_length = command.add_option(
      "--plant-length", flags.options.attention.length,
      "With --plant-attention: the length of the prompts (default: 4096, or the model's context)");
  return {live, flags.overlap, kept, flags.kept_length};
}

// Adds the options of what is planted in a model, and returns them.
std::vector<Option*> add_planting(Command& command, SynthFlags& flags) {
  flags.of_channels =
      command
          .add_option("--channels", flags.channels,
                      "With --plant-outliers: share of the channels of each activation")
          ->capture_default_str();
  Option* scale =
      command
          .add_option(
              "--scale", flags.plant.scale,
              "With --plant-outliers: by how much the strongest channel of the first and the last "
              "layer is scaled, a power of two")
          ->capture_default_str();
  Option* heads = command
                      .add_option("--head-scales", flags.plant.head_scale,
                                  "With --plant-outliers: queries of heads are scaled by powers "
                                  "of two from 1/N to N, and their keys back (1: not; with "
                                  "--scale 1 these alone are planted)")
                      ->capture_default_str();
  flags.of_hidden = command
                        .add_option("--hidden-channels", flags.hidden_channels,
                                    "With --plant-outliers: share of the inputs of down matrices, "
                                    "whose magnitudes have a long tail of their own")
                        ->capture_default_str();
  flags.of_text = command
                      .add_option("--text", flags.text,
                                  "With --plant-outliers: take those hidden channels that are "
                                  "largest over the first 1,024 tokens of this text "
                                  "(default: those with the longest rows)")
                      ->names_file();
  return {flags.of_channels, scale, heads, flags.of_hidden, flags.of_text};
}

}  // namespace

void add_synth(Command& app) {
  Command* command = app.add_subcommand(
      "synth", "Write a model with random weights, or one with planted outliers", kMakeGroup);
  command->examples(
      {"troika synth --like qwen2.5-1.5b --type q4_0 random.gguf",
       "troika synth --plant-outliers model.gguf planted.gguf --channels 0.3% --scale 64",
       "troika synth --like bamboo-7b --plant-sparsity 15% --overlap 0.9 sparse.gguf",
       "troika synth --like qwen2-1.5b --plant-attention 42% planted.gguf"});
  command->footer(
      "Planting outliers scales some channels of the activations by powers of two, and the weights "
      "that read them back, so that the model computes what it did; so do queries and keys with "
      "--head-scales.");
  auto flags = std::make_shared<SynthFlags>();
  flags->output = command->add_option("OUT", flags->options.output, "The GGUF file to write");
  Option* like = command->add_option("--like", flags->options.like, "A name from --list");
  flags->type = command
                    ->add_option("--type", flags->options.type,
                                 "Element type, as for quantize; of planted models f16 (where "
                                 "exact) or f32")
                    ->capture_default_str();
  flags->seed =
      command
          ->add_option("--seed", flags->options.seed,
                       "The same seed gives the same file; it chooses the channels to plant")
          ->capture_default_str();
  Option* blocks = command->add_option("--blocks", flags->options.n_blocks,
                                       "With --like: only the first blocks (default: all)");
  const std::vector<Option*> laws = add_laws(*command, *flags);
  command->add_flag("--list", flags->list, "Show the known models");
  flags->planted = add_model(*command, "--plant-outliers", flags->plant.input,
                             "A GGUF file to plant outliers in: OUT computes the same");
  flags->for_random = {like, blocks};
  flags->for_random.insert(flags->for_random.end(), laws.begin(), laws.end());
  flags->for_planting = add_planting(*command, *flags);
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { synth(*flags); });
}

}  // namespace troika::cli
