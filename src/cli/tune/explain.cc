#include "cli/tune/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/median.h"
#include "base/units.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/tune/busy_machine.h"
#include "cli/tune/cut_notes.h"
#include "cli/use/memory.h"
#include "engine/session.h"
#include "measure/profile_here.h"
#include "schedule/shared_graphs.h"
#include "solve/time_model.h"
#include "tune/choose_plan.h"
#include "weights/neurons/hot_neurons.h"
#include "weights/neurons/neurons.h"

namespace troika::cli {
namespace {

// Returns "int8 | " where a product is computed in another precision for prompts than for
// generation.
std::string prompt_precision(const engine::Engine& engine, const model::Op& op) {
  plan::Prefill prefill = engine.plan().prefill;
  const bool is_head = engine.blueprint().values[static_cast<size_t>(op.output)].per_output;
  if (is_head || prefill == plan::Prefill::kSame) return "";
  const weights::Matrix& matrix = engine.weights().matrix(op.weight);
  if (prefill == plan::Prefill::kQ8 && tensor::is_float(matrix.type)) {
    prefill = plan::Prefill::kBf16;
  }
  if (prefill == plan::Prefill::kF16 && tensor::is_float(matrix.type)) {
    prefill = plan::Prefill::kF32;
  }
  if (prefill == plan::Prefill::kInt8 && !weights::fits_int8(matrix)) {
    prefill = plan::Prefill::kBf16;  // rows are too long for whole-number sums
  }
  return fmt::format("{} | ", plan::prefill_name(prefill));
}

// The subgraphs of one name, of all blocks.
struct Row {
  std::string name;
  int n_blocks = 0;
  size_t weight_bytes = 0;
  double ops_per_token = 0;  // counts operations of products: two for each weight
  std::string precision;
};

std::vector<Row> rows_of(const engine::Engine& engine) {
  std::vector<Row> rows;
  for (const lanes::Subgraph& subgraph :
       schedule::cut_into_subgraphs(engine.blueprint(), engine.plan().splits)) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.name == subgraph.name; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{subgraph.name, 0, 0, 0.0, ""});
    ++row->n_blocks;
    for (const model::Op& op : subgraph.ops) {
      if (op.kind == model::OpKind::kAttention) {
        row->precision =
            fmt::format("{} keys and values", tensor::type_name(engine.plan().kv_type));
      }
      const bool is_expert = op.kind == model::OpKind::kExpertLinear;
      if (op.kind != model::OpKind::kLinear && !is_expert) continue;
      const weights::Matrix& matrix = engine.weights().matrix(op.weight);
      const auto n_rows = static_cast<size_t>(matrix.n_rows);
      const model::Blueprint& blueprint = engine.blueprint();
      const double share =
          is_expert ? static_cast<double>(blueprint.n_experts_used) / blueprint.n_experts : 1.0;
      row->weight_bytes += matrix.bytes();
      row->ops_per_token += share * 2.0 * static_cast<double>(n_rows) * matrix.row_length;
      if (op.keeps_float) continue;  // a router is small, and always in float
      const bool is_float = tensor::type_info(matrix.type).block_length == 1;
      const std::string precision =
          fmt::format("{}{} x {}", prompt_precision(engine, op), tensor::type_name(matrix.type),
                      is_float ? "f32" : plan::activations_name(engine.plan().activations));
      if (row->precision.find(precision) == std::string::npos) {
        row->precision += (row->precision.empty() ? "" : ", ") + precision;
      }
    }
  }
  return rows;
}

// Says how steps compute feed-forward blocks.
std::string ffn_text(const engine::Engine& engine) {
  const plan::FfnPlan& ffn = engine.plan().ffn;
  std::string text = fmt::format("feed-forward blocks of steps: {}", plan::ffn_form_name(ffn.form));
  if (const weights::Neurons* neurons = engine.weights().neurons()) {
    text += fmt::format(", {} blocks of {} neurons", neurons->ffns().size(),
                        neurons->ffns().front().n_neurons());
  }
  if (!ffn.thresholds.empty()) text += ", with a threshold for each block";
  if (const weights::HotNeurons* hot = engine.weights().hot()) {
    text += fmt::format("; {} hot neurons of all blocks densely, on lane {}", hot->n_neurons(),
                        ffn.hot.lane);
  }
  return text + "\n";
}

