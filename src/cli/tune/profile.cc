// troika profile: measures what each lane of this machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>

#include "base/atomic_file.h"
#include "base/bytes_text.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/column_width.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/output.h"
#include "cli/tune/busy_machine.h"
#include "cli/tune/devices.h"
#include "cli/use/models.h"
#include "measure/profile_here.h"
#include "prepare/plan/make_plan.h"
#include "solve/chart/profile_plots.h"
#include "solve/check.h"
#include "solve/predict.h"

namespace troika::cli {
namespace {

struct ProfileFlags {
  measure::ProfileRequest request;
  std::optional<plan::Prefill> prefill;
  std::string type = "q4_0";
  bool has_own_type = false;  // says that the type was asked for
  std::string from;
  std::string output;
  std::string plot_folder;
  bool no_cache = false;
  bool no_storage = false;
  bool check = false;
  bool devices = false;
  bool json = false;
};

constexpr uint64_t kCheckSeed = 1;
// Shows arrangements that differ by this; less is hardly more than noise.
constexpr double kShownGain = 1.1;

// Profiles are kept by the precision of prompts, so that of a file is taken as runs take it: from
// the type of its weights.
measure::ProfileRequest checked(const ProfileFlags& flags) {
  measure::ProfileRequest request = flags.request;
  const std::optional<tensor::Type> type = tensor::type_from_name(flags.type);
  if (!type) {
    throw UsageError(
        fmt::format("'{}' is no element type. 'troika quantize --help' names those "
                    "that there are.",
                    flags.type));
  }
  request.type = *type;
  if (!flags.has_own_type && !request.models.empty()) {
    request.type = measure::main_type_of(request.models.front()).value_or(*type);
  }
  request.prefill = flags.prefill.value_or(
      prepare::safe_prefill(request.activations, request.kernels, request.type));
  request.use_cache = !flags.no_cache;
  request.with_storage = !flags.no_storage;
  return request;
}

// Notes why what was measured is not kept in `problem`; empty: it is, or need not be.
plan::Profile measure(const ProfileFlags& flags, std::string* problem) {
  (void)is_machine_busy(
      "what is measured now may be too slow; where nothing else runs, --again measures anew");
  std::unique_ptr<Progress> bar;
  const measure::ProfileResult result =
      measure::profile_here(checked(flags), [&](const std::string& name) {
        bar.reset();
        bar = std::make_unique<Progress>("measuring " + name);
        return bar->function();
      });
  bar.reset();
  if (!result.problem.empty()) note(fmt::format("note: measured anew: {}\n", result.problem));
  *problem = result.keep_problem;
  if (!result.kept_path.empty() && problem->empty()) {
    note(fmt::format("{} ops measured, {} in all; kept as {} ({})\n", result.n_measured,
                     result.profile.ops.size(), result.kept_path,
                     bytes_text(std::filesystem::file_size(result.kept_path))));
  }
  if (result.profile.n_left_out > 0) {
    note(fmt::format("note: there was no time for {} ops; {}give more --seconds\n",
                     result.profile.n_left_out,
                     flags.no_cache ? "" : "run it again to go on, or "));
  }
  return result.profile;
}

// Returns the profile with texts that a terminal may get: its file may be a stranger's.
plan::Profile for_terminal(plan::Profile profile) {
  plan::MachineIdentity& m = profile.machine;
  std::vector<std::string*> texts = {&m.cpu, &m.kernel, &m.arithmetic, &profile.taken};
  for (plan::ProfileLane& lane : profile.lanes) texts.push_back(&lane.name);
  for (plan::OpTime& time : profile.ops) texts.push_back(&time.arrangement);
  if (profile.storage) texts.push_back(&profile.storage->folder);
  for (std::string* const text : texts) *text = terminal_text(*text);
  return profile;
}

void print_machine(const plan::Profile& profile) {
  const plan::MachineIdentity& m = profile.machine;
  print(fmt::format("{}, {} cores, {}, {}\narithmetic {}; taken {} under a load of {:.1f}\n\n",
                    m.cpu, m.n_cores, bytes_text(m.memory_bytes), m.kernel, m.arithmetic,
                    profile.taken, profile.load_average));
}

void print_lanes(const plan::Profile& profile) {
  const size_t width = column_width(profile.lanes, &plan::ProfileLane::name, 4);
  print(fmt::format("lane  {:<{}} {:>8} {:>9} {:>11}\n", "name", width, "threads", "start us",
                    "reads GB/s"));
  std::vector<double> gb_s(profile.lanes.size(), 0.0);
  for (const plan::ReadRate& rate : profile.bandwidth) {
    if (rate.lanes.size() == 1) gb_s[static_cast<size_t>(rate.lanes.front())] = rate.gb_s.front();
  }
  for (size_t i = 0; i < profile.lanes.size(); ++i) {
    const plan::ProfileLane& lane = profile.lanes[i];
    print(fmt::format("{:>4}  {:<{}} {:>8} {:>9.2f} {:>11.2f}\n", i, lane.name, width,
                      lane.n_threads, profile.start_us(static_cast<int>(i)), gb_s[i]));
  }
  for (const plan::ReadRate& rate : profile.bandwidth) {
    if (rate.lanes.size() < 2) continue;
    print(fmt::format("lanes {} together read {:.2f} GB/s\n", fmt::join(rate.lanes, " and "),
                      fmt::join(rate.gb_s, " + ")));
  }
  for (const plan::Handover& handover : profile.handovers) {
    print(fmt::format("handover {} to {}: {:.2f} us\n", handover.from, handover.to, handover.us));
  }
  if (!profile.cores.empty()) print("\ncore    GOPS  reads GB/s\n");
  for (const plan::CoreRate& core : profile.cores) {
    print(fmt::format("{:>4} {:>7.1f} {:>11.2f}\n", core.core, core.gops, core.gb_s));
  }
}

constexpr int kShownTokens[] = {1, 8, 32, 128, 512};

// What was measured of one product on one lane.
struct ProductTimes {
  std::array<const plan::OpTime*, std::size(kShownTokens)> times = {};  // null: not measured
  double best = 0.0;                                                    // in Gops
};

// Goes through the ops once: a profile of a stranger may have very many.
std::map<std::pair<int, plan::OpShape>, ProductTimes> times_of_products(
    const plan::Profile& profile) {
  std::map<std::pair<int, plan::OpShape>, ProductTimes> products;
  for (const plan::OpTime& time : profile.ops) {
    plan::OpShape shape = time.shape;
    shape.n_tokens = 1;
    if (shape.op != model::OpKind::kLinear) continue;
    ProductTimes& product = products[{time.lane, shape}];
    product.best = std::max(product.best, 1e-3 * plan::op_flops(time.shape) / time.us);
    for (size_t i = 0; i < std::size(kShownTokens); ++i) {
      const bool is_shown = time.shape.n_tokens == kShownTokens[i];
      if (is_shown && product.times[i] == nullptr) product.times[i] = &time;
    }
  }
  return products;
}

void print_products(const plan::Profile& profile) {
  print(
      "\nproducts, us\nlane  type      rows     k  phase      1 token    8 tokens   32 tokens  "
      "128 tokens  512 tokens  Gops at best\n");
  for (const auto& [where, product] : times_of_products(profile)) {
    const auto& [lane, shape] = where;
    std::string line =
        fmt::format("{:>4}  {:<7} {:>6} {:>5}  {:<6}", lane, tensor::type_name(shape.type),
                    shape.n_rows, shape.k, plan::phase_name(shape.phase));
    for (const plan::OpTime* const time : product.times) {
      line += fmt::format(" {:>11}", time == nullptr ? "-" : fmt::format("{:.1f}", time->us));
    }
    print(line + fmt::format(" {:>13.1f}\n", product.best));
  }
}

void print_arrangements(const plan::Profile& profile) {
  bool has_head = false;
  for (const plan::OpTime& time : profile.ops) {
    if (time.arrangement.empty() || time.arrangement_gain < kShownGain) continue;
    if (!has_head) {
      print(
          "\nproducts whose arrangement matters\nlane  type      rows     k  phase   tokens  "
          "fastest      times as fast as the slowest\n");
    }
    has_head = true;
    print(fmt::format("{:>4}  {:<7} {:>6} {:>5}  {:<6} {:>7}  {:<10} {:>30.2f}\n", time.lane,
                      tensor::type_name(time.shape.type), time.shape.n_rows, time.shape.k,
                      plan::phase_name(time.shape.phase), time.shape.n_tokens, time.arrangement,
                      time.arrangement_gain));
  }
}

// Prints what products cost devices before they run: of each product that with the most tokens.
void print_preparations(const plan::Profile& profile) {
  std::map<std::pair<int, plan::OpShape>, const plan::OpTime*> largest;
  for (const plan::OpTime& time : profile.ops) {
    if (time.preparation.build_us == 0.0) continue;
    plan::OpShape shape = time.shape;
    shape.n_tokens = 1;
    const plan::OpTime*& shown = largest[{time.lane, shape}];
    if (shown == nullptr || shown->shape.n_tokens < time.shape.n_tokens) shown = &time;
  }
  if (largest.empty()) return;
  print(
      "\nwhat products cost devices before they run, ms\nlane  type      rows     k  phase   tokens"
      "     built  built again  first run\n");
  for (const auto& [where, time] : largest) {
    const plan::PreparationTime& preparation = time->preparation;
    const std::string again = preparation.rebuild_us > 0.0
                                  ? fmt::format("{:.2f}", 1e-3 * preparation.rebuild_us)
                                  : "nothing kept";
    print(fmt::format("{:>4}  {:<7} {:>6} {:>5}  {:<6} {:>7} {:>9.2f} {:>12} {:>10.2f}\n",
                      time->lane, tensor::type_name(time->shape.type), time->shape.n_rows,
                      time->shape.k, plan::phase_name(time->shape.phase), time->shape.n_tokens,
                      1e-3 * preparation.build_us, again, 1e-3 * preparation.first_run_us));
  }
}

void print_storage(const plan::Profile& profile) {
  if (!profile.storage) return;
  print(fmt::format(
      "\nstorage in {}{}\n   block  order        range  depth  us of a read       MB/s\n",
      profile.storage->folder,
      profile.storage->is_direct ? " (past the page cache)"
                                 : " (direct reads are refused here: through the page "
                                   "cache)"));
  for (const plan::DiskRead& read : profile.storage->reads) {
    print(fmt::format(
        "{:>8}  {:<10} {:>7}  {:>5}  {:>12.1f} {:>10.1f}\n",
        fmt::format("{} KiB", read.block_bytes >> 10), read.is_random ? "random" : "sequential",
        fmt::format("{} MiB", read.range_bytes >> 20), read.depth, read.us, read.mb_s));
  }
}

std::string shape_text(const plan::OpShape& shape) {
  std::string text = fmt::format("{} x {}, {} tokens", shape.n_rows, shape.k, shape.n_tokens);
  if (shape.context > 0) text += fmt::format(", context {}", shape.context);
  return text;
}

void print_check(const plan::Profile& profile) {
  print(
      "\na third of the shapes held out and predicted from the rest; error as a share of the time\n"
      "lane  op          known  held out    tree: median   worst    rate: median   worst   "
      "spread  used  worst shape\n");
  for (const solve::CheckRow& row : solve::check_predictions(profile, kCheckSeed)) {
    print(fmt::format(
        "{:>4}  {:<10} {:>6} {:>9} {:>14.1f}% {:>6.0f}% {:>14.1f}% {:>6.0f}% {:>7.1f}%  "
        "{:<4}  {}\n",
        row.lane, model::op_kind_name(row.op), row.n_known, row.n_held_out, 100 * row.tree_median,
        100 * row.tree_worst, 100 * row.rate_median, 100 * row.rate_worst, 100 * row.median_spread,
        solve::uses_tree(profile, row.lane, row.op) ? "tree" : "rate", shape_text(row.worst)));
  }
}

void print_passes(const plan::Profile& profile, const ProfileFlags& flags) {
  const auto [passes, problems] =
      measure::predict_passes(profile, flags.request.models, flags.request.kv_type);
  for (const std::string& problem : problems) note(fmt::format("note: {}\n", problem));
  if (passes.empty()) return;
  print(
      "\npasses, predicted (compare with 'troika bench')\nlane  tokens  context         ms    "
      "tokens/s"
      "  model\n");
  for (const measure::PassPrediction& pass : passes) {
    print(fmt::format("{:>4}  {:>6} {:>8} {:>10.2f} {:>11.1f}  {}\n", pass.lane, pass.n_tokens,
                      pass.context, 1e-3 * pass.us, 1e6 * pass.n_tokens / pass.us, pass.model));
  }
}

// Says which options change nothing about the profile or what is shown of it.
void note_idle(const Command& command, const ProfileFlags& flags) {
  const auto say = [&](const char* name, bool is_idle, const char* why) {
    if (!is_idle || !command.is_given(name)) return;
    note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  for (const char* name : {"--seconds", "--again", "--no-cache", "--no-storage", "--threads",
                           "--lanes", "--kernels", "--activations", "--prefill", "--type"}) {
    say(name, !flags.from.empty(), "--from shows what was measured, and nothing is measured now");
  }
  for (const char* name : {"MODEL", "--kv"}) {
    say(name, !flags.from.empty() && (!flags.check || flags.json),
        "it is for measuring, and for the passes of --check");
  }
  say("--again", flags.from.empty() && flags.no_cache,
      "--no-cache measures everything anyway, and keeps nothing");
  say("--check", flags.json, "--json prints the profile itself");
}

// Refuses what --devices, which measures nothing, would pass over.
void check_devices_alone(const Command& command) {
  for (const char* name : {"MODEL", "--threads", "--lanes", "--kv", "--activations", "--prefill",
                           "--kernels", "--type", "--seconds", "--again", "--no-cache",
                           "--no-storage", "--from", "--output", "--plot", "--check"}) {
    if (!command.is_given(name)) continue;
    throw UsageError(fmt::format(
        "--devices lists what --lanes may name and measures nothing. Leave {} out, or --devices.",
        name));
  }
}

void print_profile(const plan::Profile& profile, const ProfileFlags& flags) {
  if (flags.json) {
    print(plan::profile_to_json(profile));
    return;
  }
  const plan::Profile shown = for_terminal(profile);
  print_machine(shown);
  print_lanes(shown);
  print_products(shown);
  print_arrangements(shown);
  print_preparations(shown);
  print_storage(shown);
}

void write_plots(const plan::Profile& profile, const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(fmt::format("{}: the folder cannot be made: {}.", folder, failure.message()));
  }
  for (const solve::Plot& plot : solve::profile_plots(profile)) {
    write_file(folder + "/" + plot.file_name, plot.svg);
  }
}

// Tables come first: what was measured is not lost where files cannot be written. What is predicted
// comes last, because it may fail.
void profile(const ProfileFlags& flags) {
  std::vector<std::string> read = flags.request.models;
  read.push_back(flags.from);
  check_output_file(flags.output, read);
  std::string problem;
  const plan::Profile profile =
      flags.from.empty() ? measure(flags, &problem) : plan::load_profile(flags.from);
  print_profile(profile, flags);
  if (!flags.output.empty()) write_file(flags.output, plan::profile_to_json(profile));
  if (!flags.plot_folder.empty()) write_plots(profile, flags.plot_folder);
  if (flags.check && !flags.json) {
    print_check(profile);
    if (!flags.request.models.empty()) print_passes(profile, flags);
  }
  if (!problem.empty()) throw Error(problem);
}

}  // namespace

void add_profile(Command& app) {
  Command* command =
      app.add_subcommand("profile", "Measure what each lane of this machine can do", kTuneGroup);
  command->examples({"troika profile --devices",
                     "troika profile model.gguf --lanes \"0;1\" --plot plots --check"});
  command->footer(
      "Takes under a minute, and is kept for this machine: later runs measure what is missing.");
  auto flags = std::make_shared<ProfileFlags>();
  measure::ProfileRequest& request = flags->request;
  add_models(*command, "MODEL", request.models,
             "GGUF files, hf:ORG/REPO[:QUANT], or names of 'troika synth --list', whose ops are "
             "measured first");
  command->add_option("-t,--threads", request.lanes.n_threads,
                      "Threads (default: all usable cores)");
  add_cores(*command, request.lanes.cores,
            "Lanes, as 'troika run' has them: \"0,1\" is one lane of two cores, \"0;1\" are two "
            "lanes, \"0;opencl:0@1\" is a core beside an OpenCL device");
  add_kv(*command, request.kv_type);
  add_activations(*command, request.activations);
  add_prefill(*command, flags->prefill,
              "How prompts are computed: f32, bf16, f16, q8, int8, same (as generation), or auto");
  add_kernels(*command, request.kernels);
  command
      ->add_option("--type", flags->type,
                   "Element type of weights where no file names one; given, it counts before that "
                   "of the first MODEL")
      ->capture_default_str();
  command
      ->add_option("--seconds", request.budget_s, "Time for the ops; the rest takes about ten more")
      ->check(non_negative())
      ->capture_default_str();
  command->add_flag("--again", request.again, "Forget what is kept and measure everything");
  command->add_flag("--no-cache", flags->no_cache, "Neither use nor keep a profile");
  command->add_flag("--no-storage", flags->no_storage, "Leave the disk out");
  command->add_option("--from", flags->from, "Show this profile instead of measuring");
  command->add_option("-o,--output", flags->output, "Write the profile to this file as well")
      ->names_file();
  command->add_option("--plot", flags->plot_folder, "Write plots (SVG) into this folder")
      ->check(not_empty());
  command->add_flag("--check", flags->check, "Print how far predictions lie from measurements");
  command->add_flag("--devices", flags->devices,
                    "List the cores and devices that --lanes may name, and why a runtime of "
                    "devices is missing, instead of measuring");
  command->add_flag("--json", flags->json, "Print the profile itself, or the list of --devices");
  command->callback([flags, command] {
    if (flags->devices) {
      check_devices_alone(*command);
      show_devices(flags->json);
      return;
    }
    note_idle(*command, *flags);
    flags->has_own_type = command->is_given("--type");
    profile(*flags);
  });
}

}  // namespace troika::cli
