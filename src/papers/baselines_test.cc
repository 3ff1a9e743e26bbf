#include "papers/baselines.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "plan/phones/phone.h"
#include "tests/support/repository.h"

namespace troika::papers {
namespace {

const std::string kPhones = test::repository_file("phones");

TEST(Baselines, V3_RowsAreMarkedTestAndSimulated) {
  const PhoneFolder folder = read_phone_folder(kPhones);
  const MicroReport report = simulate_baselines(folder);
  int n_table5 = 0;
  int n_gpu = 0;
  int n_contradicted = 0;
  for (const MicroRow& row : report.rows) {
    EXPECT_EQ(row.row->use, "test") << row.row->id;
    EXPECT_EQ(row.split, Split::kNone);
    n_table5 += row.row->what.starts_with("llama.cpp, CPU:") ? 1 : 0;
    // A cell whose parts do not add up tells nothing of the phone (K4).
    const bool contradicts = row.row->note.starts_with("sum \u2260 total");
    n_contradicted += contradicts ? 1 : 0;
    EXPECT_EQ(row.simulated.has_value(), !contradicts) << row.row->id;
    if (!row.simulated) continue;
    EXPECT_GT(*row.simulated, 0.0);
    n_gpu += row.row->id == "hf056" ? 1 : 0;
  }
  // A task takes the time of its prompt and of its answer, and a longer prompt takes longer.
  std::map<std::string, std::map<std::string, double>> tasks;  // [row][name]
  for (const MicroRow& row : report.rows) {
    if (row.simulated && row.row->what.starts_with("llama.cpp, CPU:")) {
      tasks[row.row->id][row.value->name] = *row.simulated;
    }
  }
  std::map<std::string, std::map<double, double>> prefill_s;  // [model][length]
  for (auto& [id, values] : tasks) {
    EXPECT_NEAR(values["end to end"], values["prefill"] + values["decode"], 1e-9) << id;
    const plan::PublishedRow& row = *plan::find_row(folder.published, id);
    const std::string model = row.configuration.substr(0, row.configuration.find(','));
    prefill_s[model][task_lengths(row).prompt] = values["prefill"];
  }
  EXPECT_EQ(prefill_s.size(), 5u);
  for (const auto& [model, times] : prefill_s) {
    for (auto at = times.begin(); std::next(at) != times.end(); ++at) {
      EXPECT_LT(at->second, std::next(at)->second) << model << ", " << at->first << " tokens";
    }
  }
  EXPECT_EQ(n_table5, 25 * 3);  // counts the sum, prefill and decode of five tasks with five models
  EXPECT_EQ(n_gpu, 3);
  EXPECT_EQ(n_contradicted, 3);
  EXPECT_EQ(report.count(Split::kNone), static_cast<int>(report.rows.size()) - n_contradicted);
}

// The sizes of a model, from which the expected times are computed by hand.
struct HandSizes {
  double n_layers, width, n_heads, n_kv_heads, head_dim, hidden, n_vocab;