using Times = std::map<std::pair<std::string, int>, double>;  // microseconds by name and tokens

// Names the time of a pass in which no task ran because weights had yet to be read.
constexpr const char* kWaits = "reads";

// Returns, for each shape and name of tasks, the median over passes of the time of all blocks.
// Passes that take milliseconds are repeated for a second, because memory's rate moves within it.
Times measure(engine::Engine& engine, const std::vector<int>& shapes) {
  constexpr int kFewestPasses = 3;
  constexpr int kMostPasses = 100;
  constexpr double kLeastUs = 1e6;
  std::vector<std::string> lanes;
  for (const lanes::Lane* lane : engine.machine().lanes()) lanes.push_back(lane->info().name);
  const bool has_reads = engine.loaded().stream != nullptr;
  const Clock& clock = engine.machine().clock();
  engine::Session session(engine);
  std::map<std::pair<std::string, int>, std::vector<double>> sums;
  for (const int n : shapes) {
    const std::vector<cache::Token> tokens(static_cast<size_t>(n), 0);
    double spent_us = 0.0;
    for (int pass = -1; pass < kMostPasses; ++pass) {  // the first pass warms up
      if (pass >= kFewestPasses && spent_us >= kLeastUs) break;
      session.truncate(0);
      Trace trace(lanes);
      session.watch({.trace = &trace});
      const double start_us = clock.now_us();
      session.prefill(tokens);
      const double pass_us = clock.now_us() - start_us;
      session.watch({});
      if (pass < 0) continue;
      Times times;
      double busy_us = 0.0;
      for (const TraceEvent& e : trace.events()) {
        times[{e.name, n}] += e.end_us - e.start_us;
        busy_us += e.end_us - e.start_us;
      }
      if (has_reads) times[{kWaits, n}] = std::max(0.0, pass_us - busy_us);
      for (const auto& [key, us] : times) {
        sums[key].push_back(us);
        spent_us += us;
      }
    }
  }
  Times medians;
  for (auto& [key, values] : sums) medians[key] = median(std::move(values));
  return medians;
}

// Returns the shape of the executable that runs the whole of a prompt, or its first chunk.
plan::Shape built_for(const plan::Plan& plan, plan::Shape rows) {
  return plan.body_shape(rows.phase, rows.n_rows);
}
plan::Shape built_for(const plan::Plan& plan, int n_tokens) {
  return built_for(plan, plan.prompt_chunk(0, n_tokens));
}

enum class PredictedBy { kSubgraph, kOp };

// Returns what a profile predicts for these shapes. Throws Error where it lacks what that needs.
Times predict_by(const plan::Profile& profile, const engine::Engine& engine,
                 const std::vector<int>& shapes, PredictedBy by) {
  const plan::Plan& plan = engine.plan();
  const solve::ProfileTimes times(profile, plan.lanes, engine.weights(), plan.kv_type);
  Times predicted;
  for (const lanes::Subgraph& subgraph :
       schedule::cut_into_subgraphs(engine.blueprint(), engine.plan().splits)) {
    for (const int n : shapes) {
      const bool is_head = std::string_view(subgraph.name) == "head";
      const plan::Shape rows = is_head ? plan::Shape() : plan.prompt_chunk(0, n);
      const solve::TaskShape task(is_head ? rows : built_for(plan, rows), rows.n_rows);
      const int lane = plan.lane_of(subgraph.name, task.built, subgraph.block());
      if (by == PredictedBy::kSubgraph) {
        predicted[{subgraph.name, n}] += times.task_us(lane, subgraph, task, n);
        continue;
      }
      for (const model::Op& op : subgraph.ops) {
        const char* name = schedule::op_name(engine.blueprint(), op);
        const lanes::Subgraph one = {&engine.blueprint(), {&op, 1}, name};
        predicted[{name, n}] += times.task_us(lane, one, task, n);
      }
    }
  }
  return predicted;
}

