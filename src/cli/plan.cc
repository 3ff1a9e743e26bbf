// troika plan: what was decided about a model on this machine, as a file and as a table.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/common.h"
#include "engine/saved_plan.h"
#include "engine/session.h"
#include "plan/plan_json.h"

namespace troika::cli {
namespace {

struct PlanFlags {
  EngineFlags engine;
  std::string output;
  bool explain = false;
  bool json = false;
};

// "int8 | " where a product is computed in another precision for prompts than for generation.
std::string prompt_precision(const engine::Engine& engine, const model::Op& op) {
  plan::Prefill prefill = engine.plan().prefill;
  const model::ValueId output = op.output;
  if (engine.blueprint().values[static_cast<size_t>(output)].per_output) return "";
  if (prefill == plan::Prefill::kSame) return "";
  if (prefill == plan::Prefill::kInt8 && engine.weights().int8_panels(op.weight) == nullptr) {
    prefill = plan::Prefill::kBf16;  // rows too long for whole-number sums
  }
  return fmt::format("{} | ", plan::prefill_name(prefill));
}

// All blocks' subgraphs of one name.
struct Row {
  std::string name;
  int n_blocks = 0;
  size_t weight_bytes = 0;
  double ops_per_token = 0;  // of products; two for each weight
  std::string precision;
};

std::vector<Row> rows_of(const engine::Engine& engine) {
  std::vector<Row> rows;
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(engine.blueprint())) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.name == subgraph.name; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{subgraph.name, 0, 0, 0.0, ""});
    ++row->n_blocks;
    for (const model::Op& op : subgraph.ops) {
      if (op.kind == model::OpKind::kAttention) {
        row->precision =
            fmt::format("{} keys and values", tensor::type_name(engine.plan().kv_type));
      }
      if (op.kind != model::OpKind::kLinear) continue;
      const weights::Matrix& matrix = engine.weights().matrix(op.weight);
      const auto n_rows = static_cast<size_t>(matrix.n_rows);
      row->weight_bytes += matrix.row_bytes * n_rows;
      row->ops_per_token += 2.0 * static_cast<double>(n_rows) * matrix.row_length;
      const bool is_float = tensor::type_info(matrix.type).block_length == 1;
      // Prompts first, then generation.
      const std::string prompt = prompt_precision(engine, op);
      const std::string precision =
          fmt::format("{}{} x {}", prompt, tensor::type_name(matrix.type),
                      is_float ? "f32" : plan::activations_name(engine.plan().activations));
      if (row->precision.find(precision) == std::string::npos) {
        row->precision += (row->precision.empty() ? "" : ", ") + precision;
      }
    }
  }
  return rows;
}

using Times = std::map<std::pair<std::string, int>, double>;  // us by subgraph and tokens

// Sums over blocks of the median of a few passes, at each shape.
Times measure(engine::Engine& engine, const std::vector<int>& shapes) {
  constexpr int kPasses = 3;
  std::vector<std::string> lanes;
  for (const lanes::Lane* lane : engine.machine().lanes()) lanes.push_back(lane->info().name);
  engine::Session session(engine);
  std::map<std::pair<std::string, int>, std::vector<double>> sums;
  for (const int n : shapes) {
    const std::vector<cache::Token> tokens(static_cast<size_t>(n), 0);
    for (int pass = -1; pass < kPasses; ++pass) {  // the first one warms up
      session.truncate(0);
      Trace trace(lanes);
      engine.set_trace(&trace);
      session.prefill(tokens);
      engine.set_trace(nullptr);
      if (pass < 0) continue;
      Times times;
      for (const TraceEvent& e : trace.events()) times[{e.name, n}] += e.end_us - e.start_us;
      for (const auto& [key, us] : times) sums[key].push_back(us);
    }
  }
  Times medians;
  for (auto& [key, values] : sums) {
    std::sort(values.begin(), values.end());
    medians[key] = values[values.size() / 2];
  }
  return medians;
}

void explain(engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  const std::vector<int> shapes = {1, std::min(plan.chunk(), plan.context)};
  const Times times = measure(engine, shapes);
  std::string table = fmt::format("{:<10} {:>6} {:>10} {:>10}  {:<22}", "subgraph", "blocks",
                                  "weights", "Mop/token", "precision");
  for (const int n : shapes) table += fmt::format("{:>5} {:>12}", "lane", fmt::format("{} tok", n));
  table += "\n";
  for (const Row& row : rows_of(engine)) {
    table += fmt::format("{:<10} {:>6} {:>10} {:>10.1f}  {:<22}", row.name, row.n_blocks,
                         bytes_text(row.weight_bytes), row.ops_per_token * 1e-6, row.precision);
    for (const int n : shapes) {
      const auto found = times.find({row.name, n});
      table += fmt::format("{:>5} {:>9.2f} ms", plan.lane_of(row.name, n),
                           found == times.end() ? 0.0 : found->second * 1e-3);
    }
    table += "\n";
  }
  print(table);
  std::string lanes;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    lanes += fmt::format("lane {}: {}, {} threads\n", i, engine.machine().lanes()[i]->info().name,
                         plan.lanes[i].n_threads);
  }
  print(fmt::format("\nprompts: {}\n", prefill_text(engine)));
  print(fmt::format("\n{}context {}, chunks of {} tokens. Times are measured, medians of 3.\n",
                    lanes, plan.context, plan.chunk()));
}

void make(PlanFlags& flags) {
  const auto engine = load(flags.engine);
  const std::string json = plan::to_json({engine::plan_identity(engine->file()), engine->plan()});
  if (!flags.output.empty()) {
    AtomicFile file(flags.output);
    file.write(json);
    file.commit();
    fmt::print(stderr, "{}: {} bytes\n", flags.output, json.size());
  }
  if (flags.explain) explain(*engine);
  if (flags.json || (flags.output.empty() && !flags.explain)) print(json);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Decide how a model runs here: lanes, shapes, precisions");
  command->footer(
      "Examples:\n"
      "  troika plan model.gguf --explain\n"
      "  troika plan model.gguf --lanes \"0;1\" --place ffn=1 -o plan.json\n"
      "  troika run model.gguf --plan plan.json -p \"Once upon a time\"");
  auto flags = std::make_shared<PlanFlags>();
  flags->engine.add_to(*command);
  command->add_option("-o,--output", flags->output, "Write the plan to this file");
  command->add_flag("--explain", flags->explain,
                    "Show what runs where, in which precision, and the time it takes");
  command->add_flag("--json", flags->json, "Print the plan (also the default)");
  command->callback([flags] { make(*flags); });
}

}  // namespace troika::cli