  // Count weights: queries and outputs, keys and values, and the three matrices of the FFN.
  double of_blocks() const {
    return n_layers * width * (2 * n_heads * head_dim + 2 * n_kv_heads * head_dim + 3 * hidden);
  }
  double of_head() const { return width * n_vocab; }
  // Returns the time of multiplying queries with keys, and their weights with values, with two
  // operations for each of `pairs` of a query and a position.
  double attention_s(double pairs, double gflops) const {
    return n_layers * 4.0 * n_heads * head_dim * pairs / (1e9 * gflops);
  }
  // Counts keys and values in half floats.
  double cache_bytes(double positions) const {
    return n_layers * 2.0 * n_kv_heads * head_dim * 2.0 * positions;
  }
};
constexpr HandSizes kLlama8B = {32, 4096, 32, 8, 128, 14336, 128256};
constexpr HandSizes kQwen1p8B = {24, 2048, 16, 16, 128, 5504, 151936};
constexpr double kBytesOfQ4_0 = 18.0 / 32.0, kBytesOfQ8_0 = 34.0 / 32.0;

double simulated_of(const MicroReport& report, const char* id, const char* name) {
  for (const MicroRow& row : report.rows) {
    if (row.row->id == id && row.value->name == name) return *row.simulated;
  }
  ADD_FAILURE() << "no row " << id << ", " << name;
  return 0.0;
}

// Prompts on a CPU take the time of their operations, steps that of what they read. The constants
// are those of phones/8gen3.json and phones/stacks; all six large cores run, as when the stacks'
// rates were measured. Norms and activations, which are left out, take less than one percent.
TEST(Baselines, V3_TimesAreThoseOfTheirOperationsAndBytes) {
  const plan::Phone phone = plan::read_phone(kPhones + "/8gen3.json");
  const plan::Stack hetero = plan::read_stack(kPhones + "/stacks/heterollm.json");
  const plan::Stack npu = plan::read_stack(kPhones + "/stacks/llm.npu.json");
  const PhoneFolder folder = read_phone_folder(kPhones);
  const MicroReport report = simulate_baselines(folder);
  const auto prompt_rate = [&](double n) {
    const double products_s = 2.0 * n * kLlama8B.of_blocks() / (1e9 * hetero.cpu.int8_gops);
    return n / (products_s + kLlama8B.attention_s(n * (n + 1) / 2, hetero.cpu.vector_gflops));
  };
  const double at_256 = prompt_rate(256), at_1024 = prompt_rate(1024);
  EXPECT_NEAR(simulated_of(report, "hf041", "llama.cpp"), at_256, 0.01 * at_256);
  EXPECT_NEAR(simulated_of(report, "hf042", "llama.cpp"), at_1024, 0.01 * at_1024);
  // A GPU reads: its queue is full, so that kernels are submitted while those before them run. 64
  // steps begin behind 256 tokens.
  const double gpu_bytes =
      (kLlama8B.of_blocks() + kLlama8B.of_head()) * kBytesOfQ4_0 + kLlama8B.cache_bytes(256 + 32);
  const double gpu_step_s = gpu_bytes / (1e9 * phone.memory.gpu_gb_s);
  EXPECT_NEAR(simulated_of(report, "hf056", "Llama-8B"), 1 / gpu_step_s, 0.01 / gpu_step_s);
  // A CPU starts the seven products. The answer of nf053 has three tokens, behind 1562.
  const double cpu_bytes = (kQwen1p8B.of_blocks() + kQwen1p8B.of_head()) * kBytesOfQ8_0 +
                           kQwen1p8B.cache_bytes(1562 + 4);
  const double cpu_step_s =
      cpu_bytes / (1e9 * phone.memory.cpu_gb_s) + 1e-6 * npu.cpu.launch_us * kQwen1p8B.n_layers * 7;
  EXPECT_NEAR(simulated_of(report, "nf053", "decode"), 3 * cpu_step_s, 0.03 * cpu_step_s);
}

TEST(Baselines, LengthsAreTheMiddlesOfTheirRanges) {
  plan::PublishedRow row;
  row.configuration = "Qwen1.5-1.8B, LongBench 2wiki, prompt 1451\u20131673, out 2\u20134, K70";
  EXPECT_EQ(task_lengths(row).prompt, 1562.0);
  EXPECT_EQ(task_lengths(row).output, 3.0);
  EXPECT_EQ(task_lengths(row).prompts(3), (std::vector<int>{1488, 1562, 1636}));
  row.configuration = "prompt 100, out 7";
  EXPECT_EQ(task_lengths(row).prompt, 100.0);
  EXPECT_EQ(task_lengths(row).prompts(2), (std::vector<int>{100, 100}));
  // "inf" and "nan" are numbers to who reads floats.
  for (const char* const prompt :
       {"12\u2013x", "long", "information-seeking", "12\u2013infinity", "nan", "-5", "0"}) {
    row.configuration = std::string("prompt ") + prompt + ", out 7";
    EXPECT_THROW(task_lengths(row), Error) << prompt;
  }
}

}  // namespace
}  // namespace troika::papers