// Notes a line that `told`, the lines that were told before, does not hold.
void note_once(const std::string& line, std::string* told) {
  if (told->find(line) != std::string::npos) return;
  note(line);
  *told += line;
}

// Returns the command that takes the profile by which these lanes are predicted: all that stands in
// it is part of the key under which profiles are kept.
std::string profile_command(const engine::Engine& engine, const EngineFlags& flags) {
  const plan::Plan& plan = engine.plan();
  std::string text = "troika profile " + terminal_text(engine.file().path());
  const bool has_cores = plan.lanes.size() > 1 || !plan::lanes_text(plan.lanes).empty();
  text += has_cores ? fmt::format(" --lanes \"{}\"", plan::lanes_text(plan.lanes))
                    : fmt::format(" --threads {}", plan.n_threads());
  text += fmt::format(" --activations {} --prefill {}", plan::activations_name(plan.activations),
                      plan::prefill_name(plan.prefill));
  if (!flags.options.kernels.empty()) text += " --kernels " + flags.options.kernels;
  return text;
}

// Asks the kept profile. Returns what is empty where it predicts nothing, of which a note says why,
// unless that was told already. What was measured is shown all the same.
template <typename Ask>
auto ask_profile(engine::Engine& engine, const EngineFlags& flags, std::string* told,
                 const Ask& ask) -> decltype(ask(plan::Profile())) {
  const auto predict_nothing = [told](const std::string& why) {
    note_once(why + "\n", told);
    return decltype(ask(plan::Profile()))();
  };
  if (!flags.options.memory.has_side_files) {
    return predict_nothing("Nothing is predicted, because --no-cache leaves kept profiles out.");
  }
  std::string problem;
  const std::optional<plan::Profile> profile = measure::kept_profile_of(engine, &problem);
  if (!profile) {
    return predict_nothing(
        problem.empty()
            ? fmt::format("There is no profile of these lanes, so nothing is predicted: '{}' takes "
                          "one.",
                          profile_command(engine, flags))
            : problem);
  }
  note_once(busy_profile_text(profile->load_average), told);
  try {
    return ask(*profile);
  } catch (const Error& error) {
    return predict_nothing(message_of(error));
  }
}

// Returns what the kept profile predicts for these shapes.
Times predict(engine::Engine& engine, const EngineFlags& flags, const std::vector<int>& shapes,
              PredictedBy by, std::string* told) {
  return ask_profile(engine, flags, told, [&](const plan::Profile& profile) {
    return predict_by(profile, engine, shapes, by);
  });
}

std::string times_text(const Times& measured, const Times& predicted, const std::string& name,
                       int n) {
  const auto at = [&](const Times& times) {
    const auto found = times.find({name, n});
    return found == times.end() ? 0.0 : found->second / kUsPerMs;
  };
  const double ms = at(measured);
  if (predicted.empty()) return fmt::format("{:>9.2f} ms", ms);
  return fmt::format("{:>9.2f} ms {:>9.2f} ms", ms, at(predicted));
}

std::string head_text(const std::vector<int>& shapes, bool has_predictions) {
  std::string text;
  for (const int n : shapes) {
    text += fmt::format("{:>12}", fmt::format("{} tok", n));
    if (has_predictions) text += fmt::format("{:>13}", "predicted");
  }
  return text + "\n";
}

// Returns the row of what passes wait for reads; empty where all weights are in memory.
std::string waits_text(int width, const engine::Engine& engine, const Times& measured,
                       const Times& predicted, const std::vector<int>& shapes) {
  if (engine.loaded().stream == nullptr) return {};
  std::string row = fmt::format("{:<{}}", "waits for reads", width);
  for (const int n : shapes) row += times_text(measured, predicted, kWaits, n);
  return row + "\n";
}

std::string total_text(const Times& measured, const Times& predicted,
                       const std::vector<int>& shapes) {
  std::string text;
  for (const int n : shapes) {
    double ms = 0.0;
    double predicted_ms = 0.0;
    for (const auto& [key, us] : measured) ms += key.second == n ? us / kUsPerMs : 0.0;
    for (const auto& [key, us] : predicted) predicted_ms += key.second == n ? us / kUsPerMs : 0.0;
    text += fmt::format("{:>9.2f} ms", ms);
    if (!predicted.empty()) text += fmt::format(" {:>9.2f} ms", predicted_ms);
  }
  return text + "\n";
}

// Prints the executables. They are built once for each shape, and chunks of a prompt share them.
void print_built(const engine::Engine& engine) {
  const schedule::Graphs& graphs = engine.graphs();
  size_t n_built = 0;
  size_t n_dynamic = 0;
  for (const auto* lists : {&graphs.bodies(), &graphs.heads()}) {
    for (const schedule::TaskList& list : *lists) {
      n_built += list.tasks.size();
      for (const schedule::Task& task : list.tasks) {
        n_dynamic += std::string_view(task.name) == "attention" ? 1 : 0;
      }
    }
  }
  const size_t n_pass = graphs.bodies().back().tasks.size();
  print(fmt::format(
      "\n{} executables built once: {} for each of {} token counts of the body, the head for {} "
      "counts of outputs; {} of them depend on the position (attention)\nshared by all chunks: a "
      "prompt of 1024 tokens runs {} chunks on the same {}, instead of {} of its own\n"
      "{} of buffers that they share, {} of weights {}\n",
      n_built, n_pass, graphs.bodies().size(), graphs.heads().size(), n_dynamic,
      (1024 + engine.plan().chunk() - 1) / engine.plan().chunk(), n_pass,
      n_pass * static_cast<size_t>((1024 + engine.plan().chunk() - 1) / engine.plan().chunk()),
      bytes_text(graphs.buffer_bytes()), bytes_text(engine.weights().total_bytes()),
      engine.loaded().stream == nullptr ? "mapped once" : "in the file"));
  explain_shared(engine);
}

void explain_ops(const EngineFlags& flags, const plan::Plan& plan, const std::vector<int>& shapes,
                 std::string* told) {
  prepare::Options options = flags.checked();
  options.plan.exact = plan;
  options.lanes.is_op_by_op = true;
  engine::Engine engine(options);
  const Times measured = measure(engine, shapes);
  const Times predicted = predict(engine, flags, shapes, PredictedBy::kOp, told);
  print(fmt::format("\n{:<14}", "op, all blocks") + head_text(shapes, !predicted.empty()));
  std::set<std::string> names;
  for (const model::Op& op : engine.blueprint().ops) {
    const std::string name = schedule::op_name(engine.blueprint(), op);
    if (!names.insert(name).second) continue;
    std::string row = fmt::format("{:<14}", name);
    for (const int n : shapes) row += times_text(measured, predicted, name, n);
    print(row + "\n");
  }
  print(waits_text(14, engine, measured, predicted, shapes));
  print(fmt::format("{:<14}", "together") + total_text(measured, predicted, shapes));
}

// Prints how tensors and prompts are divided between lanes, and what the kept profile says of other
// ways.
void print_cuts(engine::Engine& engine, const EngineFlags& flags, std::string* told) {
  const plan::Plan& plan = engine.plan();
  std::string text;
  for (const plan::TensorCut& cut : plan.cuts) {
    text += fmt::format("cut: {}{}\n", plan::cut_text(cut),
                        cut.mixes_classes ? " (between numerics classes)" : "");
  }
  for (const plan::LengthCut& length : plan.lengths) {
    text += fmt::format("length: prompts of {} to {} tokens as {}\n", length.least_tokens(),
                        length.n_tokens, plan::shares_text(length.tokens));
  }
  if (text.empty()) text = "no tensor is cut between lanes\n";
  const solve::CutReasons reasons =
      ask_profile(engine, flags, told, [&](const plan::Profile& profile) {
        return tune::cut_reasons(profile, plan, engine.blueprint(), engine.weights(),
                                 flags.options.lanes);
      });
  const std::string notes = cut_notes_text(reasons.notes, reasons.length_notes, plan);
  if (!notes.empty()) text += "by the profile of these lanes:\n" + notes;
  print("\n" + text);
}

// Prints what tokens of long prompts attend to, and what each head keeps.
void print_attention(const engine::Engine& engine) {
  const plan::PromptAttention& attention = engine.plan().attention;
  std::string text = attention_text(engine.plan());
  if (!attention.reason.empty())
    text += fmt::format(" ({})", terminal_text(with_flags(attention.reason)));
  print(text + "\n");
  if (attention.head_shares.empty()) return;
  print("percent of the positions that heads of queries keep\n");
  const auto n_heads = static_cast<size_t>(engine.blueprint().n_heads);
  for (size_t i = 0; i < attention.head_shares.size(); ++i) {
    if (i % n_heads == 0) print(fmt::format("layer {:>3}:", i / n_heads));
    print(fmt::format(" {:>4.0f}{}", 100 * attention.head_shares[i],
                      (i + 1) % n_heads == 0 ? "\n" : ""));
  }
}

}  // namespace

void explain_shared(const engine::Engine& engine) {
  constexpr int kTokens = 1024;
  const plan::Plan& plan = engine.plan();
  const int n_chunks = (kTokens + plan.chunk() - 1) / plan.chunk();
  const schedule::SharedGraphs shared =
      schedule::count_shared(engine.blueprint(), engine.weights(), plan);
  const size_t saved =
      (shared.weight_bytes + shared.static_buffer_bytes) * static_cast<size_t>(n_chunks - 1);
  const size_t all =
      (shared.weight_bytes + shared.static_buffer_bytes + shared.dynamic_buffer_bytes) *
      static_cast<size_t>(n_chunks);
  print(fmt::format(
      "{} of the {} subgraphs of the blocks are shared by all chunks; graphs of its own for each "
      "of the {} chunks of {} tokens, with weights and a buffer for each op in them, would take "
      "{}, "
      "of which sharing saves {} ({:.0f} %)\n",
      shared.n_static, shared.n_subgraphs, n_chunks, kTokens, bytes_text(all), bytes_text(saved),
      all > 0 ? 100.0 * static_cast<double>(saved) / static_cast<double>(all) : 0.0));
}

void explain(engine::Engine& engine, const EngineFlags& flags, bool op_by_op) {
  const plan::Plan& plan = engine.plan();
  const std::vector<int> shapes = {1, std::min(plan.chunk(), plan.context)};
  const Times measured = measure(engine, shapes);
  std::string told;  // says what is wrong with what is predicted, or why nothing is
  const Times predicted = predict(engine, flags, shapes, PredictedBy::kSubgraph, &told);
  print(fmt::format("{:<10} {:>6} {:>10} {:>10}  {:<22} {:>9}", "subgraph", "blocks", "weights",
                    "Mop/token", "precision", "lanes") +
        head_text(shapes, !predicted.empty()));
  for (const Row& row : rows_of(engine)) {
    std::string text =
        fmt::format("{:<10} {:>6} {:>10} {:>10.1f}  {:<22} {:>9}", row.name, row.n_blocks,
                    bytes_text(row.weight_bytes), row.ops_per_token * 1e-6, row.precision,
                    fmt::format("{}, {}", plan.lane_of(row.name, built_for(plan, shapes[0])),
                                plan.lane_of(row.name, built_for(plan, shapes[1]))));
    for (const int n : shapes) text += times_text(measured, predicted, row.name, n);
    print(text + "\n");
  }
  print(waits_text(73, engine, measured, predicted, shapes));
  print(fmt::format("{:<73}", "together") + total_text(measured, predicted, shapes));
  if (op_by_op) explain_ops(flags, plan, shapes, &told);
  print_built(engine);
  std::string lanes;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    lanes += fmt::format("lane {}: {}, {} threads\n", i, engine.machine().lanes()[i]->info().name,
                         plan.lanes[i].n_threads);
  }
  print(fmt::format("\nprompts: {}\n", prefill_text(engine)));
  print_attention(engine);
  print(ffn_text(engine));
  print(fmt::format("weights: {}\n", engine.loaded().pages.text));
  print(memory_text(engine));
  if (plan.lanes.size() > 1) print(held_text(engine));
  if (plan.lanes.size() > 1) print_cuts(engine, flags, &told);
  print(fmt::format(
      "\n{}context {}, chunks of {} tokens. Times are measured, medians of at least 3.\n", lanes,
      plan.context, plan.chunk()));
}

}  // namespace troika::cli
